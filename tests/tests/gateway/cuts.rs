//! However the bytes of either side are cut, both sides see the same.

use super::rig::{ALL, Rig, config, question, text, update};

/// Who says it.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    Client,
    Agent,
}

fn script() -> Vec<(Side, String)> {
    let line = |line: &str| format!("{line}\n");
    vec![
        (
            Side::Client,
            line(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#),
        ),
        (
            Side::Agent,
            line(&update(r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#))
                + &line(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#),
        ),
        (
            Side::Client,
            line(
                r#"{"jsonrpc":"2.0","id":"é","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"🎉"}]}}"#,
            ) + "no\n"
                + &line(r#"{"jsonrpc":"2.0","id":3,"method":"session/list"}"#),
        ),
        (
            Side::Agent,
            line(&text("🎉"))
                + &line(&question(7, "s"))
                + "no\r\n"
                + &line(r#"{"jsonrpc":"2.0","id":3,"result":{"sessions":[]}}"#),
        ),
        (
            Side::Client,
            line(r#"{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#)
                + &line(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#),
        ),
        (
            Side::Agent,
            line(&text("late")) + &line(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#),
        ),
    ]
}

/// What both sides have read, and what was told, with the part of that number cut there.
fn seen(cut: Option<(usize, usize)>) -> (String, String, Vec<String>) {
    let mut rig = Rig::up(config(), ALL);
    for (n, (side, part)) in script().iter().enumerate() {
        let at = cut.filter(|(part, _)| *part == n).map_or(part.len(), |(_, at)| at);
        let (first, second) = part.as_bytes().split_at(at);
        let link = if *side == Side::Client { rig.client } else { rig.agent };
        for piece in [first, second] {
            rig.desk.send(link, piece);
        }
    }
    let told = rig.events().iter().map(|event| format!("{event:?}")).collect();
    (rig.desk.read(rig.client), rig.desk.read(rig.agent), told)
}

#[test]
fn both_sides_see_the_same() {
    let whole = seen(None);
    assert!(whole.0.contains("🎉") && whole.0.contains(r#""stopReason":"cancelled""#), "{}", whole.0);
    assert!(whole.1.contains("🎉") && whole.1.contains("session/cancel"), "{}", whole.1);
    for (part, (_, bytes)) in script().iter().enumerate() {
        for at in 0..bytes.len() {
            assert_eq!(seen(Some((part, at))), whole, "part {part} cut at {at}");
        }
    }
}
