//! One connection, against a double that errs as the real server does.

use agentline_core::attach::client::{Client, Command, Event};
use agentline_core::attach::{Answer, Failure, Fault, Session, Stop, Turn};
use agentline_core::place::Exposed;
use agentline_core::{Cause, OpenError};

use super::*;

/// The real server's welcome: blanks between the members, and a version that is a number.
const WELCOME: &str = r#"{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": false, "promptCapabilities": {}, "agenticaAttach": true}, "agentInfo": {"name": "agentica", "version": 1}, "agenticaAuth": "token"}}"#;

pub(super) const OWNER: Peer = Peer { pid: Some(42), uid: Some(1000) };

/// What the tests do with a client.
trait Calling {
    fn line(&mut self, line: &str);
    fn event(&mut self) -> Option<Event>;
    /// Why the connection is over, if that is the next event.
    fn cause(&mut self) -> Option<Cause<Fault>>;
    fn written(&mut self) -> String;
}

impl Calling for Desk<Client> {
    fn line(&mut self, line: &str) {
        self.send(LinkId::FIRST, format!("{line}\n").as_bytes());
    }

    fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn cause(&mut self) -> Option<Cause<Fault>> {
        match self.event() {
            Some(Event::Closed(closed)) => Some(closed.cause),
            _ => None,
        }
    }

    fn written(&mut self) -> String {
        self.read(LinkId::FIRST)
    }
}

fn opened() -> Desk<Client> {
    let mut desk = Desk::new(target());
    desk.heard(LinkId::FIRST, Heard::Opened(OWNER));
    desk
}

fn ready() -> Desk<Client> {
    let mut desk = opened();
    desk.line(WELCOME);
    let agent = AgentInfo { name: "agentica".to_owned(), version: "1".to_owned() };
    assert_eq!(desk.event(), Some(Event::Ready(agent)));
    desk.written();
    desk
}

fn say(text: &str) -> Command {
    Command::Prompt { session: None, text: text.to_owned() }
}

fn prompting() -> Desk<Client> {
    let mut desk = ready();
    desk.run([say("say PONG")]);
    desk
}

fn turn(stop: Stop, answer: Option<&str>) -> Option<Event> {
    Some(Event::Answered(Ok(Answer::Turn(Turn { stop, answer: answer.map(str::to_owned) }))))
}

#[test]
fn the_token_is_the_first_thing_sent() {
    let mut desk = opened();
    assert_eq!(
        desk.written(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\
         \"params\":{\"authToken\":\"5eb1\",\"clientCapabilities\":{}}}\n"
    );
}

#[test]
fn token_given_to_impostor_whoever_else_listens_at_the_socket_does_not_get_the_token() {
    for why in [Exposed::Owner(1001), Exposed::Peer(1001), Exposed::Link] {
        let mut desk = Desk::<Client>::new(target());
        desk.heard(LinkId::FIRST, Heard::OpenFailed(OpenError::NotPrivate(why)));
        assert_eq!(desk.written(), "");
        let cause = Cause::Failed(OpenError::NotPrivate(why));
        assert!(cause.to_string().contains(&why.to_string()), "{cause}");
        assert_eq!(desk.cause(), Some(cause));
        assert!(desk.ended);
    }
}

#[test]
fn a_full_backlog_is_tried_again() {
    let mut desk = Desk::<Client>::new(target());
    for _ in 0..10 {
        desk.connecting.pop_front().expect("another attempt");
        desk.heard(LinkId::FIRST, Heard::OpenFailed(OpenError::Busy));
        desk.pass(Duration::from_millis(200));
    }
    desk.heard(LinkId::FIRST, Heard::Opened(OWNER));
    assert!(desk.written().contains("authToken"));
}

#[test]
fn a_socket_where_nobody_listens_is_said_so() {
    let mut desk = Desk::<Client>::new(target());
    desk.heard(LinkId::FIRST, Heard::OpenFailed(OpenError::Refused));
    assert_eq!(desk.cause(), Some(Cause::Failed(OpenError::Refused)));
    assert!(desk.ended);
}

#[test]
fn a_refused_token_is_not_tried_again() {
    let mut desk = opened();
    desk.line(
        r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "authentication required"}}"#,
    );
    desk.heard(LinkId::FIRST, Heard::Eof);
    let Some(Cause::Fault(Fault::Refused(error))) = desk.cause() else { panic!("no fault") };
    assert_eq!(error.code, -32000);
    assert_eq!(desk.written().lines().count(), 1);
}

#[test]
fn a_server_that_closes_instead_of_answering_is_lost() {
    let mut desk = opened();
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.cause(), Some(Cause::Gone));
    assert!(desk.ended);
}

#[test]
fn another_version_or_another_protocol_is_a_fault() {
    for (result, fault) in [
        (r#"{"protocolVersion":2}"#, Fault::WrongVersion(2)),
        ("{}", Fault::NotAttach),
        ("[1]", Fault::NotAttach),
        ("null", Fault::NotAttach),
    ] {
        let mut desk = opened();
        desk.line(&format!(r#"{{"id":1,"result":{result}}}"#));
        desk.heard(LinkId::FIRST, Heard::Eof);
        assert_eq!(desk.cause(), Some(Cause::Fault(fault)));
    }
}

#[test]
fn a_silent_server_is_left_after_ten_seconds() {
    let mut desk = opened();
    desk.pass(Duration::from_secs(11));
    assert_eq!(desk.cause(), Some(Cause::Fault(Fault::TimedOut)));
    for command in [Command::Ping, Command::Load { session: None }] {
        let mut desk = ready();
        desk.run([command]);
        desk.pass(Duration::from_secs(11));
        let fault = Cause::Fault(Fault::TimedOut);
        assert_eq!(desk.event(), Some(Event::Answered(Err(Failure::Closed(fault.clone())))));
        assert_eq!(desk.cause(), Some(fault));
    }
}

#[test]
fn a_server_that_was_not_read_is_not_called_silent() {
    let mut desk = ready();
    desk.run([Command::Ping]);
    desk.pass(Duration::from_secs(9));
    desk.handle(Input::Hold(true));
    desk.pass(Duration::from_secs(3600));
    desk.handle(Input::Hold(false));
    desk.pass(Duration::from_millis(999));
    desk.line(r#"{"id":2,"result":{"status":"ok"}}"#);
    assert_eq!(desk.event(), Some(Event::Answered(Ok(Answer::Done {}))));
}

#[test]
fn a_prompt_waits_as_long_as_it_takes() {
    let mut desk = prompting();
    assert_eq!(
        desk.written(),
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\
         \"params\":{\"prompt\":[{\"type\":\"text\",\"text\":\"say PONG\"}]}}\n"
    );
    desk.pass(Duration::from_secs(86_400));
    desk.line(
        r#"{"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn", "agenticaAnswer": "PONG 中"}}"#,
    );
    assert_eq!(desk.event(), turn(Stop::EndTurn, Some("PONG 中")));
}

#[test]
fn each_stop_reason_is_understood() {
    for (result, stop, answer) in [
        (r#"{"stopReason":"end_turn"}"#, Stop::EndTurn, None),
        (r#"{"stopReason":"end_turn","agenticaAnswer":null}"#, Stop::EndTurn, None),
        (r#"{"stopReason":"end_turn","agenticaAnswer":7}"#, Stop::EndTurn, None),
        (r#"{"stopReason":"cancelled"}"#, Stop::Cancelled, None),
        (r#"{"stopReason":"agentica_pending","agenticaPending":true}"#, Stop::Pending, None),
        (
            r#"{"stopReason":"end_turn","agenticaPending":true,"agenticaAnswer":"so far"}"#,
            Stop::Pending,
            Some("so far"),
        ),
        (r#"{"stopReason":"max_tokens"}"#, Stop::MaxTokens, None),
    ] {
        let mut desk = prompting();
        desk.line(&format!(r#"{{"id":2,"result":{result}}}"#));
        assert_eq!(desk.event(), turn(stop, answer), "{result}");
    }
}

#[test]
fn an_answer_without_sense_fails_the_request_only() {
    for result in ["null", "{}", "[]", r#"{"stopReason":5}"#, "\"end_turn\""] {
        let mut desk = prompting();
        desk.line(&format!(r#"{{"id":2,"result":{result}}}"#));
        assert_eq!(desk.event(), Some(Event::Answered(Err(Failure::Unreadable))), "{result}");
        assert_eq!(desk.command(Command::Ping), Ok(()));
    }
}

#[test]
fn an_error_is_the_answer() {
    let mut desk = prompting();
    desk.line(r#"{"id":2,"error":{"code":-32602,"message":"no text"}}"#);
    let Some(Event::Answered(Err(Failure::Refused(error)))) = desk.event() else { panic!("no error") };
    assert_eq!((error.code, error.message.as_str()), (-32602, "no text"));
}

#[test]
fn an_error_without_an_id_is_about_the_only_line_there_is() {
    let mut desk = prompting();
    desk.line(r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "message too large"}}"#);
    assert!(matches!(desk.event(), Some(Event::Answered(Err(Failure::Refused(_))))));
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.cause(), Some(Cause::Gone));
}

#[test]
fn late_reply_after_timeout_and_noise_glued_to_frame_change_nothing() {
    let mut desk = prompting();
    for line in [
        &br#"{"jsonrpc": "2.0", "id": NaN, "result": {"stopReason": "end_turn"}}"#[..],
        br#"{"jsonrpc": "2.0", "id": Infinity, "result": {}}"#,
        br#"{"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "end_turn"}}"#,
        br#"{"jsonrpc": "2.0", "id": "2", "result": {"stopReason": "end_turn"}}"#,
        br#"{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}"#,
        br#"{"jsonrpc": "2.0", "id": null, "result": {}}"#,
        br#"{"jsonrpc": "2.0", "id": 2, "method": "session/update"}"#,
        br#"{"jsonrpc": "2.0", "method": "session/update"}"#,
        br#"warning: slow {"id": 2, "result": {"stopReason": "end_turn"}}"#,
        b"[]",
        b"\xff\xfe",
        b"Traceback (most recent call last):",
    ] {
        desk.send(LinkId::FIRST, &[line, b"\n"].concat());
        assert!(matches!(desk.event(), Some(Event::Noticed(_))), "{line:?}");
        assert_eq!(desk.event(), None);
    }
    desk.line(r#"{"id":2,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(desk.event(), turn(Stop::EndTurn, None));
}

#[test]
fn send_failure_leaves_pending_a_connection_lost_during_a_prompt_fails_it_once() {
    let mut desk = prompting();
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.event(), Some(Event::Answered(Err(Failure::Unseen(Cause::Gone)))));
    assert_eq!(desk.cause(), Some(Cause::Gone));
    assert_eq!(desk.event(), None);
    assert_eq!(desk.now.mono, Time::ZERO);
    assert_eq!(desk.command(Command::Ping), Err(Refused::Closed));
}

#[test]
fn c12_a_turn_that_failed_is_told_from_a_prompt_that_was_refused() {
    for (data, answer) in [
        (r#"{"promptSent":true}"#, Some(None)),
        (r#"{"promptSent":true,"agenticaAnswer":"so far"}"#, Some(Some("so far"))),
        (r#"{"promptSent":true,"agenticaAnswer":7}"#, Some(None)),
        (r#"{"promptSent":false}"#, None),
        (r#"{"promptSent":"yes"}"#, None),
        (r#""a traceback""#, None),
        ("null", None),
    ] {
        let mut desk = prompting();
        desk.line(&format!(r#"{{"id":2,"error":{{"code":-32603,"message":"no model","data":{data}}}}}"#));
        let Some(Event::Answered(Err(failure))) = desk.event() else { panic!("{data}") };
        match (failure, answer) {
            (Failure::TurnFailed { error, answer: told }, Some(answer)) => {
                assert_eq!((&*error.message, told.as_deref()), ("no model", answer), "{data}");
            }
            (Failure::Refused(_), None) => {}
            (failure, _) => panic!("{data}: {failure:?}"),
        }
    }
}

#[test]
fn last_line_without_lf_an_answer_without_its_line_end_counts_when_the_server_is_gone() {
    let mut desk = prompting();
    desk.send(LinkId::FIRST, br#"{"id":2,"result":{"stopReason":"end_turn"}}"#);
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.event(), turn(Stop::EndTurn, None));
}

#[test]
fn load_tells_what_the_session_is() {
    let mut desk = ready();
    desk.run([Command::Load { session: Some("sess-1".to_owned()) }]);
    assert!(desk.written().ends_with("\"params\":{\"sessionId\":\"sess-1\"}}\n"));
    desk.line(r#"{"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "sess-1", "cwd": "/p", "busy": true}}"#);
    let session = Session { session_id: "sess-1".to_owned(), cwd: "/p".to_owned(), busy: true };
    assert_eq!(desk.event(), Some(Event::Answered(Ok(Answer::Session(session.into())))));
}

#[test]
fn requests_are_made_one_at_a_time() {
    let mut desk = opened();
    assert_eq!(desk.command(say("x")), Err(Refused::NotReady));
    desk = prompting();
    for command in [say("y"), Command::Ping, Command::Load { session: None }] {
        assert_eq!(desk.command(command), Err(Refused::Busy));
    }
    assert_eq!(desk.written().lines().count(), 1);
}

#[test]
fn what_a_session_would_not_take_is_not_sent() {
    let mut desk = ready();
    assert!(matches!(desk.command(say(" \n")), Err(Refused::Invalid(_))));
    assert!(matches!(desk.command(say(&"x".repeat(8 << 20))), Err(Refused::Limit(_))));
    // Each of these takes two bytes on the wire.
    assert!(matches!(desk.command(say(&"\"".repeat(4 << 20))), Err(Refused::Limit(_))));
    assert_eq!(desk.written(), "");
    desk.run([say(&"x".repeat((8 << 20) - 200))]);
}

#[test]
fn leaving_during_a_prompt_is_quick_and_fails_it() {
    let mut desk = prompting();
    desk.run([Command::Shutdown]);
    assert_eq!(desk.event(), Some(Event::Answered(Err(Failure::Unseen(Cause::Left)))));
    desk.pass(Duration::from_millis(500));
    assert_eq!(desk.cause(), Some(Cause::Left));
    assert!(desk.ended);
}

#[test]
fn any_cut_of_the_servers_bytes_gives_the_same_events() {
    let script = format!("{WELCOME}\n\r\n{{\"id\": NaN}}\n{{\"id\": 5, \"result\": {{}}}}\nno\n");
    let seen = |cuts: [usize; 2]| {
        let mut desk = opened();
        let (mut from, bytes) = (0, script.as_bytes());
        for to in cuts.into_iter().chain([bytes.len()]) {
            desk.send(LinkId::FIRST, &bytes[from..to]);
            from = to;
        }
        desk.events
    };
    let whole = seen([0, 0]);
    for first in (0..=script.len()).step_by(3) {
        for second in first..=script.len() {
            assert_eq!(seen([first, second]), whole, "{first} {second}");
        }
    }
}
