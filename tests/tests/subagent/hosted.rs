//! Terminals and files that are hosted for the agent.

use std::fs;

use agentline_core::acp::PermissionOutcome;
use agentline_core::host::{Config, Deed, ExitStatus, Files, Terminals};
use agentline_core::rules;
use agentline_core::subagent::{By, Command, Config as Run, Event, Outcome, Questions, Verdict};

use crate::cases::{Case, case};
use crate::rig::Seen;

/// Everything is hosted, with small limits.
fn host(config: &mut Run) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let env = vec![("PATH".into(), path.into())];
    let terminals = Terminals { env, most: 2, ..Terminals::default() };
    config.conversation.host = Config { terminals: Some(terminals), files: Some(Files { limit: 32 }) };
}

/// What the agent was answered, one after the other.
fn hosted(name: &str, prompt: &'static str, answers: &'static [&str]) -> Case {
    case(name, prompt).with(host).check(move |seen| assert_eq!(answered(seen), answers))
}

/// The same, if it all went well.
fn answered(seen: &Seen) -> Vec<String> {
    assert_eq!(seen.finished().outcome, Outcome::Completed);
    let said = seen.events.iter().filter_map(|event| {
        let Event::Text(text) = event else { return None };
        Some(text.text.replace(&format!("{}/", seen.workspace), ""))
    });
    said.collect()
}

/// What was done for the agent, in a few words.
fn deeds(events: &[Event]) -> Vec<String> {
    let deeds = events.iter().filter_map(|event| {
        let Event::Hosted(hosted) = event else { return None };
        let deed = match &hosted.deed {
            Deed::Read { path } => format!("read {}", name(path)),
            Deed::Wrote { path, bytes } => format!("wrote {} {bytes}", name(path)),
            Deed::Started { terminal_id, command, .. } => {
                format!("started {} {}", terminal_id.as_deref().unwrap_or("-"), command[1..].join(" "))
            }
            Deed::Exited { terminal_id, status: ExitStatus { exit_code, signal } } => {
                format!("exited {terminal_id} {exit_code:?} {signal:?}")
            }
        };
        Some(if hosted.error.is_some() { format!("not {deed}") } else { deed })
    });
    deeds.collect()
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

const FIRST: &str = r#"{"terminalId":"terminal-1"}"#;
const DONE: &str = "{}";

pub(crate) fn cases() -> Vec<Case> {
    [terminals(), limits(), files(), decisions()].into_iter().flatten().collect()
}

fn terminals() -> Vec<Case> {
    vec![
        hosted(
            "agent-without-own-shell: a command runs, is waited for, read and released",
            "run say hi & exit 3; wait; wait; output; release; output; wait",
            &[
                FIRST,
                r#"{"exitCode":3,"signal":null}"#,
                r#"{"exitCode":3,"signal":null}"#,
                r#"{"exitStatus":{"exitCode":3,"signal":null},"output":"hi\n","truncated":false}"#,
                DONE,
                "no terminal terminal-1 (-32002)",
                "no terminal terminal-1 (-32002)",
            ],
        ),
        case("what is done is told", "run say hi & exit 3; wait; release").with(host).check(|seen| {
            let deeds = deeds(&seen.events);
            assert_eq!(deeds, ["started terminal-1 say hi ; exit 3", "exited terminal-1 Some(3) None"]);
        }),
        case(
            "agent-without-own-shell: nothing is hosted unless it is offered",
            "run say hi; read a; say end",
        )
        .check(|seen| {
            assert_eq!(seen.finished().output, "not offerednot offeredend");
        }),
        hosted(
            "a command that is killed can still be asked for",
            "run hang; kill; wait; output; release",
            &[
                FIRST,
                DONE,
                r#"{"exitCode":null,"signal":"SIGTERM"}"#,
                r#"{"exitStatus":{"exitCode":null,"signal":"SIGTERM"},"output":"","truncated":false}"#,
                DONE,
            ],
        ),
        case(
            "one that does not hear SIGTERM is killed all the same",
            "run --trap-term hang; kill; wait; release",
        )
        .with(host)
        .check(|seen| {
            // Its shell may not have come to the trap.
            let answers = answered(seen);
            assert!(answers[2].contains("SIGKILL") || answers[2].contains("SIGTERM"), "{answers:?}");
        }),
        hosted(
            "its end is told although another of its holds the pipe",
            "run --grandchild say up & exit 0; wait; release",
            &[FIRST, r#"{"exitCode":0,"signal":null}"#, DONE],
        ),
        case("what runs when the turn is over goes with the agent", "run hang; run hang; say end")
            .with(host)
            .check(|seen| {
                assert!(seen.finished().output.ends_with("end"));
                assert!(matches!(seen.events.last(), Some(Event::Closed(_))));
            }),
        case("what runs when the agent crashes goes with it", "run hang; die 3").with(host).check(|seen| {
            assert_eq!(seen.finished().outcome, Outcome::Error);
            assert!(matches!(seen.events.last(), Some(Event::Closed(_))));
        }),
    ]
}

fn limits() -> Vec<Case> {
    vec![
        hosted(
            "the end of the output is kept",
            "run say 0123456789012345678901234567890123456789 & say 中中中中中中中中中中 & exit 0; wait; output",
            &[
                FIRST,
                r#"{"exitCode":0,"signal":null}"#,
                r#"{"exitStatus":{"exitCode":0,"signal":null},"output":"89012345678901234567890123456789\n中中中中中中中中中中\n","truncated":true}"#,
            ],
        ),
        hosted(
            "no more commands than may be at once",
            "run exit 0; run hang; run exit 0; release; wait terminal-7",
            &[
                FIRST,
                r#"{"terminalId":"terminal-2"}"#,
                "2 terminals are there already: release those that are not needed (-32603)",
                DONE,
                "no terminal terminal-7 (-32002)",
            ],
        ),
    ]
}

fn files() -> Vec<Case> {
    let written = "this is longer than thirty-two bytes";
    let long: &'static str = Box::leak(format!("write a {written}").into_boxed_str());
    vec![
        case("a file is written and read", "write d/a some text; read d/a").with(host).check(|seen| {
            assert_eq!(answered(seen), [DONE, r#"{"content":"some text"}"#]);
            let file = std::path::Path::new(&seen.workspace).join("d/a");
            assert_eq!(fs::read_to_string(file).expect("a file"), "some text");
            assert_eq!(deeds(&seen.events), ["wrote a 9", "read a"]);
        }),
        hosted(
            "nothing outside of the workspace",
            "read /etc/passwd; read ../x; write /etc/al-x no; read a/../../x; read .; read no",
            &[
                "/etc/passwd is outside of the workspace (-32602)",
                "../x is outside of the workspace (-32602)",
                "/etc/al-x is outside of the workspace (-32602)",
                "a/../../x is not there (-32002)",
                ". is a folder (-32602)",
                "no is not there (-32002)",
            ],
        ),
        hosted("nor what is too long", long, &["a is longer than 0 MiB (-32603)"]),
    ]
}

/// With these rules.
fn ruled(name: &str, prompt: &'static str, list: &'static str, answers: &'static [&str]) -> Case {
    hosted(name, prompt, answers).with(move |config| {
        host(config);
        config.conversation.rules.own = rules::rules(list.as_bytes(), "own").expect("rules");
    })
}

fn decisions() -> Vec<Case> {
    const NO: &str = "the user does not permit it (-32603)";
    let reject =
        r#"{"rules":[{"kind":"execute","then":"reject"},{"kind":"edit","path":"d","then":"reject"}]}"#;
    let ask = r#"{"rules":[{"kind":["read","execute"],"then":"ask"}]}"#;
    let person = |option: &'static str| {
        move |event: Option<&Event>| {
            let Some(Event::PermissionAsked(asked)) = event else { return None };
            assert_eq!(asked.asked.options.len(), 2);
            let outcome = PermissionOutcome::selected(option);
            Some(Command::Answer { request: asked.request, outcome })
        }
    };
    let asked = |name, answers, option, verdict| {
        ruled(name, "read a", ask, answers)
            .with(move |config| {
                host(config);
                config.conversation.rules.own = rules::rules(ask.as_bytes(), "own").expect("rules");
                config.conversation.questions = Questions::Ask;
            })
            .play(person(option))
            .check(move |seen| {
                let [decision] = &seen.finished().permissions[..] else { panic!("one decision") };
                assert_eq!((decision.decision, decision.by), (verdict, By::User));
                assert_eq!(decision.rule.as_deref(), Some("own rules[0]"));
                assert_eq!(answered(seen), answers);
            })
    };
    vec![
        ruled("a rule stands in the way", "run hang; write d/a x; write a x", reject, &[]).check(|seen| {
            assert_eq!(answered(seen), [NO, NO, DONE]);
            let decided = seen.finished().permissions.iter();
            let decided: Vec<_> = decided.map(|it| (it.decision, it.by, it.rule.as_deref())).collect();
            let by = |rule| (Verdict::Rejected, By::Rule, Some(rule));
            assert_eq!(decided, [by("own rules[0]"), by("own rules[1]")]);
            assert_eq!(deeds(&seen.events), ["wrote a 1"]);
        }),
        ruled("where nobody can be asked it is rejected", "run hang", ask, &[NO]),
        asked("or a person is asked, who allows it", &["a is not there (-32002)"], "allow", Verdict::Allowed),
        asked("or not", &[NO], "reject", Verdict::Rejected),
    ]
}
