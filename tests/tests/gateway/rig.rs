//! A gateway between a client and an agent that a test plays, line by line.

use std::collections::VecDeque;
use std::time::Duration;

use agentline_core::acp::client;
use agentline_core::gateway::{Config, Event, Gateway};
use agentline_core::session::SourceConfig;
use agentline_core::{Heard, LinkId, Open, Peer, SpawnSpec};
use agentline_tests::desk::Desk;
use serde_json::Value;

/// The offers of an agent that has everything.
pub(crate) const ALL: &str = r#"{"loadSession":true,"promptCapabilities":{"image":true},"sessionCapabilities":{"list":{},"close":{},"resume":{}},"_meta":{"x" : 1}}"#;

pub(crate) struct Rig {
    pub(crate) desk: Desk<Gateway>,
    /// The process of the agent.
    pub(crate) agent: LinkId,
    pub(crate) client: LinkId,
}

pub(crate) fn config() -> Config {
    let mut source = client::Config::new(Open::spawn(SpawnSpec::default()));
    // What the agent is told of a client is that client's own.
    source.info = None;
    Config::on_stdio(SourceConfig::Acp(Box::new(source)))
}

impl Rig {
    /// A client is there, and has said nothing.
    pub(crate) fn silent(config: Config) -> Self {
        let mut desk = Desk::new(config);
        let client = desk.connecting.pop_front().expect("the client's end is opened");
        desk.heard(client, Heard::Opened(Peer::default()));
        Self { desk, agent: client, client }
    }

    /// Client and agent have introduced themselves.
    pub(crate) fn up(config: Config, offers: &str) -> Self {
        let mut rig = Self::silent(config);
        rig.says(r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{},"url":{}},"fs":{"readTextFile":true},"auth":{"terminal":true}},"clientInfo":{"name":"ed","version":"1"}}}"#);
        rig.starts(offers);
        rig
    }

    /// With a session `s`.
    pub(crate) fn open(config: Config) -> Self {
        let mut rig = Self::up(config, ALL);
        rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#);
        rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s","modes":{"currentModeId":"m","availableModes":[{"id":"m","name":"M"}]}}}"#);
        rig.forget();
        rig
    }

    /// With a turn of the request `p` in it, which the agent knows as 2.
    pub(crate) fn running(config: Config) -> Self {
        let mut rig = Self::open(config);
        rig.prompts("p");
        rig.forget();
        rig
    }

    /// The agent is started, and says what it offers.
    pub(crate) fn starts(&mut self, offers: &str) {
        self.agent = self.desk.connecting.pop_front().expect("the agent is started");
        self.desk.heard(self.agent, Heard::Opened(Peer::default()));
        self.agent_says(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{offers},"authMethods":[{{"id":"key","name":"Key"}},{{"id":"tty","name":"TTY","type":"terminal"}}],"agentInfo":{{"name":"ag","version":"2"}}}}}}"#
        ));
    }

    pub(crate) fn prompts(&mut self, id: &str) {
        self.says(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"session/prompt","params":{{"sessionId":"s","prompt":[{{"type":"text","text":"go"}}]}}}}"#
        ));
    }

    pub(crate) fn cancels(&mut self) {
        self.says(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    }

    /// The client says a line.
    pub(crate) fn says(&mut self, line: &str) {
        self.desk.send(self.client, format!("{line}\n").as_bytes());
    }

    /// The agent says a line.
    pub(crate) fn agent_says(&mut self, line: &str) {
        self.desk.send(self.agent, format!("{line}\n").as_bytes());
    }

    /// The agent's process ends.
    pub(crate) fn dies(&mut self) {
        self.desk.heard(self.agent, Heard::Stderr(b"oh no\n"));
        self.desk.heard(self.agent, Heard::Eof);
        self.desk.heard(self.agent, Heard::Exited(agentline_core::Exit::Code(3)));
        self.desk.heard(self.agent, Heard::Group(agentline_core::Group::Gone));
    }

    /// What the client has read since the last look.
    pub(crate) fn read(&mut self) -> Vec<String> {
        self.desk.read(self.client).lines().map(str::to_owned).collect()
    }

    /// What the agent has read since the last look.
    pub(crate) fn agent_read(&mut self) -> Vec<String> {
        self.desk.read(self.agent).lines().map(str::to_owned).collect()
    }

    /// The one line that the client has read.
    #[track_caller]
    pub(crate) fn line(&mut self) -> Value {
        one(&self.read())
    }

    /// The one line that the agent has read.
    #[track_caller]
    pub(crate) fn agent_line(&mut self) -> Value {
        one(&self.agent_read())
    }

    /// Nobody looks at what was said so far.
    pub(crate) fn forget(&mut self) {
        self.read();
        self.agent_read();
        self.desk.events.clear();
    }

    pub(crate) fn events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.desk.events)
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.desk.pass(Duration::from_secs(seconds));
    }
}

#[track_caller]
fn one(lines: &[String]) -> Value {
    let [line] = lines else { panic!("{lines:#?}") };
    serde_json::from_str(line).expect(line)
}

/// An update of `s` as an agent writes it.
pub(crate) fn update(update: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#)
}

pub(crate) fn text(text: &str) -> String {
    update(&format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    ))
}

/// A question of the agent's about a call that runs `rm`.
pub(crate) fn question(id: u32, session: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"c{id}","title":"run rm","kind":"execute","rawInput":{{"command":"rm -r x"}}}},"options":[{{"optionId":"y","name":"yes","kind":"allow_once"}},{{"optionId":"n","name":"no","kind":"reject_once"}}],"_meta":{{"k" : 2}}}}}}"#
    )
}
