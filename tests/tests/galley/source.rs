//! A runner as a source of one session: the 39 dialogues of the real one in the words that all sources have.

use std::collections::{BTreeMap, BTreeSet};

use agentline_core::acp::ContentBlock;
use agentline_core::acp::session::SessionSetup;
use agentline_core::acp::update::Speaker;
use agentline_core::galley::desktop;
use agentline_core::galley::wire::{self, Command as Order};
use agentline_core::session::galley::{Config, Runner};
use agentline_core::session::{
    AskId, Done, News, Open, Outcome, Question, Reply, Setting, Told, TurnId, Wish,
};
use agentline_core::{Exit, Group, Heard, LinkId, Open as Way, Peer, Refused, SpawnSpec, Tag, Time};
use agentline_tests::desk::Desk;
use serde_json::json;

use super::captures::{Line, bytes, captures};

/// A runner, and what was told of its session.
struct Seen {
    desk: Desk<Runner>,
    begun: BTreeSet<TurnId>,
    ended: BTreeMap<TurnId, (Outcome, Option<String>)>,
    open: BTreeSet<AskId>,
    words: Vec<String>,
    tools: BTreeMap<String, usize>,
    text: String,
    done: Vec<(Tag, bool)>,
    down: usize,
    news: Vec<String>,
}

impl Seen {
    fn new() -> Self {
        let config = desktop::Config::new(Way::Spawn(Box::<SpawnSpec>::default()));
        let mut desk = Desk::<Runner>::new(Config { desktop: config, session: "s1".into() });
        desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
        Self {
            desk,
            begun: BTreeSet::new(),
            ended: BTreeMap::new(),
            open: BTreeSet::new(),
            words: Vec::new(),
            tools: BTreeMap::new(),
            text: String::new(),
            done: Vec::new(),
            down: 0,
            news: Vec::new(),
        }
    }

    fn says(&mut self, line: &str) {
        self.desk.send(LinkId::FIRST, format!("{line}\n").as_bytes());
        self.take();
    }

    fn wish(&mut self, tag: u64, wish: Wish) -> Result<(), Refused> {
        let done = self.desk.command((Tag(tag), wish));
        self.take();
        done
    }

    fn prompt(&mut self, turn: u64, text: &str) -> Result<(), Refused> {
        let words = vec![ContentBlock::text(text)];
        let done = self.wish(turn, Wish::Prompt { session: "s1".into(), turn: TurnId(turn), words });
        if done.is_ok() {
            assert!(self.begun.contains(&TurnId(turn)), "a prompt is a turn at once");
        }
        done
    }

    fn take(&mut self) {
        for told in std::mem::take(&mut self.desk.events) {
            assert_eq!(self.down, 0, "a word behind the last: {told:?}");
            match told {
                Told::News(item) => {
                    assert_eq!(item.session.as_str(), "s1");
                    self.news(item.news);
                }
                Told::Done(tag, done) => self.done.push((tag, done.is_ok())),
                Told::Down(_) => self.down += 1,
                Told::Hello(_) => panic!("nobody dials"),
                Told::Wanted(..) | Told::File(_) => panic!("a runner asks for no service"),
                Told::Up(_) | Told::Noted(_) | Told::Other(_) => {}
            }
        }
    }

    fn news(&mut self, news: News) {
        self.news.push(format!("{news:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned());
        match news {
            News::Began(agentline_core::session::By::Us(turn)) => {
                assert!(self.begun.insert(turn), "it begins twice");
            }
            News::Ended(ended) => {
                let turn = ended.turn.expect("which run, it knows");
                assert!(self.begun.contains(&turn), "an end without a beginning");
                let open = self.open.iter().next();
                assert_eq!(open, None, "it ends under a question");
                let end = (ended.how, ended.word);
                assert_eq!(self.ended.insert(turn, end), None, "it ends twice");
            }
            News::Asked(asked) => match asked.question {
                Question::Permission { options, .. } => {
                    assert!(options.len() >= 3 && self.open.insert(asked.ask));
                }
                Question::Words { text, .. } => self.words.push(text),
                Question::Form { .. } | Question::Page { .. } => panic!("a runner has no forms"),
            },
            News::Settled(ask, _) => assert!(self.open.remove(&ask), "settled twice, or never asked"),
            News::Tool { is_new, call } => {
                let over = call.status.is_some_and(agentline_core::acp::update::ToolStatus::is_final);
                let known = self.tools.contains_key(&call.tool_call_id);
                assert!(is_new != known, "a call is told first as a new one: {call:?}");
                *self.tools.entry(call.tool_call_id).or_default() += usize::from(over);
            }
            News::Text { speaker: Speaker::Agent, text, .. } => self.text += &text,
            _ => {}
        }
    }

    fn leave(&mut self) {
        for heard in [Heard::Eof, Heard::Exited(Exit::Code(0)), Heard::Group(Group::Gone)] {
            self.desk.heard(LinkId::FIRST, heard);
        }
        self.take();
    }
}

/// What the host asked for with a line.
fn wish(seen: &Seen, order: Order, turn: TurnId) -> Option<Wish> {
    let session = || "s1".into();
    let prompt =
        |text: String| Wish::Prompt { session: session(), turn, words: vec![ContentBlock::text(text)] };
    Some(match order {
        Order::UserMessage(message) if Order::is_aside(&message.text) => {
            Wish::Aside { session: session(), question: message.text.trim_start()[4..].trim().to_owned() }
        }
        Order::UserMessage(message) => prompt(message.text),
        Order::AskUserResponse(answer) => prompt(answer.text),
        Order::ApprovalResponse(answer) => {
            let decision = serde_json::to_value(&answer.decision).ok()?;
            Wish::Answer { ask: *seen.open.first()?, reply: Reply::Choose(decision.as_str()?.to_owned()) }
        }
        Order::Abort => Wish::Cancel { session: session() },
        Order::SetApprovalRules(rules) => Wish::Rules(agentline_core::rpc::Json::new(&rules)),
        Order::Shutdown => Wish::Close { session: session() },
        _ => return None,
    })
}

fn play(lines: &[Line]) -> (Seen, String) {
    let (mut seen, mut said, mut turn) = (Seen::new(), String::new(), 0);
    for line in lines {
        let until = Time::from_micros(line.t * 1000);
        seen.desk.pass(until.since(seen.desk.now.mono));
        seen.take();
        let bytes = bytes(&line.line);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match &*line.dir {
            "out" => {
                let event: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                if event["kind"] == "turn_progress" {
                    said += event["delta"].as_str().unwrap_or_default();
                }
                seen.desk.send(LinkId::FIRST, &[bytes, b"\n".to_vec()].concat());
                seen.take();
            }
            "in" => {
                let Ok(order) = wire::read_command(&text, 128) else { continue };
                turn += 1;
                let Some(wish) = wish(&seen, order, TurnId(turn)) else { continue };
                let answers = if let Wish::Answer { ask, .. } = &wish { Some(*ask) } else { None };
                // What a right host would not have said is refused.
                if seen.wish(turn, wish).is_ok() {
                    answers.map(|ask| seen.open.remove(&ask));
                }
            }
            _ => {}
        }
    }
    seen.leave();
    (seen, said)
}

#[test]
fn each_dialogue_of_the_real_runner_is_told_whole_and_each_turn_ends_once() {
    let mut words = 0;
    for (name, lines) in captures() {
        let (seen, said) = play(&lines);
        assert!(said.starts_with(&seen.text), "{name}: text is changed");
        let ended: BTreeSet<TurnId> = seen.ended.keys().copied().collect();
        assert_eq!((&seen.begun, seen.down), (&ended, 1), "{name}");
        assert!(seen.open.is_empty(), "{name}: a question stays open");
        words += seen.words.len();
    }
    assert!(words > 0, "no capture asks for words");
}

const READY: &str = r#"{"kind":"ready","sessionId":"s1","protocolVersion":"0.1","gaCommit":"c","gaCommitDate":"d","gaPath":"/ga","llmName":"one","cwd":"/ga","pid":1,"availableLLMs":[{"index":0,"name":"one","displayName":"One","isCurrent":true},{"index":1,"name":"two","displayName":"Two","isCurrent":false}],"timestamp":"t"}"#;

fn event(kind: &str, rest: &serde_json::Value) -> String {
    let mut event = json!({ "kind": kind, "sessionId": "s1", "timestamp": "t", "visibility": "visible" });
    for (name, value) in rest.as_object().expect("members") {
        event[name] = value.clone();
    }
    event.to_string()
}

fn complete(result: &str) -> String {
    let exit = json!({ "result": result, "data": null });
    event("run_complete", &json!({ "exitReason": exit, "finalContent": "", "totalTurns": 1 }))
}

#[test]
fn its_session_is_there_when_it_is_ready_and_its_models_are_an_option() {
    let mut seen = Seen::new();
    let open = || Wish::Open(Open::New, Box::new(SessionSetup::in_directory("/w")));
    assert_eq!(seen.wish(1, open()), Err(Refused::NotReady));
    seen.says(READY);
    seen.desk.events.clear();
    assert_eq!(seen.desk.command((Tag(2), open())), Ok(()));
    let Some(Told::Done(Tag(2), done)) = seen.desk.events.pop_front() else { panic!("not open") };
    let Ok(Done::Opened(name, state)) = *done else { panic!("{done:?}") };
    let options = state.config_options.expect("models");
    assert_eq!((name.as_str(), &*options[0].id), ("s1", "model"));
    let set = |name: &str| Wish::Set { session: "s1".into(), setting: Setting::Model(name.into()) };
    assert_eq!(seen.wish(3, set("three")), Err(Refused::Invalid("no model of that name")));
    assert_eq!(seen.wish(4, set("two")), Ok(()));
    seen.says(&event("llm_changed", &json!({ "index": 1, "name": "two", "displayName": "Two" })));
    assert_eq!(seen.done, [(Tag(4), true)]);
}

#[test]
fn a_question_of_the_agents_is_answered_by_the_next_prompt() {
    let mut seen = Seen::new();
    seen.says(READY);
    seen.prompt(1, "do").unwrap();
    seen.says(&event("ask_user", &json!({ "question": "which?", "candidates": ["a"] })));
    seen.says(&complete("EXITED"));
    assert_eq!(seen.ended[&TurnId(1)].0, Outcome::Completed);
    seen.desk.said();
    seen.prompt(2, "a").unwrap();
    assert!(seen.desk.said()[0].contains("ask_user_response"));
    seen.says(&complete("EXITED"));
    assert_eq!(seen.ended[&TurnId(2)].0, Outcome::Failed);
}

#[test]
fn how_a_run_ends_is_said_in_the_words_of_all_sources() {
    for (result, how, word) in [
        ("CURRENT_TASK_DONE", Outcome::Completed, "CURRENT_TASK_DONE"),
        ("MAX_TURNS_EXCEEDED", Outcome::Failed, "max_turn_requests"),
        ("ABORTED", Outcome::Cancelled, "ABORTED"),
        ("LATER", Outcome::Failed, "LATER"),
    ] {
        let mut seen = Seen::new();
        seen.says(READY);
        seen.prompt(1, "do").unwrap();
        assert_eq!(seen.prompt(2, "more"), Err(Refused::Busy));
        seen.says(&complete(result));
        assert_eq!(seen.ended[&TurnId(1)], (how, Some(word.to_owned())));
    }
    let mut seen = Seen::new();
    seen.says(READY);
    seen.prompt(1, "do").unwrap();
    seen.leave();
    assert_eq!((seen.ended[&TurnId(1)].0, seen.down), (Outcome::Lost, 1));
}

#[test]
fn an_approval_is_a_permission_and_what_changes_the_agent_is_allowed_everywhere_by_nobody() {
    for (tool, everywhere) in [("code_run", true), ("start_long_term_update", false)] {
        let mut seen = Seen::new();
        seen.says(READY);
        seen.prompt(1, "do").unwrap();
        let pending = json!({ "approvalId": "x", "turnIndex": 1, "toolName": tool, "args": {}, "argsPreview": "p",
            "riskLevel": "high", "reason": "r" });
        seen.says(&event("tool_call_pending", &pending));
        let ask = *seen.open.first().expect("a question");
        seen.desk.said();
        let choose = Reply::Choose("always_allow_global".to_owned());
        assert_eq!(seen.wish(2, Wish::Answer { ask, reply: choose }).is_ok(), everywhere, "{tool}");
        if !everywhere {
            assert_eq!(seen.wish(3, Wish::Answer { ask, reply: Reply::Cancel }), Ok(()));
            assert!(seen.desk.said()[0].contains("deny"));
        }
        assert_eq!(seen.wish(4, Wish::Answer { ask, reply: Reply::Cancel }), Err(Refused::Unknown));
    }
}

#[test]
fn a_side_question_begins_no_turn_and_a_picture_is_a_file() {
    let mut seen = Seen::new();
    seen.says(READY);
    assert!(matches!(seen.prompt(1, "/btw why"), Err(Refused::Invalid(_))));
    assert_eq!(seen.wish(2, Wish::Aside { session: "s1".into(), question: "why".into() }), Ok(()));
    let words = |uri: &str| {
        let image = json!([{ "type": "image", "mimeType": "image/png", "data": "AA==", "uri": uri }]);
        let words: Vec<ContentBlock> = serde_json::from_str(&image.to_string()).expect("a picture");
        Wish::Prompt { session: "s1".into(), turn: TurnId(3), words }
    };
    assert!(matches!(seen.wish(3, words("https://a.b/c.png")), Err(Refused::Invalid(_))));
    seen.desk.said();
    assert_eq!(seen.wish(3, words("file:///tmp/c.png")), Ok(()));
    assert!(seen.desk.said()[0].contains(r#""images":["/tmp/c.png"]"#));
}
