//! What real agents do and nobody expects: 33 surprises, by number, each from a capture where there is one.

use std::collections::BTreeSet;
use std::time::Duration;

use agentline_core::acp::client::{
    Answer, Client, Command, Config, Event, Failure, Moment, Timeouts, TurnEnded, Updated, Which,
};
use agentline_core::acp::session::{ConfigValue, SessionState};
use agentline_core::acp::update::{Speaker, ToolCall, ToolContent, ToolStatus};
use agentline_core::acp::{ContentBlock, Json, Notice, PermissionOutcome, SessionSetup, Update};
use agentline_core::{Open, Refused, Tag, excerpt};
use agentline_tests::acp::Rig;
use agentline_tests::acp::replay::{Played, play};
use agentline_tests::transcripts::captures;

/// The runs of one file.
fn runs(file: &str) -> Vec<Played> {
    let of_file = |name: &str| name.rsplit_once(' ').is_some_and(|(stem, _)| stem == file);
    let runs: Vec<Played> = captures("acp").iter().filter(|run| of_file(&run.name)).map(play).collect();
    assert!(!runs.is_empty(), "no capture {file}");
    runs
}

/// The events of its first run.
fn told(file: &str) -> Vec<Event> {
    runs(file).remove(0).told().cloned().collect()
}

fn one_session() -> Rig<Client> {
    Rig::<Client>::with_sessions(Config::new(Open::Given(0)), &["s"])
}

fn prompt(tag: u64) -> Command {
    Command::Prompt { tag: Tag(tag), session: "s".into(), prompt: vec![ContentBlock::text("hello")] }
}

fn updates(events: &[Event]) -> impl Iterator<Item = &Updated> {
    events
        .iter()
        .filter_map(|event| if let Event::Updated(updated) = event { Some(&**updated) } else { None })
}

fn ends(events: &[Event]) -> impl Iterator<Item = &TurnEnded> {
    events.iter().filter_map(|event| if let Event::TurnEnded(ended) = event { Some(&**ended) } else { None })
}

fn calls(events: &[Event]) -> impl Iterator<Item = &ToolCall> {
    updates(events)
        .filter_map(|updated| if let Update::ToolCall(call) = &updated.update { Some(call) } else { None })
}

fn notices(events: &[Event]) -> impl Iterator<Item = &Notice> {
    events.iter().filter_map(|event| if let Event::Noticed(notice) = event { Some(&**notice) } else { None })
}

/// The session that was opened first, and what was said of it.
fn opened(events: &[Event]) -> SessionState {
    let state = |event: &Event| {
        let Event::Answered(_, answer) = event else { return None };
        let Answer::SessionOpened { state, .. } = &**answer else { return None };
        Some(state.clone())
    };
    events.iter().find_map(state).expect("a session")
}

fn position(events: &[Event], what: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(what).expect("such an event")
}

fn is_opened(event: &Event) -> bool {
    matches!(event, Event::Answered(_, answer) if matches!(**answer, Answer::SessionOpened { .. }))
}

#[test]
fn surprise_01_a_program_says_a_sentence_and_exits_with_status_0() {
    let told = told("kimi152");
    assert!(
        matches!(notices(&told).next(), Some(Notice::BadLine { why: "not JSON", start }) if start.starts_with("kimi-cli"))
    );
    assert!(matches!(&told[..], [Event::Noticed(_), Event::Closed(closed)] if closed.fault().is_none()));
}

#[test]
fn surprise_02_a_line_of_560_kb_lists_the_commands() {
    let mut rig = one_session();
    let commands: Vec<String> = (0..800)
        .map(|n| format!(r#"{{"name":"c{n}","description":"{}","input":null}}"#, "x".repeat(660)))
        .collect();
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"available_commands_update","availableCommands":[{}],"_meta":{{"a":1}}}}}}}}"#,
        commands.join(",")
    );
    assert!(line.len() > 550_000);
    rig.hear(&line);
    let Event::Updated(updated) = rig.event() else { panic!("no update") };
    assert!(
        matches!(&updated.update, Update::AvailableCommands(list) if list.available_commands.len() == 800)
    );
}

#[test]
fn surprise_03_the_answer_to_session_new_has_33_kb_of_options() {
    let longest = runs("kilo").remove(0).lines.iter().map(|said| said.line.len()).max();
    assert!(longest > Some(30_000), "{longest:?}");
    let options = opened(&told("kilo")).config_options.expect("options");
    assert!(options.iter().any(|option| option.options.as_ref().is_some_and(|all| all.get().len() > 10_000)));
}

#[test]
fn surprise_04_a_session_speaks_before_its_id_is_told() {
    for file in ["vibe", "copilot"] {
        let told = told(file);
        let before = &told[..position(&told, is_opened)];
        let early = updates(before).next().expect("an early update");
        assert_eq!(early.moment, Moment::Between, "{file}");
    }
}

#[test]
fn surprise_05_updates_follow_the_end_of_a_turn() {
    for file in ["vibe", "claude", "claude2", "codex"] {
        let told = told(file);
        let after = &told[position(&told, |event| matches!(event, Event::TurnEnded(_)))..];
        assert!(updates(after).any(|updated| updated.moment == Moment::Between), "{file}");
    }
}

#[test]
fn surprise_06_the_history_comes_after_the_answer_that_should_follow_it() {
    let history = |file: &str, moment: Moment| {
        let moment_of = |event: &Event| {
            if let Event::Text(text) = event {
                Some(text.moment)
            } else if let Event::Updated(updated) = event {
                Some(updated.moment)
            } else {
                None
            }
        };
        let is_history = |event: &&Event| moment_of(event) == Some(moment);
        let told = told(file);
        let answer = position(&told, is_opened);
        (told[..answer].iter().filter(is_history).count(), told[answer..].iter().filter(is_history).count())
    };
    let (before, _) = history("gemini.load", Moment::Replay);
    let (_, after) = history("gemini.load", Moment::Between);
    assert!(before <= 1 && after >= 19, "{before} {after}");
    assert_eq!(history("opencode.load", Moment::Replay), (23, 0));
}

#[test]
fn surprise_07_answers_come_out_of_order() {
    let mut rig = Rig::<Client>::with_sessions(Config::new(Open::Given(0)), &["s", "t"]);
    rig.command(prompt(77)).unwrap();
    let session = "t".into();
    rig.command(Command::Prompt { tag: Tag(78), session, prompt: vec![] }).unwrap();
    rig.hear(r#"{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}"#);
    rig.hear(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);
    let told = rig.told();
    assert_eq!(ends(&told).map(|ended| ended.tag).collect::<Vec<_>>(), [Tag(78), Tag(77)]);
}

#[test]
fn surprise_08_notifications_that_are_no_updates() {
    let told = told("claude2");
    let first = position(
        &told,
        |event| matches!(event, Event::Notified(notified) if notified.method == "_auth/status_update"),
    );
    assert!(first < position(&told, is_opened));
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    for method in ["_session/retrying", "qwen/notify/session/mode-update"] {
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"attempt":1}}}}"#));
        assert!(matches!(rig.event(), Event::Notified(notified) if notified.method == method));
    }
}

#[test]
fn surprise_09_an_agent_asks_by_a_private_method_and_its_turn_goes_on() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.written();
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"method":"craft/drainMidTurnQueue","params":{}}"#);
    assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601"#));
    rig.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(ends(&rig.told()).count(), 1);
}

#[test]
fn surprise_10_ids_of_an_agent_begin_at_0_as_ours_do_or_are_strings() {
    for (file, id) in
        [("gemini", "\"id\":0"), ("qwen", "\"id\":0"), ("opencode", "\"id\":0"), ("codex", "\"id\":\"")]
    {
        let played = runs(file).remove(0);
        let asked = played.lines.iter().find(|said| matches!(said.told[..], [Event::PermissionAsked(_)]));
        assert!(asked.is_some_and(|said| said.line.contains(id)), "{file}");
        let told: Vec<Event> = played.told().cloned().collect();
        assert!(ends(&told).any(|ended| ended.end.is_ok()), "{file}");
    }
}

#[test]
fn surprise_11_an_error_without_an_id_answers_notifications_and_blank_lines() {
    let told = told("codex.robust");
    let complaints = notices(&told).filter(|notice| matches!(notice, Notice::Complaint { .. })).count();
    assert!(complaints >= 8, "{complaints}");
}

#[test]
fn surprise_12_an_error_with_id_null_answers_what_could_not_be_read() {
    let complaints = |file: &str| {
        let told: Vec<Event> = runs(file).iter().flat_map(Played::told).cloned().collect();
        notices(&told).filter(|notice| matches!(notice, Notice::Complaint { .. })).count()
    };
    assert!(complaints("claude2.robust") >= 3);
    // The request that had the id null, and nothing else.
    assert_eq!(complaints("claude.robust"), 1);
}

#[test]
fn surprise_13_a_tool_call_is_news_before_it_is_announced() {
    let told_of = |file: &str| {
        let told = told(file);
        let announced: BTreeSet<String> = calls(&told).map(|call| call.tool_call_id.clone()).collect();
        let news: Vec<String> = updates(&told)
            .filter_map(|updated| {
                let Update::ToolCallUpdate(call) = &updated.update else { return None };
                Some(call.tool_call_id.clone())
            })
            .collect();
        news.iter().filter(|id| !announced.contains(*id)).count()
    };
    assert!(told_of("gemini") > 0);
    // Or after the question about it.
    let told = told("codex");
    let asked = position(&told, |event| matches!(event, Event::PermissionAsked(_)));
    let Event::PermissionAsked(question) = &told[asked] else { panic!("no question") };
    let id = &question.asked.tool_call.tool_call_id;
    assert!(!calls(&told[..asked]).any(|call| call.tool_call_id == *id));
    assert!(calls(&told[asked..]).any(|call| call.tool_call_id == *id));
}

#[test]
fn surprise_14_tool_calls_are_never_finished() {
    for file in ["gemini", "claude", "oldclaude", "copilot"] {
        let told = told(file);
        let mut open = BTreeSet::new();
        for updated in updates(&told) {
            let (id, status) = if let Update::ToolCall(call) = &updated.update {
                (&call.tool_call_id, Some(call.status))
            } else if let Update::ToolCallUpdate(call) = &updated.update {
                (&call.tool_call_id, call.status)
            } else {
                continue;
            };
            if status.is_some_and(ToolStatus::is_final) {
                open.remove(id)
            } else {
                open.insert(id.clone())
            };
        }
        if file != "gemini" {
            assert!(!open.is_empty(), "{file}");
        }
        assert!(ends(&told).count() > 4, "{file}");
    }
}

#[test]
fn surprise_15_the_same_call_is_announced_twice_and_says_little_of_itself() {
    let told = told("oldclaude");
    let mut seen = BTreeSet::new();
    assert!(calls(&told).any(|call| !seen.insert(&call.tool_call_id)));
    let silent = updates(&told)
        .any(|updated| matches!(&updated.update, Update::ToolCallUpdate(call) if call.status.is_none()));
    assert!(silent);
    let started = self::told("codex");
    assert!(calls(&started).any(|call| call.status == ToolStatus::InProgress));
}

#[test]
fn surprise_16_the_end_of_a_turn_carries_usage_and_extension_data() {
    let stopped = |file: &str| {
        let told = told(file);
        let ends: Vec<_> = ends(&told).filter_map(|ended| ended.end.clone().ok()).collect();
        (ends.iter().any(|end| end.usage.is_some()), ends.iter().any(|end| end.meta.is_some()))
    };
    assert_eq!(stopped("gemini"), (false, true));
    assert!(stopped("claude2").0);
    assert!(stopped("opencode").1);
}

#[test]
fn surprise_17_there_are_fields_that_nobody_announced() {
    let told = told("claude2");
    assert!(told.iter().any(|event| matches!(event, Event::Text(text) if text.message.is_some())));
    assert!(calls(&told).any(|call| call.name.is_some()));
    for file in ["copls", "py-echo", "qwen"] {
        assert!(matches!(self::told(file)[0], Event::Ready(_)), "{file}");
    }
    let Event::Ready(ready) = &self::told("copls")[0] else { panic!("not ready") };
    assert!(ready.raw.get().contains("positionEncoding"));
}

#[test]
fn surprise_18_null_stands_where_nothing_is_expected() {
    let told: Vec<Event> = ["claude", "qwen", "vibe"].iter().flat_map(|file| told(file)).collect();
    let mut inputs = 0;
    for updated in updates(&told) {
        if let Update::AvailableCommands(list) = &updated.update {
            inputs += list.available_commands.iter().filter(|command| command.input.is_none()).count();
        }
    }
    assert!(inputs > 0);
    let mut rig = one_session();
    rig.hear(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","content":[{"type":"diff","path":"/f","oldText":null,"newText":"n"}],"locations":[{"path":"/f","line":null}],"_meta":null}}}"#);
    let told = rig.told();
    let call = calls(&told).next().expect("a call");
    assert!(matches!(&call.content[..], [ToolContent::Diff(diff)] if diff.old_text.is_none()));
    assert_eq!(call.locations[0].line, None);
}

#[test]
fn surprise_19_an_agent_says_nothing_of_itself() {
    for file in ["gptme", "py-echo"] {
        let Event::Ready(ready) = &told(file)[0] else { panic!("{file} is not ready") };
        assert_eq!(ready.capabilities, Default::default(), "{file}");
        assert!(file == "gptme" || (ready.agent_info.is_none() && ready.auth_methods.is_empty()), "{file}");
    }
}

#[test]
fn surprise_20_the_prompt_comes_back_as_the_users_words() {
    let told = told("vibe");
    let echoed = |event: &Event| matches!(event, Event::Text(text) if text.speaker == Speaker::User && text.moment == Moment::Turn);
    assert!(told.iter().any(echoed));
}

#[test]
fn surprise_21_a_banner_is_said_that_answers_nothing() {
    let told = told("gptme");
    let first = position(&told, |event| matches!(event, Event::Text(_)));
    assert!(matches!(&told[first], Event::Text(text) if text.moment == Moment::Between));
}

#[test]
fn surprise_22_what_is_offered_is_not_there() {
    let offers = |event: &Event| matches!(event, Event::Ready(ready) if ready.capabilities.session_capabilities.resume);
    assert!(told("qwen.load").iter().any(offers));
    let mut rig = Rig::<Client>::ready();
    let (which, setup) = (Which::Resume("s".into()), SessionSetup::in_directory("/w"));
    rig.command(Command::OpenSession { tag: Tag(1), which, setup }).unwrap();
    rig.hear(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#);
    let missing = |why: &Failure| matches!(why, Failure::Rpc(error) if error.code == -32601);
    assert!(matches!(rig.event(), Event::Failed(_, why) if missing(&why)));
}

#[test]
fn surprise_23_session_new_is_never_answered() {
    let hung = told("piacp");
    assert!(
        hung.iter().any(|event| matches!(event, Event::Failed(_, why) if **why == Failure::Disconnected))
    );
    let mut rig = Rig::<Client>::ready();
    let setup = SessionSetup::in_directory("/w");
    rig.command(Command::OpenSession { tag: Tag(1), which: Which::New, setup }).unwrap();
    rig.wait(Duration::from_secs(60));
    assert!(matches!(rig.event(), Event::Failed(_, why) if matches!(*why, Failure::TimedOut { .. })));
}

#[test]
fn surprise_24_one_bad_line_kills_the_agent_with_status_0() {
    for file in
        ["claude.robust", "auggie.robust", "droid.robust", "kimi.robust", "vibe.robust", "codex.robust"]
    {
        let runs = runs(file);
        assert!(runs.len() > 1, "{file}");
        for run in runs {
            assert!(
                matches!(run.told().last(), Some(Event::Closed(closed)) if closed.fault().is_none()),
                "{file}"
            );
        }
    }
}

#[test]
fn surprise_25_nobody_answers_a_batch_and_none_is_ever_sent() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.command(Command::ListSessions { tag: Tag(8), cwd: None, cursor: None }).unwrap();
    rig.hear(r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#);
    for line in rig.written() {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    }
}

#[test]
fn id_above_2p53_surprise_26_a_big_id_comes_back_as_its_neighbour() {
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(r#"{"jsonrpc":"2.0","id":9007199254740992,"result":{"stopReason":"end_turn"}}"#);
    assert!(
        matches!(notices(&rig.told()).next(), Some(Notice::Orphan { id, .. }) if id == "9007199254740992")
    );
    // Of the agent's own ids every digit comes back.
    rig.written();
    for id in ["9007199254740992", "9007199254740993"] {
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x"}}"#));
        assert!(rig.line().starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)));
    }
}

#[test]
fn surprise_27_an_unknown_method_fails_in_many_ways() {
    for (error, code) in [
        (r#"{"code":-32603,"message":"Internal error","data":{"details":""}}"#, -32603),
        (r#"{"code":-32601,"message":"Method not found","data":"_x/unknown"}"#, -32601),
        (
            r#"{"code":-32601,"message":"\"Method not found\": x/unknown","data":{"method":"x/unknown"}}"#,
            -32601,
        ),
        (r#"{"code":400,"message":"{\"error\":{}}"}"#, 400),
    ] {
        let mut rig = one_session();
        let params = Json::new(&serde_json::json!({}));
        rig.command(Command::Call { tag: Tag(7), method: "_x/unknown".into(), params }).unwrap();
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":2,"error":{error}}}"#));
        let Event::Failed(Tag(7), failure) = rig.event() else { panic!("{error}") };
        assert!(matches!(*failure, Failure::Rpc(error) if error.code == code), "{error}");
    }
}

#[test]
fn surprise_28_what_is_left_out_crashes_an_agent_so_nothing_is_left_out() {
    let mut rig = Rig::<Client>::ready();
    let setup = SessionSetup::in_directory("/w");
    rig.command(Command::OpenSession { tag: Tag(1), which: Which::New, setup }).unwrap();
    assert!(rig.line().contains(r#""params":{"cwd":"/w","mcpServers":[]}"#));
    rig.command(Command::ListSessions { tag: Tag(2), cwd: None, cursor: None }).unwrap();
    assert!(rig.line().contains(r#""params":{}"#));
    let relative = SessionSetup::in_directory("rel/dir");
    let open = Command::OpenSession { tag: Tag(3), which: Which::New, setup: relative };
    assert!(matches!(rig.command(open), Err(Refused::Invalid(_))));
}

#[test]
fn surprise_29_an_agent_writes_46_kb_to_its_standard_error() {
    let played = runs("gptme").remove(0);
    let Some(Event::Closed(closed)) = played.end.last() else { panic!("not closed") };
    let tail = closed.obituary.stderr_tail.strip_prefix(excerpt::MARK).expect("a mark where it was cut");
    assert!(played.stderr.len() > 30_000 && played.stderr.ends_with(tail), "{}", played.stderr.len());
    assert!((4000..=4096).contains(&tail.len()), "{}", tail.len());
}

#[test]
fn surprise_30_ids_are_urls_and_formulas_and_the_digit_0() {
    let modes = opened(&told("copilot")).modes.expect("modes");
    assert!(modes.available_modes.iter().any(|mode| mode.id.starts_with("https://")));
    let session = |file: &str| {
        let opened = |event: &Event| {
            let Event::Answered(_, answer) = event else { return None };
            let Answer::SessionOpened { session, .. } = &**answer else { return None };
            Some(session.as_str().to_owned())
        };
        told(file).iter().find_map(opened).expect("a session")
    };
    assert_eq!(session("py-agent"), "0");
    assert!(session("opencode").starts_with("ses_"));
    let mut rig = one_session();
    let value = ConfigValue::Id("qwen$(a|b)".into());
    rig.command(Command::SetOption { tag: Tag(1), session: "s".into(), option: "m".into(), value }).unwrap();
    assert!(rig.line().contains(r#""value":"qwen$(a|b)""#));
}

#[test]
fn surprise_31_an_agent_may_fail_again_after_a_failure_and_in_its_own_way_after_a_close() {
    let (mut failed, mut codes) = (0, BTreeSet::new());
    for file in
        ["claude", "claude2", "codex", "copilot", "gemini", "kilo", "kimi", "opencode", "qwen", "vibe"]
    {
        for ended in ends(&told(file)) {
            match &ended.end {
                Err(Failure::Rpc(error)) => {
                    failed += 1;
                    codes.insert(error.code);
                }
                Ok(_) => {}
                Err(other) => panic!("{file}: {other:?}"),
            }
        }
    }
    assert!(failed >= 8 && codes.len() >= 2, "{failed} {codes:?}");
}

#[test]
fn surprise_32_members_come_in_any_order() {
    let played = runs("codex").remove(0);
    let ready = &played.lines[0];
    assert!(ready.line.ends_with(r#","id":0}"#) && matches!(ready.told[..], [Event::Ready(_)]));
    let mut rig = one_session();
    rig.command(prompt(7)).unwrap();
    rig.hear(r#"{"params":{"update":{"content":{"text":"t","type":"text"},"sessionUpdate":"agent_message_chunk"},"sessionId":"s"},"method":"session/update","jsonrpc":"2.0"}"#);
    assert!(matches!(rig.event(), Event::Text(text) if text.text == "t"));
}

#[test]
fn surprise_33_a_first_start_takes_its_time() {
    // The slowest measured one needs 11 s on a busy machine.
    let patience = Timeouts::default().initialize.expect("a limit");
    assert!(patience >= Duration::from_secs(30));
    let mut rig = Rig::<Client>::client(Config::new(Open::Given(0)));
    rig.wait(Duration::from_secs(29));
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    assert!(matches!(rig.event(), Event::Ready(_)));
}

#[test]
fn an_agent_that_asks_for_permission_offers_kinds_in_any_order_and_never_reject_always() {
    let mut orders = BTreeSet::new();
    for capture in captures("acp") {
        for event in play(&capture).told() {
            if let Event::PermissionAsked(asked) = event {
                let kinds: Vec<String> =
                    asked.asked.options.iter().map(|option| option.kind.as_str().to_owned()).collect();
                orders.insert(kinds);
            }
        }
    }
    assert!(orders.len() >= 4, "{orders:?}");
    assert!(orders.iter().flatten().all(|kind| kind != "reject_always"), "{orders:?}");
    let outcome = PermissionOutcome::selected("y");
    assert_eq!(serde_json::to_string(&outcome).unwrap(), r#"{"outcome":"selected","optionId":"y"}"#);
}
