//! What an update costs in the core alone: `update_cost N [text|tool] [SESSIONS]` decodes N text chunks of 40 bytes, or
//! N news of a tool call, that come in reads of 64 KiB to a client with so many sessions. Run it for two N under
//! a counter of instructions; the difference is the cost.

#![expect(clippy::disallowed_methods, reason = "a program around the core")]

use agentline_core::acp::{Client, client};
use agentline_core::{Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Tag};

const TEXT: &str = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"0123456789012345678901234567890123456789"}}"#;
const TOOL: &str = r#"{"sessionUpdate":"tool_call_update","toolCallId":"call_0123456789","status":"completed","title":"Read src/main.rs","kind":"read","content":[{"type":"content","content":{"type":"text","text":"fn main() and what follows"}}],"locations":[{"path":"/w/src/main.rs","line":12}],"rawInput":{"path":"/w/src/main.rs","limit":2000},"rawOutput":{"lines":120}}"#;

fn say(client: &mut Client, heard: Heard<'_>) {
    client.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (wanted, sessions) = (number(0, 100_000), number(2, 1_usize));
    let update = if args.get(1).is_some_and(|kind| kind == "tool") { TOOL } else { TEXT };

    let now = Now::default();
    let mut client = Client::new(now, client::Config::new(Open::Given(0)));
    say(&mut client, Heard::Opened(Peer::default()));
    say(&mut client, Heard::Bytes(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}\n"));
    say(&mut client, Heard::Written);
    for n in 1..=sessions {
        let setup = agentline_core::acp::SessionSetup::in_directory("/");
        let open = client::Command::OpenSession { tag: Tag(0), which: client::Which::New, setup };
        client.command(now, open).expect("the handshake is done");
        say(&mut client, Heard::Written);
        let opened =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":{{\"sessionId\":\"sess-{n:016}\"}}}}\n");
        say(&mut client, Heard::Bytes(opened.as_bytes()));
        while client.poll().is_some() {}
    }
    let session = format!("sess-{:016}", sessions.div_ceil(2));
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":{update}}}}}\n"
    );
    let read = line.repeat((64 << 10) / line.len());
    let mut seen = 0;
    while seen < wanted {
        say(&mut client, Heard::Bytes(read.as_bytes()));
        while let Some(output) = client.poll() {
            if let Output::Tell(event) = std::hint::black_box(output) {
                seen += usize::from(matches!(event, client::Event::Text(_) | client::Event::Updated(_)));
            }
        }
    }
}
