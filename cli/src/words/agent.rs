//! Why an agent came to nothing: the cause in a sentence, and what to try next.

use std::path::Path;
use std::time::Duration;

use agentline_core::acp::Notice;
use agentline_core::acp::session::{AuthMethod, Unsettable, one_of};
use agentline_core::conversation::Overspent;
use agentline_core::problem::passing::Passing;
use agentline_core::problem::{Clock, Failed, Foreign, Millionths, Phase, RootCause};
use agentline_core::{Exit, OpenError, Refused};

use super::quote::{quote, quote_error};
use super::{Problem, command_line};
use crate::output::span;

/// Whom a sentence is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// What people call it.
    pub(crate) name: &'a str,
    /// Its id, where it was given by one.
    pub(crate) id: Option<&'a str>,
    /// Program and arguments, where they are known.
    pub(crate) command: &'a [String],
    /// The command that started it, which has options of its own.
    pub(crate) verb: Verb,
}

/// The commands that start an agent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Verb {
    #[default]
    Run,
    Chat,
    Check,
    Login,
}

impl Verb {
    /// Whether it has the option --retry.
    const fn has_retry(self) -> bool {
        matches!(self, Self::Run | Self::Chat)
    }

    /// The option that sets a clock, where there is one.
    const fn option(self, clock: Clock) -> Option<&'static str> {
        match (self, clock) {
            (_, Clock::Initialize) => Some("--init-timeout"),
            (Self::Run | Self::Chat, Clock::Silence) => Some("--idle-timeout"),
            (Self::Run | Self::Chat, Clock::Cancel) => Some("--cancel-grace"),
            (Self::Run, Clock::Run) | (Self::Check, Clock::Turn) => Some("--timeout"),
            (Self::Check, Clock::Session) => Some("--session-timeout"),
            (
                Self::Run | Self::Chat | Self::Check | Self::Login,
                Clock::Session
                | Clock::Authenticate
                | Clock::Request
                | Clock::Turn
                | Clock::Silence
                | Clock::Cancel
                | Clock::Run,
            ) => None,
        }
    }
}

/// A failed run, in words.
pub(crate) fn problem(failed: &Failed, about: Subject<'_>) -> Problem {
    let problem = Problem::of(failed, message(failed, about));
    match hint(failed, about) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn message(failed: &Failed, about: Subject<'_>) -> String {
    let name = about.name;
    match &failed.cause {
        RootCause::Unopened(OpenError::NotExecutable) if about.is_folder() => {
            format!("{name} cannot be started: it is a folder")
        }
        RootCause::Unopened(error) => format!("{name} cannot be started: {error}"),
        RootCause::Gone(exit) => gone(failed.phase, *exit, name),
        RootCause::NotAcp(Foreign::Wrote(line)) => {
            format!("{name} does not speak ACP; it wrote: {}", quote(line))
        }
        RootCause::NotAcp(Foreign::Echo) => format!("{name} does not speak ACP: it sends back what it gets"),
        RootCause::NotAcp(Foreign::NoInitialize) => format!("{name} does not know initialize"),
        RootCause::NotAcp(Foreign::Framing(why)) => format!("{name} does not speak ACP: {why}"),
        RootCause::WrongVersion(version) => format!("{name} speaks version {version} of ACP, not 1"),
        RootCause::TimedOut { clock, after, saw } => {
            let said = timed_out(*clock, *after, about);
            saw.as_ref().map_or_else(|| said.clone(), |saw| format!("{said}; {}", notice(saw)))
        }
        RootCause::NeedsLogin { error, .. } => format!("{name} wants a login: {}", quote_error(error)),
        RootCause::Rpc(error) => format!("{name} answered: {} ({})", quote_error(error), error.code),
        RootCause::BadValue { error, .. } | RootCause::UnknownSession(error) => {
            format!("{name} answered: {} ({})", quote_error(error), error.code)
        }
        RootCause::Unsettable(Unsettable::NotOffered { what, .. }) => format!("{name} offers no {what}"),
        RootCause::Unsettable(Unsettable::NotABool { option, value }) => {
            format!("{option} is on or off, not {value}")
        }
        RootCause::Unreadable(why) => {
            format!("{name}'s answer to {} cannot be read: {}", asked(failed.phase), quote(why))
        }
        RootCause::Fault(fault) => format!("{name} broke the protocol: {}", quote(&fault.to_string())),
        RootCause::Stopped(reason) => format!("{name} stopped: {}", quote(reason.as_str())),
        RootCause::Impossible(Refused::NotOffered(what)) => format!("{name} does not offer {what}"),
        RootCause::Impossible(refused) => refused.to_string(),
        RootCause::NoSession { cwd } => format!("{name} has no session in {cwd}"),
        RootCause::Rejected { title } => format!("permission was refused: {}", quote(title)),
        RootCause::Overspent(Overspent::Cost { spent, most, currency }) => {
            let (spent, most) = (Millionths(*spent), Millionths(*most));
            format!("cancelled: the session has cost {spent} {}, more than {most}", quote(currency))
        }
        RootCause::Overspent(Overspent::Tools { most }) => {
            format!("cancelled: {name} called more than {most} tool{}", if *most == 1 { "" } else { "s" })
        }
        RootCause::Unwanted { why } => format!("the answer of {name} does not fit the schema: {why}"),
        RootCause::Cancelled => "cancelled".to_owned(),
        RootCause::Undriven => "nobody drives the run any more".to_owned(),
    }
}

fn gone(phase: Phase, exit: Option<Exit>, name: &str) -> String {
    let during = if phase == Phase::Initialize {
        "during initialize"
    } else if phase == Phase::Authenticate {
        "during the login"
    } else if phase == Phase::Session {
        "while the session was opened"
    } else {
        "during the turn"
    };
    match exit {
        Some(Exit::Code(code)) => format!("{name} exited {during} with code {code}"),
        Some(Exit::Signal(signal)) => format!("{name} was ended by signal {signal} {during}"),
        Some(Exit::Unknown) | None => format!("{name} closed its output {during}"),
    }
}

/// The clock, its value, and the option that sets it.
fn timed_out(clock: Clock, after: Duration, about: Subject<'_>) -> String {
    let (name, after) = (about.name, span(after));
    let said = match clock {
        Clock::Initialize => format!("{name} did not answer initialize within {after}"),
        Clock::Session => format!("{name} did not answer the request for a session within {after}"),
        Clock::Authenticate => format!("{name} did not finish the login within {after}"),
        Clock::Request => format!("{name} did not answer within {after}"),
        Clock::Turn => format!("{name} did not end the turn within {after}"),
        Clock::Silence => format!("{name} was silent for {after} during the turn"),
        Clock::Cancel => format!("{name} did not confirm the cancel within {after}"),
        Clock::Run => format!("the run took longer than {after}"),
    };
    match about.verb.option(clock) {
        Some(option) => format!("{said} ({option})"),
        None => said,
    }
}

fn asked(phase: Phase) -> &'static str {
    if phase == Phase::Initialize {
        "initialize"
    } else if phase == Phase::Authenticate {
        "the login"
    } else if phase == Phase::Session {
        "the request for a session"
    } else {
        "the prompt"
    }
}

/// A peculiarity of the agent, to be read within a sentence.
pub(crate) fn notice(notice: &Notice) -> String {
    match notice {
        Notice::BadLine { start, .. } => format!("it wrote: {}", quote(start)),
        Notice::BadParams { method, why } => format!("its {} cannot be read: {}", quote(method), quote(why)),
        Notice::Orphan { id, open } => match &open[..] {
            [] => format!("a reply arrived with id {}, and none is waited for", quote(id)),
            [one] => format!("a reply arrived with id {}, expected {one}", quote(id)),
            [first, ..] => format!("a reply arrived with id {}, expected {first} or a later one", quote(id)),
        },
        Notice::LateEnd { session, .. } => {
            format!("a turn of session {} ended after it was given up", quote(session.as_str()))
        }
        Notice::Forgotten(session) => format!("session {} made room for another", quote(session.as_str())),
        Notice::Complaint { error, .. } => format!("it complained: {} ({})", quote_error(error), error.code),
        Notice::UnknownSession(session) => {
            format!("an update arrived for session {}, which is not open", quote(session.as_str()))
        }
    }
}

fn hint(failed: &Failed, about: Subject<'_>) -> Option<String> {
    let hint = match &failed.cause {
        RootCause::Unopened(error) => return start_otherwise(*error, about),
        RootCause::Gone(Some(Exit::Code(127))) => "a program that it needs is missing from PATH".into(),
        // What it complained of says more than we can guess.
        RootCause::Gone(Some(Exit::Code(_)) | None)
            if failed.phase == Phase::Initialize && failed.stderr_tail.is_none() && !about.asks_for_acp() =>
        {
            "does it want a flag such as --acp, or a subcommand?".into()
        }
        RootCause::NotAcp(Foreign::Echo) => "name the agent itself; this program copies its input".into(),
        RootCause::NotAcp(Foreign::Wrote(_) | Foreign::NoInitialize) => {
            "start it in its ACP mode: many agents want --acp, or a subcommand".into()
        }
        RootCause::WrongVersion(_) => "use a version of it that speaks ACP 1".into(),
        RootCause::TimedOut { clock: Clock::Initialize, .. } => match about.verb.option(Clock::Initialize) {
            Some(option) => {
                format!(
                    "a slow start is no broken agent: give it more time with {option}, or start it by hand"
                )
            }
            None => "start it by hand to see what it waits for".into(),
        },
        RootCause::TimedOut { clock, .. } => format!("give it more time: {}", about.verb.option(*clock)?),
        RootCause::NeedsLogin { methods, .. } => how_to_log_in(methods, about),
        RootCause::NoSession { .. } | RootCause::UnknownSession(_) => "leave out --resume".into(),
        RootCause::BadValue { values, .. } => one_of(values),
        RootCause::Unsettable(Unsettable::NotOffered { options, .. }) if !options.is_empty() => {
            format!("--set with {}", one_of(options))
        }
        RootCause::Unsettable(Unsettable::NotOffered { .. }) => return None,
        RootCause::Unsettable(Unsettable::NotABool { option, .. }) => {
            format!("--set {option}=true, or =false")
        }
        RootCause::Overspent(Overspent::Cost { .. }) => "a higher --max-cost".into(),
        RootCause::Overspent(Overspent::Tools { .. }) => "a higher --max-turns-tools".into(),
        RootCause::Unwanted { .. } => "more --schema-tries; --json shows what it said".into(),
        RootCause::Rpc(error) if about.verb.has_retry() && Passing::of(error).is_some() => {
            "later, or with --retry 3".into()
        }
        RootCause::Rejected { .. } => "allow it: --permission allow, or --permission ask".into(),
        RootCause::Gone(_)
        | RootCause::NotAcp(Foreign::Framing(_))
        | RootCause::Rpc(_)
        | RootCause::Unreadable(_)
        | RootCause::Fault(_)
        | RootCause::Stopped(_)
        | RootCause::Impossible(_)
        | RootCause::Cancelled
        | RootCause::Undriven => return None,
    };
    Some(hint)
}

fn start_otherwise(error: OpenError, about: Subject<'_>) -> Option<String> {
    let program = about.command.first().map_or("", String::as_str);
    let hint = if error == OpenError::NotFound && program.contains(char::is_whitespace) {
        format!("it is one word with a space in it; leave out the quotes: -- {program}")
    } else if error == OpenError::NotFound && program.contains('/') {
        format!("check the path {program}")
    } else if error == OpenError::NotFound {
        "check the name and PATH".into()
    } else if error == OpenError::NotExecutable && about.is_folder() {
        "name a program in it".into()
    } else if error == OpenError::NotExecutable {
        format!("make it executable: {}", command_line(&["chmod".into(), "+x".into(), program.into()]))
    } else if error == OpenError::NotAProgram {
        "reinstall it: a package's install step may have been blocked".into()
    } else if error == OpenError::NoInterpreter {
        "install the interpreter that its first line names".into()
    } else if error.is_transient() {
        "try again".into()
    } else {
        return None;
    };
    Some(hint)
}

/// The command that logs in, and the agent's own methods, as far as it says.
fn how_to_log_in(logins: &[AuthMethod], about: Subject<'_>) -> String {
    let Some(program) = about.command.first() else { return "log in where the agent runs".to_owned() };
    let name = |login: &AuthMethod| {
        let name = quote(if login.name.is_empty() { &login.id } else { &login.name });
        let variables: Vec<String> =
            login.vars.iter().map(|var| format!(" -e {}", quote(&var.name))).collect();
        if variables.is_empty() { name } else { format!("{name}:{}", variables.concat()) }
    };
    let methods: Vec<String> = logins.iter().map(name).collect();
    if methods.is_empty() {
        return format!("start {} by hand and log in there", command_line(std::slice::from_ref(program)));
    }
    let agent = match about.id {
        Some(id) => id.to_owned(),
        None => format!("-- {}", command_line(about.command)),
    };
    format!("agentline login {agent} ({})", methods.join(", or "))
}

impl Subject<'_> {
    /// Whether the program is none because it is a folder.
    fn is_folder(self) -> bool {
        let program = self.command.first();
        program.is_some_and(|program| program.contains('/') && Path::new(program).is_dir())
    }

    /// Whether the command line already names the protocol.
    fn asks_for_acp(self) -> bool {
        self.command.iter().skip(1).any(|word| word.contains("acp"))
    }
}

#[cfg(test)]
mod tests {
    use agentline_core::acp::{Fault, StopReason};
    use agentline_core::rpc::RpcError;

    use super::*;

    fn told(phase: Phase, cause: RootCause, command: &[&str], verb: Verb) -> (String, Option<String>, u8) {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let about = Subject { name: "it", id: None, command: &command, verb };
        let problem = problem(&Failed::new(phase, cause), about);
        let code = problem.exit_code();
        (problem.message, problem.hint, code)
    }

    #[test]
    fn each_cause_has_a_sentence_a_next_step_and_an_exit_code() {
        use Phase::{Initialize, Prompt, Session, Spawn};
        let open = RootCause::Unopened;
        let error = |code| RpcError::new(code, "no");
        let gone = |code| RootCause::Gone(Some(Exit::Code(code)));
        let mode = "start it in its ACP mode: many agents want --acp, or a subcommand";
        let flag = "does it want a flag such as --acp, or a subcommand?";
        for (phase, cause, command, said, hint, code) in [
            (
                Spawn,
                open(OpenError::NotFound),
                "x",
                "it cannot be started: not found",
                "check the name and PATH",
                5,
            ),
            (
                Spawn,
                open(OpenError::NotFound),
                "./x",
                "it cannot be started: not found",
                "check the path ./x",
                5,
            ),
            (
                Spawn,
                open(OpenError::NotFound),
                "my agent",
                "it cannot be started: not found",
                "it is one word with a space in it; leave out the quotes: -- my agent",
                5,
            ),
            (
                Spawn,
                open(OpenError::NotExecutable),
                "/etc",
                "it cannot be started: it is a folder",
                "name a program in it",
                5,
            ),
            (
                Spawn,
                open(OpenError::NotExecutable),
                "./my agent",
                "it cannot be started: not executable",
                "make it executable: chmod +x './my agent'",
                5,
            ),
            (
                Spawn,
                open(OpenError::BadDirectory),
                "x",
                "it cannot be started: the working directory cannot be entered",
                "",
                2,
            ),
            (Initialize, gone(0), "true", "it exited during initialize with code 0", flag, 5),
            (Initialize, gone(0), "x acp", "it exited during initialize with code 0", "", 5),
            (
                Initialize,
                gone(127),
                "x",
                "it exited during initialize with code 127",
                "a program that it needs is missing from PATH",
                5,
            ),
            (Session, gone(3), "x", "it exited while the session was opened with code 3", "", 5),
            (
                Prompt,
                RootCause::Gone(Some(Exit::Signal(11))),
                "x",
                "it was ended by signal 11 during the turn",
                "",
                5,
            ),
            (Prompt, RootCause::Gone(None), "x", "it closed its output during the turn", "", 5),
            (
                Initialize,
                RootCause::NotAcp(Foreign::Wrote("usage: x".into())),
                "x",
                "it does not speak ACP; it wrote: usage: x",
                mode,
                5,
            ),
            (
                Initialize,
                RootCause::NotAcp(Foreign::NoInitialize),
                "x",
                "it does not know initialize",
                mode,
                5,
            ),
            (
                Initialize,
                RootCause::NotAcp(Foreign::Echo),
                "cat",
                "it does not speak ACP: it sends back what it gets",
                "name the agent itself; this program copies its input",
                5,
            ),
            (
                Initialize,
                RootCause::WrongVersion("2".into()),
                "x",
                "it speaks version 2 of ACP, not 1",
                "use a version of it that speaks ACP 1",
                5,
            ),
            (
                Session,
                RootCause::NeedsLogin { error: error(-32000), methods: vec![] },
                "x",
                "it wants a login: no",
                "start x by hand and log in there",
                7,
            ),
            (Prompt, RootCause::Rpc(error(400)), "x", "it answered: no (400)", "", 1),
            (
                Session,
                RootCause::Unreadable("no sessionId".into()),
                "x",
                "it's answer to the request for a session cannot be read: no sessionId",
                "",
                5,
            ),
            (
                Prompt,
                RootCause::Fault(Fault::LineTooLong),
                "x",
                "it broke the protocol: it wrote a line over the limit",
                "",
                5,
            ),
            (
                Prompt,
                RootCause::Stopped(StopReason::MaxTurnRequests),
                "x",
                "it stopped: max_turn_requests",
                "",
                1,
            ),
            (
                Session,
                RootCause::Impossible(Refused::NotOffered("session/load")),
                "x",
                "it does not offer session/load",
                "",
                2,
            ),
            (
                Session,
                RootCause::NoSession { cwd: "/w".into() },
                "x",
                "it has no session in /w",
                "leave out --resume",
                3,
            ),
            (
                Prompt,
                RootCause::Rejected { title: "rm".into() },
                "x",
                "permission was refused: rm",
                "allow it: --permission allow, or --permission ask",
                6,
            ),
            (Prompt, RootCause::Cancelled, "x", "cancelled", "", 130),
        ] {
            let words: Vec<&str> = if command == "my agent" || command == "./my agent" {
                vec![command]
            } else {
                command.split(' ').collect()
            };
            let told = told(phase, cause, &words, Verb::Run);
            assert_eq!((&*told.0, told.1.as_deref().unwrap_or_default(), told.2), (said, hint, code));
        }
    }

    #[test]
    fn each_clock_is_named_with_its_value_and_its_option() {
        let late = |clock, saw| RootCause::TimedOut { clock, after: Duration::from_secs(90), saw };
        for (clock, verb, said, hint) in [
            (
                Clock::Initialize,
                Verb::Run,
                "it did not answer initialize within 1 min 30 s (--init-timeout)",
                true,
            ),
            (
                Clock::Initialize,
                Verb::Chat,
                "it did not answer initialize within 1 min 30 s (--init-timeout)",
                true,
            ),
            (
                Clock::Silence,
                Verb::Run,
                "it was silent for 1 min 30 s during the turn (--idle-timeout)",
                true,
            ),
            (Clock::Run, Verb::Run, "the run took longer than 1 min 30 s (--timeout)", true),
            (Clock::Turn, Verb::Check, "it did not end the turn within 1 min 30 s (--timeout)", true),
        ] {
            let told = told(Phase::Prompt, late(clock, None), &["x"], verb);
            assert_eq!((&*told.0, told.1.is_some(), told.2), (said, hint, 124));
        }
        let saw = Notice::Orphan { id: "\"7\"".into(), open: vec![7] };
        let told = told(Phase::Prompt, late(Clock::Turn, Some(Box::new(saw))), &["x"], Verb::Run);
        assert!(told.0.ends_with("; a reply arrived with id \"7\", expected 7"), "{}", told.0);
    }

    #[test]
    fn a_login_is_a_command_of_ours_and_the_agents_ways_are_named() {
        let method = |json: &str| serde_json::from_str(json).unwrap();
        let methods = vec![
            method(r#"{"id":"a","name":"Web login"}"#),
            method(r#"{"id":"t","name":"Terminal login","type":"terminal","args":["login","--now"]}"#),
            method(r#"{"id":"k","name":"A key","type":"env_var","vars":[{"name":"A_KEY"}]}"#),
        ];
        let cause = RootCause::NeedsLogin { error: RpcError::new(-32000, "who are you"), methods };
        let (_, hint, _) = told(Phase::Session, cause, &["/bin/agent", "--acp"], Verb::Run);
        assert_eq!(
            hint.as_deref(),
            Some("agentline login -- /bin/agent --acp (Web login, or Terminal login, or A key: -e A_KEY)")
        );
    }
}
