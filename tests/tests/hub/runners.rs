//! Galley runners of a hub, word by word: one process for each session, through the same commands as any other agent.

use std::collections::BTreeMap;
use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::api::Transcripts;
use agentline_core::hub::{
    AgentKind, AgentSpec, Command, Config, Errand, Event, Found, Hub, Stored, Switches,
};
use agentline_core::{Address, Exit, Group, Heard, LinkId, Peer, SpawnSpec};
use agentline_tests::desk::Desk;
use agentline_tests::hub::outside;
use serde_json::{Value, json};

/// A hub that knows one runner, and what stands around it.
pub(super) struct Shop {
    pub(super) hub: Desk<Hub>,
    /// The process of each session, the last one.
    pub(super) runners: BTreeMap<String, LinkId>,
    /// Whether a runner is ready as soon as it is there.
    pub(super) is_ready: bool,
    /// Whether a runner takes what was said before at once.
    pub(super) remembers: bool,
    /// The model that the last one was started with.
    llm: Option<String>,
    /// What runners were told and nobody has looked at.
    heard: BTreeMap<LinkId, Vec<Value>>,
}

pub(super) fn spec(enabled: bool) -> AgentSpec {
    AgentSpec {
        id: "galley".into(),
        name: "Galley".to_owned(),
        origin: "runner".to_owned(),
        enabled,
        default: false,
        launch: Some("python3".to_owned()),
        initialize: None,
        host: Default::default(),
        kind: AgentKind::Runner,
    }
}

impl Shop {
    pub(super) fn new() -> Self {
        Self::with(Stored::default(), Transcripts::Runners)
    }

    pub(super) fn with(stored: Stored, transcripts: Transcripts) -> Self {
        let mut config = Config::new(server::Config::new(Address("/run/control.sock".into())));
        config.control.connections = 400;
        config.agents = vec![spec(true)];
        config.state = Some("/state".into());
        config.stored = stored;
        config.switches = Switches { transcripts, ..Switches::default() };
        let mut hub = Desk::<Hub>::new(config);
        hub.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
        let (runners, heard) = (BTreeMap::new(), BTreeMap::new());
        Self { hub, runners, is_ready: true, remembers: true, llm: None, heard }
    }

    /// The hub is killed, and another one starts on its files.
    pub(super) fn again(self, transcripts: Transcripts) -> Self {
        let mut stored = Stored::default();
        for (path, (text, _)) in &self.hub.files {
            let name = path.strip_prefix("/state").expect("a file of the hub's");
            let folder = name.parent().and_then(|folder| folder.to_str()).expect("text");
            let name = name.file_name().and_then(|name| name.to_str()).expect("text");
            assert!(!stored.read(folder, name, text.as_bytes()), "{name}");
        }
        let mut shop = Self::with(stored, transcripts);
        let files = self.hub.files.into_iter().filter(|(path, _)| path.starts_with("/state/transcripts"));
        shop.hub.files.extend(files);
        shop
    }

    /// A client asks; where it is answered.
    pub(super) fn ask(&mut self, command: &str, args: &Value) -> LinkId {
        let link = self.hub.accepting.take().expect("clients are let in");
        self.hub.heard(link, Heard::Opened(Peer::default()));
        let line = json!({ "command": command, "args": args });
        self.hub.send(link, format!("{line}\n").as_bytes());
        self.settle();
        link
    }

    pub(super) fn call(&mut self, command: &str, args: &Value) -> Value {
        let link = self.ask(command, args);
        self.lines(link).pop().unwrap_or(Value::Null)
    }

    pub(super) fn lines(&mut self, link: LinkId) -> Vec<Value> {
        self.hub.read(link).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Errands are done, and runners start.
    pub(super) fn settle(&mut self) {
        while let Some(event) = self.hub.events.pop_front() {
            let Event::Errand(tag, errand) = event else { continue };
            let found = match errand {
                Errand::Launch { runner, .. } => {
                    let start = runner.expect("it is a runner");
                    self.llm = start.llm.clone();
                    let program = start.session.into();
                    Found::Launch(Ok(Box::new(SpawnSpec { program, ..SpawnSpec::default() })))
                }
                Errand::Read(path) => {
                    let text = self.hub.files.get(&path).map(|(text, _)| text.clone().into_bytes());
                    Found::Read(Ok(text.unwrap_or_default().into()))
                }
                errand @ (Errand::Folder(_)
                | Errand::Rules(_)
                | Errand::File { .. }
                | Errand::Who(_)
                | Errand::Discover
                | Errand::Enable { .. }) => outside(&errand),
            };
            assert_eq!(self.hub.command(Command::Done(tag, found)), Ok(()));
            while let Some(link) = self.hub.connecting.pop_front() {
                self.hub.heard(link, Heard::Opened(Peer::default()));
                let session = self.hub.programs[&link].to_string_lossy().into_owned();
                self.runners.insert(session.clone(), link);
                if self.is_ready {
                    self.ready(&session);
                }
            }
        }
        for (session, link) in self.runners.clone() {
            let lines = self.lines(link);
            let asks = lines.iter().any(|line| line["kind"] == "load_history");
            self.heard.entry(link).or_default().extend(lines);
            if asks && self.remembers {
                self.says(&session, &json!({ "kind": "history_loaded", "messageCount": 1 }));
            }
        }
    }

    pub(super) fn ready(&mut self, session: &str) {
        self.says(
            session,
            &json!({ "kind": "ready", "protocolVersion": "0.1", "gaCommit": "c", "gaCommitDate": "d",
                "gaPath": "/ga", "llmName": "small", "cwd": "/ga", "pid": 7, "availableLLMs": [
                    { "index": 0, "name": "small", "displayName": "Small", "isCurrent": true },
                    { "index": 1, "name": "large", "displayName": "Large", "isCurrent": false }] }),
        );
    }

    pub(super) fn says(&mut self, session: &str, event: &Value) {
        let mut event = event.clone();
        event["sessionId"] = json!(session);
        event["timestamp"] = json!("2026-12-01T00:00:00+00:00");
        self.hub.send(self.runners[session], format!("{event}\n").as_bytes());
        self.settle();
    }

    /// What a runner was told since that was asked last.
    pub(super) fn told(&mut self, session: &str) -> Vec<Value> {
        let link = self.runners[session];
        let mut told = self.heard.remove(&link).unwrap_or_default();
        told.extend(self.lines(link));
        told
    }

    pub(super) fn kinds(&mut self, session: &str) -> Vec<String> {
        let told = self.told(session).into_iter();
        told.map(|line| line["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    /// It says that, and is done.
    pub(super) fn answers(&mut self, session: &str, text: &str) {
        self.says(session, &json!({ "kind": "turn_start", "turnIndex": 1 }));
        self.says(session, &json!({ "kind": "turn_progress", "delta": text, "source": "workbench" }));
        self.says(
            session,
            &json!({ "kind": "run_complete", "finalContent": text, "totalTurns": 1,
            "exitReason": { "result": "CURRENT_TASK_DONE", "data": null } }),
        );
    }

    /// Its process is gone.
    pub(super) fn exits(&mut self, session: &str, code: i32) {
        let link = self.runners[session];
        for heard in [Heard::Eof, Heard::Exited(Exit::Code(code)), Heard::Group(Group::Gone)] {
            self.hub.heard(link, heard);
        }
        self.settle();
    }

    pub(super) fn row(&mut self, session: &str) -> Value {
        let rows = self.call("sessions.list", &json!({ "all": true }));
        let rows = rows["result"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["id"] == *session).unwrap_or_else(|| panic!("no {session}"))
    }

    pub(super) fn begin(&mut self, task: &str) -> String {
        let started = self.call("session.new", &json!({ "agent": "galley", "task": task, "cwd": "/w" }));
        started["result"]["session"]["id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
    }
}

#[test]
fn a_session_has_a_process_of_its_own_and_is_prompted_like_any_other() {
    let mut shop = Shop::new();
    assert_eq!((shop.begin("one"), shop.begin("two")), ("s1".to_owned(), "s2".to_owned()));
    assert_eq!(shop.runners.len(), 2);
    let told = shop.told("s1");
    let said = told.iter().find(|line| line["kind"] == "user_message").expect("the prompt");
    assert_eq!(said["text"], "one");
    let watch = shop.ask("session.watch", &json!({ "sessionId": "s1" }));
    shop.answers("s1", "done");
    let row = shop.row("s1");
    assert_eq!((&row["status"], &row["channel"]), (&json!("completed"), &json!("galley")), "{row}");
    assert_eq!((&row["agent"], &row["agentSessionId"]), (&json!("galley"), &json!("s1")));
    assert_eq!(shop.row("s2")["status"], "running");
    let frames = shop.lines(watch);
    let kinds: Vec<&str> = frames.iter().filter_map(|frame| frame["data"]["kind"].as_str()).collect();
    assert!(kinds.contains(&"turn_progress") && kinds.contains(&"run_complete"), "{kinds:?}");
    shop.call("session.send", &json!({ "sessionId": "s1", "content": "more" }));
    assert_eq!(shop.kinds("s1"), ["user_message"]);
    let agents = shop.call("agents.list", &json!({}));
    let agents = agents["result"]["agents"].as_array().cloned().unwrap_or_default();
    // The errand of this shop finds nothing out.
    assert!(agents.is_empty());
}

#[test]
fn what_it_asks_is_answered_by_anybody_and_words_by_the_next_prompt() {
    let mut shop = Shop::new();
    let id = shop.begin("code");
    shop.says(
        &id,
        &json!({ "kind": "tool_call_pending", "approvalId": "appr_1", "turnIndex": 0, "toolName": "code_run",
            "args": { "code": "1" }, "argsPreview": "1", "riskLevel": "high", "reason": "runs code" }),
    );
    assert_eq!(shop.row(&id)["status"], "waiting_approval");
    let open = shop.call("approvals.list", &json!({}));
    let options = open["result"][0]["options"].as_array().expect("options").clone();
    let ids: Vec<&str> = options.iter().filter_map(|option| option["optionId"].as_str()).collect();
    assert_eq!(ids, ["allow_once", "always_allow_project", "always_allow_global", "deny"]);
    shop.told(&id);
    shop.call("approval.respond", &json!({ "approvalId": "a1", "decision": "allow" }));
    let told = shop.told(&id);
    assert_eq!((&told[0]["kind"], &told[0]["decision"]), (&json!("approval_response"), &json!("allow_once")));

    shop.says(&id, &json!({ "kind": "ask_user", "question": "which?", "candidates": ["a", "b"] }));
    shop.says(
        &id,
        &json!({ "kind": "run_complete", "finalContent": "", "totalTurns": 1,
        "exitReason": { "result": "EXITED", "data": {} } }),
    );
    assert_eq!(shop.row(&id)["statusReason"], "question");
    let sent = shop.call("session.send", &json!({ "sessionId": id, "content": "a" }));
    assert_eq!(sent["result"]["dispatch"], "answered", "{sent}");
    let told = shop.told(&id);
    assert_eq!((&told[0]["kind"], &told[0]["text"]), (&json!("ask_user_response"), &json!("a")));
}

#[test]
fn a_crash_ends_the_turn_and_the_watch_and_is_tried_again_with_a_new_process() {
    let mut shop = Shop::new();
    let id = shop.begin("work");
    let watch = shop.ask("session.watch", &json!({ "sessionId": id }));
    shop.exits(&id, 3);
    let row = shop.row(&id);
    assert_eq!((&row["status"], &row["statusReason"]), (&json!("error"), &json!("agent_exited")), "{row}");
    let last = shop.lines(watch).pop().expect("an end");
    assert_eq!((&last["stream"], &last["reason"]), (&json!("end"), &json!("subprocess_exited")), "{last}");
    let first = shop.runners[&id];
    let tried = shop.call("session.retry", &json!({ "sessionId": id }));
    assert_eq!(tried["ok"], true, "{tried}");
    assert_ne!(shop.runners[&id], first);
    assert!(shop.kinds(&id).contains(&"user_message".to_owned()));
    shop.answers(&id, "done");
    assert_eq!(shop.row(&id)["status"], "completed");
}

#[test]
fn one_that_cannot_start_says_why_and_is_tried_again() {
    let mut shop = Shop::new();
    shop.is_ready = false;
    let new = shop.ask("session.new", &json!({ "agent": "galley", "task": "t", "cwd": "/w" }));
    shop.exits("s1", 2);
    let failed = shop.lines(new).pop().expect("an answer");
    assert_eq!((&failed["error"], &failed["sessionId"]), (&json!("runner_error"), &json!("s1")), "{failed}");
    assert_eq!(shop.row("s1")["statusReason"], "start_failed");
    shop.is_ready = true;
    let tried = shop.call("session.retry", &json!({ "sessionId": "s1" }));
    assert_eq!(tried["result"]["dispatch"], "dispatched", "{tried}");
}

#[test]
fn a_closed_one_leaves_by_the_ladder_and_the_next_prompt_starts_another() {
    let mut shop = Shop::new();
    let id = shop.begin("work");
    shop.told(&id);
    let closed = shop.call("session.close", &json!({ "sessionId": id }));
    assert_eq!(closed["ok"], true, "{closed}");
    assert_eq!(shop.kinds(&id), ["abort", "shutdown"]);
    let first = shop.runners[&id];
    shop.ask("session.send", &json!({ "sessionId": id, "content": "again" }));
    assert_eq!(shop.runners[&id], first, "the old one is still there");
    shop.exits(&id, 0);
    assert_ne!(shop.runners[&id], first);
    let said = shop.told(&id);
    assert!(said.iter().any(|line| line["text"] == "again"), "{said:?}");
}

#[test]
fn a_cancel_that_nobody_confirms_leaves_the_runner_half_a_minute() {
    for confirms in [true, false] {
        let mut shop = Shop::new();
        let id = shop.begin("work");
        shop.told(&id);
        shop.call("session.stop", &json!({ "sessionId": id }));
        assert_eq!(shop.kinds(&id), ["abort"]);
        shop.hub.pass(Duration::from_secs(6));
        let row = shop.row(&id);
        assert_eq!((&row["status"], &row["statusReason"]), (&json!("cancelled"), &json!("unconfirmed")));
        let sent = shop.call("session.send", &json!({ "sessionId": id, "content": "next" }));
        assert_eq!(sent["result"]["dispatch"], "held", "{sent}");
        assert_eq!(shop.kinds(&id), [] as [&str; 0]);
        shop.hub.pass(Duration::from_secs(20));
        assert_eq!(shop.kinds(&id), [] as [&str; 0]);
        if confirms {
            shop.says(
                &id,
                &json!({ "kind": "run_complete", "finalContent": "", "totalTurns": 0,
                "exitReason": { "result": "ABORTED", "data": null } }),
            );
            assert_eq!(shop.kinds(&id), ["user_message"], "it goes on with the same process");
            shop.hub.pass(Duration::from_secs(60));
            assert_eq!(shop.kinds(&id), [] as [&str; 0]);
        } else {
            shop.hub.pass(Duration::from_secs(20));
            assert_eq!(shop.kinds(&id), ["shutdown"]);
            let first = shop.runners[&id];
            shop.exits(&id, 0);
            assert_ne!(shop.runners[&id], first, "what waits goes on with the next process");
        }
    }
}

#[test]
fn of_too_many_that_have_nothing_to_do_the_one_idle_longest_leaves() {
    let mut shop = Shop::new();
    for at in 1..=20 {
        let id = shop.begin("t");
        assert_eq!(id, format!("s{at}"));
        if at != 1 {
            shop.answers(&id, "done");
        }
        shop.told(&id);
        shop.hub.pass(Duration::from_secs(1));
    }
    shop.begin("one more");
    assert_eq!(shop.kinds("s2"), ["shutdown"], "the first one is at work");
    assert_eq!(shop.kinds("s3"), [] as [&str; 0]);
    shop.exits("s2", 0);
    assert_eq!(shop.row("s2")["status"], "completed");
    shop.call("session.send", &json!({ "sessionId": "s2", "content": "on" }));
    assert!(shop.kinds("s2").contains(&"user_message".to_owned()));
}

#[test]
fn switched_off_all_of_them_leave() {
    let mut shop = Shop::new();
    let ids = [shop.begin("one"), shop.begin("two")];
    shop.answers(&ids[1], "done");
    assert_eq!(shop.hub.command(Command::Agents(vec![spec(false)])), Ok(()));
    for id in &ids {
        assert!(shop.kinds(id).contains(&"shutdown".to_owned()), "{id}");
        shop.exits(id, 0);
    }
    assert_eq!(shop.row("s1")["statusReason"], "agent_disabled");
    assert_eq!(shop.row("s2")["status"], "completed");
    let sent = shop.call("session.send", &json!({ "sessionId": "s1", "content": "x" }));
    assert_eq!(sent["error"], "runner_error", "{sent}");
}

#[test]
fn a_hub_that_stops_waits_for_no_run() {
    let mut shop = Shop::new();
    let (one, two) = (shop.begin("one"), shop.begin("two"));
    shop.call("session.close", &json!({ "sessionId": two }));
    assert_eq!(shop.hub.command(Command::Stop), Ok(()));
    assert!(shop.kinds(&one).contains(&"shutdown".to_owned()));
    for id in [one, two] {
        shop.exits(&id, 0);
    }
    // Clients that do not leave are left.
    shop.hub.pass(Duration::from_secs(60));
    assert!(shop.hub.ended);
}

#[test]
fn what_is_allowed_always_is_kept_and_told_to_the_runners_that_it_is_for() {
    let mut shop = Shop::new();
    let ids = [shop.begin("one"), shop.begin("two")];
    let elsewhere = shop.call("session.new", &json!({ "agent": "galley", "task": "t", "cwd": "/other" }));
    assert_eq!(elsewhere["result"]["session"]["id"], "s3");
    let ask = |shop: &mut Shop, approval: &str, tool: &str| {
        shop.says(
            "s1",
            &json!({ "kind": "tool_call_pending", "approvalId": approval, "turnIndex": 0,
            "toolName": tool, "args": {}, "argsPreview": "", "riskLevel": "high", "reason": "" }),
        );
    };
    let rules = |shop: &mut Shop, id: &str| {
        shop.told(id).into_iter().rfind(|line| line["kind"] == "set_approval_rules")
    };
    for id in ["s1", "s2", "s3"] {
        shop.told(id);
    }
    ask(&mut shop, "appr_1", "code_run");
    shop.call("approval.respond", &json!({ "approvalId": "a1", "optionId": "always_allow_project" }));
    let told = rules(&mut shop, "s2").expect("rules");
    assert_eq!((&told["alwaysAllowGlobal"], &told["alwaysAllowProject"]), (&json!([]), &json!(["code_run"])));
    assert_eq!(rules(&mut shop, "s3").expect("rules")["alwaysAllowProject"], json!([]), "another project");
    ask(&mut shop, "appr_2", "file_write");
    shop.call("approval.respond", &json!({ "approvalId": "a2", "optionId": "always_allow_global" }));
    assert_eq!(rules(&mut shop, "s3").expect("rules")["alwaysAllowGlobal"], json!(["file_write"]));
    let listed = shop.call("rules.list", &json!({}));
    let all = json!({ "alwaysAllowGlobal": ["file_write"], "alwaysAllowProject": { "/w": ["code_run"] } });
    assert_eq!(listed["result"], all);

    // One that starts later knows them before its first message.
    let late = shop.begin("late");
    assert_eq!(shop.kinds(&late)[..2], ["set_approval_rules".to_owned(), "user_message".to_owned()]);
    let set = shop.call("rules.set", &json!({ "alwaysAllowGlobal": ["code_run"] }));
    assert_eq!(set["result"], json!({ "alwaysAllowGlobal": ["code_run"], "alwaysAllowProject": {} }));
    assert_eq!(rules(&mut shop, &ids[1]).expect("rules")["alwaysAllowProject"], json!([]));
    for bad in [
        json!({ "alwaysAllowGlobal": ["start_long_term_update"] }),
        json!({ "alwaysAllowProject": { "here": ["code_run"] } }),
        json!({ "alwaysAllowGlobal": [""] }),
    ] {
        assert_eq!(shop.call("rules.set", &bad)["error"], "invalid_args", "{bad}");
    }
}

#[test]
fn a_policy_is_the_runners_as_well() {
    let mut shop = Shop::new();
    let id = shop.begin("one");
    shop.told(&id);
    for (policy, enabled) in [("allow", true), ("reject", false)] {
        shop.call("session.set_policy", &json!({ "sessionId": id, "policy": policy }));
        let told = shop.told(&id);
        assert_eq!((&told[0]["kind"], &told[0]["enabled"]), (&json!("set_yolo_mode"), &json!(enabled)));
    }
    shop.says(
        &id,
        &json!({ "kind": "tool_call_pending", "approvalId": "appr_1", "turnIndex": 0,
        "toolName": "code_run", "args": {}, "argsPreview": "", "riskLevel": "high", "reason": "" }),
    );
    assert_eq!(shop.told(&id)[0]["decision"], "deny");
}

#[test]
fn a_question_beside_the_conversation_and_the_end_of_a_process_are_runners_own() {
    let mut shop = Shop::new();
    let id = shop.begin("one");
    shop.told(&id);
    let sent = shop.call("session.btw", &json!({ "sessionId": id, "question": "how far?" }));
    assert_eq!(sent["result"]["dispatch"], "dispatched", "{sent}");
    assert_eq!(shop.told(&id)[0]["text"], "/btw how far?");
    let sent = shop.call("session.shutdown_runner", &json!({ "sessionId": id }));
    assert_eq!(sent["result"]["dispatch"], "shutdown_sent", "{sent}");
    assert_eq!(shop.kinds(&id), ["abort", "shutdown"]);
    shop.exits(&id, 0);
    assert_eq!(shop.row(&id)["status"], "cancelled");
    let sent = shop.call("session.shutdown_runner", &json!({ "sessionId": id }));
    assert_eq!(sent["result"]["dispatch"], "already_stopped", "{sent}");
    let sent = shop.call("session.btw", &json!({ "sessionId": id, "question": "how far?" }));
    assert_eq!(sent["error"], "runner_error", "{sent}");
}

#[test]
fn a_model_that_was_chosen_is_the_next_processs_as_well() {
    let mut shop = Shop::new();
    let id = shop.begin("one");
    shop.answers(&id, "done");
    assert_eq!(shop.llm, None);
    shop.told(&id);
    shop.ask("llm.set", &json!({ "sessionId": id, "llmName": "large" }));
    assert_eq!(shop.told(&id)[0]["llmIndex"], 1);
    shop.says(&id, &json!({ "kind": "llm_changed", "index": 1, "name": "large", "displayName": "Large" }));
    let mut shop = shop.again(Transcripts::Runners);
    shop.call("session.send", &json!({ "sessionId": id, "content": "more" }));
    assert_eq!(shop.llm.as_deref(), Some("large"));
}
