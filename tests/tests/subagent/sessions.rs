//! Which session a run prompts, what is set before, and who answers its questions.

use std::time::Duration;

use agentline_core::acp::session::Unsettable;
use agentline_core::acp::{PermissionOutcome, SessionId, client};
use agentline_core::conversation::Config as Talk;
use agentline_core::problem::{Kind, Phase, RootCause};
use agentline_core::subagent::{
    Allow, Budget, By, Choice, Command, Config, Errand, Event, Outcome, Policy, Setting, Verdict,
};
use agentline_core::{Exit, Heard, Refused};

use crate::moments::{CHUNK, END, GREETING, Hand, PERMISSION, SESSION, config, of, talk};

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
    let old = || of(Talk { session: Choice::Old(SessionId::from("s")), transcript: true, ..talk() });
    let mut hand = Hand::after(old(), &[&greeting(true, true), CHUNK, &answer(1, "{}"), CHUNK, END]);
    assert!(hand.wrote.contains("session/load") && !hand.wrote.contains("session/new"), "{}", hand.wrote);
    assert_eq!(hand.finished().expect("a result").output, "so far");
    hand.gone(Exit::Code(0));

    let hand = Hand::after(old(), &[&greeting(false, true)]);
    assert!(hand.wrote.contains("session/resume"), "{}", hand.wrote);
}

#[test]
fn b2_an_old_session_is_resumed_where_nobody_wants_its_history() {
    for (load, resume, transcript, method) in [
        (true, true, false, "session/resume"),
        (true, true, true, "session/load"),
        (false, true, true, "session/resume"),
        (true, false, false, "session/load"),
    ] {
        let old = of(Talk { session: Choice::Old(SessionId::from("s")), transcript, ..talk() });
        let hand = Hand::after(old, &[&greeting(load, resume)]);
        assert!(hand.wrote.contains(method), "{load} {resume} {transcript}: {}", hand.wrote);
    }
}

#[test]
fn what_is_said_before_the_session_is_known_is_no_part_of_the_answer() {
    let hand = Hand::after(config(), &[GREETING, CHUNK, SESSION, CHUNK, END]);
    assert_eq!(hand.finished().expect("a result").output, "so far");
}

#[test]
fn an_old_session_of_an_agent_that_has_none_is_a_wrong_wish() {
    for session in [Choice::Old(SessionId::from("s")), Choice::Last(Vec::new())] {
        let mut hand = Hand::after(of(Talk { session, ..talk() }), &[GREETING]);
        hand.gone(Exit::Code(0));
        assert_eq!((hand.failed().kind(), hand.failed().phase), (Kind::Usage, Phase::Session));
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
    let mut hand =
        Hand::after(of(Talk { session: Choice::Last(Vec::new()), ..talk() }), &[&greeting(true, false)]);
    pages.iter().for_each(|page| hand.line(page));
    assert!(hand.wrote.contains(r#""cursor":"next""#) && hand.wrote.contains(r#""cursor":"more""#));
    assert!(hand.wrote.contains(r#""method":"session/load","params":{"sessionId":"b""#), "{}", hand.wrote);
}

#[test]
fn the_list_of_an_agent_is_told_page_by_page_and_no_session_is_opened() {
    let errand = |errand| Config::new(Talk { session: Choice::Errand(errand), ..talk() }, Vec::new());
    let mut hand = Hand::after(errand(Errand::List(None)), &[&greeting(true, false)]);
    hand.line(&page(1, &[("a", "/w", "1")], Some("next")));
    hand.line(&page(2, &[("b", "/x", "2")], None));
    let listed = hand.events.iter().filter_map(|event| {
        if let Event::Listed(list) = event {
            list.sessions.first().map(|it| it.session_id.clone())
        } else {
            None
        }
    });
    assert_eq!(listed.collect::<Vec<_>>(), ["a".into(), "b".into()]);
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Completed);
    assert!(!hand.wrote.contains("session/new") && !hand.wrote.contains("session/load"), "{}", hand.wrote);
}

#[test]
fn d3_without_times_the_first_of_the_list_is_the_last_session() {
    let untimed = r#"{"sessions":[{"sessionId":"new","cwd":"/w/"},{"sessionId":"old","cwd":"/w"}]}"#;
    let mut hand =
        Hand::after(of(Talk { session: Choice::Last(Vec::new()), ..talk() }), &[&greeting(true, false)]);
    hand.line(&answer(1, untimed));
    assert!(hand.wrote.contains(r#""method":"session/load","params":{"sessionId":"new""#), "{}", hand.wrote);
}

#[test]
fn d1_one_folder_many_spellings_are_one_workspace() {
    let session = Choice::Last(vec!["/link".into()]);
    let mut hand = Hand::after(of(Talk { session, ..talk() }), &[&greeting(true, false)]);
    assert!(hand.wrote.contains(r#""method":"session/list","params":{"cwd":"/w"}"#), "{}", hand.wrote);
    hand.line(&page(1, &[("other", "/x", "2026-01-01T00:00:00Z")], None));
    assert!(hand.wrote.contains(r#""method":"session/list","params":{"cwd":"/link"}"#), "{}", hand.wrote);
    hand.line(&page(2, &[("mine", "/link", "2026-01-01T00:00:00Z")], None));
    assert!(hand.wrote.contains(r#""params":{"sessionId":"mine","cwd":"/link""#), "{}", hand.wrote);
}

#[test]
fn session_gone_is_told_in_the_agents_words_and_never_a_new_session() {
    for (code, said, kind) in [
        (-32002, "Resource not found", Kind::NotFound),
        (-32602, "Session not found", Kind::Rpc),
        (-32603, "Internal error", Kind::Rpc),
    ] {
        let old = of(Talk { session: Choice::Old(SessionId::from("s")), ..talk() });
        let mut hand = Hand::after(old, &[&greeting(true, true)]);
        let error = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{said}"}}}}"#);
        hand.line(&error);
        hand.gone(Exit::Code(0));
        let failed = hand.failed();
        assert_eq!((failed.kind(), failed.phase), (kind, Phase::Session));
        let is_told = format!("{:?}", failed.cause).contains(said);
        assert!(is_told && !hand.wrote.contains("session/new"), "{failed:?}");
    }
}

#[test]
fn b4_a_clock_that_expires_before_the_turn_is_told_at_once() {
    let second = Duration::from_secs(1);
    let timeout = Config { timeout: Some(second), ..config() };
    let slow =
        client::Timeouts { initialize: Some(second), session: Some(second), ..client::Timeouts::default() };
    let slow = || of(Talk { client: client::Config { timeouts: slow.clone(), ..talk().client }, ..talk() });
    for (config, lines) in
        [(timeout.clone(), &[][..]), (timeout, &[GREETING]), (slow(), &[]), (slow(), &[GREETING])]
    {
        let mut hand = Hand::after(config, lines);
        hand.hear(Heard::Stderr(b"still loading\n"));
        hand.wait(second);
        let failed = hand.failed();
        assert_eq!(failed.kind(), Kind::Timeout, "{failed:?}");
        assert_eq!(failed.stderr_tail.as_deref(), Some("still loading"));
        hand.gone(Exit::Code(0));
    }
}

#[test]
fn a_list_without_an_end_is_not_read_for_ever() {
    let mut hand =
        Hand::after(of(Talk { session: Choice::Last(Vec::new()), ..talk() }), &[&greeting(true, false)]);
    for id in 1..=1000 {
        hand.line(&page(id, &[], Some("again")));
    }
    hand.gone(Exit::Code(0));
    assert_eq!((hand.failed().kind(), hand.failed().phase), (Kind::NotFound, Phase::Session));
    assert_eq!(hand.wrote.matches("session/list").count(), 100);
}

const OPTIONS: &str = r#"{"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]},
    "configOptions":[{"id":"m","name":"Model","category":"model","type":"select","currentValue":"x",
    "options":[{"value":"x","name":"X"},{"value":"y","name":"Y"}]}]}"#;

#[test]
fn settings_are_set_one_after_the_other_before_the_prompt() {
    let settings =
        vec![Setting::Mode("a".into()), Setting::Model("y".into()), Setting::Option("m".into(), "x".into())];
    let mut hand = Hand::after(of(Talk { settings, ..talk() }), &[GREETING, &answer(1, OPTIONS)]);
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
    let with = |setting| of(Talk { settings: vec![setting], ..talk() });
    let no = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such mode"}}"#;
    let table = [
        (Setting::Mode("z".into()), OPTIONS, Some(no), Kind::Rpc, "no such mode"),
        (Setting::Model("z".into()), OPTIONS, Some(no), Kind::Rpc, "no such mode"),
        (Setting::Mode("z".into()), r#"{"sessionId":"s"}"#, None, Kind::Usage, "modes"),
        (Setting::Option("z".into(), "1".into()), OPTIONS, None, Kind::Usage, "option z"),
        (Setting::Model("y".into()), r#"{"sessionId":"s"}"#, None, Kind::Usage, "choice of models"),
    ];
    for (setting, session, said, kind, why) in table {
        let mut hand = Hand::after(with(setting.clone()), &[GREETING, &answer(1, session)]);
        said.into_iter().for_each(|line| hand.line(line));
        hand.gone(Exit::Code(0));
        let failed = hand.failed();
        assert_eq!((failed.kind(), failed.phase), (kind, Phase::Session), "{failed:?}");
        assert!(format!("{:?}", failed.cause).contains(why), "{failed:?}");
        assert_eq!(prompts(&hand), 0);
        let offered = if let RootCause::BadValue { values, .. }
        | RootCause::Unsettable(Unsettable::NotOffered { options: values, .. }) =
            &failed.cause
        {
            values.join(", ")
        } else {
            panic!("{failed:?}")
        };
        let wanted = match said {
            Some(_) if matches!(setting, Setting::Mode(_)) => "a",
            Some(_) => "x, y",
            None if session == OPTIONS => "m",
            None => "",
        };
        assert_eq!(offered, wanted);
    }
}

#[test]
fn d2_a_setting_goes_by_what_the_agent_said_last() {
    let settings = vec![Setting::Model("y".into()), Setting::Option("effort".into(), "xhigh".into())];
    let mut hand = Hand::after(of(Talk { settings, ..talk() }), &[GREETING, &answer(1, OPTIONS)]);
    let with_effort = OPTIONS.replace(
        r#""configOptions":["#,
        r#""configOptions":[{"id":"e","name":"Effort","category":"effort","type":"select","currentValue":"low",
            "options":[{"value":"x-high","name":"xHigh"}]},"#,
    );
    hand.line(&answer(2, &with_effort));
    assert!(hand.wrote.contains(r#""configId":"e","value":"x-high""#), "{}", hand.wrote);
}

#[test]
fn d2_models_beside_the_options_are_set_by_their_own_method() {
    let models = r#"{"sessionId":"s","models":{"currentModelId":"a","availableModels":[{"modelId":"b","name":"Big"}]}}"#;
    let settings = vec![Setting::Model("big".into())];
    let mut hand = Hand::after(of(Talk { settings, ..talk() }), &[GREETING, &answer(1, models)]);
    let written = r#""method":"session/set_model","params":{"sessionId":"s","modelId":"b"}"#;
    assert!(hand.wrote.contains(written), "{}", hand.wrote);
    assert_eq!(prompts(&hand), 0);
    hand.line(&answer(2, "{}"));
    assert_eq!(prompts(&hand), 1);
}

#[test]
fn a_permission_that_must_not_be_asked_for_ends_the_run() {
    let mut hand =
        Hand::after(of(Talk { policy: Policy::Fail, ..talk() }), &[GREETING, SESSION, CHUNK, PERMISSION]);
    let (finished, failed) = (hand.finished().expect("a result"), hand.failed());
    assert_eq!(
        (finished.outcome, &*finished.output, failed.kind()),
        (Outcome::Error, "so far", Kind::Refused)
    );
    assert!(hand.wrote.contains(r#"{"outcome":{"outcome":"selected","optionId":"n"}}"#), "{}", hand.wrote);
    hand.gone(Exit::Code(0));
}

#[test]
fn widening_once_to_always_only_where_that_is_the_policy() {
    let both = PERMISSION.replace(
        r#"{"optionId":"n","name":"No","kind":"reject_once"}"#,
        r#"{"optionId":"a","name":"A","kind":"allow_always"},{"optionId":"o","name":"O","kind":"allow_once"}"#,
    );
    for (allow, option) in [(Allow::InOrder, "a"), (Allow::OnceFirst, "o")] {
        let policy = Policy::Allow(allow);
        let hand = Hand::after(of(Talk { policy, ..talk() }), &[GREETING, SESSION, &both]);
        assert!(hand.wrote.contains(&format!(r#""optionId":"{option}""#)), "{}", hand.wrote);
    }
}

#[test]
fn the_application_answers_once_and_only_with_what_was_offered() {
    let mut hand = Hand::after(of(Talk { policy: Policy::Ask, ..talk() }), &[GREETING, SESSION, PERMISSION]);
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
            Hand::after(of(Talk { policy: Policy::Ask, ..talk() }), &[GREETING, SESSION, PERMISSION]);
        end.into_iter().for_each(|command| hand.command(command).unwrap());
        hand.line(END);
        let [decision] = &hand.finished().expect("a result").permissions[..] else { panic!("one decision") };
        assert_eq!((decision.decision, decision.by), (Verdict::Cancelled, By::Cancel));
    }
}

#[test]
fn what_a_subagent_says_is_no_part_of_the_answer_and_its_tools_are_tools_of_the_turn() {
    let news = |session: &str, update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
        )
    };
    let begins = news("s", r#"{"sessionUpdate":"subagent_update","sessionId":"child","title":"scout"}"#);
    let said = CHUNK.replace(r#""sessionId":"s""#, r#""sessionId":"child""#);
    let tool =
        |id| news("child", &format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"{id}","title":"look"}}"#));
    let config = |budget: Budget, retries| {
        let mut conversation = Talk { budget, retries, ..talk() };
        conversation.client.capabilities.subagents = true;
        of(conversation)
    };
    let hand = Hand::after(config(Budget::default(), 0), &[GREETING, SESSION, &begins, CHUNK, &said, END]);
    assert_eq!(hand.finished().expect("a result").output, "so far");

    let budget = Budget { tools: Some(1), ..Budget::default() };
    let hand = Hand::after(config(budget, 0), &[GREETING, SESSION, &begins, &tool("a"), &tool("b"), END]);
    assert_eq!(hand.failed().kind(), Kind::Limit);

    let busy = r#"{"jsonrpc":"2.0","id":2,"error":{"code":529,"message":"Overloaded"}}"#;
    let hand = Hand::after(config(Budget::default(), 3), &[GREETING, SESSION, &begins, &said, busy]);
    assert_eq!(hand.failed().kind(), Kind::Rpc);
}
