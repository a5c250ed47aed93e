//! Agents that misbehave, as data: what each writes and does where a good one answers.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::{fs, thread};

use clap::ValueEnum;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

/// How the demo agent misbehaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Fault {
    /// Writes plain text between its messages
    Junk,
    /// Frames its messages by Content-Length
    ContentLength,
    /// Never answers the handshake
    Silent,
    /// Refuses the handshake
    RefuseInitialize,
    /// Speaks version 2 of the protocol
    WrongVersion,
    /// Ends with status 3 before the handshake, and says why on stderr
    ExitEarly,
    /// Ends with status 0 during the turn
    ExitMidTurn,
    /// Kills itself during the turn
    DieMidTurn,
    /// Wants a login before a session
    NeedsLogin,
    /// Opens a session without an id
    NoSessionId,
    /// Answers the prompt twice
    DuplicateId,
    /// Answers what was never asked
    UnknownId,
    /// Writes messages that are no JSON-RPC
    WrongEnvelope,
    /// Sends updates of kinds that do not exist
    UnknownUpdate,
    /// Writes a line that is not UTF-8
    InvalidUtf8,
    /// Writes a line of more than 32 MiB
    LongLine,
    /// Writes a megabyte to stderr
    NoisyStderr,
    /// Closes its stdout during the turn and lives on
    CloseStdout,
    /// Says nothing during the turn
    SilentTurn,
    /// Ends the turn with a reason that does not exist
    UnknownStop,
    /// Lives on when its stdin ends
    IgnoreEof,
    /// Lives on when its stdin ends, and ignores SIGTERM
    IgnoreTerm,
}

/// What a faulty agent does.
enum Act {
    /// Writes a line. `$ID` stands for the id of the request.
    Line(&'static str),
    /// Writes bytes as they are.
    Bytes(Vec<u8>),
    /// Writes to stderr.
    Complain(String),
    CloseStdout,
    Exit(i32),
    Die,
}

/// A whole agent: what it does at the start and on each request.
struct Part {
    start: Vec<Act>,
    initialize: Vec<Act>,
    session: Vec<Act>,
    prompt: Vec<Act>,
    end: End,
}

enum End {
    Leave,
    IgnoreEof,
    IgnoreTerm,
}

impl Fault {
    /// Misbehaves on stdin and stdout.
    pub(crate) fn play(self) -> ExitCode {
        let part = self.part();
        if matches!(part.end, End::IgnoreTerm) {
            let _ = crate::signals::on_each((), |(), _| {});
        }
        act(&part.start, "null");
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            let id = message["id"].to_string();
            match message["method"].as_str() {
                Some("initialize") => act(&part.initialize, &id),
                Some("session/new") => act(&part.session, &id),
                Some("session/prompt") => act(&part.prompt, &id),
                Some(_) | None => {}
            }
        }
        match part.end {
            End::Leave => ExitCode::SUCCESS,
            End::IgnoreEof | End::IgnoreTerm => loop {
                thread::park();
            },
        }
    }

    fn part(self) -> Part {
        use Act::{Bytes, CloseStdout, Complain, Die, Exit, Line};

        let good = Part {
            start: vec![],
            initialize: vec![Line(INITIALIZED)],
            session: vec![Line(SESSION)],
            prompt: vec![Line(TEXT), Line(STOPPED)],
            end: End::Leave,
        };
        match self {
            Self::Junk => Part {
                start: vec![Line("Welcome to the agent!"), Line("{not json")],
                prompt: vec![Line(TEXT), Line("DEBUG tokens=12"), Line(""), Line("42"), Line(STOPPED)],
                ..good
            },
            Self::ContentLength => Part {
                initialize: vec![
                    Bytes(format!("Content-Length: {}\r\n\r\n", INITIALIZED.len() - 2).into()),
                    Line(INITIALIZED),
                ],
                ..good
            },
            Self::Silent => Part { initialize: vec![], ..good },
            Self::RefuseInitialize => Part {
                initialize: vec![Line(
                    r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no model is configured"}}"#,
                )],
                ..good
            },
            Self::WrongVersion => Part {
                initialize: vec![Line(
                    r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":2,"agentCapabilities":{}}}"#,
                )],
                ..good
            },
            Self::ExitEarly => {
                Part { start: vec![Complain("Error: DEMO_API_KEY is not set\n".into()), Exit(3)], ..good }
            }
            Self::ExitMidTurn => Part { prompt: vec![Line(TEXT), Exit(0)], ..good },
            Self::DieMidTurn => {
                Part { prompt: vec![Line(TEXT), Complain("out of memory\n".into()), Die], ..good }
            }
            Self::NeedsLogin => Part {
                session: vec![Line(
                    r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"Authentication required"}}"#,
                )],
                ..good
            },
            Self::NoSessionId => {
                Part { session: vec![Line(r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#)], ..good }
            }
            Self::DuplicateId => Part { prompt: vec![Line(TEXT), Line(STOPPED), Line(STOPPED)], ..good },
            Self::UnknownId => Part {
                prompt: vec![Line(r#"{"jsonrpc":"2.0","id":987654,"result":{}}"#), Line(TEXT), Line(STOPPED)],
                ..good
            },
            Self::WrongEnvelope => Part {
                prompt: vec![
                    Line(r#"{"id":$ID}"#),
                    Line(r#"{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"both"}}"#),
                    Line(r#"[{"jsonrpc":"2.0","method":"session/update"}]"#),
                    Line(TEXT),
                    Line(STOPPED),
                ],
                ..good
            },
            Self::UnknownUpdate => Part { prompt: vec![Line(STRANGE), Line(TEXT), Line(STOPPED)], ..good },
            Self::InvalidUtf8 => Part {
                prompt: vec![
                    Bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}\n".into()),
                    Line(TEXT),
                    Line(STOPPED),
                ],
                ..good
            },
            Self::LongLine => Part { prompt: vec![Bytes(vec![b'x'; (32 << 20) + 1]), Line("")], ..good },
            Self::NoisyStderr => Part {
                prompt: vec![
                    Complain("a line that nobody needs\n".repeat(40_000)),
                    Line(TEXT),
                    Line(STOPPED),
                ],
                ..good
            },
            Self::CloseStdout => Part { prompt: vec![Line(TEXT), CloseStdout], end: End::IgnoreEof, ..good },
            Self::SilentTurn => Part { prompt: vec![Line(TEXT)], ..good },
            Self::UnknownStop => Part {
                prompt: vec![
                    Line(TEXT),
                    Line(r#"{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"bored"}}"#),
                ],
                ..good
            },
            Self::IgnoreEof => Part { end: End::IgnoreEof, ..good },
            Self::IgnoreTerm => Part { end: End::IgnoreTerm, ..good },
        }
    }
}

fn act(acts: &[Act], id: &str) {
    let mut stdout = io::stdout().lock();
    for act in acts {
        // A client that is gone is seen at the end of stdin.
        let _ = match act {
            Act::Line(line) => writeln!(stdout, "{}", line.replace("$ID", id)),
            Act::Bytes(bytes) => stdout.write_all(bytes),
            Act::Complain(text) => io::stderr().write_all(text.as_bytes()),
            Act::CloseStdout => close_stdout(),
            Act::Exit(status) => std::process::exit(*status),
            Act::Die => kill_process(getpid(), Signal::KILL).map_err(io::Error::from),
        };
        let _ = stdout.flush();
    }
}

/// The pipe closes; the descriptor stays taken.
fn close_stdout() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(fs::File::options().write(true).open("/dev/null")?)?)
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":1,"agentInfo":{"name":"faulty","version":"1"}}}"#;
const SESSION: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"sessionId":"s-1"}}"#;
const TEXT: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"so far so good"}}}}"#;
const STRANGE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"mood_update","mood":"fine"}}}"#;
const STOPPED: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn"}}"#;
