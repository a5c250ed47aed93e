//! One hub, its clients and its agents, word by word: what is bounded, what is told of an end, and what a disk, a clock
//! and a restart do to it.

use std::collections::BTreeMap;
use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::{AgentKind, AgentSpec, Command, Config, Errand, Event, Hub, Stored};
use agentline_core::{Address, Exit, Group, Heard, Input, LinkId, Peer};
use agentline_tests::desk::Desk;
use agentline_tests::hub::outside;
use serde_json::{Value, json};

/// A hub, and what stands around it.
struct Room {
    hub: Desk<Hub>,
    agents: BTreeMap<String, LinkId>,
    /// The variables that each agent was started with last.
    env: BTreeMap<String, Vec<String>>,
    capabilities: Value,
}

impl Room {
    fn new(capabilities: Value) -> Self {
        Self::with(capabilities, Stored::default())
    }

    fn with(capabilities: Value, stored: Stored) -> Self {
        let mut config = Config::new(server::Config::new(Address("/run/control.sock".into())));
        config.control.connections = 400;
        config.agents = ["one", "two"].map(spec).to_vec();
        config.state = Some("/state".into());
        config.stored = stored;
        let mut hub = Desk::<Hub>::new(config);
        hub.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
        Self { hub, agents: BTreeMap::new(), env: BTreeMap::new(), capabilities }
    }

    /// A client asks; where it is answered.
    fn ask(&mut self, command: &str, args: &Value) -> LinkId {
        let link = self.hub.accepting.take().expect("clients are let in");
        self.hub.heard(link, Heard::Opened(Peer::default()));
        let line = json!({ "command": command, "args": args });
        self.hub.send(link, format!("{line}\n").as_bytes());
        self.settle();
        link
    }

    fn call(&mut self, command: &str, args: &Value) -> Value {
        let link = self.ask(command, args);
        self.lines(link).pop().unwrap_or(Value::Null)
    }

    fn lines(&mut self, link: LinkId) -> Vec<Value> {
        self.hub.read(link).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Errands are done, agents start and shake hands.
    fn settle(&mut self) {
        while let Some(event) = self.hub.events.pop_front() {
            let Event::Errand(tag, errand) = event else { continue };
            if let Errand::Launch { agent, env, .. } = &errand {
                self.env.insert(agent.to_string(), env.0.keys().cloned().collect());
            }
            let found = outside(&errand);
            assert_eq!(self.hub.command(Command::Done(tag, found)), Ok(()));
            while let Some(link) = self.hub.connecting.pop_front() {
                self.hub.heard(link, Heard::Opened(Peer::default()));
                let program = self.hub.programs[&link].to_string_lossy().into_owned();
                self.agents.insert(program, link);
                let result = json!({ "protocolVersion": 1, "agentCapabilities": self.capabilities });
                self.hub.read(link);
                self.tell(link, &json!({ "id": 0, "result": result }));
            }
        }
    }

    fn tell(&mut self, link: LinkId, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        self.hub.send(link, format!("{message}\n").as_bytes());
    }

    fn says(&mut self, agent: &str, message: &Value) {
        self.tell(self.agents[agent], message);
        self.settle();
    }

    fn update(&mut self, agent: &str, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.says(agent, &json!({ "method": "session/update", "params": params }));
    }

    /// A new session of that agent, with a turn that runs; what the agent calls it is the task.
    fn begin(&mut self, agent: &str, task: &str) {
        self.ask("session.new", &json!({ "agent": agent, "task": task, "cwd": "/w" }));
        let asked = self.lines(self.agents[agent]);
        let new = asked.iter().find(|line| line["method"] == "session/new").expect("a new session");
        self.says(agent, &json!({ "id": new["id"], "result": { "sessionId": task } }));
    }

    /// The agent ends the turn that it was asked for last.
    fn end(&mut self, agent: &str) {
        let asked = self.lines(self.agents[agent]);
        let prompt = asked.iter().rfind(|line| line["method"] == "session/prompt").expect("a prompt");
        self.says(agent, &json!({ "id": prompt["id"], "result": { "stopReason": "end_turn" } }));
    }

    fn gone(&mut self, agent: &str) {
        let link = self.agents[agent];
        for heard in [Heard::Eof, Heard::Exited(Exit::Code(1)), Heard::Group(Group::Gone)] {
            self.hub.heard(link, heard);
        }
        self.settle();
    }

    fn row(&mut self, handle: &str) -> Value {
        let rows = self.call("sessions.list", &json!({ "all": true }));
        let rows = rows["result"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["id"] == handle).unwrap_or_else(|| panic!("no {handle}"))
    }
}

fn spec(id: &str) -> AgentSpec {
    AgentSpec {
        id: id.into(),
        name: id.to_uppercase(),
        origin: "manifest".to_owned(),
        enabled: true,
        default: false,
        launch: Some(id.to_owned()),
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
    }
}

#[test]
fn news_that_came_before_their_session_are_bounded_for_each_agent() {
    let word = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "w" } });
    let large = json!({ "sessionUpdate": "x_large", "data": "x".repeat(200_000) });
    for (update, sent, kept) in [(&word, 150, 100), (&large, 3, 1)] {
        let mut room = Room::new(json!({}));
        for agent in ["one", "two"] {
            room.ask("session.new", &json!({ "agent": agent, "cwd": "/w" }));
        }
        let watch = room.ask("sessions.watch", &json!({ "thoughts": true, "raw": true }));
        for _ in 0..sent {
            room.update("one", "first", update);
        }
        room.update("two", "second", &word);
        room.lines(watch);
        for (agent, session, expected) in [("one", "first", kept), ("two", "second", 1)] {
            let asked = room.lines(room.agents[agent]);
            let new = asked.iter().find(|line| line["method"] == "session/new").expect("a new session");
            room.says(agent, &json!({ "id": new["id"], "result": { "sessionId": session } }));
            let told = room.lines(watch);
            let kinds = ["thought", "update"];
            let told =
                told.iter().filter(|line| kinds.contains(&line["data"]["kind"].as_str().unwrap_or("")));
            assert_eq!(told.count(), expected, "{session}");
        }
    }
}

#[test]
fn programs_that_ask_at_once_are_bounded() {
    let mut room = Room::new(json!({}));
    let ask =
        json!({ "title": "may I", "options": [{ "optionId": "y", "name": "Y", "kind": "allow_once" }] });
    for _ in 0..256 {
        room.ask("approval.ask", &ask);
    }
    assert_eq!(room.call("approval.ask", &ask)["error"], "busy");
}

#[test]
fn variables_are_bounded_and_a_process_gets_them_when_it_can_be_replaced() {
    let mut room = Room::new(json!({ "loadSession": true }));
    let many: BTreeMap<String, String> = (0..65).map(|n| (format!("K{n}"), "v".to_owned())).collect();
    let refused = room.call("session.new", &json!({ "agent": "one", "task": "x", "cwd": "/w", "env": many }));
    assert_eq!(refused["error"], "invalid_args");
    room.begin("one", "a");
    assert_eq!(room.env["one"], [""; 0]);
    let send = json!({ "sessionId": "s1", "content": "more", "env": { "KEY": "v" } });
    let later = room.call("session.send", &send);
    assert_eq!(later["result"]["warning"], "env_later", "{later}");
    room.end("one");
    room.end("one");
    // Nothing runs any more: the next one has it.
    room.ask("session.send", &send);
    room.gone("one");
    assert_eq!(room.env["one"], ["KEY"]);
}

#[test]
fn what_is_galleys_alone_is_named_so() {
    let mut room = Room::new(json!({}));
    assert_eq!(room.call("session.btw", &json!({ "sessionId": "s1" }))["error"], "invalid_args");
    assert_eq!(room.call("app.activate", &json!({}))["error"], "app_unavailable");
    assert_eq!(room.call("session.checkpoint", &json!({}))["error"], "unknown_command");
}

#[test]
fn a_tool_tells_how_long_it_took() {
    let mut room = Room::new(json!({}));
    room.begin("one", "a");
    let watch = room.ask("session.watch", &json!({ "sessionId": "s1" }));
    room.update("one", "a", &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls" }));
    room.hub.pass(Duration::from_millis(1500));
    let over = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
    room.update("one", "a", &over);
    let told = room.lines(watch);
    let end = told.iter().find(|line| line["data"]["kind"] == "tool_call_end").expect("an end");
    assert_eq!(end["data"]["elapsedMs"], 1500);
}

#[test]
fn a_question_ends_with_its_turn() {
    let mut room = Room::new(json!({}));
    room.begin("one", "a");
    let options = json!([{ "optionId": "y", "name": "Y", "kind": "allow_once" }]);
    let params = json!({ "sessionId": "a", "toolCall": { "toolCallId": "c" }, "options": options });
    room.says("one", &json!({ "id": 7, "method": "session/request_permission", "params": params }));
    room.end("one");
    let over = room.call("approvals.list", &json!({ "answered": true }));
    assert_eq!(over["result"][0]["resolved"]["by"], "turn_ended", "{over}");
}

#[test]
fn whether_it_can_be_tried_again_is_told_and_whoever_was_lost_with_it_says_why() {
    for (capabilities, retryable) in [(json!({}), false), (json!({ "loadSession": true }), true)] {
        let mut room = Room::new(capabilities);
        room.begin("one", "idle");
        room.end("one");
        room.begin("one", "busy");
        let watch = room.ask("session.watch", &json!({ "sessionId": "s2" }));
        room.lines(watch);
        room.gone("one");
        let told = room.lines(watch);
        let end = told.iter().find(|line| line["data"]["kind"] == "run_complete").expect("an end");
        assert_eq!(end["data"]["retryable"].as_bool().unwrap_or(false), retryable, "{end}");
        let last = told.iter().rfind(|line| line["data"]["kind"] == "session").expect("a row");
        assert_eq!(last["data"]["retryable"].as_bool().unwrap_or(false), retryable, "{last}");
        let other = room.row("s1");
        assert_eq!((&other["status"], &other["controllable"]), (&json!("completed"), &json!(retryable)));
        let why = if retryable { Value::Null } else { json!("agent_exited") };
        assert_eq!(other["statusReason"], why, "{other}");
    }
}

#[test]
fn a_start_that_is_tried_again_asks_for_the_same_model() {
    let mut room = Room::new(json!({}));
    let news = |room: &mut Room| {
        let asked = room.lines(room.agents["one"]);
        asked.into_iter().find(|line| line["method"] == "session/new").expect("a new session")["id"].clone()
    };
    let client =
        room.ask("session.new", &json!({ "agent": "one", "task": "do", "cwd": "/w", "model": "big" }));
    let id = news(&mut room);
    room.says("one", &json!({ "id": id, "error": { "code": -32603, "message": "later" } }));
    let refused = room.lines(client).pop().expect("an answer");
    assert_eq!((&refused["sessionId"], &refused["retryable"]), (&json!("s1"), &json!(true)), "{refused}");
    let client = room.ask("session.retry", &json!({ "sessionId": "s1" }));
    let id = news(&mut room);
    let models = json!({ "currentModelId": "small", "availableModels": [
        { "modelId": "small", "name": "Small" }, { "modelId": "large", "name": "Large" }] });
    room.says("one", &json!({ "id": id, "result": { "sessionId": "a", "models": models } }));
    let asked = room.lines(room.agents["one"]).pop().expect("a request");
    assert_eq!((&asked["method"], &asked["params"]["modelId"]), (&json!("session/set_model"), &json!("big")));
    room.says("one", &json!({ "id": asked["id"], "error": { "code": -32602, "message": "no such model" } }));
    let refused = room.lines(client).pop().expect("an answer");
    assert_eq!(refused["message"], "no such model: one of small, large", "{refused}");
}

#[test]
fn a_disk_that_is_full_is_told_tried_again_and_loses_nothing() {
    let mut room = Room::new(json!({}));
    room.begin("one", "a");
    let full: Vec<_> = room.hub.stored_as.values().copied().collect();
    for id in full {
        room.hub.handle(Input::StoreFailed(id, 28));
    }
    let health = room.call("health", &json!({}));
    assert_eq!(health["result"]["problems"][0]["id"], "not_stored", "{health}");
    let send = json!({ "sessionId": "s1", "content": "more" });
    assert_eq!(room.call("session.send", &send)["error"], "runner_error");
    room.end("one");
    let sent = room.call("session.send", &send);
    assert_eq!(sent["result"]["warning"], "not_stored", "{sent}");
    room.hub.files.clear();
    room.hub.pass(Duration::from_secs(30));
    assert_eq!(room.call("health", &json!({}))["result"]["problems"], json!([]));
    let names: Vec<_> = room.hub.files.keys().filter_map(|path| path.file_name()?.to_str()).collect();
    assert!(names.contains(&"counters.json") && names.contains(&"s1.json"), "{names:?}");
}

#[test]
fn a_hub_that_was_stopped_goes_on_counting_where_it_was_and_one_that_died_does_not_count_twice() {
    let stored = |room: &Room| {
        let mut stored = Stored::default();
        for (path, (text, _)) in &room.hub.files {
            let folder = path.parent().and_then(|folder| folder.strip_prefix("/state").ok());
            let folder = folder.and_then(|folder| folder.to_str()).expect("below the hub's folder");
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            assert!(!stored.read(folder, name, text.as_bytes()));
        }
        stored
    };
    let mut room = Room::new(json!({}));
    room.begin("one", "a");
    room.end("one");
    let died = stored(&room);
    assert_eq!(room.hub.command(Command::Stop), Ok(()));
    room.gone("one");
    room.hub.pass(Duration::from_secs(30));
    assert!(room.hub.ended);
    let stopped = stored(&room);
    for (stored, next) in [(stopped, "s2"), (died, "s66")] {
        let mut again = Room::with(json!({}), stored);
        again.begin("one", "b");
        assert_eq!(again.row(next)["agentSessionId"], "b");
        assert_eq!(again.row("s1")["agentSessionId"], "a");
    }
}

#[test]
fn a_clock_that_jumps_forgets_no_session() {
    let mut room = Room::new(json!({}));
    for number in 0..3 {
        room.begin("one", &format!("n{number}"));
        room.end("one");
    }
    let month = Duration::from_secs(30 * 24 * 3600);
    for forward in [true, false] {
        room.hub.now.unix = if forward { room.hub.now.unix + month } else { room.hub.now.unix - 2 * month };
        room.hub.pass(Duration::from_secs(601));
        for handle in ["s1", "s2", "s3"] {
            let status = room.row(handle)["status"].clone();
            assert_eq!(status, if forward { json!("idle") } else { json!("completed") }, "{handle}");
        }
    }
}
