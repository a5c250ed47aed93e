//! Permission requests: what is asked, what was offered, and the policies that answer by kind alone
//! (ACP, tool-calls).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lenient::{items, object, or_default};
use super::update::ToolCallUpdate;
use super::{Json, SessionId};

/// The parameters of `session/request_permission`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// The session in whose turn it is asked.
    pub session_id: SessionId,
    /// The call that it is about; may hold no more than an id.
    pub tool_call: ToolCallUpdate,
    /// What can be answered, in the agent's order. What cannot be named in an answer is left out.
    #[serde(deserialize_with = "items")]
    pub options: Vec<PermissionOption>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// One of the answers that an agent offers.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Offered")]
pub struct PermissionOption {
    /// For the answer; never to be read into.
    pub option_id: String,
    /// What people choose it by; the id where the agent gives no name.
    pub name: String,
    /// What choosing it means.
    pub kind: OptionKind,
}

/// An option as it may come: only its id cannot be done without.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offered {
    option_id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    kind: Option<OptionKind>,
}

impl From<Offered> for PermissionOption {
    fn from(Offered { option_id, name, kind }: Offered) -> Self {
        let name = name.unwrap_or_else(|| option_id.clone());
        Self { option_id, name, kind: kind.unwrap_or_else(|| OptionKind::Unknown("other".to_owned())) }
    }
}

/// What choosing an option means.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// The call may run; the next one is asked about again.
    AllowOnce,
    /// Yes, from here on.
    AllowAlways,
    /// The call may not run; the next one is asked about again.
    RejectOnce,
    /// No, from here on.
    RejectAlways,
    /// A kind that is not known: a person may choose it, a policy never does.
    #[serde(untagged)]
    Unknown(String),
}

impl OptionKind {
    /// The word that stands for it on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
            Self::Unknown(kind) => kind,
        }
    }

    /// The same, with an unknown word cut to what is worth keeping.
    pub(crate) fn known(&self) -> Self {
        if let Self::Unknown(word) = self {
            return Self::Unknown(crate::rpc::shown(word).into_owned());
        }
        self.clone()
    }

    /// Whether choosing it lets the tool run.
    #[must_use]
    pub const fn allows(&self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}

/// The answer to a permission request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PermissionOutcome {
    /// Nothing was chosen: the turn was cancelled, or no offered option fits.
    Cancelled,
    /// This option was chosen.
    #[serde(rename_all = "camelCase")]
    Selected {
        /// The `optionId` of an option that was offered.
        option_id: String,
    },
}

impl PermissionOutcome {
    /// What a result says, if it is plain: that nothing was chosen, or one of the options that were offered.
    pub(crate) fn read(result: &RawValue, offered: &[String]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Response<'a> {
            #[serde(borrow)]
            outcome: &'a RawValue,
        }
        // Serde reads structs from arrays as well, and an array is no permission.
        let Response { outcome } = object(result.get()).ok()?;
        object(outcome.get()).ok().filter(|outcome| match outcome {
            Self::Selected { option_id } => offered.contains(option_id),
            Self::Cancelled => true,
        })
    }

    /// The answer that chooses the option of that id.
    #[must_use]
    pub fn selected(option_id: impl Into<String>) -> Self {
        Self::Selected { option_id: option_id.into() }
    }
}

/// The result of `session/request_permission`: the outcome, nested once more.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PermissionResponse {
    /// The answer itself.
    pub outcome: PermissionOutcome,
}

impl PermissionRequest {
    /// The option of that id.
    #[must_use]
    pub fn option(&self, id: &str) -> Option<&PermissionOption> {
        self.options.iter().find(|option| option.option_id == id)
    }

    /// The first option of the first of these kinds that was offered. Never chosen by position or by name.
    #[must_use]
    pub fn first_of(&self, kinds: &[OptionKind]) -> Option<&PermissionOption> {
        first_of(&self.options, kinds)
    }
}

/// The first option of the first of these kinds.
pub(crate) fn first_of<'a>(
    options: &'a [PermissionOption],
    kinds: &[OptionKind],
) -> Option<&'a PermissionOption> {
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}
