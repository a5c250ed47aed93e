//! What one small update costs in the core alone: `update_cost N` decodes N text chunks of 40 bytes that come in
//! reads of 64 KiB. Run it for two N under a counter of instructions or allocations; the difference is the cost.

#![expect(clippy::disallowed_methods, reason = "a program around the core")]

use agentline_core::acp::{Client, client};
use agentline_core::{Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Tag};

fn main() {
    let wanted: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let now = Now::default();
    let mut client = Client::new(now, client::Config::new(Open::Given(0)));
    let say = |client: &mut Client, heard| client.handle(now, Input::Link(LinkId::FIRST, heard));
    say(&mut client, Heard::Opened(Peer::default()));
    say(&mut client, Heard::Bytes(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}\n"));
    say(&mut client, Heard::Written);
    let setup = agentline_core::acp::SessionSetup::in_directory("/");
    let open = client::Command::OpenSession { tag: Tag(0), which: client::Which::New, setup };
    client.command(now, open).expect("the handshake is done");
    say(
        &mut client,
        Heard::Bytes(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"sess-0123456789abcdef\"}}\n",
        ),
    );

    let line = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"sess-0123456789abcdef\",\
                \"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\
                \"text\":\"0123456789012345678901234567890123456789\"}}}}\n";
    let per_read = (64 << 10) / line.len();
    let read = line.repeat(per_read);
    let mut seen = 0;
    while seen < wanted {
        say(&mut client, Heard::Bytes(read.as_bytes()));
        while let Some(output) = client.poll() {
            if let Output::Tell(client::Event::Text(piece)) = std::hint::black_box(output) {
                seen += usize::from(piece.text.len() == 40);
            }
        }
    }
}
