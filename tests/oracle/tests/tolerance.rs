//! Where we are more tolerant than the schema crate, and where exactly as strict (PROTOCOLS.md, ACP).

use agent_client_protocol_schema::v1 as official;
use agentline_core::acp::agent::{self, Agent};
use agentline_core::acp::client::{self, Client};
use agentline_core::{Open, Tag};
use agentline_oracle::through;
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};
use serde_json::Value;

fn with_session() -> Rig<Client> {
    Rig::<Client>::with_sessions(client::Config::new(Open::Given(0)), &["s"])
}

/// What our client tells about an update.
fn update(update: &str) -> client::Event {
    let mut rig = with_session();
    rig.hear(&format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    ));
    rig.event()
}

/// What the schema crate makes of it.
fn officially(update: &str) -> Result<Value, String> {
    through::<official::SessionNotification>(&format!(r#"{{"sessionId":"s","update":{update}}}"#))
}

#[test]
fn updates_that_are_lost_there_and_told_here() {
    for line in [
        r#"{"sessionUpdate":"future_update","x":1}"#,
        r#"{"sessionUpdate":"_x","x":1}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"video","url":"u"}}"#,
        r#"{"sessionUpdate":"current_mode_update","modeId":"m"}"#,
    ] {
        assert!(officially(line).is_err(), "{line}");
        assert!(matches!(update(line), client::Event::Updated(_)), "{line}");
    }
}

#[test]
fn updates_that_neither_reads() {
    for line in [
        r#"{"sessionUpdate":"agent_message_chunk"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":5}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","text":"b"}}"#,
        r#"{"sessionUpdate":"tool_call","title":"no id"}"#,
        r#"{"sessionUpdate":"usage_update","used":-1,"size":1}"#,
        r#"{"no":"tag"}"#,
    ] {
        assert!(officially(line).is_err(), "{line}");
        assert!(matches!(update(line), client::Event::Noticed(_)), "{line}");
    }
}

#[test]
fn parts_that_count_as_absent_in_both() {
    let same = |line: &str| {
        let client::Event::Updated(seen) = update(line) else { panic!("{line}") };
        let ours = serde_json::to_value(&seen.update).expect("JSON");
        let theirs = officially(line).expect("read")["update"].clone();
        assert_eq!(agentline_oracle::plain(ours), agentline_oracle::plain(theirs), "{line}");
    };
    for line in [
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"dream","status":"napping"}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"napping","title":7,"name":[],"content":"x","locations":{}}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","content":[{"type":"text","text":"bare"},{"type":"diff","path":"/f","newText":"n"},5],"locations":[{"path":5},{"path":"/f","line":"x"}]}"#,
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"urgent","status":"pending"},{"content":"b","priority":"low","status":"pending"}]}"#,
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","name":"A","type":"slider","currentValue":3}]}"#,
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"no description"},{"name":"a","description":"d","input":null}]}"#,
        r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":"free"}"#,
        r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"image","data":"","mimeType":"m","uri":5},"messageId":5}"#,
    ] {
        same(line);
    }
}

#[test]
fn ends_that_are_errors_there_and_kept_here() {
    assert!(through::<official::PromptResponse>(r#"{"stopReason":"paused"}"#).is_err());
    let mut rig = with_session();
    rig.command(client::Command::Prompt { tag: Tag(1), session: "s".into(), prompt: vec![] })
        .expect("a turn");
    rig.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"paused"}}"#);
    let client::Event::TurnEnded(ended) = rig.event() else { panic!("not ended") };
    assert_eq!(ended.end.expect("an end").reason.as_str(), "paused");
}

#[test]
fn permissions_that_are_refused_there_and_asked_here() {
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"d","name":"Today","kind":"allow_for_day"}]}"#;
    assert!(through::<official::RequestPermissionRequest>(params).is_err());
    let mut rig = with_session();
    rig.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{params}}}"#
    ));
    assert!(matches!(rig.event(), client::Event::PermissionAsked(_)));
    for params in [
        r#"{"sessionId":"s","toolCall":{},"options":[]}"#,
        r#"{"sessionId":"s","toolCall":{"toolCallId":"c"}}"#,
    ] {
        assert!(through::<official::RequestPermissionRequest>(params).is_err());
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"session/request_permission","params":{params}}}"#
        ));
        assert!(matches!(rig.event(), client::Event::Noticed(_)));
    }
}

#[test]
fn setups_that_are_refused_there_and_read_here() {
    let config = || agent::Config {
        capabilities: serde_json::from_str(OFFERS).expect("JSON"),
        ..agent::Config::on_stdio()
    };
    let reads = |params: &str| {
        let mut rig = Rig::<Agent>::greeted(config(), CLIENT_OFFERS);
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{params}}}"#));
        matches!(rig.told()[..], [agent::Event::Requested(_)])
    };
    for (params, theirs, ours) in [
        (r#"{"cwd":"/w"}"#, false, true),
        (r#"{"cwd":"/w","mcpServers":null}"#, true, true),
        (r#"{"cwd":"/w","mcpServers":[{"name":"m","command":"/m"}]}"#, false, true),
        (
            r#"{"cwd":"/w","mcpServers":[{"type":"stdio","name":"m","command":"/m","args":[],"env":[]}]}"#,
            true,
            true,
        ),
        (r#"{"cwd":"/w","mcpServers":[{"type":"pigeon","name":"m"}]}"#, false, false),
        (r#"{"cwd":"/w","mcpServers":[{"name":"m"}]}"#, false, false),
        (r#"{"cwd":5,"mcpServers":[]}"#, false, false),
        (r#"{"cwd":"/w","mcpServers":[],"additionalDirectories":"x"}"#, false, false),
        // The type says nothing about paths; the protocol does.
        (r#"{"cwd":"w","mcpServers":[]}"#, true, false),
    ] {
        assert_eq!(through::<official::NewSessionRequest>(params).is_ok(), theirs, "{params}");
        assert_eq!(reads(params), ours, "{params}");
    }
}

#[test]
fn a_prompt_with_a_block_of_an_unknown_type_is_refused_by_both() {
    let params = r#"{"sessionId":"s","prompt":[{"type":"video"}]}"#;
    assert!(through::<official::PromptRequest>(params).is_err());
    let mut rig = Rig::<Agent>::with_sessions(agent::Config::on_stdio(), CLIENT_OFFERS, &["s"]);
    rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{params}}}"#));
    assert!(rig.line().contains("-32602"));
}

#[test]
fn what_is_not_known_survives_here() {
    let raw = r#"{"sessionUpdate":"future_update","x":{"y":[1,2]},"_meta":{"a":1}}"#;
    let client::Event::Updated(seen) = update(raw) else { panic!("not told") };
    assert_eq!(serde_json::to_string(&seen.update).expect("JSON"), raw);
}

#[test]
fn the_handshake_is_read_to_the_same_capabilities() {
    for offers in [
        "7",
        "{}",
        r#"{"loadSession":"yes","promptCapabilities":{"image":true,"audio":0},"mcpCapabilities":null}"#,
        r#"{"sessionCapabilities":{"list":{},"resume":null,"close":7,"delete":{"x":1},"systemPrompt":{}}}"#,
        r#"{"sessionCapabilities":{"systemPrompt":{"mode":{"override":null}}},"auth":{"logout":{}}}"#,
    ] {
        let result = format!(r#"{{"protocolVersion":1,"agentCapabilities":{offers}}}"#);
        let theirs =
            through::<official::InitializeResponse>(&result).expect("read")["agentCapabilities"].clone();
        let mut rig = Rig::<Client>::client(client::Config::new(Open::Given(0)));
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#));
        let client::Event::Ready(ready) = rig.event() else { panic!("not ready") };
        let ours = serde_json::to_value(&ready.capabilities).expect("JSON");
        assert_eq!(agentline_oracle::plain(ours), agentline_oracle::plain(theirs), "{offers}");
    }
}
