//! The commands of a hub's control socket, as types: their names, arguments and results, and the frames of its streams.
//!
//! A type of arguments is a [`Method`]: it knows its name and its result. Who asks writes [`Method::request`] and reads
//! the result; who serves reads any request as a [`Call`]. What a server adds is passed over, what a client leaves out
//! has its default, and no arguments at all are `{}`.
//!
//! ```
//! use agentline_core::control::Request;
//! use agentline_core::hub::api::{Call, Method, SessionSend};
//!
//! let send = SessionSend { session_id: "s12".into(), content: "and the docs".into(), ..SessionSend::default() };
//! let request: Request = send.request();
//! assert_eq!(request.command, "session.send");
//! assert_eq!(request.args.as_ref().unwrap().get(), r#"{"sessionId":"s12","content":"and the docs"}"#);
//! assert_eq!(Call::read(&request), Ok(Call::SessionSend(send)));
//! ```
//!
//! # Failures
//!
//! Tags and exit codes are those of [`ErrorTag`](crate::control::ErrorTag). Some have members beside the tag:
//!
//! | tag | beside it | when |
//! |---|---|---|
//! | `not_found` | | no session, agent or question of that name |
//! | `invalid_args` | | the arguments, or what they ask for, make no sense here |
//! | `busy` | | 16 prompts wait already, or the hub is stopping |
//! | `already_answered` | `by`, `optionId?` | the question is over |
//! | `not_permitted` | | the program that asks was started by an agent |
//! | `needs_login` | `sessionId`, `retryable` | the agent wants a login first |
//! | `runner_error` | `sessionId?`, `retryable?` | the agent could not be started, or refused |
//!
//! `retryable` says whether [`SessionRetry`] has something to try that could go through.
//!
//! # Names of sessions
//!
//! A session is `s12`, from acceptance on and for ever. Where a `sessionId` is taken, a name, the agent's own id, or a
//! beginning of one of these that fits one session only (4 characters at least) are taken as well.

mod approval;
mod call;
mod frame;
mod health;
mod row;
mod runner;
mod session;

pub use self::approval::*;
pub use self::call::*;
pub use self::frame::*;
pub use self::health::*;
pub use self::row::*;
pub use self::runner::*;
pub use self::session::*;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::Secret;

/// Variables by name. Their values are shown nowhere but on the wire.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variables(pub BTreeMap<String, Secret<String>>);

impl Variables {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Variables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value.expose())))
    }
}

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::<String, String>::deserialize(deserializer)?;
        Ok(Self(values.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }
}

/// For a word that only tells more: one of a later version counts as none.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    let word = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(word).unwrap_or_default())
}

/// For a member that is left out when it is false.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(it: &bool) -> bool {
    !*it
}

/// For a member that is left out when it is zero.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(it: &usize) -> bool {
    *it == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ErrorTag, Request};
    use crate::rpc::Json;

    fn request(command: &str, args: &str) -> Request {
        let args = (!args.is_empty()).then(|| serde_json::from_str::<Json>(args).expect("JSON"));
        Request { command: command.to_owned(), args }
    }

    #[test]
    fn every_command_is_read_and_what_it_lacks_is_named() {
        for name in Call::NAMES {
            let nothing = Call::read(&request(name, ""));
            assert_eq!(nothing, Call::read(&request(name, "{}")), "{name}");
            assert_eq!(nothing, Call::read(&request(name, "null")), "{name}");
            if let Err(failure) = nothing {
                assert_eq!(failure.tag, ErrorTag::InvalidArgs, "{name}");
                assert!(failure.message.starts_with("missing field"), "{name}: {}", failure.message);
            }
            let whole = r#"{"sessionId":"s1","id":"x","enabled":true,"content":"c","name":"n","policy":"ask",
                "llmName":"m","question":"q","approvalId":"a1","title":"t","options":[],"later":[1]}"#;
            assert!(Call::read(&request(name, whole)).is_ok(), "{name}");
        }
        let unknown = Call::read(&request("session.dance", "{}")).expect_err("unknown");
        assert_eq!(unknown.tag, ErrorTag::UnknownCommand);
    }

    #[test]
    fn reasons_of_a_later_hub_are_none() {
        let row = serde_json::json!({
            "id": "s1", "title": "t", "status": "error", "statusReason": "eclipse", "held": "eclipse",
            "lastActivityAt": "x", "createdAt": "x", "updatedAt": "x", "turnCount": 0, "moon": [1],
            "runtimeKind": "external", "gaRuntimeKind": "external", "runtimeLabel": "One",
            "agent": "one", "channel": "acp", "cwd": "/w", "policy": "ask"
        });
        let read: SessionBrief = serde_json::from_value(row).expect("a row");
        assert_eq!((read.status, read.status_reason, read.held), (Status::Error, None, None));
    }

    #[test]
    fn the_values_of_variables_are_on_the_wire_only() {
        let mut new = SessionNew { task: Some("t".into()), ..SessionNew::default() };
        new.env.0.insert("KEY".into(), "hunter2".to_owned().into());
        assert!(!format!("{new:?}").contains("hunter2"));
        let request = new.request();
        assert_eq!(request.args.as_ref().map(Json::get), Some(r#"{"task":"t","env":{"KEY":"hunter2"}}"#));
        assert_eq!(Call::read(&request), Ok(Call::SessionNew(new)));
    }

    #[test]
    fn what_is_dropped_is_a_number_or_all() {
        for (json, expected) in [
            ("7", Some(Drop::Turn(7))),
            ("\"7\"", Some(Drop::Turn(7))),
            ("\"all\"", Some(Drop::All)),
            ("\"x\"", None),
        ] {
            assert_eq!(serde_json::from_str::<Drop>(json).ok(), expected, "{json}");
        }
    }
}
