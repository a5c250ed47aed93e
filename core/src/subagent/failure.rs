//! Why a run came to nothing, in the words of a [`Problem`].

use crate::acp::client::Failure;
use crate::acp::{Closed, Fault};
use crate::machine::{Exit, OpenError};
use crate::problem::{AgentExit, Kind, Phase, Problem};
use crate::rpc::{RpcError, code};

/// A failure that waits for the child's end.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) phase: Phase,
    pub(crate) failure: Failure,
}

/// A failure whose reason is known as it stands.
pub(crate) fn of_failure(phase: Phase, failure: &Failure) -> Problem {
    let kind = match failure {
        Failure::Rpc(error) => return of_rpc(phase, error),
        Failure::Unreadable(_) => Kind::Protocol,
        Failure::TimedOut | Failure::Silent => Kind::Timeout,
        Failure::Unconfirmed | Failure::Shutdown => Kind::Cancelled,
        Failure::Disconnected => Kind::Exited,
    };
    Problem::new(phase, kind, failure.to_string())
}

fn of_rpc(phase: Phase, error: &RpcError) -> Problem {
    match error.code {
        code::AUTH_REQUIRED => {
            Problem::new(phase, Kind::NeedsLogin, format!("the agent wants a login: {}", error.message))
        }
        code::METHOD_NOT_FOUND if phase == Phase::Initialize => {
            Problem::new(phase, Kind::NotAcp, "the agent does not know initialize".to_owned())
        }
        code => {
            let details = error.data.as_ref().and_then(|data| details(data.get())).unwrap_or_default();
            let said = format!("the agent answered: {}{details} ({code})", error.message);
            Problem::new(phase, Kind::Rpc, said)
        }
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

/// A failure that the child's end explains.
pub(crate) fn of_end(lost: &Lost, closed: &Closed, bad_line: Option<&str>) -> Problem {
    let obituary = &closed.obituary;
    let tail = obituary.stderr_tail.trim_end();
    let mut problem = match (obituary.failed, &closed.fault, &lost.failure) {
        (Some(error), ..) => of_open(error),
        (None, Some(fault), _) => of_fault(lost.phase, fault),
        (None, None, Failure::Disconnected) => of_exit(lost.phase, closed, bad_line),
        (None, None, failure) => of_failure(lost.phase, failure),
    };
    if let (Kind::Timeout, Phase::Initialize, Some(line)) = (problem.kind, problem.phase, bad_line) {
        problem = Problem::new(Phase::Initialize, Kind::NotAcp, not_acp(line));
    }
    // An exit that our own signals brought about explains nothing.
    let own = obituary.rung == crate::link::Rung::Own || matches!(obituary.exit, Some(Exit::Code(_)));
    problem.agent_exit = obituary.exit.filter(|_| own).and_then(AgentExit::of);
    problem.stderr_tail = (!tail.is_empty()).then(|| tail.to_owned());
    problem
}

fn of_open(error: OpenError) -> Problem {
    let problem =
        Problem::new(Phase::Spawn, Kind::of_open(error), format!("the agent cannot be started: {error}"));
    let hint = if error == OpenError::NotFound {
        "check the name and PATH"
    } else if error == OpenError::NotExecutable {
        "make it executable: chmod +x"
    } else if error == OpenError::NotAProgram {
        "reinstall it: a package's install step may have been blocked"
    } else if error == OpenError::NoInterpreter {
        "install the interpreter that its first line names"
    } else if error.passes() {
        "try again"
    } else {
        return problem;
    };
    problem.hint(hint)
}

fn of_fault(phase: Phase, fault: &Fault) -> Problem {
    let kind = match fault {
        Fault::NotAcp(_) => Kind::NotAcp,
        Fault::WrongVersion(_) => Kind::WrongVersion,
        Fault::Refused(error) => return of_rpc(phase, error),
        Fault::TimedOut => {
            let said = "the agent did not answer the handshake in time";
            return Problem::new(phase, Kind::Timeout, said).hint("give it more time: --init-timeout");
        }
        Fault::Unreadable(_) | Fault::LineTooLong | Fault::NotReading => Kind::Protocol,
    };
    Problem::new(phase, kind, format!("the agent broke the protocol: {fault}"))
}

fn of_exit(phase: Phase, closed: &Closed, bad_line: Option<&str>) -> Problem {
    if let (Phase::Initialize, Some(line)) = (phase, bad_line) {
        return Problem::new(phase, Kind::NotAcp, not_acp(line));
    }
    let during = if phase == Phase::Initialize {
        "during initialize"
    } else if phase == Phase::Session {
        "while the session was opened"
    } else {
        "during the turn"
    };
    match closed.obituary.exit {
        Some(Exit::Code(code)) => {
            let problem =
                Problem::new(phase, Kind::Exited, format!("the agent exited {during} with code {code}"));
            if code == 127 { problem.hint("a program that it needs is missing from PATH") } else { problem }
        }
        Some(Exit::Signal(signal)) => {
            Problem::new(phase, Kind::Signalled, format!("the agent was ended by signal {signal} {during}"))
        }
        Some(Exit::Unknown) | None => {
            Problem::new(phase, Kind::Exited, format!("the agent closed its output {during}"))
        }
    }
}

fn not_acp(line: &str) -> String {
    format!("the agent does not speak ACP; it wrote: {line}")
}
