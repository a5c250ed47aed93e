//! Turns, and their ends of every kind.

use super::*;

#[test]
fn last_line_without_lf_a_turn_ends_with_the_last_line_though_it_has_no_end() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.link(Heard::Bytes(result(2, r#"{"stopReason":"end_turn"}"#).as_bytes()));
    assert_eq!(rig.told(), []);
    rig.link(Heard::Eof);
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::EndTurn))]);
}

#[test]
fn truncated_final_record_exit_0_a_stream_that_breaks_off_within_a_line_ends_the_turn_as_disconnected() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.link(Heard::Bytes(br#"{"jsonrpc":"2.0","id":2,"resu"#));
    rig.link(Heard::Eof);
    let told = rig.told();
    assert_eq!(word(&told[0]), "bad line: not JSON");
    assert_eq!(ends(&told), [(7, Err(Failure::Disconnected))]);
}

#[test]
fn reply_and_update_same_read_text_and_answer_in_one_read_come_out_in_order() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    let both = format!("{}\n{}\n", text("s", "done"), result(2, r#"{"stopReason":"end_turn"}"#));
    rig.link(Heard::Bytes(both.as_bytes()));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["text done", "ended 7 end_turn"]);
}

#[test]
fn completion_before_state_reset_a_prompt_can_follow_at_once_on_the_end_of_a_turn() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.command(prompt(7)), Ok(()));
}

#[test]
fn cancel_hits_next_prompt_a_cancel_tells_the_agent_first_and_then_gives_up_its_questions() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.hear(&ask("\"u-1\""));
    let asked = keys(&rig.told());
    rig.written();
    rig.command(cancel()).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            r#"{"jsonrpc":"2.0","id":"u-1","result":{"outcome":{"outcome":"cancelled"}}}"#,
        ]
    );
    assert_eq!(rig.told(), asked.iter().map(|key| Event::Withdrawn(*key)).collect::<Vec<_>>());
    let outcome = PermissionOutcome::selected("y");
    assert_eq!(rig.command(Command::Answer { request: asked[0], outcome }), Err(Refused::Unknown));
    // A question that was on its way gets the same answer, and nobody is asked.
    rig.hear(&ask("5"));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    assert_eq!(rig.told(), []);
    // Once per turn: a second cancel could hit the turn after this one.
    assert_eq!(rig.command(cancel()), Ok(()));
    assert_eq!(rig.written(), [""; 0]);
    // The agent was faster: its own end counts.
    rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::EndTurn))]);
    rig.command(prompt(8)).unwrap();
    rig.hear(&ask("6"));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn a_cancelled_prompt_may_be_answered_as_a_cancelled_request() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.hear(&error(2, code::CANCELLED));
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::Cancelled))]);
    // Of its own accord it is a failure like any other.
    rig.command(prompt(8)).unwrap();
    rig.hear(&error(3, code::CANCELLED));
    assert!(matches!(&ends(&rig.told())[..], [(8, Err(Failure::Rpc(_)))]));
}

#[test]
fn cancel_wedges_session_a_turn_that_was_given_up_asks_nobody_any_more() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.wait(Duration::from_secs(5));
    assert_eq!(ends(&rig.told()), [(7, Err(Failure::Unconfirmed { after: Duration::from_secs(5) }))]);
    rig.written();
    rig.hear(&ask("5"));
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    // The late answer ends it, and is told by the names that the turn had.
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(word(&rig.event()), "late end of 7 in s");
    rig.hear(&ask("6"));
    assert_eq!(keys(&rig.told()).len(), 1);
}

#[test]
fn silence_during_a_turn_is_counted_from_the_last_word_of_either_side() {
    let timeouts = Timeouts { silence: Some(Duration::from_secs(10)), ..Timeouts::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { timeouts, ..given() }, &["s"]);
    rig.wait(Duration::from_secs(60));
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    // The user thinks about it for an hour.
    rig.wait(Duration::from_secs(3600));
    let request = keys(&rig.told())[0];
    rig.command(Command::Answer { request, outcome: PermissionOutcome::selected("y") }).unwrap();
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    rig.written();
    rig.wait(Duration::from_secs(1));
    assert_eq!(ends(&rig.told()), [(7, Err(Failure::Silent { after: Duration::from_secs(10) }))]);
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
}

#[test]
fn to_withdraw_a_prompt_is_to_cancel_its_turn() {
    let mut rig = one_session();
    rig.command(prompt(1)).unwrap();
    rig.written();
    rig.command(Command::Withdraw { tag: Tag(1) }).unwrap();
    assert_eq!(rig.line(), r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(ends(&rig.told()), [(1, Ok(StopReason::Cancelled))]);
}

#[test]
fn who_leaves_answers_what_is_open_and_fails_what_waits() {
    let mut config = given();
    config.capabilities.fs.read_text_file = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s", "t"]);
    rig.command(prompt(7)).unwrap();
    rig.command(Command::ListSessions { tag: Tag(8), cwd: None, cursor: None }).unwrap();
    rig.hear(&ask("0"));
    rig.hear(
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
    );
    rig.told();
    rig.written();
    rig.command(Command::Shutdown).unwrap();
    assert_eq!(
        rig.written(),
        [
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
            r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"request cancelled"}}"#,
        ]
    );
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["withdrawn", "withdrawn", "ended 7 Shutdown", "failed 8 Shutdown", "closed None"]);
}

#[test]
fn an_agent_that_ends_by_itself_fails_everything_once() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.link(Heard::Exited(Exit::Code(3)));
    rig.link(Heard::Eof);
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["withdrawn", "ended 7 Disconnected", "closed None"]);
}

#[test]
fn what_an_agent_cannot_hear_is_refused() {
    let mut rig = one_session();
    rig.link(Heard::WriteFailed);
    assert_eq!(rig.command(prompt(7)), Err(Refused::Closed));
}

#[test]
fn error_reply_then_exit_counts_and_no_crash_looks_like_clean_eof() {
    let spec = SpawnSpec { stderr: Stderr::Pipe, ..SpawnSpec::default() };
    let mut rig = Rig::<Client>::ready_with(Config::new(Open::spawn(spec)), "{}");
    rig.command(open(1, Which::New)).unwrap();
    rig.link(Heard::Stderr(b"please log in\n"));
    rig.link(Heard::Exited(Exit::Code(42)));
    rig.link(Heard::Bytes(format!("{}\n", error(1, code::AUTH_REQUIRED)).as_bytes()));
    rig.link(Heard::Eof);
    rig.link(Heard::Group(Group::Gone));
    let told = rig.told();
    let words: Vec<String> = told.iter().map(word).collect();
    assert!(matches!(&told[1], Event::Failed(Tag(1), why) if matches!(**why, Failure::Rpc(_))), "{words:?}");
    let Some(Event::Closed(closed)) = told.last() else { panic!("{words:?}") };
    assert_eq!(closed.obituary.exit, Some(Exit::Code(42)));
    assert_eq!(closed.obituary.stderr_tail, "please log in\n");
}

#[test]
fn a_question_on_another_session_excuses_silence_until_it_is_given_up() {
    let timeouts = Timeouts { silence: Some(Duration::from_secs(10)), cancel: None, ..Timeouts::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { timeouts, ..given() }, &["s", "t"]);
    rig.command(prompt(7)).unwrap();
    rig.command(Command::Prompt { tag: Tag(8), session: "t".into(), prompt: vec![] }).unwrap();
    rig.hear(&ask("0"));
    rig.wait(Duration::from_secs(3600));
    rig.command(cancel()).unwrap();
    rig.told();
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    rig.wait(Duration::from_secs(1));
    assert_eq!(ends(&rig.told()), [(8, Err(Failure::Silent { after: Duration::from_secs(10) }))]);
}

/// Whose words they are cannot be told from the wire: who sends the next prompt before the late end cannot either.
#[test]
fn the_late_end_of_a_turn_is_told_by_its_names_also_during_the_next() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.wait(Duration::from_secs(5));
    rig.command(prompt(8)).unwrap();
    rig.told();
    rig.hear(&text("s", "old"));
    assert!(matches!(rig.event(), Event::Text(text) if text.moment == Moment::Turn));
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(word(&rig.event()), "late end of 7 in s");
    rig.hear(&result(2, r#"{"stopReason":"cancelled"}"#));
    assert_eq!(word(&rig.event()), "orphan 2");
    rig.hear(&result(3, r#"{"stopReason":"end_turn"}"#));
    assert_eq!(ends(&rig.told()), [(8, Ok(StopReason::EndTurn))]);
}

#[test]
fn whatever_is_not_bare_text_is_told_as_it_was_written() {
    let mut rig = Rig::<Client>::with_sessions(Config { whole: true, ..given() }, &["s"]);
    let bare =
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}, "messageId":"m"}"#;
    let more = [
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t","annotations":{"audience":["user"]}}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t","_meta":{"a":1}}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"},"_meta":{"a" : 1}}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"T","status":"odd","future":[1, 2]}"#,
        r#"{"sessionUpdate":"of_the_future"}"#,
    ];
    let hear = |rig: &mut Rig<Client>, update: &str| {
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        ));
    };
    hear(&mut rig, bare);
    assert_eq!(word(&rig.event()), "text t");
    for update in more {
        hear(&mut rig, update);
        let Event::Updated(updated) = rig.event() else { panic!("not all of it: {update}") };
        assert_eq!(updated.raw.get(), update);
    }
}
