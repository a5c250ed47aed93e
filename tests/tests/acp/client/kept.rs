//! What a client keeps of its agent: enough to show what is asked, and never more than its budget.

use agentline_core::acp::client::Clock;
use agentline_core::acp::update::ToolKind;
use agentline_core::acp::{OptionKind, PermissionRequest};

use super::*;

fn asked(rig: &mut Rig<Client>) -> PermissionRequest {
    let ask = rig
        .told()
        .into_iter()
        .find_map(|event| if let Event::PermissionAsked(asked) = event { Some(asked.asked) } else { None });
    ask.expect("a question")
}

fn update(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

fn permission(id: u64, session: &str, call: &str, options: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{call},"options":{options}}}}}"#
    )
}

const YES: &str = r#"[{"optionId":"y","name":"Yes","kind":"allow_once"}]"#;

#[test]
fn c8_a_permission_that_names_a_call_by_its_id_is_shown_with_what_was_announced() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&update(
        "s",
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"rm -rf build","kind":"delete","rawInput":{"path":"build"}}"#,
    ));
    rig.hear(&permission(5, "s", r#"{"toolCallId":"c"}"#, YES));
    let call = asked(&mut rig).tool_call;
    assert_eq!((call.title.as_deref(), call.kind), (Some("rm -rf build"), Some(ToolKind::Delete)));
    assert_eq!(call.raw_input.as_ref().map(Json::get), Some(r#"{"path":"build"}"#));
    // What was said last counts, and what the request says itself counts more.
    rig.hear(&update("s", r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"rm -rf dist"}"#));
    rig.hear(&update("s", r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress"}"#));
    rig.hear(&permission(6, "s", r#"{"toolCallId":"c","kind":"execute"}"#, YES));
    let call = asked(&mut rig).tool_call;
    assert_eq!((call.title.as_deref(), call.kind), (Some("rm -rf dist"), Some(ToolKind::Execute)));
    // A call of an earlier turn, or of another session, is another one.
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    rig.command(prompt(8)).unwrap();
    rig.hear(&permission(7, "s", r#"{"toolCallId":"c"}"#, YES));
    assert_eq!(asked(&mut rig).tool_call.title, None);
}

#[test]
fn d6_an_option_without_a_name_or_a_kind_costs_nothing_but_itself() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    let options = r#"[{"optionId":"a"},{"optionId":"b","name":7,"kind":null},{"name":"none"},7,{"optionId":"y","name":"Yes","kind":"allow_once"}]"#;
    rig.hear(&permission(5, "s", r#"{"toolCallId":"c"}"#, options));
    let asked = asked(&mut rig);
    let shown: Vec<(&str, &str)> =
        asked.options.iter().map(|option| (&*option.name, option.kind.as_str())).collect();
    assert_eq!(shown, [("a", "other"), ("b", "other"), ("Yes", "allow_once")]);
    let policy =
        [OptionKind::AllowOnce, OptionKind::AllowAlways, OptionKind::RejectOnce, OptionKind::RejectAlways];
    assert_eq!(asked.first_of(&policy).map(|option| &*option.option_id), Some("y"));
}

#[test]
fn b2_setup_60s_without_a_knob_news_of_the_agent_gives_a_session_that_is_opened_more_time() {
    let more = r#"{"jsonrpc":"2.0","method":"_x/still/fetching"}"#;
    for noise in ["", "npm warn", "{}"] {
        let mut rig = Rig::<Client>::ready();
        rig.command(open(1, Which::New)).unwrap();
        for _ in 0..25 {
            rig.wait(Duration::from_secs(3));
            rig.hear(more);
        }
        rig.told();
        // Noise is no news.
        rig.wait(Duration::from_secs(30));
        rig.hear(noise);
        rig.told();
        rig.wait(Duration::from_millis(29_999));
        assert_eq!(rig.told(), []);
        rig.wait(Duration::from_millis(1));
        let after = Duration::from_secs(60);
        assert!(
            matches!(rig.event(), Event::Failed(Tag(1), why) if *why == Failure::TimedOut { clock: Clock::Session, after })
        );
    }
    assert_eq!(Clock::Session.as_str(), "session");
}

#[test]
fn c4_an_answer_that_fits_nothing_says_what_was_waited_for() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(r#"{"jsonrpc":"2.0","id":"2","result":{"stopReason":"end_turn"}}"#);
    let Event::Noticed(notice) = rig.event() else { panic!("no notice") };
    assert_eq!(*notice, Notice::Orphan { id: "\"2\"".into(), open: vec![2] });
    rig.hear(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#);
    let Event::Noticed(notice) = rig.event() else { panic!("no notice") };
    assert_eq!(*notice, Notice::Complaint { error: RpcError::new(-32700, "m"), open: vec![2] });
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    rig.told();
    rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, "x".repeat(900)));
    let Event::Noticed(notice) = rig.event() else { panic!("no notice") };
    assert!(matches!(*notice, Notice::Orphan { id, open } if id.chars().count() == 201 && open.is_empty()));
}

#[test]
fn c11_question_from_a_child_session_a_question_of_a_child_session_ends_with_the_turn_it_came_in() {
    let child = permission(5, "child-1", r#"{"toolCallId":"c"}"#, YES);
    let cancelled = r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#;
    // Asked and answered as any other.
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.written();
    rig.hear(&child);
    let request = keys(&rig.told())[0];
    rig.command(Command::Answer { request, outcome: PermissionOutcome::selected("y") }).unwrap();
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#
    );
    // Cancelled with the turn, or ended with it, and not asked in a turn that is over for us.
    for end in [true, false] {
        rig.hear(&child);
        rig.told();
        rig.written();
        if end {
            rig.command(cancel()).unwrap();
            assert_eq!(rig.written().last().map(String::as_str), Some(cancelled));
            rig.hear(&child);
            assert_eq!(rig.line(), cancelled);
        }
        rig.hear(&result(if end { 2 } else { 3 }, r#"{"stopReason":"cancelled"}"#));
        if end {
            rig.command(prompt(8)).unwrap();
            rig.told();
        } else {
            assert_eq!(rig.line(), cancelled);
            assert!(matches!(&rig.told()[..], [Event::Withdrawn(_), Event::TurnEnded(_)]));
        }
    }
    // The questions of a turn that goes on stay.
    let mut rig = Rig::<Client>::with_sessions(given(), &["s", "t"]);
    rig.command(prompt(7)).unwrap();
    rig.command(Command::Prompt { tag: Tag(8), session: "t".into(), prompt: vec![ContentBlock::text("x")] })
        .unwrap();
    rig.hear(&permission(6, "t", r#"{"toolCallId":"c"}"#, YES));
    rig.written();
    rig.command(cancel()).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
}

#[test]
fn g2_what_open_questions_keep_has_a_budget() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.written();
    let options = format!(r#"[{{"optionId":"{}","name":"Yes","kind":"allow_once"}}]"#, "y".repeat(60_000));
    for id in 0..40 {
        rig.hear(&permission(id, "s", r#"{"toolCallId":"c"}"#, &options));
    }
    let refused = rig.written();
    assert!(refused.len() > 20, "{}", refused.len());
    assert!(refused.iter().all(|line| line.contains("too many open requests")), "{refused:?}");
    // An option costs something even when its id is nothing.
    let many = format!("[{}]", vec![r#"{"optionId":""}"#; 2000].join(","));
    rig.hear(&permission(99, "s", r#"{"toolCallId":"c"}"#, &many));
    assert!(rig.line().contains("ids of more than 64 KiB"));
    // What is answered makes room.
    for request in keys(&rig.told()) {
        rig.command(Command::Answer { request, outcome: PermissionOutcome::Cancelled }).unwrap();
    }
    rig.written();
    rig.hear(&permission(100, "s", r#"{"toolCallId":"c"}"#, &options));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn g2_an_endless_session_id_is_not_kept() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::New)).unwrap();
    rig.hear(&result(1, &format!(r#"{{"sessionId":"{}"}}"#, "s".repeat(9000))));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if matches!(*why, Failure::Unreadable(_))));
}

#[test]
fn what_we_say_ourselves_makes_no_agent_deaf() {
    let limits = Limits { line: 10_000, unsent_hard: 15_000, ..Limits::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { limits, ..given() }, &["s", "t"]);
    rig.deafen();
    let say = |tag, session: &str| Command::Prompt {
        tag: Tag(tag),
        session: session.into(),
        prompt: vec![ContentBlock::text("x".repeat(9000))],
    };
    rig.command(say(7, "s")).unwrap();
    assert_eq!(rig.command(say(8, "t")), Err(Refused::Crowded));
    assert_eq!(rig.told(), []);
    rig.undeafen();
    rig.command(say(8, "t")).unwrap();
}
