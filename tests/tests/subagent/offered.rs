//! What is offered beyond the baseline, as the agent sees it and as it is told: agents of the agent, notices, compaction,
//! plans by id, options that are on or off.

use agentline_core::acp::session::{ClientSessions, OptionTypes};
use agentline_core::acp::{SessionId, Update};
use agentline_core::subagent::{Allow, By, Config as Run, Event, Outcome, Policy, Setting, Verdict};

use crate::cases::{Case, case};
use crate::rig::Seen;

fn everything(config: &mut Run) {
    let offers = &mut config.conversation.client.capabilities;
    (offers.subagents, offers.plan) = (true, true);
    offers.session =
        ClientSessions { config_options: OptionTypes { boolean: true }, notices: true, compaction: true };
    config.conversation.policy = Policy::Allow(Allow::OnceFirst);
}

pub(crate) fn cases() -> Vec<Case> {
    [subagents(), news(), options()].into_iter().flatten().collect()
}

/// What was told of agents of the agent: whose, for whom, and what.
fn below(seen: &Seen) -> Vec<String> {
    let below = seen.events.iter().filter_map(|event| {
        let Event::Updated(updated) = event else { return None };
        let of = updated.of.as_ref().map_or("-", SessionId::as_str);
        Some(format!("{} of {of}: {}", updated.session, said(&updated.update)))
    });
    below.collect()
}

fn said(update: &Update) -> &str {
    match update {
        Update::Message(_, chunk) => chunk.content.as_text().unwrap_or_default(),
        Update::ToolCall(call) => &call.title,
        Update::ToolCallUpdate(_)
        | Update::Plan(_)
        | Update::AvailableCommands(_)
        | Update::CurrentMode(_)
        | Update::ConfigOptions(_)
        | Update::SessionInfo(_)
        | Update::Usage(_)
        | Update::Other(_) => update.tag(),
    }
}

/// The answer, and the one decision.
fn permitted(seen: &Seen, output: &str) {
    let finished = seen.finished();
    assert_eq!((finished.outcome, &*finished.output), (Outcome::Completed, output));
    let [decision] = &finished.permissions[..] else { panic!("one decision") };
    assert_eq!((decision.decision, decision.by), (Verdict::Allowed, By::Policy));
}

fn subagents() -> Vec<Case> {
    const OWN: &str = "say before; sub scout; as scout; tool look; perm allow_once; say there; as; say after";
    const ROOT: &str =
        "sub scout; as scout; tool look; as; perm allow_once; as scout; say there; as; say after";
    vec![
        case("what a subagent does and asks by a session of its own is below the agent", OWN)
            .with(everything)
            .check(|seen| {
                permitted(seen, "beforeafter");
                let told = ["s-1 of -: subagent_update", "scout of s-1: look", "scout of s-1: allow_once-0"];
                assert_eq!(below(seen), [&told[..], &["scout of s-1: there"]].concat());
            }),
        case("and what it asks by the session that it works for is the same question", ROOT)
            .with(everything)
            .check(|seen| {
                permitted(seen, "allow_once-0after");
                let told = ["s-1 of -: subagent_update", "scout of s-1: look", "scout of s-1: there"];
                assert_eq!(below(seen), told);
            }),
        case("where nobody wants to know of subagents, the agent does it all", OWN)
            .with(|config| config.conversation.policy = Policy::Allow(Allow::OnceFirst))
            .check(|seen| permitted(seen, "before\nallow_once-0thereafter")),
    ]
}

fn news() -> Vec<Case> {
    let tags = ["notice", "compaction_update", "compaction_update", "plan_update", "plan_removed"];
    vec![
        case("notices, compaction and plans by id are told where they are offered", "news; say end")
            .with(everything)
            .check(move |seen| {
                let told = tags.map(|tag| format!("s-1 of -: {tag}"));
                assert_eq!(below(seen), told);
                assert_eq!(seen.finished().output, "end");
            }),
        case("and else they are not sent", "news").check(|seen| {
            assert_eq!(below(seen), [""; 0]);
            assert_eq!(seen.finished().output, "not offered".repeat(5));
        }),
    ]
}

fn options() -> Vec<Case> {
    let setting = || vec![Setting::Option("brief".into(), "yes".into())];
    vec![
        case("an option that is on or off is set where it is offered", "brief")
            .flags(&["--options"])
            .with(move |config| {
                everything(config);
                config.conversation.settings = setting();
            })
            .check(|seen| assert_eq!(seen.finished().output, "on")),
        case("and else there is none", "brief")
            .flags(&["--options"])
            .with(move |config| config.conversation.settings = setting())
            .check(|seen| assert_eq!(seen.finished().outcome, Outcome::Error)),
    ]
}
