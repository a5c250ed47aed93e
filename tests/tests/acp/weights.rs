//! What updates and questions cost in memory.

use std::time::Duration;

use agentline_core::acp::agent::{self, Agent};
use agentline_core::acp::client::{Client, Command, Config, Event, Which};
use agentline_core::acp::{ContentBlock, SessionSetup};
use agentline_core::conversation;
use agentline_core::subagent::{self, Policy, Questions, Run};
use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Tag};
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};
use agentline_tests::weigh;

const TOOL: &str = r#"{"sessionUpdate":"tool_call_update","toolCallId":"call_0123456789","status":"completed","title":"Read src/main.rs","kind":"read","content":[{"type":"content","content":{"type":"text","text":"fn main() and what follows"}}],"locations":[{"path":"/w/src/main.rs","line":12}],"rawInput":{"path":"/w/src/main.rs","limit":2000},"rawOutput":{"lines":120}}"#;
const TEXT: &str = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"0123456789012345678901234567890123456789"}}"#;

fn hear<M: Machine>(machine: &mut M, line: &str) {
    machine.handle(Now::default(), Input::Link(LinkId::FIRST, Heard::Bytes(line.as_bytes())));
}

/// Hands every write over, and counts the events.
fn drain<M: Machine>(machine: &mut M) -> usize {
    let mut events = 0;
    while let Some(output) = machine.poll() {
        match output {
            Output::Do(link, Action::Write(_)) => {
                machine.handle(Now::default(), Input::Link(link, Heard::Written))
            }
            Output::Tell(_) => events += 1,
            Output::Do(..) | Output::Store(..) | Output::End => {}
        }
    }
    events
}

fn client(sessions: usize) -> Client {
    let mut client = Client::new(Now::default(), Config::new(Open::Given(0)));
    client.handle(Now::default(), Input::Link(LinkId::FIRST, Heard::Opened(Peer::default())));
    hear(&mut client, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}\n");
    drain(&mut client);
    for n in 1..=sessions {
        let setup = SessionSetup::in_directory("/");
        let open = Command::OpenSession { tag: Tag(0), which: Which::New, setup };
        client.command(Now::default(), open).expect("the handshake is done");
        drain(&mut client);
        hear(
            &mut client,
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"result\":{{\"sessionId\":\"s{n:04}\"}}}}\n"),
        );
        drain(&mut client);
    }
    client
}

fn update(update: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s0001\",\"update\":{update}}}}}\n"
    )
}

#[test]
fn an_update_asks_for_little_memory_however_many_sessions_there_are() {
    for (line, most) in [(update(TEXT), 1), (update(TOOL), 12)] {
        for sessions in [1, 50, 1000] {
            let mut client = client(sessions);
            // The queue of outputs and the table of calls have their room after the first.
            (0..3).for_each(|_| hear(&mut client, &line));
            drain(&mut client);
            let (_, weight) = weigh(|| hear(&mut client, &line));
            assert!(weight.allocations <= most, "{sessions} sessions: {weight:?}");
            assert_eq!(drain(&mut client), 1);
        }
    }
}

/// A run whose prompt is sent, over a stream.
fn run(policy: Policy, forms: bool) -> Run {
    let prompt = vec![ContentBlock::text("x")];
    let mut client = Config::new(Open::Given(0));
    let offered = if forms { CLIENT_OFFERS } else { "{}" };
    client.capabilities = serde_json::from_str(offered).expect("capabilities");
    let questions = Questions::Ask;
    let setup = SessionSetup::in_directory("/");
    let conversation = conversation::Config { policy, questions, ..conversation::Config::new(client, setup) };
    let mut run = Run::new(Now::default(), subagent::Config::new(conversation, prompt));
    drain(&mut run);
    run.handle(Now::default(), Input::Link(LinkId::FIRST, Heard::Opened(Peer::default())));
    drain(&mut run);
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#,
    ] {
        hear(&mut run, &format!("{line}\n"));
        drain(&mut run);
    }
    run
}

#[test]
fn g2_a_thousand_questions_with_titles_of_a_megabyte_keep_little() {
    for policy in [Policy::Reject, Policy::Ask] {
        let mut run = run(policy, false);
        let title = "t".repeat(1 << 20);
        let ((), weight) = weigh(|| {
            for n in 0..800 {
                let call = format!(r#"{{"toolCallId":"{n}","title":"{title}","rawInput":"{title}"}}"#);
                let tool = call.replacen('{', r#"{"sessionUpdate":"tool_call","#, 1);
                hear(&mut run, &update(&tool).replace("s0001", "s"));
                hear(
                    &mut run,
                    &format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"session/request_permission\",\"params\":{{\"sessionId\":\"s\",\"toolCall\":{call},\"options\":[{{\"optionId\":\"y\",\"name\":\"{title}\",\"kind\":\"allow_once\"}},{{\"optionId\":\"n\",\"name\":\"No\",\"kind\":\"{title}\"}}]}}}}\n"
                    ),
                );
                drain(&mut run);
            }
        });
        // The parse of one line holds it several times over; what is kept is what counts.
        assert!(weight.kept < 8 << 20, "{policy:?}: {weight:?}");
        assert!(weight.peak < 48 << 20, "{policy:?}: {weight:?}");
        hear(&mut run, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n");
        // Until nothing more can belong to the turn.
        let later = Now { mono: Now::default().mono + Duration::from_secs(1), ..Now::default() };
        run.handle(later, Input::Tick);
        let mut finished = None;
        while let Some(output) = run.poll() {
            if let Output::Tell(subagent::Event::Finished(told)) = output {
                finished = Some(told);
            }
        }
        let finished = finished.expect("a result");
        assert_eq!(finished.permissions.len() + finished.permissions_dropped, 800);
        assert!(finished.permissions_dropped > 0);
    }
}

/// Lines of an agent that mean to be kept, with texts of any size.
fn greedy(n: usize, size: usize, what: u8) -> String {
    let text = "x".repeat(size);
    match what % 8 {
        0 => update(&format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"{n}","title":"{text}","rawInput":{{"command":"{text}"}},"content":[{{"type":"content","content":{{"type":"text","text":"{text}"}}}}]}}"#
        )),
        1 => update(&format!(
            r#"{{"sessionUpdate":"plan","entries":[{{"content":"{text}","priority":"high","status":"pending"}}]}}"#
        )),
        2 => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{n}\",\"method\":\"session/request_permission\",\"params\":{{\"sessionId\":\"s0001\",\"toolCall\":{{\"toolCallId\":\"{text}\",\"title\":\"{text}\"}},\"options\":[{{\"optionId\":\"y\",\"name\":\"{text}\",\"kind\":\"{text}\"}}]}}}}\n"
        ),
        3 => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{n}\",\"method\":\"elicitation/create\",\"params\":{{\"sessionId\":\"s0001\",\"mode\":\"url\",\"message\":\"{text}\",\"url\":\"{text}\",\"elicitationId\":\"{text}\"}}}}\n"
        ),
        4 => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"{n}\",\"method\":\"elicitation/create\",\"params\":{{\"sessionId\":\"s0001\",\"mode\":\"form\",\"message\":\"{text}\",\"requestedSchema\":{{\"type\":\"object\",\"title\":\"{text}\",\"properties\":{{\"{text}\":{{\"type\":\"string\"}}}}}}}}}}\n"
        ),
        5 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"{text}\"}}\n"),
        6 => update(&format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"{text}","content":{{"type":"text","text":"x"}}}}"#
        )),
        _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{text}\",\"result\":null}}\n"),
    }
    .replace("s0001", "s")
}

/// What a conversation keeps of what its agent chose the size of. The longest lines are a megabyte: what is kept once,
/// such as the name of the last message, is bounded by a line.
const KEPT: i64 = 12 << 20;

#[test]
fn g2_after_any_history_a_conversation_keeps_little() {
    fn property(lines: Vec<(u8, u32)>) {
        let mut run = run(Policy::Ask, true);
        let ((), weight) = weigh(|| {
            for (n, (what, size)) in lines.iter().enumerate() {
                hear(&mut run, &greedy(n, *size as usize % (1 << 20), *what));
                drain(&mut run);
            }
        });
        assert!(weight.kept < KEPT, "{weight:?}");
    }
    quickcheck::QuickCheck::new().tests(10).quickcheck(property as fn(Vec<(u8, u32)>));
    // Each kind by itself, and more of it than any budget.
    for what in 0..8 {
        property((0..100).map(|_| (what, 1 << 19)).collect());
    }
}

#[test]
fn g2_what_a_client_asks_is_kept_within_limits() {
    let capabilities = serde_json::from_str(OFFERS).expect("capabilities");
    let mut agent = Agent::new(Now::default(), agent::Config { capabilities, ..agent::Config::on_stdio() });
    drain(&mut agent);
    agent.handle(Now::default(), Input::Link(LinkId::FIRST, Heard::Opened(Peer::default())));
    hear(
        &mut agent,
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n",
    );
    drain(&mut agent);
    let ((), weight) = weigh(|| {
        for n in 0..2000_usize {
            let text = "x".repeat([900, 8000, 100_000][n % 3]);
            let id = format!("\"{n}{}\"", &text[..900]);
            let (method, params) = match n % 5 {
                0 => (
                    "session/load",
                    format!(r#"{{"sessionId":"{n}{text}","cwd":"/{text}","mcpServers":[]}}"#),
                ),
                1 => (
                    "session/new",
                    format!(r#"{{"cwd":"/{text}","mcpServers":[],"_meta":{{"x":"{text}"}}}}"#),
                ),
                2 => ("session/list", format!(r#"{{"cursor":"{text}"}}"#)),
                3 => ("session/close", format!(r#"{{"sessionId":"{}{text}"}}"#, n - 3)),
                _ => ("session/delete", format!(r#"{{"sessionId":"{n}{text}"}}"#)),
            };
            hear(
                &mut agent,
                &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"),
            );
            drain(&mut agent);
        }
    });
    // A thousand requests with the longest ids, and what sessions they name.
    assert!(weight.kept < KEPT, "{weight:?}");
}

#[test]
fn g2_a_turn_that_is_over_leaves_nothing_behind() {
    let mut client = client(1);
    let turn = |client: &mut Client, tag: u64| {
        let prompt = vec![ContentBlock::text("x")];
        client
            .command(Now::default(), Command::Prompt { tag: Tag(tag), session: "s0001".into(), prompt })
            .expect("the session is idle");
        drain(client);
        for n in 0..500 {
            let call = TOOL.replace("call_0123456789", &format!("call {tag} {n}"));
            hear(client, &update(&call.replace("tool_call_update", "tool_call")));
            drain(client);
        }
        hear(
            client,
            &format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"stopReason\":\"end_turn\"}}}}\n", tag),
        );
        let mut over = false;
        while let Some(output) = client.poll() {
            over |= matches!(output, Output::Tell(Event::TurnEnded(_)));
        }
        assert!(over);
    };
    turn(&mut client, 2);
    let ((), weight) = weigh(|| turn(&mut client, 3));
    assert!(weight.kept < 1024, "{weight:?}");
}
