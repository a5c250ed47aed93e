//! The parameters and results that the extension adds to ACP.

use serde::{Deserialize, Serialize};

use crate::acp::SessionId;
use crate::rpc::or_default;

/// How an agent introduces itself.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The id of its manifest or in the registry.
    pub id: String,
    /// The version of the extension that it speaks.
    pub version: i64,
    /// What it says its process is; nobody has looked.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What may be asked of it.
    #[serde(default, deserialize_with = "or_default")]
    pub capabilities: Capabilities,
}

/// What may be asked of an agent that dialled in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// To take prompts on its sessions.
    #[serde(default, deserialize_with = "or_default")]
    pub prompt: bool,
    /// To cancel what runs on a session.
    #[serde(default, deserialize_with = "or_default")]
    pub cancel: bool,
    /// To open new sessions.
    #[serde(default, deserialize_with = "or_default")]
    pub new_session: bool,
}

/// What a hello is answered with.
#[derive(Serialize, Deserialize)]
pub(super) struct Accepted {
    pub(super) accepted: bool,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// A session that is there.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Announce {
    pub(super) session_id: SessionId,
    pub(super) cwd: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
}

/// The beginning or end of a turn.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnNews {
    pub(super) session_id: SessionId,
    #[serde(deserialize_with = "or_default")]
    pub(super) state: State,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Started,
    Ended,
    #[default]
    #[serde(other)]
    Unknown,
}

/// A question that was answered in the terminal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resolved {
    pub(super) session_id: SessionId,
    pub(super) tool_call_id: String,
}

/// Which session is meant.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Of {
    pub(super) session_id: SessionId,
}

/// What the extension adds to the methods of ACP.
pub(super) mod method {
    pub(in crate::reverse) const HELLO: &str = "_botbus/hello";
    pub(in crate::reverse) const SESSION: &str = "_botbus/session";
    pub(in crate::reverse) const TURN: &str = "_botbus/turn";
    pub(in crate::reverse) const RESOLVED: &str = "_botbus/permission_resolved";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_needs_an_id_and_a_version_and_nothing_else() {
        let read = |json| serde_json::from_str::<Hello>(json).ok();
        let plain = Hello { id: "a".to_owned(), version: 1, ..Hello::default() };
        assert_eq!(read(r#"{"id":"a","version":1}"#), Some(plain.clone()));
        let odd = r#"{"id":"a","version":1,"pid":-1,"capabilities":{"prompt":1,"cancel":"true","newSession":null}}"#;
        assert_eq!(read(odd), Some(plain.clone()));
        assert_eq!(read(r#"{"id":"a","version":1,"capabilities":7}"#), Some(plain));
        for bad in
            [r#"{"version":1}"#, r#"{"id":"a"}"#, r#"{"id":1,"version":1}"#, r#"{"id":"a","version":1.0}"#]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
