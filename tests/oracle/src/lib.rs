//! The official schema crate of ACP as a judge: what a line of ours means to it, and what a value of its
//! builders means to us.

use std::collections::BTreeMap;
use std::fmt::Debug;

use agent_client_protocol_schema::v1 as official;
use agentline_core::{Machine, Refused};
use agentline_tests::acp::Rig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A machine whose every line is shown to the schema crate.
pub struct Judged<M: Machine> {
    rig: Rig<M>,
    /// Methods of the peer's requests, by id.
    asked: BTreeMap<String, String>,
    /// How many lines were judged, by method.
    pub seen: BTreeMap<String, usize>,
}

impl<M: Machine<Event: Debug, Command: Debug>> Judged<M> {
    /// From here on; what the machine has written before must have been looked at.
    pub fn new(rig: Rig<M>) -> Self {
        let mut judged = Self { rig, asked: BTreeMap::new(), seen: BTreeMap::new() };
        judged.judge();
        judged
    }

    /// The peer writes a line. Returns what was told.
    pub fn hear(&mut self, line: &str) -> Vec<M::Event> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            self.asked.insert(id.to_string(), method.to_owned());
        }
        self.rig.hear(line);
        self.judge();
        self.rig.told()
    }

    /// The peer answers the last request of ours.
    pub fn answer(&mut self, id: u64, result: &impl Serialize) -> Vec<M::Event> {
        let message =
            official::Response::<_, official::Error>::new(i64::try_from(id).unwrap_or(0), Ok(result));
        self.hear(&line(&official::JsonRpcMessage::wrap(message)))
    }

    /// The application asks.
    pub fn command(&mut self, command: M::Command) {
        let shown = format!("{command:?}");
        let done: Result<(), Refused> = self.rig.command(command);
        assert_eq!(done, Ok(()), "{shown}");
        self.judge();
    }

    fn judge(&mut self) {
        for line in self.rig.written() {
            let message: Value = serde_json::from_str(&line).expect("lines are JSON");
            let method = match message["method"].as_str() {
                Some(method) => method.to_owned(),
                None => self.asked.get(&message["id"].to_string()).cloned().unwrap_or_default(),
            };
            judge(&line, &message, &method);
            let what = if message.get("error").is_some() { "error".to_owned() } else { method };
            *self.seen.entry(what).or_default() += 1;
        }
    }
}

/// A line as an official SDK would write it.
pub fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("messages are JSON")
}

/// A request as an official SDK would write it.
pub fn request(id: &str, method: &str, params: impl Serialize) -> String {
    let params = Some(serde_json::to_value(params).expect("parameters are JSON"));
    let id = official::RequestId::Str(id.to_owned());
    line(&official::JsonRpcMessage::wrap(official::Request { id, method: method.into(), params }))
}

/// A notification as an official SDK would write it.
pub fn notification(method: &str, params: impl Serialize) -> String {
    let params = Some(serde_json::to_value(params).expect("parameters are JSON"));
    line(&official::JsonRpcMessage::wrap(official::Notification { method: method.into(), params }))
}

/// Whether a line of ours is read by the schema crate, down to its last member.
///
/// # Panics
///
/// It is not.
fn judge(line: &str, message: &Value, method: &str) {
    use official::{JsonRpcMessage, Notification, Request, Response};
    let envelope = if message.get("method").is_none() {
        through::<JsonRpcMessage<Response<Value>>>(line)
    } else if message.get("id").is_some() {
        through::<JsonRpcMessage<Request<Value>>>(line)
    } else {
        through::<JsonRpcMessage<Notification<Value>>>(line)
    };
    assert_eq!(envelope.map(plain), Ok(plain(message.clone())), "envelope of {line}");
    let read = if let Some(params) = message.get("params") {
        (params, read_params(method, &params.to_string()))
    } else if let Some(result) = message.get("result") {
        (result, read_result(method, &result.to_string()))
    } else {
        return;
    };
    let (ours, theirs) = read;
    // Methods of extensions are anybody's.
    if let Some(theirs) = theirs {
        assert_eq!(theirs.map(plain), Ok(plain(ours.clone())), "{line}");
    } else {
        assert!(method.starts_with('_'), "{method} is unknown to the schema");
    }
}

/// A JSON text as a type reads it and writes it again.
pub fn through<T: DeserializeOwned + Serialize>(json: &str) -> Result<Value, String> {
    let value: T = serde_json::from_str(json).map_err(|error| error.to_string())?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// A value without what may as well be absent: null, false, empty lists and objects.
pub fn plain(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, plain(value)));
            Value::Object(members.filter(|(_, value)| !is_nothing(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        scalar => scalar,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

macro_rules! methods {
    ($($method:literal: $params:ident => $result:ident;)*) => {
        fn read_params(method: &str, json: &str) -> Option<Result<Value, String>> {
            Some(match method {
                $($method => through::<official::$params>(json),)*
                "session/cancel" => through::<official::CancelNotification>(json),
                "session/update" => through::<official::SessionNotification>(json),
                "elicitation/complete" => through::<official::CompleteElicitationNotification>(json),
                "$/cancel_request" => through::<official::CancelRequestNotification>(json),
                _ => return None,
            })
        }

        fn read_result(method: &str, json: &str) -> Option<Result<Value, String>> {
            Some(match method {
                $($method => through::<official::$result>(json),)*
                _ => return None,
            })
        }

        /// Every request of the protocol.
        pub const METHODS: &[&str] = &[$($method),*];
    };
}

methods! {
    "initialize": InitializeRequest => InitializeResponse;
    "authenticate": AuthenticateRequest => AuthenticateResponse;
    "logout": LogoutRequest => LogoutResponse;
    "session/new": NewSessionRequest => NewSessionResponse;
    "session/load": LoadSessionRequest => LoadSessionResponse;
    "session/resume": ResumeSessionRequest => ResumeSessionResponse;
    "session/list": ListSessionsRequest => ListSessionsResponse;
    "session/close": CloseSessionRequest => CloseSessionResponse;
    "session/delete": DeleteSessionRequest => DeleteSessionResponse;
    "session/set_mode": SetSessionModeRequest => SetSessionModeResponse;
    "session/set_config_option": SetSessionConfigOptionRequest => SetSessionConfigOptionResponse;
    "session/prompt": PromptRequest => PromptResponse;
    "session/request_permission": RequestPermissionRequest => RequestPermissionResponse;
    "fs/read_text_file": ReadTextFileRequest => ReadTextFileResponse;
    "fs/write_text_file": WriteTextFileRequest => WriteTextFileResponse;
    "terminal/create": CreateTerminalRequest => CreateTerminalResponse;
    "terminal/output": TerminalOutputRequest => TerminalOutputResponse;
    "terminal/wait_for_exit": WaitForTerminalExitRequest => WaitForTerminalExitResponse;
    "terminal/kill": KillTerminalRequest => KillTerminalResponse;
    "terminal/release": ReleaseTerminalRequest => ReleaseTerminalResponse;
    "elicitation/create": CreateElicitationRequest => CreateElicitationResponse;
}
