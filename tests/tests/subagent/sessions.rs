//! Which session a run prompts, what is set before, and who answers its questions.

use agentline_core::acp::session::ConfigValue;
use agentline_core::acp::{PermissionOutcome, SessionId};
use agentline_core::problem::{Kind, Phase};
use agentline_core::subagent::{
    Allow, By, Choice, Command, Config, Event, Outcome, Policy, Setting, Verdict,
};
use agentline_core::{Exit, Refused};

use crate::moments::{CHUNK, END, GREETING, Hand, PERMISSION, SESSION, config};

/// An agent that has old sessions.
fn greeting(load: bool, resume: bool) -> String {
    let resume = if resume { r#","resume":{}"# } else { "" };
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":
        {{"loadSession":{load},"sessionCapabilities":{{"list":{{}}{resume}}}}}}}}}"#
    )
}

fn page(id: u32, sessions: &[(&str, &str, &str)], cursor: Option<&str>) -> String {
    let sessions: Vec<serde_json::Value> = sessions
        .iter()
        .map(|(id, cwd, at)| serde_json::json!({ "sessionId": id, "cwd": cwd, "updatedAt": at }))
        .collect();
    let result = serde_json::json!({ "sessions": sessions, "nextCursor": cursor });
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn answer(id: u32, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn prompts(hand: &Hand) -> usize {
    hand.wrote.matches(r#""method":"session/prompt""#).count()
}

#[test]
fn the_history_of_an_old_session_is_no_part_of_the_answer() {
    let old = || Config { session: Choice::Old(SessionId::from("s")), ..config() };
    let mut hand = Hand::after(old(), &[&greeting(true, true), CHUNK, &answer(1, "{}"), CHUNK, END]);
    assert!(hand.wrote.contains("session/load") && !hand.wrote.contains("session/new"), "{}", hand.wrote);
    assert_eq!(hand.finished().expect("a result").output, "so far");
    hand.gone(Exit::Code(0));

    let hand = Hand::after(old(), &[&greeting(false, true)]);
    assert!(hand.wrote.contains("session/resume"), "{}", hand.wrote);
}

#[test]
fn what_is_said_before_the_session_is_known_is_no_part_of_the_answer() {
    let hand = Hand::after(config(), &[GREETING, CHUNK, SESSION, CHUNK, END]);
    assert_eq!(hand.finished().expect("a result").output, "so far");
}

#[test]
fn an_old_session_of_an_agent_that_has_none_is_a_wrong_wish() {
    for session in [Choice::Old(SessionId::from("s")), Choice::Last] {
        let mut hand = Hand::after(Config { session, ..config() }, &[GREETING]);
        hand.gone(Exit::Code(0));
        let problem = hand.problem();
        assert_eq!((problem.kind, problem.phase, problem.exit_code()), (Kind::Usage, Phase::Session, 2));
    }
}

#[test]
fn the_last_session_is_the_one_of_this_workspace_that_changed_last_on_any_page() {
    let (one, two, three) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z");
    let pages = [
        page(1, &[("a", "/w", one), ("elsewhere", "/x", three)], Some("next")),
        page(2, &[("b", "/w", two)], Some("more")),
        page(3, &[("c", "/w", one)], None),
    ];
    let mut hand = Hand::after(Config { session: Choice::Last, ..config() }, &[&greeting(true, false)]);
    pages.iter().for_each(|page| hand.line(page));
    assert!(hand.wrote.contains(r#""cursor":"next""#) && hand.wrote.contains(r#""cursor":"more""#));
    assert!(hand.wrote.contains(r#""method":"session/load","params":{"sessionId":"b""#), "{}", hand.wrote);
}

#[test]
fn a_list_without_an_end_is_not_read_for_ever() {
    let mut hand = Hand::after(Config { session: Choice::Last, ..config() }, &[&greeting(true, false)]);
    for id in 1..=1000 {
        hand.line(&page(id, &[], Some("again")));
    }
    hand.gone(Exit::Code(0));
    assert_eq!((hand.problem().kind, hand.problem().phase), (Kind::NotFound, Phase::Session));
    assert_eq!(hand.wrote.matches("session/list").count(), 100);
}

const OPTIONS: &str = r#"{"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]},
    "configOptions":[{"id":"m","name":"Model","category":"model","type":"select","currentValue":"x",
    "options":[{"value":"x","name":"X"},{"value":"y","name":"Y"}]}]}"#;

#[test]
fn settings_are_set_one_after_the_other_before_the_prompt() {
    let settings = vec![
        Setting::Mode("a".into()),
        Setting::Model("y".into()),
        Setting::Option("m".into(), ConfigValue::Id("x".into())),
    ];
    let mut hand = Hand::after(Config { settings, ..config() }, &[GREETING, &answer(1, OPTIONS)]);
    let options = answer(0, OPTIONS).replace(r#""id":0"#, r#""id":3"#);
    for (line, written) in [
        (
            answer(2, "{}"),
            r#""method":"session/set_config_option","params":{"sessionId":"s","configId":"m","value":"y"}"#,
        ),
        (options.clone(), r#""configId":"m","value":"x"}"#),
    ] {
        assert_eq!(prompts(&hand), 0);
        hand.line(&line);
        assert!(hand.wrote.contains(written), "{}", hand.wrote);
    }
    assert_eq!(prompts(&hand), 0);
    hand.line(&options.replace(r#""id":3"#, r#""id":4"#));
    assert_eq!(prompts(&hand), 1);
}

#[test]
fn a_setting_that_fails_ends_the_run_before_the_prompt() {
    let with = |setting| Config { settings: vec![setting], ..config() };
    let no = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such mode"}}"#;
    let table = [
        (Setting::Mode("z".into()), OPTIONS, Some(no), Kind::Rpc, "no such mode"),
        (Setting::Mode("z".into()), r#"{"sessionId":"s"}"#, None, Kind::Usage, "modes"),
        (Setting::Model("y".into()), r#"{"sessionId":"s"}"#, None, Kind::Usage, "a choice of models"),
    ];
    for (setting, session, said, kind, why) in table {
        let mut hand = Hand::after(with(setting), &[GREETING, &answer(1, session)]);
        said.into_iter().for_each(|line| hand.line(line));
        hand.gone(Exit::Code(0));
        let problem = hand.problem();
        assert_eq!((problem.kind, problem.phase), (kind, Phase::Session), "{problem}");
        assert!(problem.message.contains(why), "{problem}");
        assert_eq!(prompts(&hand), 0);
    }
}

#[test]
fn a_permission_that_must_not_be_asked_for_ends_the_run() {
    let mut hand =
        Hand::after(Config { policy: Policy::Fail, ..config() }, &[GREETING, SESSION, CHUNK, PERMISSION]);
    let (finished, problem) = (hand.finished().expect("a result"), hand.problem());
    assert_eq!(
        (finished.outcome, &*finished.output, problem.kind),
        (Outcome::Error, "so far", Kind::Refused)
    );
    assert_eq!(finished.exit_code(), 6);
    assert!(hand.wrote.contains(r#"{"outcome":{"outcome":"selected","optionId":"n"}}"#), "{}", hand.wrote);
    hand.gone(Exit::Code(0));
}

#[test]
fn once_goes_before_always_where_that_is_the_policy() {
    let both = PERMISSION.replace(
        r#"{"optionId":"n","name":"No","kind":"reject_once"}"#,
        r#"{"optionId":"a","name":"A","kind":"allow_always"},{"optionId":"o","name":"O","kind":"allow_once"}"#,
    );
    for (allow, option) in [(Allow::InOrder, "a"), (Allow::OnceFirst, "o")] {
        let policy = Policy::Allow(allow);
        let hand = Hand::after(Config { policy, ..config() }, &[GREETING, SESSION, &both]);
        assert!(hand.wrote.contains(&format!(r#""optionId":"{option}""#)), "{}", hand.wrote);
    }
}

#[test]
fn the_application_answers_once_and_only_with_what_was_offered() {
    let mut hand = Hand::after(Config { policy: Policy::Ask, ..config() }, &[GREETING, SESSION, PERMISSION]);
    let asked = hand
        .events
        .iter()
        .find_map(|event| if let Event::PermissionAsked(asked) = event { Some(asked) } else { None });
    let request = asked.expect("a question").request;
    let answer = |option: &str| Command::Answer { request, outcome: PermissionOutcome::selected(option) };
    assert!(matches!(hand.command(answer("other")), Err(Refused::Invalid(_))));
    assert_eq!(hand.command(answer("n")), Ok(()));
    assert_eq!(hand.command(answer("n")), Err(Refused::Unknown));
    hand.line(END);
    let [decision] = &hand.finished().expect("a result").permissions[..] else { panic!("one decision") };
    assert_eq!((decision.decision, decision.by), (Verdict::Rejected, By::User));
}

#[test]
fn a_question_that_nobody_answered_is_part_of_the_result() {
    for end in [Some(Command::Cancel), None] {
        let mut hand =
            Hand::after(Config { policy: Policy::Ask, ..config() }, &[GREETING, SESSION, PERMISSION]);
        end.into_iter().for_each(|command| hand.command(command).unwrap());
        hand.line(END);
        let [decision] = &hand.finished().expect("a result").permissions[..] else { panic!("one decision") };
        assert_eq!((decision.decision, decision.by), (Verdict::Cancelled, By::Cancel));
    }
}
