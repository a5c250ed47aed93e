//! Everything that our client and our agent write is read by the schema crate, down to the last member.

use agentline_core::acp::agent::{self, Agent, Reply};
use agentline_core::acp::client::{self, Client, Which};
use agentline_core::acp::services::{
    CreateTerminal, Elicit, ReadTextFile, ServiceRequest, TerminalRef, WriteTextFile,
};
use agentline_core::acp::session::{ConfigValue, Implementation, SessionList, SessionSetup, SessionState};
use agentline_core::acp::update::{Speaker, ToolCallUpdate, Update};
use agentline_core::acp::{ContentBlock, Json, PermissionOption, PermissionOutcome, StopReason};
use agentline_core::rpc::RpcError;
use agentline_core::{Open, Tag};
use agentline_oracle::{Judged, METHODS};
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn from<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).expect("a value of ours")
}

fn blocks() -> Vec<ContentBlock> {
    from(json!([
        {"type": "text", "text": "a\u{2028}b", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"a": 1}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///i.png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///f", "name": "f", "title": "F", "description": "d", "mimeType": "text/plain", "size": 3},
        {"type": "resource", "resource": {"uri": "file:///f", "text": "t", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///f", "blob": "aGk="}, "_meta": {"b": 2}},
    ]))
}

fn setup() -> SessionSetup {
    from(json!({
        "cwd": "/w",
        "mcpServers": [
            {"name": "m", "command": "/m", "args": ["-x", ""], "env": [{"name": "A", "value": "1"}]},
            {"name": "bare", "command": "/b"},
            {"type": "http", "name": "h", "url": "https://h", "headers": [{"name": "A", "value": "1"}]},
            {"type": "sse", "name": "s", "url": "https://s", "headers": []},
        ],
        "additionalDirectories": ["/x"],
        "systemPrompt": {"mode": "override", "content": [{"type": "text", "text": "be kind"}]},
        "_meta": {"traceparent": "00-0-0-00"},
    }))
}

fn state() -> SessionState {
    from(json!({
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask", "description": "asks"}, {"id": "do", "name": "Do"}]},
        "configOptions": options(),
        "_meta": {"a": 1},
    }))
}

fn options() -> Value {
    json!([
        {"id": "m", "name": "Model", "description": "d", "category": "model", "type": "select", "currentValue": "a", "options": [{"value": "a", "name": "A", "description": "d"}]},
        {"id": "g", "name": "Grouped", "category": "_mine", "type": "select", "currentValue": "a", "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}]},
        {"id": "b", "name": "Boolean", "type": "boolean", "currentValue": true},
    ])
}

#[test]
fn a_client_says_nothing_that_the_schema_does_not_have() {
    let mut config = client::Config::new(Open::Given(0));
    config.capabilities = from(serde_json::from_str(CLIENT_OFFERS).expect("JSON"));
    config.info = Some(Implementation { name: "c".into(), title: Some("C".into()), version: "1".into() });
    let mut client = Judged::new(Rig::<Client>::client(config));
    client.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{OFFERS},"authMethods":[{{"id":"login","name":"L"}}]}}}}"#
    ));
    let open = |tag, which| client::Command::OpenSession { tag: Tag(tag), which, setup: setup() };
    client.command(client::Command::Authenticate { tag: Tag(1), method: "login".into() });
    client.command(client::Command::Logout { tag: Tag(2) });
    client.command(open(3, Which::New));
    client.command(client::Command::OpenSession {
        tag: Tag(30),
        which: Which::New,
        setup: SessionSetup::in_directory("/w"),
    });
    client.command(open(4, Which::Load("l".into())));
    client.command(open(5, Which::Resume("r".into())));
    client.answer(3, &json!({"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": []}, "configOptions": []}));
    client.command(client::Command::ListSessions { tag: Tag(6), cwd: None, cursor: None });
    client.command(client::Command::ListSessions {
        tag: Tag(7),
        cwd: Some("/w".into()),
        cursor: Some("c".into()),
    });
    client.command(client::Command::SetMode { tag: Tag(8), session: "s".into(), mode: "a".into() });
    for (tag, value) in
        [(9, ConfigValue::Id("a".into())), (10, ConfigValue::Bool(true)), (11, ConfigValue::Bool(false))]
    {
        let (session, option) = ("s".into(), "o".into());
        client.command(client::Command::SetOption { tag: Tag(tag), session, option, value });
    }
    client.command(client::Command::DeleteSession { tag: Tag(12), session: "gone".into() });
    client.command(client::Command::Prompt { tag: Tag(13), session: "s".into(), prompt: blocks() });
    client.command(client::Command::Withdraw { tag: Tag(12) });
    let extra = || Json::new(&json!({"a": {"b": [1, null]}}));
    client.command(client::Command::Call { tag: Tag(14), method: "_x/y".into(), params: extra() });
    client.command(client::Command::Notify { method: "_x/z".into(), params: extra() });

    // Answers.
    let permission = |id: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"y","name":"Y","kind":"allow_once"}}]}}}}"#
        )
    };
    for (id, outcome) in [(0, PermissionOutcome::selected("y")), (1, PermissionOutcome::Cancelled)] {
        for event in client.hear(&permission(id)) {
            if let client::Event::PermissionAsked(asked) = event {
                client.command(client::Command::Answer { request: asked.request, outcome: outcome.clone() });
            }
        }
    }
    client.hear(&permission(2));
    client.command(client::Command::Cancel { session: "s".into() });
    for (id, method) in [(5, "no/such"), (6, "session/request_permission"), (7, "fs/read_text_file")] {
        client.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#));
    }
    client.hear(
        r#"{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
    );
    client.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":8}}"#);
    client.command(client::Command::CloseSession { tag: Tag(20), session: "s".into() });
    let ours = [
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_config_option",
        "session/prompt",
        "session/cancel",
        "$/cancel_request",
        "session/request_permission",
        "_x/y",
        "_x/z",
        "error",
    ];
    for method in ours {
        assert!(client.seen.contains_key(method), "nothing was written about {method}");
    }
}

#[test]
fn an_agent_says_nothing_that_the_schema_does_not_have() {
    let mut config = agent::Config {
        capabilities: from(serde_json::from_str(OFFERS).expect("JSON")),
        auth_methods: from(json!([
            {"id": "login", "name": "L", "description": "d"},
            {"id": "tty", "name": "T", "type": "terminal", "args": ["login"], "env": {"A": "1"}},
        ])),
        info: Some(Implementation { name: "a".into(), title: None, version: "1".into() }),
        ..agent::Config::on_stdio()
    };
    config.capabilities.meta = Some(Json::new(&json!({"vendor": {"x": true}})));
    let mut agent = Judged::new(Rig::<Agent>::agent(config));
    agent.hear(&format!(
        r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{CLIENT_OFFERS}}}}}"#
    ));

    // Replies.
    let opened = |session: &str| Reply::SessionOpened { session: session.into(), state: state() };
    let list: SessionList = from(json!({
        "sessions": [{"sessionId": "s", "cwd": "/w", "additionalDirectories": ["/x"], "title": "T", "updatedAt": "2026-01-01T00:00:00Z"}],
        "nextCursor": "n",
    }));
    let requests = [
        ("authenticate", json!({"methodId": "login"}), Reply::Done),
        ("logout", json!({}), Reply::Done),
        ("session/new", json!({"cwd": "/w", "mcpServers": []}), opened("s")),
        ("session/load", json!({"sessionId": "l", "cwd": "/w", "mcpServers": []}), opened("l")),
        ("session/resume", json!({"sessionId": "r", "cwd": "/w"}), opened("r")),
        ("session/list", json!({}), Reply::Sessions(list)),
        ("session/list", json!({}), Reply::Sessions(SessionList::default())),
        ("session/set_mode", json!({"sessionId": "s", "modeId": "do"}), Reply::Done),
        (
            "session/set_config_option",
            json!({"sessionId": "s", "configId": "m", "value": "a"}),
            Reply::Options(from(options())),
        ),
        ("session/delete", json!({"sessionId": "x"}), Reply::Done),
        ("session/close", json!({"sessionId": "l"}), Reply::Done),
    ];
    for (method, params, reply) in requests {
        for event in
            agent.hear(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#))
        {
            if let agent::Event::Requested(asked) = event {
                agent.command(agent::Command::Reply { request: asked.request, reply: reply.clone() });
            }
        }
    }

    // A turn.
    let begin = |agent: &mut Judged<Agent>, id: u64| {
        let told = agent.hear(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s","prompt":[]}}}}"#
        ));
        told.into_iter()
            .find_map(|event| if let agent::Event::Prompted(it) = event { Some(it.turn) } else { None })
    };
    let turn = begin(&mut agent, 10).expect("a turn");
    for speaker in [Speaker::Agent, Speaker::Thought, Speaker::User] {
        agent.command(agent::Command::Say { turn, speaker, text: "t".into() });
    }
    for block in blocks() {
        let chunk = from(json!({"content": block, "messageId": "m", "_meta": {"a": 1}}));
        agent.command(agent::Command::Report { turn, update: Update::Message(Speaker::Agent, chunk) });
    }
    for update in updates() {
        agent.command(agent::Command::Report { turn, update: from(update) });
    }
    let tool_call: ToolCallUpdate = from(json!({
        "toolCallId": "c", "title": "T", "name": "n", "kind": "edit", "status": "in_progress", "content": [], "locations": [],
        "rawInput": {"a": 1}, "rawOutput": "o", "_meta": {"a": 1},
    }));
    let options: Vec<PermissionOption> = from(json!([
        {"optionId": "1", "name": "A", "kind": "allow_once"}, {"optionId": "2", "name": "B", "kind": "allow_always"},
        {"optionId": "3", "name": "C", "kind": "reject_once"}, {"optionId": "4", "name": "D", "kind": "reject_always"},
    ]));
    agent.command(agent::Command::AskPermission { tag: Tag(1), of: turn.into(), tool_call, options, meta: None });
    for (tag, wanted) in (2..).zip(services()) {
        agent.command(agent::Command::Request { tag: Tag(tag), wanted });
    }
    agent.command(agent::Command::Withdraw { tag: Tag(2) });
    agent.command(agent::Command::CompleteElicitation { elicitation: "e".into() });
    agent.command(agent::Command::Notify { method: "_x".into(), params: Json::new(&json!({"a": 1})) });
    agent.command(agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() });
    for (id, reason) in (11..).zip([
        StopReason::MaxTokens,
        StopReason::MaxTurnRequests,
        StopReason::Refusal,
        StopReason::Cancelled,
    ]) {
        let turn = begin(&mut agent, id).expect("a turn");
        agent.command(agent::Command::EndTurn { turn, stopped: reason.into() });
    }
    let turn = begin(&mut agent, 20).expect("a turn");
    let data = Some(Json::new(&json!({"uri": "file:///f"})));
    agent.command(agent::Command::FailTurn { turn, error: RpcError { data, ..RpcError::new(-32002, "m") } });
    for bad in [
        "nonsense",
        "[]",
        r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"no/such"}"#,
    ] {
        agent.hear(bad);
    }
    let others = ["session/update", "elicitation/complete", "$/cancel_request", "_x", "error"];
    for method in METHODS.iter().chain(&others) {
        assert!(agent.seen.contains_key(*method), "nothing was written about {method}");
    }
}

fn updates() -> Vec<Value> {
    vec![
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "T", "name": "n", "kind": "execute", "status": "in_progress",
            "content": [
                {"type": "content", "content": {"type": "text", "text": "t"}},
                {"type": "diff", "path": "/f", "oldText": "a", "newText": "b", "_meta": {"a": 1}},
                {"type": "diff", "path": "/f", "newText": "b"},
                {"type": "terminal", "terminalId": "t"},
                {"type": "session", "sessionId": "child"},
            ],
            "locations": [{"path": "/f", "line": 3}, {"path": "/g"}],
            "rawInput": {"a": [1]}, "rawOutput": null, "_meta": {"a": 1}}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "d", "title": "T"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "t"}}]}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"}),
        json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}, {"content": "b", "priority": "low", "status": "completed", "_meta": {"a": 1}}], "_meta": {"a": 1}}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a", "description": "d", "input": {"hint": "h"}}, {"name": "b", "description": "d"}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "do"}),
        json!({"sessionUpdate": "config_option_update", "configOptions": options()}),
        json!({"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"}),
        json!({"sessionUpdate": "session_info_update", "title": null}),
        json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}}),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "T", "description": "d"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": {"type": "text", "text": "t"}}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "c"}}),
        json!({"sessionUpdate": "plan_removed", "planId": "p"}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "child", "title": "T", "state": {"state": "running"}}),
        json!({"sessionUpdate": "session_message_chunk", "messageId": "m", "content": {"type": "text", "text": "t"}}),
    ]
}

fn services() -> Vec<ServiceRequest> {
    let session = || "s".into();
    let terminal = || TerminalRef { session_id: session(), terminal_id: "t".into() };
    vec![
        ServiceRequest::ReadTextFile(ReadTextFile {
            session_id: session(),
            path: "/f".into(),
            line: Some(1),
            limit: Some(2),
        }),
        ServiceRequest::WriteTextFile(WriteTextFile {
            session_id: session(),
            path: "/f".into(),
            content: "c".into(),
        }),
        ServiceRequest::CreateTerminal(CreateTerminal {
            session_id: session(),
            command: "ls".into(),
            args: vec!["-l".into()],
            env: from(json!([{"name": "A", "value": "1"}])),
            cwd: Some("/w".into()),
            output_byte_limit: Some(1000),
        }),
        ServiceRequest::TerminalOutput(terminal()),
        ServiceRequest::WaitForTerminal(terminal()),
        ServiceRequest::KillTerminal(terminal()),
        ServiceRequest::ReleaseTerminal(terminal()),
        ServiceRequest::Elicit(Elicit {
            message: "?".into(),
            mode: "form".into(),
            session_id: Some(session()),
            tool_call_id: Some("c".into()),
            requested_schema: Some(Json::new(
                &json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            )),
            ..Elicit::default()
        }),
        ServiceRequest::Elicit(Elicit {
            message: "?".into(),
            mode: "url".into(),
            request_id: Some(7.into()),
            elicitation_id: Some("e".into()),
            url: Some("https://x".into()),
            ..Elicit::default()
        }),
        ServiceRequest::Extension { method: "_x/y".into(), params: None },
    ]
}
