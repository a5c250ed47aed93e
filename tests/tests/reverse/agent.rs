//! The agent's side, line by line.

use agentline_core::acp::update::{Chunk, Speaker, ToolCallUpdate, Update};
use agentline_core::acp::{
    ContentBlock, OptionKind, PermissionOption, PermissionOutcome, RequestKey, StopReason,
};
use agentline_core::reverse::agent::{Agent, Command, Config, Event, Fault};
use agentline_core::reverse::{Capabilities, NO_ANSWER};
use agentline_core::rpc::RpcError;
use agentline_core::{Address, Cause, Heard, LinkId, OpenError, Peer, Refused, Tag};
use agentline_tests::desk::Desk;

use super::{brief, secs};

fn config() -> Config {
    let capabilities = Capabilities { prompt: true, cancel: true, new_session: true };
    Config { capabilities, pid: Some(7), ..Config::connect(Address("/run/acp.sock".into()), "my-agent") }
}

fn greeting() -> Desk<Agent> {
    let mut desk = Desk::new(config());
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk
}

/// One that was let in and shows a session.
pub(crate) fn shown() -> Desk<Agent> {
    let mut desk = greeting();
    desk.hear(&[r#"{"jsonrpc":"2.0","id":0,"result":{"accepted":true}}"#]);
    desk.run([Command::Announce { session: "s".into(), cwd: "/w".into(), title: None }]);
    desk.said();
    desk.events.clear();
    desk
}

pub(crate) trait Looking {
    fn wrote(&mut self) -> Vec<String>;
    fn told(&mut self) -> Vec<String>;
}

impl Looking for Desk<Agent> {
    fn wrote(&mut self) -> Vec<String> {
        self.said().iter().map(|line| said(line)).collect()
    }

    fn told(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| word(&event)).collect()
    }
}

/// A line of ours in a few words.
fn said(line: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
    match json["params"]["state"].as_str() {
        Some(state) => format!("{state} {}", json["params"]["stopReason"].as_str().unwrap_or("-")),
        None => brief(line),
    }
}

fn word(event: &Event) -> String {
    match event {
        Event::Prompted(prompted) => format!("prompted {}", prompted.prompt[0].as_text().unwrap_or("-")),
        Event::Cancelled(session) => format!("cancelled {session}"),
        Event::SessionWanted(_, setup) => format!("wanted {}", setup.cwd),
        Event::PermissionAnswered(tag, PermissionOutcome::Cancelled) => {
            format!("answered {} cancelled", tag.0)
        }
        Event::PermissionAnswered(tag, PermissionOutcome::Selected { option_id }) => {
            format!("answered {} {option_id}", tag.0)
        }
        Event::Unanswered(tag) => format!("unanswered {}", tag.0),
        Event::TurnOver(_) => "turn over".to_owned(),
        Event::Noticed(notice) => format!("noticed {}", notice.kind()),
        Event::Closed(closed) => format!("closed {:?}", closed.cause),
        event => format!("{event:?}"),
    }
}

pub(crate) fn ask(tag: u64) -> Command {
    let option = PermissionOption { option_id: "y".into(), name: "yes".into(), kind: OptionKind::AllowOnce };
    let tool_call = Box::new(ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() });
    Command::AskPermission { tag: Tag(tag), session: "s".into(), tool_call, options: vec![option] }
}

pub(crate) fn prompt(id: u32, session: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"go"}}]}}}}"#
    )
}

pub(crate) fn start() -> Command {
    Command::StartTurn { session: "s".into() }
}

pub(crate) fn end() -> Command {
    Command::EndTurn { session: "s".into(), reason: StopReason::EndTurn }
}

pub(crate) fn say(speaker: Speaker) -> Command {
    Command::Say { session: "s".into(), speaker, text: "x".into(), message: None }
}

/// The turn that was begun last.
pub(crate) fn key(desk: &Desk<Agent>) -> agentline_core::acp::agent::TurnKey {
    match desk.events.back() {
        Some(Event::Prompted(prompted)) => prompted.turn,
        other => panic!("{other:?}"),
    }
}

// The hello.

#[test]
fn it_says_hello_and_nothing_else_before_it_is_let_in() {
    let mut desk = greeting();
    assert_eq!(
        desk.said(),
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"_botbus/hello","params":{"id":"my-agent","version":1,"pid":7,"capabilities":{"prompt":true,"cancel":true,"newSession":true}}}"#
        ]
    );
    let announce = || Command::Announce { session: "s".into(), cwd: "/w".into(), title: Some("t".into()) };
    assert_eq!(desk.command(announce()), Err(Refused::NotReady));
    desk.hear(&[&prompt(1, "s")]);
    assert_eq!(desk.wrote(), ["1 error -32600"]);
    desk.hear(&[r#"{"id":0,"result":{"accepted":true}}"#]);
    assert_eq!(desk.told(), ["Accepted"]);
    desk.run([announce()]);
    assert_eq!(
        desk.said(),
        [r#"{"jsonrpc":"2.0","method":"_botbus/session","params":{"sessionId":"s","cwd":"/w","title":"t"}}"#]
    );
}

#[test]
fn who_is_not_let_in_learns_why() {
    for (answer, fault) in [
        (r#"{"id":0,"result":{"accepted":false,"reason":"disabled"}}"#, Fault::Refused("disabled".into())),
        (r#"{"id":0,"error":{"code":-32602,"message":"no id"}}"#, Fault::Refused("no id".into())),
        (r#"{"id":0,"result":{}}"#, Fault::NotHub),
        (r#"{"id":0,"result":"yes"}"#, Fault::NotHub),
    ] {
        let mut desk = greeting();
        desk.hear(&[answer]);
        desk.heard(LinkId::FIRST, Heard::Eof);
        let Some(Event::Closed(closed)) = desk.events.back() else { panic!("{:?}", desk.events) };
        assert_eq!(closed.cause, Cause::Fault(fault), "{answer}");
        assert!(desk.ended);
    }
}

#[test]
fn where_no_hub_is_it_is_over_at_once() {
    let mut desk = Desk::<Agent>::new(config());
    desk.heard(LinkId::FIRST, Heard::OpenFailed(OpenError::NotFound));
    assert_eq!(desk.told(), ["closed Failed(NotFound)"]);
    assert!(desk.ended);
}

#[test]
fn a_hub_that_does_not_answer_the_hello_is_left_after_ten_seconds() {
    let mut desk = greeting();
    desk.pass(secs(9));
    assert_eq!(desk.told(), [""; 0]);
    desk.pass(secs(10));
    assert_eq!(desk.told(), ["closed Fault(TimedOut)"]);
}

// Its own turns.

#[test]
fn a_turn_of_its_own_has_a_beginning_and_an_end() {
    let mut desk = shown();
    assert_eq!(desk.command(end()), Err(Refused::Unknown));
    desk.run([start(), say(Speaker::User), say(Speaker::Agent)]);
    assert_eq!(desk.command(start()), Err(Refused::Busy));
    desk.run([end()]);
    assert_eq!(desk.wrote(), ["started -", "session/update s", "session/update s", "ended end_turn"]);
    assert_eq!(desk.command(Command::StartTurn { session: "x".into() }), Err(Refused::Unknown));
}

#[test]
fn fifty_sessions_are_shown() {
    let mut desk = shown();
    let announce =
        |n: usize| Command::Announce { session: (&*format!("s{n}")).into(), cwd: "/w".into(), title: None };
    desk.run((1..50).map(announce));
    assert_eq!(desk.command(announce(50)), Err(Refused::Limit("sessions of one link")));
    desk.run([announce(1)]);
}

#[test]
fn a_hub_that_reads_slowly_is_said_less() {
    let mut config = config();
    config.limits.unsent_soft = 300;
    let mut desk = Desk::<Agent>::new(config);
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk.hear(&[r#"{"id":0,"result":{"accepted":true}}"#]);
    desk.run([Command::Announce { session: "s".into(), cwd: "/w".into(), title: None }, start()]);
    desk.deaf.insert(LinkId::FIRST);
    let mut done = Ok(());
    for _ in 0..20 {
        done = desk.command(say(Speaker::Agent));
    }
    assert_eq!(done, Err(Refused::Crowded));
    desk.run([end()]);
    desk.deaf.clear();
    for _ in 0..3 {
        desk.heard(LinkId::FIRST, Heard::Written);
    }
    assert_eq!(desk.told(), ["Accepted", "Crowded", "Drained"]);
    desk.run([say(Speaker::Agent)]);
}

// Prompts.

#[test]
fn a_prompt_is_a_turn_whose_end_is_said_before_its_answer() {
    let mut desk = shown();
    desk.hear(&[&prompt(5, "s")]);
    assert_eq!(desk.wrote(), ["started -"]);
    let turn = key(&desk);
    assert_eq!(desk.command(say(Speaker::User)), Err(Refused::Invalid("the hub knows what it said")));
    let echo = Chunk { content: ContentBlock::text("go"), message_id: None, meta: None };
    let echo =
        Command::Report { session: "s".into(), update: Box::new(Update::Message(Speaker::User, echo)) };
    assert_eq!(desk.command(echo), Err(Refused::Invalid("the hub knows what it said")));
    assert_eq!(desk.command(start()), Err(Refused::Busy));
    assert_eq!(desk.command(end()), Err(Refused::Unknown));
    let stopped = || Box::new(StopReason::Refusal.into());
    desk.run([say(Speaker::Agent), Command::EndPrompt { turn, stopped: stopped() }]);
    assert_eq!(desk.wrote(), ["session/update s", "ended refusal", r#"5 {"stopReason":"refusal"}"#]);
    assert_eq!(desk.command(Command::EndPrompt { turn, stopped: stopped() }), Err(Refused::Unknown));
    desk.hear(&[&prompt(6, "s")]);
    let error = Box::new(RpcError::new(-5, "no"));
    desk.run([Command::FailPrompt { turn: key(&desk), error }]);
    assert_eq!(desk.wrote(), ["started -", "6 error -5", "ended -"]);
    desk.run([start()]);
}

#[test]
fn a_prompt_that_crossed_a_turn_of_its_own_is_refused_and_the_turn_is_said_again() {
    let mut desk = shown();
    desk.run([start()]);
    desk.hear(&[&prompt(5, "s")]);
    assert_eq!(desk.wrote(), ["started -", "5 error -32600", "ended -", "started -"]);
    desk.run([end()]);
    desk.hear(&[&prompt(6, "s"), &prompt(7, "s")]);
    assert_eq!(desk.wrote(), ["ended end_turn", "started -", "7 error -32600"]);
}

#[test]
fn what_is_not_offered_is_refused_and_not_told() {
    let mut desk = Desk::<Agent>::new(Config { capabilities: Capabilities::default(), ..config() });
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk.hear(&[r#"{"id":0,"result":{"accepted":true}}"#]);
    desk.run([Command::Announce { session: "s".into(), cwd: "/w".into(), title: None }]);
    desk.said();
    desk.hear(&[
        &prompt(1, "s"),
        r#"{"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
        r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#,
        r#"{"id":3,"method":"fs/read_text_file","params":{}}"#,
    ]);
    assert_eq!(desk.wrote(), ["1 error -32601", "2 error -32601", "3 error -32601"]);
    assert_eq!(desk.told(), ["Accepted"]);
}

#[test]
fn cancels_and_new_sessions() {
    let mut desk = shown();
    let cancel =
        |session: &str| format!(r#"{{"method":"session/cancel","params":{{"sessionId":"{session}"}}}}"#);
    desk.hear(&[&cancel("s"), &cancel("x"), r#"{"method":"session/cancel"}"#]);
    assert_eq!(desk.told(), ["cancelled s", "noticed unknown_session", "noticed bad_params"]);
    let new =
        |id: u32| format!(r#"{{"id":{id},"method":"session/new","params":{{"cwd":"/n","mcpServers":[]}}}}"#);
    desk.hear(&[&new(1), &new(2), r#"{"id":3,"method":"session/new","params":{}}"#]);
    assert_eq!(desk.wrote(), ["3 error -32602"]);
    let request = |n: u64| -> RequestKey { serde_json::from_value(serde_json::json!(n)).expect("a key") };
    desk.run([Command::OpenSession { request: request(1), session: "n".into() }]);
    desk.run([Command::FailSession { request: request(2), error: Box::new(RpcError::new(-1, "no")) }]);
    assert_eq!(desk.wrote(), [r#"1 {"sessionId":"n"}"#, "2 error -1"]);
    let again = Command::OpenSession { request: request(1), session: "n".into() };
    assert_eq!(desk.command(again), Err(Refused::Unknown));
    desk.run([Command::StartTurn { session: "n".into() }]);
}

// Questions.

#[test]
fn the_first_answer_wins() {
    let mut desk = shown();
    desk.run([ask(1)]);
    assert_eq!(desk.command(ask(1)), Err(Refused::Busy));
    desk.hear(&[r#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#]);
    assert_eq!(desk.command(Command::ResolvePermission { tag: Tag(1) }), Err(Refused::Unknown));
    desk.run([ask(2), Command::ResolvePermission { tag: Tag(2) }]);
    desk.hear(&[r#"{"id":2,"error":{"code":-32001,"message":"no answer"}}"#]);
    assert_eq!(desk.told(), ["answered 1 y"], "the terminal was first, and the rest is nothing");
    assert_eq!(
        desk.wrote(),
        ["1 session/request_permission s", "2 session/request_permission s", "_botbus/permission_resolved s"]
    );
}

#[test]
fn only_a_plain_cancel_is_one_and_everything_else_leaves_it_to_the_terminal() {
    let mut desk = shown();
    let error = format!(r#"{{"id":2,"error":{{"code":{NO_ANSWER},"message":"x"}}}}"#);
    desk.run((1..=5).map(ask));
    desk.hear(&[
        r#"{"id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#,
        &error,
        r#"{"id":3,"error":{"code":-32601,"message":"x"}}"#,
        r#"{"id":4,"result":{"outcome":{"outcome":"selected","optionId":"never-offered"}}}"#,
        r#"{"id":5,"result":"yes"}"#,
    ]);
    assert_eq!(
        desk.told(),
        ["answered 1 cancelled", "unanswered 2", "unanswered 3", "unanswered 4", "unanswered 5"]
    );
}

// The end.

#[test]
fn when_the_link_drops_the_terminal_goes_on_alone() {
    let mut desk = shown();
    desk.run([ask(1)]);
    desk.hear(&[&prompt(9, "s")]);
    desk.said();
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.told(), ["prompted go", "turn over", "unanswered 1", "closed Gone"]);
    assert!(desk.ended);
    assert_eq!(desk.command(start()), Err(Refused::Closed));
}

#[test]
fn whatever_is_no_message_costs_only_itself() {
    let mut desk = shown();
    for line in ["no", r#"{"id":77,"result":1}"#, r#"{"error":{"code":-1,"message":"x"}}"#] {
        desk.hear(&[line]);
        assert_eq!(desk.told().len(), 1, "{line}");
    }
    desk.hear(&[r#"{"method":"_botbus/later"}"#]);
    assert_eq!((desk.told(), desk.wrote()), (vec![], vec![]));
}
