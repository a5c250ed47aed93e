//! What the published client does, case by case, and the two cases where this one differs.

use std::time::Duration;

use agentline_core::acp::session::Elicitation;
use agentline_core::acp::{ContentBlock, PermissionOutcome};
use agentline_core::link::Rung;
use agentline_core::problem::{AgentExit, Kind, Phase, RootCause};
use agentline_core::rules;
use agentline_core::subagent::provider::{Permission, Provider, Task};
use agentline_core::subagent::{
    Allow, Budget, By, Choice, Command, Config, Errand, Event, Outcome, Policy, Questions, Verdict,
};
use agentline_core::{Exit, Group, Stderr};
use tempfile::TempDir;

use crate::rig::{Play, Seen};

/// A row of the table.
pub(crate) struct Case {
    name: String,
    prompt: &'static str,
    provider: Provider,
    play: Play,
    cancel_grace: Duration,
    tweak: Box<dyn FnOnce(&mut Config)>,
    check: Check,
}

type Check = Box<dyn FnOnce(&Seen)>;

impl Case {
    /// Plays it with `program` as the scripted agent and compares.
    pub(crate) fn run(mut self, program: &str, runtime: impl FnOnce(Config, Play) -> Seen) {
        let workspace = TempDir::with_prefix("al").expect("a workspace");
        let workspace = workspace.path().canonicalize().expect("its real path");
        if self.provider.command.is_empty() {
            self.provider.command = program.into();
        }
        let task = Task {
            prompt: vec![ContentBlock::text(self.prompt)],
            parent_cwd: Some(workspace.clone()),
            ..Task::default()
        };
        let provider = self.provider.load(&workspace, |_| true).expect("a provider");
        let mut config = provider.plan(task, |_| true, ambient()).expect("a plan");
        config.conversation.client.timeouts.cancel = Some(self.cancel_grace);
        (self.tweak)(&mut config);
        let seen = runtime(config, self.play);
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.check)(&seen)));
        assert!(looked.is_ok(), "{}: {seen:#?}", self.name);
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.provider.args = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self
    }

    fn command(mut self, command: &str) -> Self {
        self.provider.command = command.into();
        self
    }

    fn allow(mut self) -> Self {
        self.provider.permission = Permission::Allow;
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.provider.env.insert(name.into(), value.to_owned().into());
        self
    }

    fn cwd(mut self, cwd: &str) -> Self {
        self.provider.cwd = Some(cwd.into());
        self
    }

    pub(crate) fn play(mut self, play: impl FnMut(Option<&Event>) -> Option<Command> + 'static) -> Self {
        self.play = Box::new(play);
        self
    }

    pub(crate) fn with(mut self, tweak: impl FnOnce(&mut Config) + 'static) -> Self {
        self.tweak = Box::new(tweak);
        self
    }

    pub(crate) fn check(mut self, check: impl FnOnce(&Seen) + 'static) -> Self {
        self.check = Box::new(check);
        self
    }
}

/// Graces that a test can wait for.
const EOF_GRACE: Duration = Duration::from_millis(50);
const TERM_GRACE: Duration = Duration::from_millis(40);
const CANCEL_GRACE: Duration = Duration::from_millis(60);

pub(crate) fn case(name: impl Into<String>, prompt: &'static str) -> Case {
    let provider = Provider {
        provider_name: "acp".into(),
        command: String::new(),
        args: Vec::new(),
        cwd: None,
        permission: Permission::Reject,
        env: std::collections::BTreeMap::new(),
        stderr: Stderr::Inherit,
        // On a busy machine too, who leaves by itself is not told to.
        dispose_eof_grace_ms: 10_000,
        dispose_grace_ms: 40,
    };
    Case {
        name: name.into(),
        prompt,
        provider,
        play: Box::new(|_| None),
        cancel_grace: CANCEL_GRACE,
        tweak: Box::new(|_| {}),
        check: Box::new(|_| {}),
    }
}

/// What is in our environment.
fn ambient() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let secrets = ["AWS_SECRET_ACCESS_KEY", "github_token", "DSH_HOME", "MONKEY"];
    let secrets = secrets.map(|name| (name.into(), "ambient".into()));
    [("PATH".into(), path), ("PLAIN".into(), "ambient".into())].into_iter().chain(secrets).collect()
}

fn at_start(command: Command) -> impl FnMut(Option<&Event>) -> Option<Command> {
    move |event| event.is_none().then(|| command.clone())
}

/// Gives the commands one after the other, each after the next piece of text.
fn on_text(commands: &'static [Command]) -> impl FnMut(Option<&Event>) -> Option<Command> {
    let mut left = commands.iter();
    move |event| matches!(event, Some(Event::Text(_))).then(|| left.next().cloned()).flatten()
}

/// The whole table.
pub(crate) fn cases() -> Vec<Case> {
    [
        endings(),
        permissions(),
        rules(),
        questions(),
        budgets(),
        crate::hosted::cases(),
        crate::offered::cases(),
        logins(),
        asked_again(),
        cancelling(),
        leaving(),
        starting(),
        workspace(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn endings() -> Vec<Case> {
    let reasons = [
        ("stop end_turn", "end_turn", Outcome::Completed),
        ("stop max_tokens", "max_tokens", Outcome::MaxTokens),
        ("stop refusal", "refusal", Outcome::Refusal),
        ("stop cancelled", "cancelled", Outcome::Aborted),
        ("stop max_turn_requests", "max_turn_requests", Outcome::Error),
        ("stop weird", "weird", Outcome::Error),
    ];
    let stops = reasons.into_iter().map(|(stop, reason, outcome)| {
        let prompt = Box::leak(format!("say partial; {stop}").into_boxed_str());
        case(stop, prompt).check(move |seen| {
            let result = seen.finished();
            assert_eq!((result.outcome, &*result.output), (outcome, "partial"));
            assert_eq!(result.stop_reason.as_deref(), Some(reason));
        })
    });
    let mut cases: Vec<Case> = stops.collect();
    cases.extend([
        case("an answer is the agent's text, in pieces without anything between", "chunks 100").check(
            |seen| {
                let expected: String = (0..100).map(|number| format!("c{number} ")).collect();
                assert_eq!(seen.finished().output, expected);
            },
        ),
        case("thoughts and tools are no part of the answer", "think; tool look; say done").check(|seen| {
            assert_eq!(seen.finished().output, "done");
        }),
        case("an exit in the middle of the turn keeps the text", "say bye; die 3").check(|seen| {
            let result = seen.finished();
            let failed = result.error.as_ref().expect("a failure");
            assert_eq!(
                (result.outcome, &*result.output, &result.stop_reason),
                (Outcome::Error, "bye", &None)
            );
            assert_eq!((failed.kind(), failed.phase), (Kind::Exited, Phase::Prompt));
            assert_eq!(failed.agent_exit, Some(AgentExit::Code(3)));
            assert_eq!(seen.closed().obituary.exit, Some(Exit::Code(3)));
        }),
        case("an agent that fails is an error", "say so; fail").check(|seen| {
            let result = seen.finished();
            let failed = result.error.as_ref().expect("a failure");
            assert_eq!((result.outcome, &*result.output, failed.kind()), (Outcome::Error, "so", Kind::Rpc));
            let said = matches!(&failed.cause, RootCause::Rpc(error) if error.message == "Internal error");
            assert!(said, "{failed:?}");
        }),
        case("a line of noise harms nobody", "say fine").flags(&["--noise"]).check(|seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "fine"));
        }),
    ]);
    cases
}

fn permissions() -> Vec<Case> {
    const USUAL: &str = "perm reject_once,allow_always,allow_once";
    let case = |name, prompt, answer: &'static str, verdict| {
        case(name, prompt).check(move |seen| {
            let result = seen.finished();
            assert_eq!((result.outcome, &*result.output), (Outcome::Completed, answer));
            let [decision] = &result.permissions[..] else { panic!("one decision") };
            assert_eq!((decision.decision, decision.by), (verdict, By::Policy));
            assert_eq!(decision.option_id.as_deref(), (answer != "cancelled").then_some(answer));
            assert_eq!((&*decision.tool_call_id, decision.title.as_deref()), ("t1", Some("edit")));
        })
    };
    let (allowed, rejected, cancelled) = (Verdict::Allowed, Verdict::Rejected, Verdict::Cancelled);
    vec![
        // Differs: the published client answers `cancelled`, which the protocol keeps for cancelled turns.
        case("reject takes what rejects once", USUAL, "reject_once-0", rejected),
        case("and not what rejects for good", "perm reject_always,reject_once", "reject_once-1", rejected),
        case("or else what rejects for good", "perm allow_once,reject_always", "reject_always-1", rejected),
        case("or else nothing", "perm allow_once", "cancelled", cancelled),
        case("reject knows nothing of kinds to come", "perm reject_some", "cancelled", cancelled),
        case("allow takes the first that allows", USUAL, "allow_always-1", allowed).allow(),
        case(
            "allow-policy-picks-options0: allow takes no rejection",
            "perm reject_once,reject_always",
            "cancelled",
            cancelled,
        )
        .allow(),
        case("allow takes no kind to come", "perm allow_some", "cancelled", cancelled).allow(),
        case("nothing to choose from is nothing chosen", "perm", "cancelled", cancelled).allow(),
    ]
}

fn rules() -> Vec<Case> {
    const USUAL: &str = "perm reject_once,allow_always,allow_once";
    let ruled = |name, prompt, own: &'static str, project: &'static str, answer: &'static str, by: By| {
        let rules = move |config: &mut Config| {
            config.conversation.rules.own = rules::rules(own.as_bytes(), "own").expect("rules");
            config.conversation.rules.project =
                rules::project_rules(project.as_bytes(), "project").expect("rules");
            config.conversation.policy = Policy::Allow(Allow::OnceFirst);
        };
        case(name, prompt).with(rules).check(move |seen| {
            let result = seen.finished();
            assert_eq!((result.outcome, &*result.output), (Outcome::Completed, answer));
            let [decision] = &result.permissions[..] else { panic!("one decision") };
            assert_eq!((decision.by, decision.rule.is_some()), (by, by == By::Rule));
        })
    };
    let (none, no_project) = (r#"{"rules":[]}"#, "{}");
    let reject = r#"{"rules":[{"kind":"read","then":"ask"},{"kind":"other","then":"reject"}]}"#;
    let ask = r#"{"permissions":{"rules":[{"then":"ask"}]}}"#;
    let (always, once) = (
        r#"{"rules":[{"then":"allow_always"}]}"#,
        r#"{"rules":[{"tool":"x","then":"reject"},{"then":"allow"}]}"#,
    );
    vec![
        ruled("without rules the policy decides", USUAL, none, no_project, "allow_once-2", By::Policy),
        ruled("the first rule that fits decides", USUAL, reject, no_project, "reject_once-0", By::Rule),
        ruled(
            "it rejects once, or chooses nothing",
            "perm reject_always",
            reject,
            no_project,
            "cancelled",
            By::Rule,
        ),
        ruled("it allows for good where it says so", USUAL, always, no_project, "allow_always-1", By::Rule),
        ruled("and else once", USUAL, once, no_project, "allow_once-2", By::Rule),
        ruled(
            "or has nobody to ask",
            "perm allow_always,reject_once",
            once,
            no_project,
            "reject_once-1",
            By::Rule,
        ),
        ruled("a project is stricter than the policy", USUAL, none, ask, "reject_once-0", By::Rule),
        ruled("and than a rule", USUAL, once, ask, "reject_once-0", By::Rule),
        ruled("and a person is asked where there is one", USUAL, once, ask, "allow_once-2", By::User)
            .with(move |config| {
                config.conversation.rules.own = rules::rules(once.as_bytes(), "own").expect("rules");
                config.conversation.rules.project =
                    rules::project_rules(ask.as_bytes(), "project").expect("rules");
                config.conversation.questions = Questions::Ask;
            })
            .check(|seen| {
                let [decision] = &seen.finished().permissions[..] else { panic!("one decision") };
                assert_eq!((decision.by, decision.rule.as_deref()), (By::User, Some("project rules[0]")));
            })
            .play(|event| {
                let Some(Event::PermissionAsked(asked)) = event else { return None };
                let outcome = PermissionOutcome::selected("allow_once-2");
                Some(Command::Answer { request: asked.request, outcome })
            }),
    ]
}

fn questions() -> Vec<Case> {
    let asked = |name, prompt, who: Questions, answer: &'static str, by: By| {
        let offers = move |config: &mut Config| {
            config.conversation.client.capabilities.elicitation = Elicitation { form: true, url: true };
            config.conversation.questions = who;
        };
        case(name, prompt).with(offers).check(move |seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, answer));
            let decided = seen.events.iter().filter_map(|event| {
                if let Event::QuestionDecided(decided) = event { Some(decided.by) } else { None }
            });
            assert_eq!(decided.collect::<Vec<_>>(), [by]);
        })
    };
    let given = |values: &str| Questions::Given(serde_json::from_str(values).expect("values"));
    let (declined, accepted) = (r#"{"action":"decline"}"#, r#"{"action":"accept","content":{"n":3}}"#);
    let reply = |reply: &'static str| {
        move |event: Option<&Event>| {
            let Some(Event::QuestionAsked(asked)) = event else { return None };
            let reply = serde_json::from_str(reply).expect("a reply");
            Some(Command::Reply { request: asked.request, reply })
        }
    };
    vec![
        asked("a form that nobody answers is declined", "form", Questions::Decline, declined, By::Policy),
        asked("values that were given fill it in", "form", given(r#"{"n":3,"x":"y"}"#), accepted, By::Policy),
        asked("those that do not fit do not", "form", given(r#"{"n":"3"}"#), declined, By::Policy),
        asked("nor do those of other fields", "form", given(r#"{"w":"a"}"#), declined, By::Policy),
        asked(
            "a page is agreed to by nobody but a person",
            "page",
            given(r#"{"n":3}"#),
            declined,
            By::Policy,
        ),
        asked("a person fills it in", "form", Questions::Ask, accepted, By::User).play(reply(accepted)),
        asked("or does not", "form", Questions::Ask, declined, By::User).play(reply(declined)),
        asked("a person goes to the page", "page", Questions::Ask, r#"{"action":"accept"}"#, By::User)
            .play(reply(r#"{"action":"accept"}"#)),
        case("an agent asks nothing that was not offered", "form; say on")
            .check(|seen| {
                assert_eq!(seen.finished().outcome, Outcome::Aborted);
            })
            .play(|event| matches!(event, Some(Event::SessionOpened(_))).then_some(Command::Cancel)),
    ]
}

fn budgets() -> Vec<Case> {
    let spends = |name, prompt, budget: Budget| {
        case(name, prompt).with(move |config| config.conversation.budget = budget)
    };
    let over = |seen: &Seen| {
        let result = seen.finished();
        let failed = result.error.as_ref().expect("a failure");
        assert_eq!(
            (result.outcome, failed.kind(), failed.phase),
            (Outcome::Error, Kind::Limit, Phase::Prompt)
        );
        assert!(!result.output.contains("after"), "{}", result.output);
    };
    let within = |seen: &Seen| {
        assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "after"));
    };
    let cost = |most| Budget { cost: Some(most), tools: None };
    let tools = |most| Budget { cost: None, tools: Some(most) };
    vec![
        spends("what costs as much as it may goes on", "spend 0.5; say after", cost(500_000)).check(within),
        spends("what costs more is stopped", "spend 0.500001; sleep 600000; say after", cost(500_000))
            .check(over),
        spends("no cost is no cost", "spend 7; say after", Budget::default()).check(within),
        spends("as many tools as may be", "tool a; tool b; say after", tools(2)).check(within),
        spends("one too many", "tool a; tool b; tool c; sleep 600000; say after", tools(2)).check(over),
        spends("an agent that does not hear it is left", "tool a; hang", tools(0)).check(over),
        spends("an agent that dies of it was stopped for that", "tool a; die 3", tools(0)).check(over),
    ]
}

fn logins() -> Vec<Case> {
    let login = |name, by: Option<&'static str>| {
        case(name, "say in")
            .flags(&["--login"])
            .with(move |config| config.conversation.login = by.map(Into::into))
    };
    let errand = |name, errand: Errand| {
        case(name, "").flags(&["--login"]).with(|config| {
            config.conversation.session = Choice::Errand(errand);
            config.prompt.clear();
        })
    };
    let done = |seen: &Seen| assert_eq!(seen.finished().outcome, Outcome::Completed);
    vec![
        login("an agent that wants a login is given it, and asked again", Some("l")).check(|seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "in"));
        }),
        login("without one that is the end", None).check(move |seen| {
            failed(Kind::NeedsLogin, Phase::Session)(seen);
            assert_eq!(seen.finished().logins().len(), 1);
        }),
        login("a login that it does not offer is a wrong wish", Some("x"))
            .check(failed(Kind::Usage, Phase::Authenticate)),
        login("nor does it one that is a program", Some("t")).check(failed(Kind::Usage, Phase::Authenticate)),
        errand("one can log in and do nothing else", Errand::Login("l".into())).check(done),
        errand("and log out", Errand::Logout).check(done),
        errand("a list that is not offered is a wrong wish", Errand::List(None))
            .check(failed(Kind::Usage, Phase::Session)),
    ]
}

/// Asserts how it failed.
fn failed(kind: Kind, phase: Phase) -> impl FnOnce(&Seen) {
    move |seen| {
        let failed = seen.finished().error.as_ref().expect("a failure");
        assert_eq!((failed.kind(), failed.phase), (kind, phase));
    }
}

fn asked_again() -> Vec<Case> {
    let judged = |name, again| {
        case(name, "say no").with(move |config| config.again = Some(again)).play(|event| match event {
            Some(Event::Answered(answered)) if answered.message == "yes" => Some(Command::Accept),
            Some(Event::Answered(_)) => {
                let prompt = vec![ContentBlock::text("say yes")];
                Some(Command::Reject { why: "it is no yes".into(), prompt })
            }
            Some(_) | None => None,
        })
    };
    let overloaded = |name, retries| {
        case(name, "overload 2; say at last").with(move |config| config.conversation.retries = retries)
    };
    let times = |seen: &Seen| seen.events.iter().filter(|it| matches!(it, Event::Retrying(_))).count();
    vec![
        judged("an answer that is not what was wanted is asked for again", 1).check(|seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "yes"));
        }),
        judged("but only as often as it may", 0).check(failed(Kind::Unwanted, Phase::Prompt)),
        overloaded("who is too busy is asked again when it says", 2).check(move |seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "at last"));
            assert_eq!(times(seen), 2);
            assert!(seen.took.is_none_or(|took| took == Duration::from_millis(50)), "{:?}", seen.took);
        }),
        overloaded("but only as often as it may be", 1).check(move |seen| {
            failed(Kind::Rpc, Phase::Prompt)(seen);
            assert_eq!(times(seen), 1);
        }),
    ]
}

fn cancelling() -> Vec<Case> {
    let aborted = |name, prompt| {
        case(name, prompt).check(|seen| {
            let result = seen.finished();
            assert_eq!((result.outcome, &*result.output, &result.error), (Outcome::Aborted, "so far", &None));
        })
    };
    vec![
        aborted("a cancelled turn ends by the agent's word", "say so far; sleep 600000")
            .play(on_text(&[Command::Cancel]))
            .check(|seen| {
                let result = seen.finished();
                assert_eq!(
                    (result.outcome, result.stop_reason.as_deref()),
                    (Outcome::Aborted, Some("cancelled"))
                );
                assert!(seen.took.is_none_or(|took| took.is_zero()));
            }),
        // The published client does not wait for the agent's word; here it is waited for, but not for ever.
        aborted("or without, when it does not come", "say so far; hang")
            .play(on_text(&[Command::Cancel]))
            .check(|seen| {
                assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Aborted, "so far"));
                assert!(seen.took.is_none_or(|took| took == CANCEL_GRACE), "{:?}", seen.took);
                assert_eq!(seen.closed().obituary.rung, Rung::Eof);
            }),
        aborted("who cancels twice does not wait", "say so; say  far; hang")
            .play(on_text(&[Command::Cancel, Command::Cancel]))
            .check(|seen| {
                assert_eq!(seen.finished().outcome, Outcome::Aborted);
                assert!(seen.took.is_none_or(|took| took.is_zero()), "{:?}", seen.took);
            }),
        aborted("to dispose of a run cancels it", "say so far; hang").play(on_text(&[Command::Dispose])),
        case("to cancel what is over changes nothing", "say done")
            .play(|event| matches!(event, Some(Event::Finished(_))).then_some(Command::Cancel))
            .check(|seen| {
                assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "done"));
            }),
        case("cancelled before there is a child", "say never").play(at_start(Command::Cancel)).check(
            |seen| {
                assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Aborted, ""));
                assert!(seen.finished_last(), "told before the child was gone");
            },
        ),
        case("cancelled during the handshake, the run ends with the child", "say never")
            .flags(&["--slow-init", "30"])
            .play(at_start(Command::Cancel))
            .check(|seen| {
                assert_eq!(seen.finished().outcome, Outcome::Aborted);
                assert!(seen.finished_last(), "told before the child was gone");
                assert_eq!(seen.closed().obituary.rung, Rung::Eof);
            }),
        case("cancelled before the session", "say never")
            .play(|event| matches!(event, Some(Event::Ready(_))).then_some(Command::Cancel))
            .check(|seen| {
                assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Aborted, ""));
                assert!(seen.finished_last(), "told before the child was gone");
            }),
    ]
}

fn leaving() -> Vec<Case> {
    let leaves = |name, flags: &[&str], rung, grace: Duration| {
        case(name, "say done").flags(flags).check(move |seen| {
            assert_eq!((seen.finished().outcome, &*seen.finished().output), (Outcome::Completed, "done"));
            let obituary = &seen.closed().obituary;
            assert_eq!((obituary.rung, obituary.group), (rung, Some(Group::Gone)));
            // The last look for the group may be a little late.
            assert!(
                seen.took.is_none_or(|took| took >= grace && took < grace + EOF_GRACE),
                "{:?}",
                seen.took
            );
        })
    };
    let rude = |name, flags: &[&str], rung, grace| {
        let mut case = leaves(name, flags, rung, grace);
        case.provider.dispose_eof_grace_ms = 50;
        case
    };
    vec![
        leaves("a polite agent leaves at the end of its input", &[], Rung::Eof, Duration::ZERO),
        rude("one that does not is told to", &["--ignore-eof"], Rung::Term, EOF_GRACE),
        rude(
            "one that does not hear is killed",
            &["--ignore-eof", "--trap-term"],
            Rung::Kill,
            EOF_GRACE + TERM_GRACE,
        ),
        rude("what it leaves behind goes too", &["--grandchild"], Rung::Term, EOF_GRACE),
    ]
}

fn starting() -> Vec<Case> {
    let failed = |name, kind, phase| {
        case(name, "say never").check(move |seen| {
            let result = seen.finished();
            let failed = result.error.as_ref().expect("a failure");
            assert_eq!((result.outcome, failed.kind(), failed.phase), (Outcome::Error, kind, phase));
            assert!(seen.finished_last(), "told before the child was gone");
        })
    };
    vec![
        // Differs: the published client rejects the start. Here whatever is tried has a result, as it is said
        // to (PROTOCOLS.md, ACP subagent).
        failed("a missing command is a result", Kind::NotFound, Phase::Spawn).command("no-such-agent"),
        failed("an agent that exits at once is a result", Kind::Exited, Phase::Initialize)
            .flags(&["--exit", "0"]),
    ]
}

fn workspace() -> Vec<Case> {
    vec![
        case("the child works in the workspace, and is told the same one", "cwd").check(|seen| {
            let workspace = &seen.workspace;
            assert_eq!(seen.finished().output, format!("{workspace}|{workspace}"));
        }),
        case("a proof lands in the workspace", "proof it works").check(|seen| {
            assert_eq!(seen.proof.as_deref(), Some("it works"));
        }),
        case("and in the configured one", "proof it works; cwd").cwd(".").check(|seen| {
            assert_eq!(seen.proof.as_deref(), Some("it works"));
        }),
        case("no credential of ours reaches the child, unless it is given", "env _; env M; env PLAIN")
            .env("DEEPSEEK_API_KEY", "given")
            .check(|seen| {
                assert_eq!(seen.finished().output, "DEEPSEEK_API_KEY=givenPLAIN=ambient");
            }),
    ]
}
