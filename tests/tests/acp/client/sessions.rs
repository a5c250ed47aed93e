//! Sessions: opened, spoken to, closed.

use super::*;

#[test]
fn update_before_session_known_a_new_session_may_speak_before_its_id_is_told() {
    let mut rig = Rig::<Client>::ready();
    rig.hear(&text("s", "too early"));
    assert_eq!(word(&rig.event()), "unknown session s");
    rig.command(open(1, Which::New)).unwrap();
    rig.hear(&text("s", "early"));
    rig.hear(&result(1, r#"{"sessionId":"s"}"#));
    rig.hear(&text("s", "late"));
    rig.hear(&text("other", "lost"));
    let told = rig.told();
    let words: Vec<String> = told.iter().map(word).collect();
    assert_eq!(words, ["text early", "answered 1", "text late", "unknown session other"]);
    for event in &told {
        assert!(!matches!(event, Event::Text(text) if text.moment != Moment::Between));
    }
}

#[test]
fn two_session_new_race_sessions_that_are_opened_at_once_are_told_apart_by_request() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::New)).unwrap();
    rig.command(open(2, Which::New)).unwrap();
    rig.hear(&result(2, r#"{"sessionId":"b"}"#));
    rig.hear(&result(1, r#"{"sessionId":"a"}"#));
    rig.hear(&text("a", "of a"));
    rig.hear(&text("b", "of b"));
    let told = rig.told();
    let opened: Vec<(u64, &str)> = told
        .iter()
        .filter_map(|event| {
            let Event::Answered(tag, answer) = event else { return None };
            let Answer::SessionOpened { session, .. } = &**answer else { return None };
            Some((tag.0, session.as_str()))
        })
        .collect();
    assert_eq!(opened, [(2, "b"), (1, "a")]);
    assert_eq!(told.iter().map(word).collect::<Vec<_>>()[2..], ["text of a", "text of b"]);
}

#[test]
fn history_replay_as_live_history_is_told_from_news_and_its_window_closes_on_every_outcome() {
    for (answer, opened) in [(result(1, "null"), true), (error(1, -32002), false)] {
        let mut rig = Rig::<Client>::ready();
        rig.command(open(1, Which::Load("s".into()))).unwrap();
        assert_eq!(rig.command(prompt(2)), Err(Refused::NotReady));
        rig.hear(&text("s", "old"));
        rig.hear(&answer);
        rig.hear(&text("s", "new"));
        let told = rig.told();
        assert!(matches!(&told[0], Event::Text(text) if text.moment == Moment::Replay));
        if opened {
            assert!(matches!(&told[2], Event::Text(text) if text.moment == Moment::Between), "{told:?}");
        } else {
            assert_eq!(word(&told[2]), "unknown session s");
        }
    }
}

#[test]
fn a_resumed_session_has_no_history() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Resume("s".into()))).unwrap();
    rig.hear(&text("s", "news"));
    assert!(matches!(rig.event(), Event::Text(text) if text.moment == Moment::Between));
}

#[test]
fn a_session_that_could_not_be_loaded_again_is_still_the_one_that_is_open() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Load("s".into()))).unwrap();
    rig.command(open(2, Which::New)).unwrap();
    // An agent that gives an id twice.
    rig.hear(&result(2, r#"{"sessionId":"s"}"#));
    rig.command(prompt(3)).unwrap();
    rig.hear(&error(1, -32603));
    rig.told();
    assert_eq!(rig.command(cancel()), Ok(()));
}

#[test]
fn a_session_id_that_is_in_use_opens_nothing() {
    let mut rig = one_session();
    rig.command(open(1, Which::New)).unwrap();
    rig.hear(&result(2, r#"{"sessionId":"s"}"#));
    assert!(matches!(rig.event(), Event::Failed(Tag(1), why) if matches!(*why, Failure::Unreadable(_))));
    assert_eq!(rig.command(open(2, Which::Load("s".into()))), Err(Refused::Busy));
}

#[test]
fn a_session_that_is_being_opened_cannot_be_closed() {
    let mut rig = Rig::<Client>::ready();
    rig.command(open(1, Which::Load("s".into()))).unwrap();
    assert_eq!(
        rig.command(Command::CloseSession { tag: Tag(2), session: "s".into() }),
        Err(Refused::NotReady)
    );
}

#[test]
fn what_is_not_there_is_closed_and_deleted() {
    for command in [
        Command::CloseSession { tag: Tag(1), session: "s".into() },
        Command::DeleteSession { tag: Tag(1), session: "s".into() },
    ] {
        for (code, fine) in [(code::NOT_FOUND, true), (code::INTERNAL_ERROR, false)] {
            let mut rig = one_session();
            rig.command(command.clone()).unwrap();
            rig.hear(&error(2, code));
            assert_eq!(matches!(rig.event(), Event::Answered(..)), fine, "{command:?} {code}");
        }
    }
}

#[test]
fn a_session_that_is_closed_during_its_turn_ends_the_turn_first() {
    let close = || Command::CloseSession { tag: Tag(1), session: "s".into() };
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(&ask("0"));
    rig.told();
    rig.command(close()).unwrap();
    assert!(rig.written().iter().any(|line| line.contains(r#"{"outcome":"cancelled"}"#)), "at once");
    rig.hear(&error(2, code::CANCELLED));
    rig.hear(&result(3, "{}"));
    let words: Vec<String> = rig.told().iter().map(word).collect();
    assert_eq!(words, ["withdrawn", "ended 7 cancelled", "answered 1"]);
    assert_eq!(rig.command(prompt(8)), Err(Refused::Unknown));
    // An agent that forgets about the prompt.
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(close()).unwrap();
    rig.hear(&result(3, "{}"));
    let told = rig.told();
    assert_eq!(ends(&told), [(7, Err(Failure::Disconnected))]);
    assert!(matches!(told.last(), Some(Event::Answered(Tag(1), _))));
}

#[test]
fn a_session_that_nobody_uses_gives_way_if_it_can_be_opened_again() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let config = Config { limits, ..given() };
    let mut rig = Rig::<Client>::with_sessions(config.clone(), &["s", "t", "u"]);
    rig.command(prompt(7)).unwrap();
    rig.hear(&result(4, r#"{"stopReason":"end_turn"}"#));
    rig.told();
    rig.command(open(1, Which::New)).unwrap();
    assert_eq!(word(&rig.event()), "forgotten t");
    rig.hear(&result(5, r#"{"sessionId":"v"}"#));
    rig.told();
    // It is there again when it is wanted again, in the place of the next.
    rig.command(open(1, Which::Load("t".into()))).unwrap();
    assert_eq!(word(&rig.event()), "forgotten u");
    // Nobody gives way where something runs, or where it would be lost.
    let mut busy = Rig::<Client>::with_sessions(config.clone(), &["s", "t", "u"]);
    for session in ["s", "t", "u"] {
        let prompt = vec![ContentBlock::text("x")];
        busy.command(Command::Prompt {
            tag: Tag(u64::from(session.as_bytes()[0])),
            session: session.into(),
            prompt,
        })
        .unwrap();
    }
    assert_eq!(busy.command(open(1, Which::New)), Err(Refused::Limit("sessions")));
    let mut plain = Rig::<Client>::ready_with(config, "{}");
    for n in 1..=3 {
        plain.command(open(1, Which::New)).unwrap();
        plain.hear(&result(n, &format!(r#"{{"sessionId":"{n}"}}"#)));
    }
    assert_eq!(plain.command(open(1, Which::New)), Err(Refused::Limit("sessions")));
}
