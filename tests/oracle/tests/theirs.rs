//! Everything that the builders of the schema crate make is read here, to the same fields.

use std::collections::HashMap;

use agent_client_protocol_schema::v1::*;
use agent_client_protocol_schema::{MaybeUndefined, ProtocolVersion};
use agentline_core::acp::agent::{self, Agent, Wanted};
use agentline_core::acp::client::{self, Answer, Client, Which};
use agentline_core::acp::services::ServiceRequest;
use agentline_core::acp::session::Pair;
use agentline_core::acp::{PermissionOutcome as Chosen, SessionSetup, StopReason as Reason};
use agentline_core::{Open, Tag};
use agentline_oracle::{notification, plain, request};
use agentline_tests::acp::Rig;
use agentline_tests::acp::rig::{CLIENT_OFFERS, OFFERS};
use serde::Serialize;
use serde_json::{Map, Value, json};

fn value(of: &impl Serialize) -> Value {
    plain(serde_json::to_value(of).expect("JSON"))
}

/// Puts secrets where their placeholders are.
fn reveal(holder: &mut Value, pairs: &[Pair]) {
    for list in ["env", "headers"] {
        let shown = holder.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        shown.zip(pairs).for_each(|(shown, pair)| shown["value"] = json!(pair.value.expose()));
    }
}

fn revealed(setup: &SessionSetup) -> Value {
    let mut seen = value(setup);
    for (n, server) in setup.mcp_servers.iter().enumerate() {
        reveal(&mut seen["mcpServers"][n], server.pairs());
    }
    seen
}

fn meta() -> Map<String, Value> {
    let Value::Object(meta) = json!({"vendor": {"x": [1, 2]}}) else { unreachable!() };
    meta
}

fn annotations() -> Annotations {
    Annotations::new()
        .audience(vec![Role::User, Role::Assistant])
        .priority(0.5)
        .last_modified("2026-01-01".to_owned())
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

fn blocks() -> Vec<ContentBlock> {
    vec![
        ContentBlock::Text(TextContent::new("é\u{2028}").annotations(annotations()).meta(meta())),
        ContentBlock::Image(
            ImageContent::new("aGk=", "image/png").uri("file:///i".to_owned()).annotations(annotations()),
        ),
        ContentBlock::Audio(AudioContent::new("aGk=", "audio/wav").meta(meta())),
        ContentBlock::ResourceLink(
            ResourceLink::new("n", "file:///f")
                .title("T".to_owned())
                .description("d".to_owned())
                .mime_type("m".to_owned())
                .size(3),
        ),
        ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(
            TextResourceContents::new("t", "file:///f").mime_type("text/plain".to_owned()),
        ))),
        ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::BlobResourceContents(
            BlobResourceContents::new("aGk=", "file:///f"),
        ))),
    ]
}

fn options() -> Vec<SessionConfigOption> {
    let select = SessionConfigSelectOption::new("a", "A").description("d".to_owned());
    let group = SessionConfigSelectGroup::new("g", "G", vec![select.clone()]);
    vec![
        SessionConfigOption::select("m", "Model", "a", vec![select])
            .category(SessionConfigOptionCategory::Model)
            .description("d".to_owned()),
        SessionConfigOption::select("g", "Grouped", "a", vec![group]),
        SessionConfigOption::boolean("b", "Boolean", true),
    ]
}

fn modes() -> SessionModeState {
    let mode = SessionMode::new("ask", "Ask").description("d".to_owned());
    SessionModeState::new("ask", vec![mode, SessionMode::new("do", "Do")])
}

fn with_session() -> Rig<Client> {
    let mut config = client::Config::new(Open::Given(0));
    config.capabilities = serde_json::from_str(CLIENT_OFFERS).expect("capabilities");
    Rig::<Client>::with_sessions(config, &["s"])
}

#[test]
fn the_answer_to_initialize() {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(
            SessionSystemPromptCapabilities::new().mode(
                SessionSystemPromptModeCapabilities::new()
                    .override_(SessionSystemPromptOverrideCapabilities::new()),
            ),
        );
    let offers = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).audio(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).sse(true))
        .session_capabilities(sessions)
        .auth(AgentAuthCapabilities::new().logout(LogoutCapabilities::new()))
        .meta(meta());
    let terminal = AuthMethodTerminal::new("tty", "TTY")
        .args(vec!["login".to_owned()])
        .env(HashMap::from([("A".to_owned(), "1".to_owned())]));
    let response = InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(offers)
        .auth_methods(vec![
            AuthMethod::Agent(AuthMethodAgent::new("login", "Login").description("d".to_owned())),
            AuthMethod::Terminal(terminal),
        ])
        .agent_info(Implementation::new("a", "1").title("A".to_owned()));
    // Empty objects are what these capabilities are made of.
    let whole = serde_json::to_value(&response).expect("JSON");
    let mut rig = Rig::<Client>::client(client::Config::new(Open::Given(0)));
    rig.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": whole}).to_string());
    let client::Event::Ready(ready) = rig.event() else { panic!("not ready") };
    let seen = serde_json::to_value(&ready.capabilities).expect("JSON");
    assert_eq!(seen["sessionCapabilities"], whole["agentCapabilities"]["sessionCapabilities"]);
    assert_eq!(value(&ready.capabilities), value(&response.agent_capabilities));
    assert_eq!(value(&ready.auth_methods), value(&response.auth_methods));
    assert_eq!(value(&ready.agent_info), value(&response.agent_info));
}

#[test]
fn initialize() {
    let offers = ClientCapabilities::new()
        .fs(FileSystemCapabilities::new().read_text_file(true).write_text_file(true))
        .terminal(true)
        .auth(AuthCapabilities::new().terminal(true))
        .session(
            ClientSessionCapabilities::new()
                .config_options(
                    SessionConfigOptionsCapabilities::new().boolean(BooleanConfigOptionCapabilities::new()),
                )
                .notices(NoticeCapabilities::new())
                .compaction(CompactionCapabilities::new()),
        )
        .elicitation(
            ElicitationCapabilities::new()
                .form(ElicitationFormCapabilities::new())
                .url(ElicitationUrlCapabilities::new()),
        )
        .plan(PlanCapabilities::new())
        .subagents(SubagentCapabilities::new())
        .meta(meta());
    let params = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(offers)
        .client_info(Implementation::new("c", "1"));
    let whole = serde_json::to_value(&params.client_capabilities).expect("JSON");
    let mut rig = Rig::<Agent>::agent(agent::Config::on_stdio());
    rig.hear(&request("i", "initialize", &params));
    let agent::Event::Initialized(seen) = rig.event() else { panic!("not initialized") };
    assert_eq!(serde_json::to_value(&seen.capabilities).expect("JSON"), whole);
    assert_eq!(value(&seen.client_info), value(&params.client_info));
}

#[test]
fn every_update() {
    let chunk = |block: ContentBlock| ContentChunk::new(block).message_id(MessageId::new("m")).meta(meta());
    let content: Vec<ToolCallContent> = vec![
        ToolCallContent::Content(Content::new(text("t"))),
        ToolCallContent::Diff(Diff::new("/f", "new").old_text("old".to_owned()).meta(meta())),
        ToolCallContent::Terminal(Terminal::new("t")),
        ToolCallContent::Session(SessionReference::new("child")),
    ];
    let call = ToolCall::new("c", "T")
        .name("n".to_owned())
        .kind(ToolKind::Execute)
        .status(ToolCallStatus::InProgress)
        .content(content.clone())
        .locations(vec![ToolCallLocation::new("/f").line(3)])
        .raw_input(json!({"a": 1}))
        .raw_output(json!([1]))
        .meta(meta());
    let fields = ToolCallUpdateFields::new()
        .title("T".to_owned())
        .kind(ToolKind::SwitchMode)
        .status(ToolCallStatus::Failed)
        .content(content)
        .raw_output(json!("o"));
    let entries = vec![
        PlanEntry::new("a", PlanEntryPriority::High, PlanEntryStatus::Pending),
        PlanEntry::new("b", PlanEntryPriority::Medium, PlanEntryStatus::InProgress),
        PlanEntry::new("c", PlanEntryPriority::Low, PlanEntryStatus::Completed).meta(meta()),
    ];
    let input = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new("h"));
    let mut updates = vec![
        SessionUpdate::ToolCall(call),
        SessionUpdate::ToolCall(ToolCall::new("d", "T")),
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c", fields).meta(meta())),
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c", ToolCallUpdateFields::new())),
        SessionUpdate::Plan(Plan::new(entries.clone()).meta(meta())),
        SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![
            AvailableCommand::new("a", "d").input(input),
            AvailableCommand::new("b", "d"),
        ])),
        SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new("do")),
        SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options())),
        SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title("T".to_owned())),
        SessionUpdate::UsageUpdate(UsageUpdate::new(1, u64::MAX).cost(Cost::new(0.25, "credits"))),
        // Kinds that are passed on as they are.
        SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::Items(PlanItems::new("p", entries)))),
        SessionUpdate::PlanRemoved(PlanRemoved::new("p")),
        SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, "T").description("d".to_owned())),
        SessionUpdate::CompactionUpdate(CompactionUpdate::new(
            CompactionId::new("k"),
            CompactionStatus::InProgress,
        )),
        SessionUpdate::CompactionSummaryChunk(CompactionSummaryChunk::new(CompactionId::new("k"), text("t"))),
        SessionUpdate::SubagentUpdate(SubagentUpdate::new("child").title("T".to_owned())),
        SessionUpdate::SessionMessage(SessionMessage::new("m")),
        SessionUpdate::SessionMessageChunk(SessionMessageChunk::new("m", text("t"))),
    ];
    // Text is told as text; every other block is passed on whole.
    updates.extend(blocks().into_iter().skip(1).map(|block| SessionUpdate::AgentThoughtChunk(chunk(block))));
    for update in updates {
        let mut rig = with_session();
        rig.hear(&notification("session/update", SessionNotification::new("s", update.clone()).meta(meta())));
        let client::Event::Updated(seen) = rig.event() else { panic!("{update:?}") };
        assert_eq!(value(&seen.update), value(&update));
    }
    for (update, speaker) in [
        (SessionUpdate::UserMessageChunk(chunk(text("é"))), "user"),
        (SessionUpdate::AgentMessageChunk(chunk(text("é"))), "agent"),
        (SessionUpdate::AgentThoughtChunk(ContentChunk::new(text("é"))), "thought"),
    ] {
        let mut rig = with_session();
        rig.hear(&notification("session/update", SessionNotification::new("s", update)));
        let client::Event::Text(text) = rig.event() else { panic!("no text") };
        assert_eq!((value(&text.speaker), &*text.text), (json!(speaker), "é"));
        assert_eq!(text.message.as_deref(), (speaker != "thought").then_some("m"));
    }
}

#[test]
fn a_cleared_field_is_told_from_an_absent_one() {
    let info = SessionInfoUpdate::new().title(MaybeUndefined::Null);
    let mut rig = with_session();
    rig.hear(&notification(
        "session/update",
        SessionNotification::new("s", SessionUpdate::SessionInfoUpdate(info)),
    ));
    let client::Event::Updated(seen) = rig.event() else { panic!("no update") };
    let whole = serde_json::to_value(&seen.update).expect("JSON");
    assert_eq!(whole, json!({"sessionUpdate": "session_info_update", "title": null}));
}

#[test]
fn every_request_of_an_agent() {
    let kinds = [
        PermissionOptionKind::AllowOnce,
        PermissionOptionKind::AllowAlways,
        PermissionOptionKind::RejectOnce,
        PermissionOptionKind::RejectAlways,
    ];
    let offered =
        kinds.into_iter().map(|kind| PermissionOption::new(format!("{kind:?}"), "n", kind)).collect();
    let call =
        ToolCallUpdate::new("c", ToolCallUpdateFields::new().title("T".to_owned()).kind(ToolKind::Edit));
    let params = RequestPermissionRequest::new("s", call, offered).meta(meta());
    let mut rig = with_session();
    rig.hear(&request("p", "session/request_permission", &params));
    let client::Event::PermissionAsked(asked) = rig.event() else { panic!("not asked") };
    assert_eq!(value(&asked.asked), value(&params));

    let session = || ElicitationSessionScope::new("s").tool_call_id(ToolCallId::new("c"));
    let form = ElicitationFormMode::new(session(), ElicitationSchema::new().string("a", true));
    let page = ElicitationUrlMode::new(ElicitationRequestScope::new(7), "e", "https://x");
    let services: Vec<(&str, Value)> = vec![
        ("fs/read_text_file", value(&ReadTextFileRequest::new("s", "/f").line(1).limit(2))),
        ("fs/write_text_file", value(&WriteTextFileRequest::new("s", "/f", "c"))),
        (
            "terminal/create",
            value(
                &CreateTerminalRequest::new("s", "ls")
                    .args(vec!["-l".to_owned()])
                    .env(vec![EnvVariable::new("A", "1")])
                    .cwd(std::path::PathBuf::from("/w"))
                    .output_byte_limit(1000),
            ),
        ),
        ("terminal/output", value(&TerminalOutputRequest::new("s", "t"))),
        ("terminal/wait_for_exit", value(&WaitForTerminalExitRequest::new("s", "t"))),
        ("terminal/kill", value(&KillTerminalRequest::new("s", "t"))),
        ("terminal/release", value(&ReleaseTerminalRequest::new("s", "t"))),
        ("elicitation/create", value(&CreateElicitationRequest::new(form, "?"))),
        ("elicitation/create", value(&CreateElicitationRequest::new(page, "?"))),
    ];
    for (method, params) in services {
        let mut rig = with_session();
        rig.hear(&request("r", method, &params));
        let client::Event::Requested(asked) = rig.event() else { panic!("{method}") };
        let seen = match &asked.wanted {
            ServiceRequest::ReadTextFile(wanted) => value(wanted),
            ServiceRequest::WriteTextFile(wanted) => value(wanted),
            ServiceRequest::CreateTerminal(wanted) => {
                let mut seen = value(wanted);
                reveal(&mut seen, &wanted.env);
                seen
            }
            ServiceRequest::TerminalOutput(wanted)
            | ServiceRequest::WaitForTerminal(wanted)
            | ServiceRequest::KillTerminal(wanted)
            | ServiceRequest::ReleaseTerminal(wanted) => value(wanted),
            ServiceRequest::Elicit(wanted) => value(wanted),
            ServiceRequest::Extension { .. } => panic!("{method} is no extension"),
        };
        assert_eq!(seen, params, "{method}");
    }
}

#[test]
fn every_answer_of_an_agent() {
    let open = |which| {
        let mut rig = with_session();
        rig.command(client::Command::OpenSession {
            tag: Tag(1),
            which,
            setup: SessionSetup::in_directory("/w"),
        })
        .expect("a session");
        rig
    };
    let answered = |mut rig: Rig<Client>, result: Value| {
        rig.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": result}).to_string());
        let client::Event::Answered(_, answer) = rig.event() else { panic!("not answered") };
        *answer
    };
    let new = NewSessionResponse::new("t").modes(modes()).config_options(options()).meta(meta());
    let Answer::SessionOpened { session, state } = answered(open(Which::New), value(&new)) else {
        panic!("no session")
    };
    assert_eq!(session.as_str(), "t");
    let mut expected = value(&new);
    expected.as_object_mut().expect("an object").remove("sessionId");
    assert_eq!(value(&state), expected);
    for (which, result) in [
        (
            Which::Load("l".into()),
            value(&LoadSessionResponse::new().modes(modes()).config_options(options())),
        ),
        (Which::Resume("l".into()), value(&ResumeSessionResponse::new().modes(modes()))),
    ] {
        let Answer::SessionOpened { state, .. } = answered(open(which), result.clone()) else {
            panic!("no session")
        };
        assert_eq!(value(&state), result);
    }
    let mut rig = with_session();
    rig.command(client::Command::ListSessions { tag: Tag(1), cwd: None, cursor: None }).expect("a list");
    let info = SessionInfo::new("t", "/w")
        .title("T".to_owned())
        .updated_at("2026".to_owned())
        .additional_directories(vec!["/x".into()]);
    let list = ListSessionsResponse::new(vec![info]).next_cursor("n".to_owned());
    let Answer::Sessions(seen) = answered(rig, value(&list)) else { panic!("no list") };
    assert_eq!(value(&seen), value(&list));
    let mut rig = with_session();
    let value_of = agentline_core::acp::session::ConfigValue::Id("a".into());
    let (session, option) = ("s".into(), "m".into());
    rig.command(client::Command::SetOption { tag: Tag(1), session, option, value: value_of })
        .expect("an option");
    let Answer::OptionSet(seen) = answered(rig, value(&SetSessionConfigOptionResponse::new(options())))
    else {
        panic!("no options")
    };
    assert_eq!(value(&seen), value(&options()));
    for reason in [
        StopReason::EndTurn,
        StopReason::MaxTokens,
        StopReason::MaxTurnRequests,
        StopReason::Refusal,
        StopReason::Cancelled,
    ] {
        let mut rig = with_session();
        rig.command(client::Command::Prompt { tag: Tag(1), session: "s".into(), prompt: vec![] })
            .expect("a turn");
        rig.hear(
            &json!({"jsonrpc": "2.0", "id": 2, "result": PromptResponse::new(reason).meta(meta())})
                .to_string(),
        );
        let client::Event::TurnEnded(ended) = rig.event() else { panic!("not ended") };
        let stopped = ended.end.expect("an end");
        assert_eq!(value(&stopped.reason), value(&reason));
        assert!(!matches!(stopped.reason, Reason::Other(_)) && stopped.meta.is_some());
    }
}

#[test]
fn every_request_of_a_client() {
    let servers = vec![
        McpServer::Stdio(
            McpServerStdio::new("m", "/m").args(vec!["-x".to_owned()]).env(vec![EnvVariable::new("A", "1")]),
        ),
        McpServer::Http(McpServerHttp::new("h", "https://h").headers(vec![HttpHeader::new("A", "1")])),
        McpServer::Sse(McpServerSse::new("s", "https://s")),
    ];
    let prompt = SystemPrompt::new(vec![text("be kind")]).mode(SystemPromptMode::Override);
    let new = NewSessionRequest::new("/w")
        .mcp_servers(servers.clone())
        .additional_directories(vec!["/x".into()])
        .system_prompt(prompt.clone())
        .meta(meta());
    let load = LoadSessionRequest::new("l", "/w").mcp_servers(servers.clone()).system_prompt(prompt.clone());
    let resume = ResumeSessionRequest::new("r", "/w").mcp_servers(servers).system_prompt(prompt);
    let requests: Vec<(&str, Value)> = vec![
        ("authenticate", value(&AuthenticateRequest::new("login"))),
        ("logout", value(&LogoutRequest::new())),
        ("session/new", value(&new)),
        ("session/load", value(&load)),
        ("session/resume", value(&resume)),
        (
            "session/list",
            value(&ListSessionsRequest::new().cwd(std::path::PathBuf::from("/w")).cursor("c".to_owned())),
        ),
        ("session/close", value(&CloseSessionRequest::new("s"))),
        ("session/delete", value(&DeleteSessionRequest::new("s"))),
        ("session/set_mode", value(&SetSessionModeRequest::new("s", "do"))),
        (
            "session/set_config_option",
            value(&SetSessionConfigOptionRequest::new("s", "m", SessionConfigOptionValue::value_id("a"))),
        ),
        (
            "session/set_config_option",
            value(&SetSessionConfigOptionRequest::new("s", "m", SessionConfigOptionValue::boolean(true))),
        ),
    ];
    for (method, params) in requests {
        let config = agent::Config {
            capabilities: serde_json::from_str(OFFERS).expect("capabilities"),
            auth_methods: serde_json::from_str(r#"[{"id":"login","name":"L"}]"#).expect("logins"),
            ..agent::Config::on_stdio()
        };
        let mut rig = Rig::<Agent>::with_sessions(config, CLIENT_OFFERS, &["s"]);
        rig.hear(&request("r", method, &params));
        let agent::Event::Requested(asked) = rig.event() else { panic!("{method}: {:?}", rig.written()) };
        let of = |session: &dyn std::fmt::Display, setup: &SessionSetup| {
            let mut seen = revealed(setup);
            seen["sessionId"] = json!(session.to_string());
            seen
        };
        let seen = match &asked.wanted {
            Wanted::Authenticate(method) => json!({"methodId": method}),
            Wanted::Logout => json!({}),
            Wanted::NewSession(setup) => revealed(setup),
            Wanted::LoadSession(session, setup) | Wanted::ResumeSession(session, setup) => of(session, setup),
            Wanted::ListSessions { cwd, cursor } => json!({"cwd": cwd, "cursor": cursor}),
            Wanted::CloseSession(session) | Wanted::DeleteSession(session) => json!({"sessionId": session}),
            Wanted::SetMode(session, mode) => json!({"sessionId": session, "modeId": mode}),
            Wanted::SetOption(session, option, set) => {
                let mut seen = json!({"sessionId": session, "configId": option, "value": set});
                if seen["value"].is_boolean() {
                    seen["type"] = json!("boolean");
                }
                seen
            }
            Wanted::Extension(method, _) => panic!("{method} is no extension"),
        };
        assert_eq!(seen, params, "{method}");
    }
}

#[test]
fn a_prompt_and_its_cancel() {
    let config = agent::Config {
        capabilities: serde_json::from_str(OFFERS).expect("capabilities"),
        ..agent::Config::on_stdio()
    };
    let mut rig = Rig::<Agent>::with_sessions(config, CLIENT_OFFERS, &["s"]);
    rig.hear(&request("p", "session/prompt", PromptRequest::new("s", blocks())));
    let agent::Event::Prompted(prompted) = rig.event() else { panic!("no turn") };
    assert_eq!(value(&prompted.prompt), value(&blocks()));
    rig.hear(&notification("session/cancel", CancelNotification::new("s")));
    assert_eq!(rig.event(), agent::Event::Cancelled(prompted.turn));
    rig.hear(&notification("$/cancel_request", CancelRequestNotification::new("p".to_owned())));
    assert_eq!(rig.told(), []);
}

#[test]
fn the_answers_to_a_permission() {
    for (outcome, chosen) in [
        (
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new("y").meta(meta())),
            Chosen::selected("y"),
        ),
        (RequestPermissionOutcome::Cancelled, Chosen::Cancelled),
    ] {
        let mut rig = Rig::<Agent>::with_sessions(agent::Config::on_stdio(), CLIENT_OFFERS, &["s"]);
        rig.hear(&request("p", "session/prompt", PromptRequest::new("s", vec![])));
        let agent::Event::Prompted(prompted) = rig.event() else { panic!("no turn") };
        rig.command(agent::Command::AskPermission {
            tag: Tag(1),
            of: prompted.turn.into(),
            tool_call: Default::default(),
            options: serde_json::from_str(r#"[{"optionId":"y","name":"Y","kind":"allow_once"}]"#)
                .expect("options"), meta: None })
        .expect("a question");
        let result = RequestPermissionResponse::new(outcome);
        rig.hear(&json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string());
        assert_eq!(rig.event(), agent::Event::PermissionAnswered(Tag(1), chosen));
    }
}
