//! The attach channel. The server: raw bytes in and raw bytes out, the protocol's tables row by row. The
//! caller's side: against a scripted double that errs as the real server does.

mod admission;
mod caller;
mod client;
mod departures;
mod lines;
mod prompts;
mod properties;
mod session;
mod turns;
mod worlds;

use std::path::Path;
use std::time::Duration;

use agentline_core::attach::server::{Command, Config, Event};
use agentline_core::attach::{AgentInfo, Injection, PromptId, Server, Stop, Turn};
use agentline_core::{Heard, Input, LinkId, Machine, Peer, Refused, Time};
use agentline_tests::attach::{RECORD, SOCKET, TOKEN, TOKEN_FILE, config, target};
use agentline_tests::desk::Desk;
use serde_json::{Value, json};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"authToken":"5eb1"}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
const PONG: &str = "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"status\":\"ok\"}}\n";
const PENDING: &str = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"agentica_pending\",\"agenticaPending\":true}}\n";

/// A server that listens, and a desk around it.
fn serving() -> Desk<Server> {
    serving_with(config())
}

fn serving_with(config: Config) -> Desk<Server> {
    let mut desk = Desk::new(config);
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk.events.pop_front();
    desk
}

/// What the tests do with a server.
trait Serving {
    fn connect(&mut self) -> LinkId;
    /// A client that is let in.
    fn enter(&mut self) -> LinkId;
    /// One line, and what is answered at once.
    fn ask(&mut self, link: LinkId, line: &str) -> String;
    fn prompt(&mut self, link: LinkId, id: u32, text: &str) -> String;
    /// The prompt that the host was handed last, and nothing else.
    fn received(&mut self) -> (PromptId, String);
    /// Takes a prompt as the next turn and starts it.
    fn start(&mut self);
    fn record(&self) -> Value;
}

impl Serving for Desk<Server> {
    fn connect(&mut self) -> LinkId {
        let link = self.accepting.take().expect("the server accepts");
        self.heard(link, Heard::Opened(Peer::default()));
        link
    }

    fn enter(&mut self) -> LinkId {
        let link = self.connect();
        self.ask(link, HELLO);
        link
    }

    fn ask(&mut self, link: LinkId, line: &str) -> String {
        self.send(link, format!("{line}\n").as_bytes());
        self.read(link)
    }

    fn prompt(&mut self, link: LinkId, id: u32, text: &str) -> String {
        self.ask(link, &prompt(id, &json!(text)))
    }

    fn received(&mut self) -> (PromptId, String) {
        match self.events.pop_front() {
            Some(Event::PromptReceived { prompt, text }) => (prompt, text),
            other => panic!("no prompt but {other:?}"),
        }
    }

    fn start(&mut self) {
        let (prompt, _) = self.received();
        self.run([Command::Injected(prompt, Injection::Queued), Command::TurnStarted]);
    }

    fn record(&self) -> Value {
        let (text, mode) = &self.files[Path::new(RECORD)];
        assert_eq!(*mode, 0o600);
        serde_json::from_str(text).expect("the record is JSON")
    }
}

fn prompt(id: u32, prompt: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": {"prompt": prompt}}).to_string()
}

fn ended(answer: &str) -> Command {
    Command::TurnEnded(Turn::ended(Stop::EndTurn, Some(answer.to_owned())))
}

fn error(id: &str, code: i64) -> (String, i64) {
    (id.to_owned(), code)
}

/// The id and the error code of a line, which is an error.
fn failed(line: &str) -> (String, i64) {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("one line: {line:?}"));
    (line["id"].to_string(), line["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {line}")))
}
