//! What an agent asks of a person beside permissions: what is wanted, how it is answered, and when a page is done.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::services::Elicit;
use super::{Json, method};

/// An answer to a form or a page; `C` are the values of a form.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Reply<C = Map<String, Value>> {
    /// Yes: the form, filled in, or to visiting the page, without content.
    Accept {
        /// The values of the form, by field.
        #[serde(default = "none", skip_serializing_if = "Option::is_none")]
        content: Option<C>,
    },
    /// The person has said no.
    Decline,
    /// Nobody has answered.
    Cancel,
}

const fn none<C>() -> Option<C> {
    None
}

/// What is wanted of a person.
#[derive(Debug)]
pub(crate) enum Wants {
    /// A form to be filled in, as it was written.
    Form(Option<Json>),
    /// A page to be visited, and the agent's name of it.
    Page { url: String, id: Option<String> },
}

/// What a question is about, for people, and what it wants.
pub(crate) fn read(elicit: Elicit) -> (String, Wants) {
    let Elicit { message, mode, requested_schema, elicitation_id, url, .. } = elicit;
    let wants = match url {
        Some(url) if mode == "url" => Wants::Page { url, id: elicitation_id },
        Some(_) | None => Wants::Form(requested_schema),
    };
    (message, wants)
}

/// The page that the agent says is done, if that is what a notification says.
pub(crate) fn page_done(method: &str, params: Option<&Json>) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        elicitation_id: String,
    }
    let params = params.filter(|_| method == method::ELICITATION_COMPLETE)?;
    let page: Page = serde_json::from_str(params.get()).ok()?;
    Some(page.elicitation_id)
}
