//! Why a run came to nothing, in the words of a [`Problem`].

use crate::acp::Fault;
use crate::acp::client::Failure;
use crate::acp::session::{AuthMethod, Unsettable};
use crate::closed::{Cause, Closed};
use crate::discovery::command_line;
use crate::link::Rung;
use crate::machine::{Exit, Open, OpenError};
use crate::problem::{AgentExit, Kind, Phase, Problem};
use crate::rpc::{Json, RpcError, code};

/// A failure that waits for the child's end.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) phase: Phase,
    pub(crate) failure: Failure,
}

/// What is known of an agent that may explain how it failed.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// How it is started; empty when somebody else did.
    argv: Vec<String>,
    /// The first line that was no message.
    pub(crate) bad_line: Option<String>,
    /// How to log in to it, in its own words.
    pub(crate) logins: Vec<AuthMethod>,
    /// The values of the setting that failed.
    pub(crate) values: Vec<String>,
}

impl Evidence {
    pub(crate) fn of(open: &Open) -> Self {
        let argv = match open {
            Open::Spawn(spec) => {
                let words = std::iter::once(&spec.program).chain(&spec.args);
                words.map(|word| word.to_string_lossy().into_owned()).collect()
            }
            Open::Connect(_) | Open::Listen(_) | Open::Accept(_) | Open::Given(_) => Vec::new(),
        };
        Self { argv, bad_line: None, logins: Vec::new(), values: Vec::new() }
    }

    /// The agent says how to log in. A hint names few of many, and none that is longer than a hint may be.
    pub(crate) fn offers(&mut self, logins: &[AuthMethod]) {
        let short = logins.iter().filter(|login| Json::new(login).get().len() <= LOGIN);
        self.logins = short.take(LOGINS).cloned().collect();
    }

    /// A failure whose reason is known as it stands.
    pub(crate) fn failure(&self, phase: Phase, failure: &Failure) -> Problem {
        let (kind, said) = match failure {
            Failure::Rpc(error) => return self.rpc(phase, error),
            Failure::Unreadable(why) => {
                (Kind::Protocol, format!("the agent's answer to {} cannot be read: {why}", asked(phase)))
            }
            Failure::TimedOut { .. } => {
                (Kind::Timeout, format!("the agent did not answer {} in time", asked(phase)))
            }
            Failure::Silent { .. } => (Kind::Timeout, "the agent was silent for too long".to_owned()),
            Failure::Unconfirmed { .. } | Failure::Shutdown => (Kind::Cancelled, failure.to_string()),
            Failure::Disconnected => (Kind::Exited, "the agent closed the connection".to_owned()),
        };
        Problem::new(phase, kind, said)
    }

    /// A failure that the child's end explains.
    pub(crate) fn end(&self, lost: &Lost, closed: &Closed<Fault>) -> Problem {
        let obituary = &closed.obituary;
        // An end that our own signals brought about explains nothing.
        let exit = obituary.exit.filter(|_| obituary.rung < Rung::Term);
        let mut problem = match (&closed.cause, &lost.failure) {
            (Cause::Failed(error), _) => of_open(*error),
            (Cause::Fault(fault), _) => self.fault(lost.phase, fault),
            (Cause::Left | Cause::Gone, Failure::Disconnected) => self.exit(lost.phase, exit),
            (Cause::Left | Cause::Gone, failure) => self.failure(lost.phase, failure),
        };
        let tail = obituary.stderr_tail.trim_end();
        problem.agent_exit = exit.and_then(AgentExit::of);
        problem.stderr_tail = (!tail.is_empty()).then(|| tail.to_owned());
        problem
    }

    fn rpc(&self, phase: Phase, error: &RpcError) -> Problem {
        match error.code {
            code::AUTH_REQUIRED => {
                let said = format!("the agent wants a login: {}", error.message);
                Problem::new(phase, Kind::NeedsLogin, said).hint(self.how_to_log_in())
            }
            code::METHOD_NOT_FOUND if phase == Phase::Initialize => {
                Problem::new(phase, Kind::NotAcp, "the agent does not know initialize")
                    .hint("start it in its ACP mode: many agents want --acp, or a subcommand")
            }
            code => {
                let details = error.data.as_ref().and_then(|data| details(data.get())).unwrap_or_default();
                let said = format!("the agent answered: {}{details} ({code})", error.message);
                if code == code::NOT_FOUND && phase == Phase::Session {
                    return Problem::new(phase, Kind::NotFound, said).hint("leave out --resume");
                }
                let problem = Problem::new(phase, Kind::Rpc, said);
                if self.values.is_empty() { problem } else { problem.hint(one_of(&self.values)) }
            }
        }
    }

    /// The agent's own methods. Those for a terminal are its own command with more arguments.
    fn how_to_log_in(&self) -> String {
        let Some(program) = self.argv.first() else { return "log in where the agent runs".to_owned() };
        let methods = self.logins.iter().map(|login| {
            let name = if login.name.is_empty() { &login.id } else { &login.name };
            if login.kind.as_deref() != Some("terminal") {
                return name.clone();
            }
            let env = login.env.iter().map(|(name, value)| format!("{name}={value}"));
            let argv: Vec<String> = env.chain(self.argv.iter().chain(&login.args).cloned()).collect();
            format!("{name} ({})", command_line(&argv))
        });
        let methods: Vec<String> = methods.collect();
        let program = command_line(std::slice::from_ref(program));
        match &methods[..] {
            [] => format!("start {program} by hand and log in there"),
            methods => format!("start {program} by hand and log in there: {}", methods.join(", or ")),
        }
    }

    pub(crate) fn fault(&self, phase: Phase, fault: &Fault) -> Problem {
        match fault {
            Fault::NotAcp(why) => {
                Problem::new(phase, Kind::NotAcp, format!("the agent does not speak ACP: {why}"))
            }
            Fault::WrongVersion(version) => {
                let said = format!("the agent speaks version {version} of ACP, not 1");
                Problem::new(phase, Kind::WrongVersion, said).hint("use a version of it that speaks ACP 1")
            }
            Fault::Refused(error) => self.rpc(phase, error),
            Fault::TimedOut { .. } => {
                let wrote = self.bad_line.as_ref().map(|line| format!("; it wrote: {line}"));
                let said =
                    format!("the agent did not answer initialize in time{}", wrote.unwrap_or_default());
                Problem::new(phase, Kind::Timeout, said)
                    .hint("start it by hand to see what it waits for, or give it more time")
            }
            Fault::Unreadable(_) | Fault::LineTooLong | Fault::NotReading => {
                Problem::new(phase, Kind::Protocol, format!("the agent broke the protocol: {fault}"))
            }
        }
    }

    fn exit(&self, phase: Phase, exit: Option<Exit>) -> Problem {
        if let (Phase::Initialize, Some(line)) = (phase, &self.bad_line) {
            let said = format!("the agent does not speak ACP; it wrote: {line}");
            return Problem::new(phase, Kind::NotAcp, said)
                .hint("start it in its ACP mode: many agents want --acp, or a subcommand");
        }
        let during = if phase == Phase::Initialize {
            "during initialize"
        } else if phase == Phase::Session {
            "while the session was opened"
        } else {
            "during the turn"
        };
        let (kind, said) = match exit {
            Some(Exit::Code(code)) => (Kind::Exited, format!("the agent exited {during} with code {code}")),
            Some(Exit::Signal(signal)) => {
                (Kind::Signalled, format!("the agent was ended by signal {signal} {during}"))
            }
            Some(Exit::Unknown) | None => (Kind::Exited, format!("the agent closed its output {during}")),
        };
        let problem = Problem::new(phase, kind, said);
        match exit {
            Some(Exit::Code(127)) => problem.hint("a program that it needs is missing from PATH"),
            Some(_) | None => problem,
        }
    }
}

/// A setting that the agent has no place for.
pub(crate) fn unsettable(why: &Unsettable) -> Problem {
    let problem = Problem::new(Phase::Session, Kind::Usage, why.to_string());
    match why {
        Unsettable::NotOffered { options, .. } if options.is_empty() => problem,
        Unsettable::NotOffered { options, .. } => problem.hint(format!("--set with {}", one_of(options))),
        Unsettable::NotABool { option, .. } => problem.hint(format!("--set {option}=true, or =false")),
    }
}

/// A choice in words.
fn one_of(values: &[String]) -> String {
    let (shown, more) = values.split_at(values.len().min(SHOWN));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("one of {}{more}", shown.join(", "))
}

/// Values that are listed in a hint: some agents have hundreds of models.
const SHOWN: usize = 20;

fn asked(phase: Phase) -> &'static str {
    if phase == Phase::Initialize {
        "initialize"
    } else if phase == Phase::Session {
        "the request for a session"
    } else {
        "the prompt"
    }
}

/// What some agents put into an error's data because its message says nothing.
fn details(data: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Data {
        Text(String),
        Object { details: String },
        Message { message: String },
    }
    match serde_json::from_str(data).ok()? {
        Data::Text(text) | Data::Object { details: text } | Data::Message { message: text } => {
            Some(format!(": {text}"))
        }
    }
}

fn of_open(error: OpenError) -> Problem {
    let said = format!("the agent cannot be started: {error}");
    let problem = Problem::new(Phase::Spawn, Kind::of_open(error), said);
    let hint = if error == OpenError::NotFound {
        "check the name and PATH"
    } else if error == OpenError::NotExecutable {
        "make it executable: chmod +x"
    } else if error == OpenError::NotAProgram {
        "reinstall it: a package's install step may have been blocked"
    } else if error == OpenError::NoInterpreter {
        "install the interpreter that its first line names"
    } else if error.is_transient() {
        "try again"
    } else {
        return problem;
    };
    problem.hint(hint)
}

/// Logins that are kept for a hint.
const LOGINS: usize = 16;
/// Bytes of one, as JSON.
const LOGIN: usize = 4 << 10;
