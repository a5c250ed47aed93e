//! The hub's side, line by line.

use agentline_core::acp::{PermissionOutcome, SessionSetup};
use agentline_core::reverse::acceptor::{Acceptor, Command, Config, Event, Fault};
use agentline_core::{Cause, Heard, LinkId, Refused, Tag};
use agentline_tests::desk::Desk;

use super::{
    Looking, announce, chunk, hello, key, link, note, prompt, question, resolved, secs, taken, turn,
};

#[track_caller]
fn hears(desk: &mut Desk<Acceptor>, line: &str, told: &[&str]) {
    desk.hear(&[line]);
    assert_eq!(desk.told(), told, "{line}");
}

fn cause(desk: &Desk<Acceptor>) -> &Cause<Fault> {
    match desk.events.back() {
        Some(Event::Closed(closed)) => &closed.cause,
        other => panic!("{other:?}"),
    }
}

// Admission.

#[test]
fn what_is_said_before_the_hello_is_told_before_the_answer_is_written() {
    let mut desk = taken();
    desk.hear(&[&announce("s"), &turn("s", "started"), &hello("a", "{}")]);
    assert_eq!(desk.told(), ["hello a"]);
    assert_eq!(desk.held.get(&LinkId::FIRST), Some(&true), "it is not read while it waits");
    desk.run([Command::Accept]);
    assert_eq!(desk.told(), ["accepted", "announced s", "started there"]);
    assert_eq!(desk.wrote(), [r#""h" {"accepted":true}"#]);
    assert_eq!(desk.held.get(&LinkId::FIRST), Some(&false));
}

#[test]
fn what_comes_in_one_read_with_the_hello_waits_for_the_decision() {
    let mut desk = taken();
    let read = [hello("a", "{}"), announce("s"), question(3, "s", "c"), hello("b", "{}")].join("\n") + "\n";
    desk.send(LinkId::FIRST, read.as_bytes());
    assert_eq!((desk.told(), desk.wrote()), (vec!["hello a".to_owned()], vec![]));
    desk.run([Command::Accept]);
    assert_eq!(desk.told(), ["accepted", "announced s", "asked c"]);
    let again = r#""h" {"accepted":false,"reason":"this connection has said hello already"}"#;
    assert_eq!(desk.wrote(), [r#""h" {"accepted":true}"#, again]);
}

#[test]
fn a_hundred_notifications_wait_for_the_hello() {
    let mut desk = Desk::<Acceptor>::new(Config { kept: 3, ..Config::taken() });
    for session in ["a", "b", "c", "d"] {
        desk.hear(&[&announce(session)]);
    }
    desk.hear(&[&hello("x", "{}")]);
    desk.run([Command::Accept]);
    assert_eq!(desk.told(), ["hello x", "accepted", "announced a", "announced b", "announced c"]);
    assert_eq!(Config::taken().kept, 100);
}

#[test]
fn what_waits_for_the_hello_is_bounded_in_bytes_too() {
    let mut config = Config::taken();
    config.limits.line = 400;
    let mut desk = Desk::<Acceptor>::new(config);
    let long = note("_botbus/session", &"n".repeat(200), r#","cwd":"/w""#);
    desk.hear(&[&long, &long, &announce("s"), &hello("x", "{}")]);
    desk.run([Command::Accept]);
    assert_eq!(desk.told().len(), 4, "the hello, and one long announcement beside the short one");
}

#[test]
fn every_refusal_is_written_before_the_link_is_left() {
    for (line, answer, fault) in [
        (
            r#"{"id":"h","method":"_botbus/hello","params":{"version":1}}"#,
            r#""h" error -32602"#,
            Fault::BadHello,
        ),
        (
            r#"{"id":"h","method":"_botbus/hello","params":{"id":"a"}}"#,
            r#""h" error -32602"#,
            Fault::BadHello,
        ),
        (r#"{"id":"h","method":"_botbus/hello"}"#, r#""h" error -32602"#, Fault::BadHello),
        (
            r#"{"id":"h","method":"_botbus/hello","params":{"id":"a","version":2}}"#,
            r#""h" {"accepted":false,"reason":"only version 1 of the extension is supported"}"#,
            Fault::WrongVersion(2),
        ),
    ] {
        let mut desk = taken();
        desk.hear(&[&announce("s"), line]);
        assert_eq!(desk.wrote(), [answer], "{line}");
        assert_eq!(desk.shut, [LinkId::FIRST]);
        desk.heard(LinkId::FIRST, Heard::Eof);
        assert_eq!((cause(&desk), desk.events.len()), (&Cause::Fault(fault), 1), "nothing else was told");
    }
}

#[test]
fn an_agent_that_is_not_let_in_reads_why_and_nothing_of_it_is_told() {
    let mut desk = taken();
    desk.hear(&[&announce("s"), &hello("a", "{}")]);
    desk.run([Command::Refuse("no agent with id a found".to_owned())]);
    assert_eq!(desk.wrote(), [r#""h" {"accepted":false,"reason":"no agent with id a found"}"#]);
    assert_eq!(desk.shut, [LinkId::FIRST]);
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.told(), ["hello a", "closed Left"]);
    assert!(desk.ended);
}

#[test]
fn another_hello_is_refused_and_changes_nothing() {
    let mut desk = link();
    for (line, answer) in [
        (hello("b", "{}"), r#""h" {"accepted":false,"reason":"this connection has said hello already"}"#),
        (
            r#"{"id":"h","method":"_botbus/hello","params":{"id":"a","version":2}}"#.to_owned(),
            r#""h" {"accepted":false,"reason":"only version 1 of the extension is supported"}"#,
        ),
        (r#"{"id":"h","method":"_botbus/hello"}"#.to_owned(), r#""h" error -32602"#),
    ] {
        desk.hear(&[&line]);
        assert_eq!(desk.wrote(), [answer]);
    }
    hears(&mut desk, &announce("t"), &["announced t"]);
    assert_eq!((desk.command(Command::Accept), desk.command(Command::Refuse("x".into()))), {
        let unknown = Err(Refused::Unknown);
        (unknown, unknown)
    });
}

#[test]
fn who_says_no_hello_within_ten_seconds_is_left_without_a_word() {
    let mut desk = taken();
    desk.hear(&[&question(1, "s", "c")]);
    assert_eq!(desk.wrote(), ["1 error -32602"], "requests are answered all the same");
    desk.pass(secs(9));
    assert!(desk.shut.is_empty());
    desk.pass(secs(1));
    assert_eq!(desk.shut, [LinkId::FIRST]);
    assert_eq!(desk.wrote(), [""; 0]);
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(cause(&desk), &Cause::Fault(Fault::NoHello));
}

#[test]
fn nothing_can_be_asked_of_who_was_not_let_in() {
    let mut desk = taken();
    desk.hear(&[&hello("a", r#"{"prompt":true}"#)]);
    assert_eq!(desk.command(prompt(1)), Err(Refused::NotReady));
    assert_eq!(desk.machine.machine().offers(), None);
    desk.run([Command::Accept]);
    assert_eq!(desk.command(prompt(1)), Err(Refused::Unknown), "no such session");
}

// Sessions.

#[test]
fn fifty_sessions_and_a_known_one_again() {
    let mut desk = link();
    for n in 1..50 {
        hears(&mut desk, &announce(&format!("s{n}")), &[&format!("announced s{n}")]);
    }
    hears(&mut desk, &announce("one-more"), &["noticed bad_params"]);
    hears(&mut desk, &announce("s"), &["announced s"]);
    for bad in [
        note("_botbus/session", "", r#","cwd":"/w""#),
        note("_botbus/session", "x", ""),
        note("_botbus/session", "x", r#","cwd":"""#),
        note("_botbus/session", &"x".repeat(1025), r#","cwd":"/w""#),
    ] {
        hears(&mut desk, &bad, &["noticed bad_params"]);
    }
}

#[test]
fn what_was_not_announced_is_nobodys() {
    let mut desk = link();
    for line in [chunk("other", "agent_message_chunk", "x"), turn("other", "started"), resolved("other", "c")]
    {
        hears(&mut desk, &line, &["noticed unknown_session"]);
    }
    hears(&mut desk, &question(4, "other", "c"), &[]);
    assert_eq!(desk.wrote(), ["4 error -32001"]);
}

#[test]
fn a_line_over_the_limit_costs_only_itself() {
    let mut config = Config::taken();
    config.limits.line = 200;
    let mut desk = Desk::<Acceptor>::new(config);
    desk.hear(&[&hello("a", "{}")]);
    desk.run([Command::Accept]);
    desk.said();
    desk.events.clear();
    let long = "y".repeat(300);
    hears(&mut desk, &note("session/update", "s", &format!(r#","x":"{long}""#)), &["noticed bad_line"]);
    assert_eq!(desk.wrote(), [""; 0]);
    hears(
        &mut desk,
        &format!(r#"{{"id":8,"method":"session/request_permission","params":"{long}"}}"#),
        &["noticed bad_line"],
    );
    assert_eq!(desk.wrote(), ["8 error -32600"], "who asks need not wait for ever");
    hears(&mut desk, &announce("s"), &["announced s"]);
}

#[test]
fn whatever_is_no_message_costs_only_itself() {
    let mut desk = link();
    for line in
        ["no", "[]", "Content-Length: 7", r#"{"id":77,"result":1}"#, r#"{"error":{"code":-1,"message":"x"}}"#]
    {
        desk.hear(&[line]);
        assert_eq!(desk.told().len(), 1, "{line}");
    }
    hears(&mut desk, r#"{"method":"_amp/x"}"#, &["notified _amp/x"]);
    hears(&mut desk, r#"{"id":5,"method":"fs/read_text_file","params":{}}"#, &[]);
    assert_eq!(desk.wrote(), ["5 error -32601"]);
}

#[test]
fn extension_prefix_and_name_are_taken_as_they_are_written() {
    let mut desk = link();
    hears(&mut desk, r#"{"id":5,"method":"botbus/hello","params":{"id":"a","version":1}}"#, &[]);
    hears(&mut desk, r#"{"id":6,"method":"_botbus/unknown"}"#, &[]);
    assert_eq!(desk.wrote(), ["5 error -32601", "6 error -32601"]);
}

// Turns.

#[test]
fn a_turn_of_the_terminals() {
    let mut desk = link();
    hears(&mut desk, &turn("s", "started"), &["started there"]);
    hears(&mut desk, &turn("s", "started"), &[]);
    hears(&mut desk, &turn("s", "paused"), &[]);
    hears(&mut desk, &chunk("s", "user_message_chunk", "hi"), &["turn hi"]);
    assert_eq!(desk.command(prompt(1)), Err(Refused::Busy));
    let ended = note("_botbus/turn", "s", r#","state":"ended","stopReason":"tired""#);
    hears(&mut desk, &ended, &["ended there tired"]);
    hears(&mut desk, &turn("s", "ended"), &[]);
    hears(&mut desk, &chunk("s", "agent_message_chunk", "late"), &["between late"]);
}

#[test]
fn a_prompt_of_ours_has_no_echo_and_one_end() {
    let mut desk = link();
    desk.run([prompt(1)]);
    assert_eq!(
        desk.said(),
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}"#
        ]
    );
    hears(&mut desk, &chunk("s", "user_message_chunk", "go"), &["started 1"]);
    hears(&mut desk, &chunk("s", "agent_message_chunk", "ok"), &["turn ok"]);
    hears(&mut desk, r#"{"id":0,"result":{"stopReason":"refusal"}}"#, &["ended 1 refusal"]);
    desk.run([prompt(2)]);
    hears(&mut desk, r#"{"id":1,"result":{}}"#, &["started 2", "ended 2 end_turn"]);
    desk.run([prompt(3)]);
    desk.hear(&[r#"{"id":2,"error":{"code":-5,"message":"no"}}"#]);
    assert!(desk.told()[1].starts_with("ended 3 Rpc"));
}

#[test]
fn whichever_end_comes_first_counts_and_the_other_ends_no_other_turn() {
    let mut desk = link();
    desk.run([prompt(1)]);
    hears(&mut desk, &turn("s", "ended"), &["started 1", "ended 1 end_turn"]);
    desk.run([prompt(2)]);
    hears(&mut desk, r#"{"id":0,"result":{"stopReason":"end_turn"}}"#, &["started 2"]);
    hears(&mut desk, r#"{"id":1,"result":{"stopReason":"end_turn"}}"#, &["ended 2 end_turn"]);
    hears(&mut desk, &turn("s", "ended"), &[]);
}

#[test]
fn a_late_end_ends_no_newer_turn() {
    // The agent says nothing of beginnings in turns of ours, and says the end behind its answer.
    let mut desk = link();
    desk.run([prompt(1)]);
    hears(&mut desk, r#"{"id":0,"result":{}}"#, &["started 1", "ended 1 end_turn"]);
    desk.run([prompt(2)]);
    hears(&mut desk, &turn("s", "ended"), &["started 2"]);
    hears(&mut desk, &turn("s", "ended"), &["ended 2 end_turn"]);
    // It says both; its own next turn has begun before the late end is read.
    desk.run([prompt(3)]);
    hears(&mut desk, &turn("s", "started"), &["started 3"]);
    hears(&mut desk, r#"{"id":2,"result":{}}"#, &["ended 3 end_turn"]);
    hears(&mut desk, &turn("s", "started"), &["started there"]);
    hears(&mut desk, &turn("s", "ended"), &[]);
    hears(&mut desk, &turn("s", "ended"), &["ended there end_turn"]);
    // It says none for turns of ours: its own end counts.
    desk.run([prompt(4)]);
    hears(&mut desk, r#"{"id":3,"result":{}}"#, &["started 4", "ended 4 end_turn"]);
    hears(&mut desk, &turn("s", "started"), &["started there"]);
    hears(&mut desk, &turn("s", "ended"), &["ended there end_turn"]);
}

#[test]
fn an_agent_that_never_answers_a_prompt_takes_no_room() {
    let mut desk = link();
    for n in 0..1100 {
        desk.run([prompt(n)]);
        desk.hear(&[&turn("s", "ended")]);
    }
    assert_eq!(desk.told().len(), 2200);
}

#[test]
fn a_tag_names_one_prompt_or_new_session() {
    let mut desk = link();
    desk.hear(&[&announce("t")]);
    desk.run([prompt(1), Command::NewSession { tag: Tag(2), setup: Box::default() }]);
    let say = |tag| Command::Prompt { tag: Tag(tag), session: "t".into(), text: "go".into() };
    assert_eq!((desk.command(say(1)), desk.command(say(2))), (Err(Refused::Busy), Err(Refused::Busy)));
    desk.run([say(3)]);
}

#[test]
fn a_prompt_that_cannot_be_is_refused_before_a_byte() {
    let mut desk = link();
    let say = |session: &str, text: &str| Command::Prompt {
        tag: Tag(1),
        session: session.into(),
        text: text.into(),
    };
    assert_eq!(desk.command(say("s", " \n")), Err(Refused::Invalid("the prompt holds no text")));
    assert_eq!(desk.command(say("x", "go")), Err(Refused::Unknown));
    let long = "x".repeat(17 << 20);
    assert_eq!(desk.command(say("s", &long)), Err(Refused::Limit("bytes of one line")));
    desk.run([say("s", "go")]);
    assert_eq!(desk.command(prompt(2)), Err(Refused::Busy));
    assert_eq!(desk.wrote().len(), 1);
}

#[test]
fn what_was_not_declared_is_not_asked() {
    let mut desk = taken();
    desk.hear(&[&hello("a", r#"{"prompt":"yes","cancel":1}"#)]);
    desk.run([Command::Accept]);
    desk.hear(&[&announce("s")]);
    desk.said();
    let setup = Box::new(SessionSetup::in_directory("/w"));
    assert_eq!(desk.command(prompt(1)), Err(Refused::NotOffered("prompts")));
    assert_eq!(desk.command(Command::Cancel { session: "s".into() }), Err(Refused::NotOffered("cancelling")));
    assert_eq!(
        desk.command(Command::NewSession { tag: Tag(1), setup }),
        Err(Refused::NotOffered("new sessions"))
    );
    assert_eq!(desk.wrote(), [""; 0]);
}

// Questions.

#[test]
fn a_question_is_answered_once_by_an_offered_option() {
    let mut desk = link();
    let call =
        r#","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"rm -r /","kind":"execute"}"#;
    desk.hear(&[&note("session/update", "s", call), &question(1, "s", "c")]);
    let request = key(&desk);
    let Some(Event::PermissionAsked(asked)) = desk.events.back() else { panic!("{:?}", desk.events) };
    assert_eq!(asked.asked.tool_call.title.as_deref(), Some("rm -r /"), "what was announced is put in");
    let choose = |option: &str| Command::Answer { request, outcome: PermissionOutcome::selected(option) };
    assert_eq!(desk.command(choose("z")), Err(Refused::Invalid("that option was not offered")));
    desk.run([choose("n")]);
    assert_eq!(desk.wrote(), ["1 n"]);
    assert_eq!(desk.command(choose("n")), Err(Refused::Unknown));
    desk.hear(&[&turn("s", "started"), &turn("s", "ended"), &question(2, "s", "c")]);
    let Some(Event::PermissionAsked(asked)) = desk.events.back() else { panic!("{:?}", desk.events) };
    assert_eq!(asked.asked.tool_call.title, None, "a call of an earlier turn is another one");
    desk.run([Command::NoAnswer { request: key(&desk) }]);
    assert_eq!(desk.wrote(), ["2 error -32001"]);
}

#[test]
fn a_newer_question_takes_the_place_of_an_older_one() {
    let mut desk = link();
    desk.hear(&[&question(1, "s", "c1"), &question(2, "s", "c2")]);
    assert_eq!(desk.told(), ["asked c1", "settled Overtaken", "asked c2"]);
    assert_eq!(desk.wrote(), ["1 error -32001"]);
    hears(&mut desk, &turn("s", "ended"), &["settled TurnOver"]);
    assert_eq!(desk.wrote(), ["2 error -32001"]);
}

#[test]
fn a_turn_that_begins_or_ends_leaves_the_question_to_the_terminal() {
    let mut desk = link();
    desk.hear(&[&question(1, "s", "c"), &turn("s", "started"), &question(2, "s", "c"), &turn("s", "ended")]);
    assert_eq!(
        desk.told(),
        [
            "asked c",
            "settled TurnOver",
            "started there",
            "asked c",
            "settled TurnOver",
            "ended there end_turn"
        ]
    );
    assert_eq!(desk.wrote(), ["1 error -32001", "2 error -32001"]);
    desk.hear(&[&question(3, "s", "c")]);
    desk.run([prompt(1)]);
    assert_eq!(desk.told(), ["asked c", "settled TurnOver", "started 1"]);
    assert_eq!(desk.wrote(), ["0 session/prompt s", "3 error -32001"]);
    desk.hear(&[&question(4, "s", "c"), r#"{"id":0,"result":{}}"#]);
    assert_eq!(desk.told(), ["asked c", "settled TurnOver", "ended 1 end_turn"]);
}

#[test]
fn the_terminal_may_be_first_before_and_after_the_question() {
    let mut desk = link();
    desk.hear(&[&turn("s", "started"), &question(1, "s", "c"), &resolved("s", "c")]);
    assert_eq!(desk.told(), ["started there", "asked c", "settled InTerminal"]);
    assert_eq!(desk.wrote(), ["1 error -32001"]);
    desk.hear(&[&resolved("s", "d"), &question(2, "s", "d")]);
    assert_eq!((desk.told(), desk.wrote()), (vec![], vec!["2 error -32001".to_owned()]));
    // Of another call; and it holds for one question.
    desk.hear(&[&resolved("s", "e"), &question(3, "s", "f"), &question(4, "s", "e"), &question(5, "s", "e")]);
    assert_eq!(desk.told(), ["asked f", "settled Overtaken", "asked e"]);
    assert_eq!(desk.wrote(), ["4 error -32001", "3 error -32001"]);
}

#[test]
fn a_decision_of_an_older_turn_decides_nothing() {
    for begin in [turn("s", "started"), String::new()] {
        let mut desk = link();
        desk.hear(&[&resolved("s", "c")]);
        if begin.is_empty() {
            desk.run([prompt(1)]);
        } else {
            desk.hear(&[&begin]);
        }
        desk.hear(&[&question(2, "s", "c")]);
        assert_eq!(desk.told().last().map(String::as_str), Some("asked c"));
        desk.hear(&[&resolved("s", "d"), &turn("s", "ended"), &turn("s", "started"), &question(3, "s", "d")]);
        assert_eq!(desk.told().last().map(String::as_str), Some("asked d"));
    }
}

#[test]
fn a_cancel_answers_the_question_first_and_ends_no_turn() {
    let mut desk = link();
    desk.hear(&[&turn("s", "started"), &question(1, "s", "c")]);
    desk.run([Command::Cancel { session: "s".into() }]);
    assert_eq!(desk.wrote(), ["1 cancelled", "session/cancel s"]);
    assert_eq!(desk.told(), ["started there", "asked c", "settled Cancelled"]);
    hears(
        &mut desk,
        &note("_botbus/turn", "s", r#","state":"ended","stopReason":"cancelled""#),
        &["ended there cancelled"],
    );
    desk.run([Command::Cancel { session: "s".into() }]);
    assert_eq!(desk.wrote(), ["session/cancel s"], "the terminal may know better");
    assert_eq!(desk.command(Command::Cancel { session: "x".into() }), Err(Refused::Unknown));
}

#[test]
fn what_is_kept_of_a_question_is_bounded() {
    let mut desk = link();
    hears(&mut desk, &question(1, "s", &"c".repeat(70_000)), &["noticed bad_params"]);
    hears(&mut desk, &resolved("s", &"c".repeat(70_000)), &["noticed bad_params"]);
    hears(
        &mut desk,
        r#"{"id":2,"method":"session/request_permission","params":{"sessionId":"s"}}"#,
        &["noticed bad_params"],
    );
    assert_eq!(desk.wrote(), ["1 error -32602", "2 error -32602"]);
}

// New sessions.

#[test]
fn a_new_session_is_that_which_was_announced_meanwhile() {
    let mut desk = link();
    let new = |tag| Command::NewSession { tag: Tag(tag), setup: Box::new(SessionSetup::in_directory("/n")) };
    desk.run([new(1)]);
    assert_eq!(desk.command(new(1)), Err(Refused::Busy));
    assert_eq!(
        desk.said(),
        [r#"{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/n","mcpServers":[]}}"#]
    );
    hears(&mut desk, &announce("n"), &["announced n"]);
    hears(&mut desk, r#"{"id":0,"result":{"sessionId":"n"}}"#, &["opened 1 n"]);
    desk.run([new(1), Command::Prompt { tag: Tag(2), session: "n".into(), text: "go".into() }]);
    hears(
        &mut desk,
        r#"{"id":1,"result":{"sessionId":""}}"#,
        &["started 2", r#"failed 1 Unreadable("no session id")"#],
    );
    desk.run([new(3)]);
    hears(
        &mut desk,
        r#"{"id":3,"error":{"code":-32000,"message":"log in"}}"#,
        &[r#"failed 3 Rpc(RpcError { code: -32000, message: "log in", data: None })"#],
    );
    desk.run([new(4)]);
    desk.pass(secs(60));
    assert!(desk.told()[0].starts_with("failed 4 TimedOut"));
    hears(&mut desk, r#"{"id":4,"result":{"sessionId":"late"}}"#, &[]);
}

// The end.

#[test]
fn a_link_that_is_lost_ends_questions_turns_and_requests_in_this_order() {
    let mut desk = link();
    desk.hear(&[&announce("t"), &turn("t", "started"), &question(1, "t", "c")]);
    desk.run([prompt(1), Command::NewSession { tag: Tag(2), setup: Box::default() }]);
    desk.events.clear();
    desk.said();
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(
        desk.told(),
        [
            "settled Lost",
            "ended 1 Disconnected",
            "ended there Disconnected",
            "failed 2 Disconnected",
            "closed Gone"
        ]
    );
    assert_eq!(desk.wrote(), ["1 error -32001"], "nobody has cancelled");
    assert!(desk.ended);
    assert_eq!(desk.command(prompt(3)), Err(Refused::Closed));
}

#[test]
fn who_leaves_has_no_answer_to_what_is_open() {
    let mut desk = link();
    desk.hear(&[&turn("s", "started"), &question(1, "s", "c")]);
    desk.run([Command::Leave]);
    assert_eq!(desk.wrote(), ["1 error -32001"], "the terminal goes on asking");
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(
        desk.told(),
        ["started there", "asked c", "settled Lost", "ended there Shutdown", "closed Left"]
    );
}

#[test]
fn bytes_and_end_in_one_breath_are_both_told() {
    let mut desk = link();
    desk.send(
        LinkId::FIRST,
        format!("{}\n{}", turn("s", "started"), chunk("s", "agent_message_chunk", "x")).as_bytes(),
    );
    desk.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(desk.told(), ["started there", "turn x", "ended there Disconnected", "closed Gone"]);
}

#[test]
fn an_agent_that_does_not_read_is_left() {
    let mut config = Config::taken();
    config.limits.unsent_hard = 1000;
    let mut desk = Desk::<Acceptor>::new(config);
    desk.hear(&[&hello("a", "{}")]);
    desk.run([Command::Accept]);
    desk.deaf.insert(LinkId::FIRST);
    let questions: String = (0..30).map(|n| question(n, "x", "c") + "\n").collect();
    desk.send(LinkId::FIRST, questions.as_bytes());
    desk.pass(secs(20));
    assert_eq!(cause(&desk), &Cause::Fault(Fault::NotReading));
}
