//! What an update costs in the core alone: `update_cost N [text|tool] [client|run|chat] [SESSIONS]` decodes N text
//! chunks of 40 bytes, or N news of a tool call, that come in reads of 64 KiB to a client with so many sessions, or to
//! a run or a conversation in a turn. Run it for two N under a counter of instructions; the difference is the cost.

#![expect(clippy::disallowed_methods, reason = "a program around the core")]

use agentline_core::acp::{Client, ContentBlock, SessionSetup, client};
use agentline_core::chat::{self, Chat};
use agentline_core::conversation;
use agentline_core::subagent::{self, Run};
use agentline_core::{Action, Heard, Input, Machine, Now, Open, Output, Peer, Tag};

const TEXT: &str = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"0123456789012345678901234567890123456789"}}"#;
const TOOL: &str = r#"{"sessionUpdate":"tool_call_update","toolCallId":"call_0123456789","status":"completed","title":"Read src/main.rs","kind":"read","content":[{"type":"content","content":{"type":"text","text":"fn main() and what follows"}}],"locations":[{"path":"/w/src/main.rs","line":12}],"rawInput":{"path":"/w/src/main.rs","limit":2000},"rawOutput":{"lines":120}}"#;

/// Says that to the machine, does what it wants, and counts what it tells.
fn say<M: Machine>(machine: &mut M, bytes: &[u8]) -> usize {
    let mut told = 0;
    let mut heard = Some(Heard::Bytes(bytes));
    loop {
        if let Some(heard) = heard.take() {
            machine.handle(Now::default(), Input::Link(agentline_core::LinkId::FIRST, heard));
        }
        while let Some(output) = std::hint::black_box(machine.poll()) {
            match output {
                Output::Do(_, Action::Open(_)) => heard = Some(Heard::Opened(Peer::default())),
                Output::Do(_, Action::Write(_)) => heard = Some(Heard::Written),
                Output::Tell(_) => told += 1,
                Output::Do(..) | Output::Store(..) | Output::End => {}
            }
        }
        if heard.is_none() {
            return told;
        }
    }
}

/// Hears updates of a session until there were enough of them.
fn listen<M: Machine>(machine: &mut M, session: &str, update: &str, wanted: usize) {
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":{update}}}}}\n"
    );
    let read = line.repeat((64 << 10) / line.len());
    let mut seen = 0;
    while seen < wanted {
        seen += say(machine, read.as_bytes());
    }
}

fn answer(id: usize, result: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

fn opened(id: usize, n: usize) -> Vec<u8> {
    answer(id, &format!("{{\"sessionId\":\"sess-{n:016}\"}}"))
}

fn client_of(config: client::Config, sessions: usize) -> Client {
    let mut client = Client::new(Now::default(), config);
    say(&mut client, b"");
    say(&mut client, &answer(0, "{\"protocolVersion\":1}"));
    for n in 1..=sessions {
        let setup = SessionSetup::in_directory("/");
        let open = client::Command::OpenSession { tag: Tag(0), which: client::Which::New, setup };
        client.command(Now::default(), open).expect("the handshake is done");
        say(&mut client, b"");
        say(&mut client, &opened(n, n));
    }
    client
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map_or("", String::as_str);
    let number = |at: usize, default| word(at).parse().unwrap_or(default);
    let (wanted, sessions) = (number(0, 100_000), number(3, 1_usize));
    let update = if word(1) == "tool" { TOOL } else { TEXT };
    let session = format!("sess-{:016}", sessions.div_ceil(2));

    let client = client::Config::new(Open::Given(0));
    // Text is kept for the result up to a limit: without it, what is copied would be counted too.
    let setup = SessionSetup::in_directory("/");
    let conversation = conversation::Config { output: 0, ..conversation::Config::new(client.clone(), setup) };
    match word(2) {
        "run" => {
            let run = subagent::Config::new(conversation, vec![ContentBlock::text("go")]);
            let mut run = Run::new(Now::default(), run);
            say(&mut run, b"");
            say(&mut run, &answer(0, "{\"protocolVersion\":1}"));
            say(&mut run, &opened(1, 1));
            listen(&mut run, &session, update, wanted);
        }
        "chat" => {
            let limits = chat::Limits { answer: 0, ..chat::Limits::default() };
            let config = chat::Config { conversation, attach: None, announce: None, limits };
            let mut chat = Chat::new(Now::default(), config);
            say(&mut chat, b"");
            say(&mut chat, &answer(0, "{\"protocolVersion\":1}"));
            say(&mut chat, &opened(1, 1));
            chat.command(Now::default(), chat::Command::Say("go".into())).expect("the session is open");
            say(&mut chat, b"");
            listen(&mut chat, &session, update, wanted);
        }
        _ => listen(&mut client_of(client, sessions), &session, update, wanted),
    }
}
