//! A reader of our events that is full: whoever is not read is not called late.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// A client that waits for something for ten seconds, and how it says that it waits no more.
fn waiting() -> Vec<(Rig<Client>, &'static str)> {
    let none = || Timeouts {
        initialize: None,
        session: None,
        authenticate: None,
        request: None,
        turn: None,
        silence: None,
        cancel: None,
    };
    let after = |timeouts: Timeouts, commands: &[Command]| {
        let mut rig = Rig::<Client>::with_sessions(Config { timeouts, ..given() }, &["s"]);
        commands.iter().for_each(|command| rig.command(command.clone()).expect("it is taken"));
        rig
    };
    let initialize = Timeouts { initialize: PATIENCE, ..none() };
    let list = Command::ListSessions { tag: Tag(1), cwd: None, cursor: None };
    let login = Command::Authenticate { tag: Tag(1), method: "login".into() };
    vec![
        (
            Rig::<Client>::client(Config { timeouts: initialize, ..given() }),
            "closed Some(TimedOut { after: 10s })",
        ),
        (
            after(Timeouts { session: PATIENCE, ..none() }, &[open(1, Which::New)]),
            "failed 1 TimedOut { clock: Session, after: 10s }",
        ),
        (
            after(Timeouts { authenticate: PATIENCE, ..none() }, &[login]),
            "failed 1 TimedOut { clock: Authenticate, after: 10s }",
        ),
        (
            after(Timeouts { request: PATIENCE, ..none() }, &[list]),
            "failed 1 TimedOut { clock: Request, after: 10s }",
        ),
        (
            after(Timeouts { turn: PATIENCE, ..none() }, &[prompt(7)]),
            "ended 7 TimedOut { clock: Turn, after: 10s }",
        ),
        (after(Timeouts { silence: PATIENCE, ..none() }, &[prompt(7)]), "ended 7 Silent { after: 10s }"),
        (
            after(Timeouts { cancel: PATIENCE, ..none() }, &[prompt(7), cancel()]),
            "ended 7 Unconfirmed { after: 10s }",
        ),
    ]
}

#[test]
fn every_clock_stands_still_while_the_agent_is_not_read() {
    for (mut rig, late) in waiting() {
        for _ in 0..3 {
            rig.wait(Duration::from_secs(3));
            rig.input(Input::Hold(true));
            assert_eq!(rig.machine().deadline(), None, "{late}");
            rig.wait(HOUR);
            rig.input(Input::Hold(false));
        }
        rig.wait(Duration::from_millis(999));
        assert_eq!(rig.told(), [], "{late}");
        rig.wait(Duration::from_millis(1));
        assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), [late]);
    }
}

#[test]
fn what_begins_while_the_agent_is_not_read_has_its_whole_time_afterwards() {
    let mut rig = one_session();
    rig.input(Input::Hold(true));
    rig.wait(HOUR);
    rig.command(open(1, Which::New)).unwrap();
    rig.command(prompt(7)).unwrap();
    rig.command(cancel()).unwrap();
    rig.wait(HOUR);
    rig.input(Input::Hold(false));
    rig.wait(Duration::from_secs(4));
    rig.hear(&result(3, r#"{"stopReason":"cancelled"}"#));
    rig.wait(Duration::from_secs(55));
    assert_eq!(ends(&rig.told()), [(7, Ok(StopReason::Cancelled))]);
    rig.hear(&result(2, r#"{"sessionId":"t"}"#));
    assert_eq!(word(&rig.event()), "answered 1");
}
