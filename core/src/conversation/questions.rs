//! What an agent asks of the user beside permissions: forms to fill in and pages to visit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::api::{By, Event};
use crate::acp::client::{self, Requested};
pub use crate::acp::elicitation::Reply;
use crate::acp::elicitation::{self, Wants};
use crate::acp::services::{Elicit, ServiceRequest};
use crate::acp::{Form, Json, RequestKey};
use crate::machine::Refused;
use crate::rpc::{RpcError, code, cut};

/// Who answers forms and pages.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Questions {
    /// Nobody: each is declined. A default of the agent's is no consent.
    #[default]
    Decline,
    /// The application, by [`Command::Reply`](super::Command::Reply).
    Ask,
    /// Forms are filled in with these values, each by the name of its field; a form that they do not fit is declined,
    /// and so is each page.
    Given(Map<String, Value>),
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAsked {
    /// Its key, until it is answered or withdrawn.
    #[serde(skip)]
    pub request: RequestKey,
    /// The question, for people.
    pub message: String,
    /// What is wanted.
    #[serde(flatten)]
    pub wanted: Wanted,
}

/// What a question wants.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Wanted {
    /// A form to be filled in.
    Form {
        /// Its fields, as far as they can be shown.
        form: Form,
    },
    /// A page to be visited, elsewhere: agreed to first, done later.
    Url {
        /// Its address, not to be opened without consent.
        url: String,
        /// The agent's name of it, as in [`Event::PageDone`].
        id: Option<String>,
    },
}

/// How a question was answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDecided {
    /// The key of the question.
    #[serde(skip)]
    pub request: RequestKey,
    /// The question, for people; the first 4 KiB.
    pub message: String,
    /// `form` or `url`.
    pub mode: String,
    /// The answer: the action, and what was filled in.
    #[serde(flatten)]
    pub reply: Reply,
    /// Who has answered.
    pub by: By,
    /// Why nobody else could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The open questions of a run, and who answers them.
#[derive(Debug)]
pub(crate) struct Open {
    who: Questions,
    open: BTreeMap<RequestKey, Asked>,
    bytes: usize,
}

#[derive(Debug)]
struct Asked {
    message: String,
    /// What it is to be checked against; none for a page.
    form: Option<Form>,
    size: usize,
}

impl Open {
    pub(crate) const fn new(who: Questions) -> Self {
        Self { who, open: BTreeMap::new(), bytes: 0 }
    }

    /// Takes what the agent asks: what to tell of it, and what to answer at once.
    pub(crate) fn asked(&mut self, requested: Requested) -> (Option<Event>, Option<client::Command>) {
        let Requested { request, wanted } = requested;
        let ServiceRequest::Elicit(elicit) = wanted else {
            let error = RpcError::new(code::METHOD_NOT_FOUND, "not offered");
            return (None, Some(client::Command::Fail { request, error }));
        };
        let size = size(&elicit);
        let asked = read(request, elicit);
        let (reply, why) = match &self.who {
            Questions::Ask if self.bytes + size <= BYTES => {
                self.keep(&asked, size);
                return (Some(Event::QuestionAsked(Box::new(asked))), None);
            }
            Questions::Ask => (Reply::Decline, "too many questions are open".to_owned()),
            Questions::Decline => (Reply::Decline, "there is nobody to ask".to_owned()),
            Questions::Given(values) => match filled_in(&asked.wanted, values) {
                Ok(content) => (Reply::Accept { content: Some(content) }, "given beforehand".to_owned()),
                Err(why) => (Reply::Decline, why),
            },
        };
        let command = client::Command::Reply { request, result: Json::new(&reply) };
        let decided = decided(&asked, reply, By::Policy, Some(why));
        (Some(Event::QuestionDecided(Box::new(decided))), Some(command))
    }

    fn keep(&mut self, asked: &QuestionAsked, size: usize) {
        self.bytes += size;
        let form = match &asked.wanted {
            Wanted::Form { form } => Some(form.clone()),
            Wanted::Url { .. } => None,
        };
        let message = cut(&asked.message, TEXT).to_owned();
        self.open.insert(asked.request, Asked { message, form, size });
    }

    /// The answer of the application, if it is one.
    pub(crate) fn answer(&self, request: RequestKey, reply: &Reply) -> Result<client::Command, Refused> {
        let asked = self.open.get(&request).ok_or(Refused::Unknown)?;
        match (reply, &asked.form) {
            (Reply::Accept { content: Some(content) }, Some(form)) => {
                form.check(content).map_err(|_| Refused::Invalid("the values do not fit the form"))?;
            }
            (Reply::Accept { content: None }, Some(_)) => {
                return Err(Refused::Invalid("a form without values"));
            }
            (Reply::Accept { content: Some(_) }, None) => {
                return Err(Refused::Invalid("a page takes no values"));
            }
            (Reply::Accept { content: None }, None) | (Reply::Decline | Reply::Cancel, _) => {}
        }
        Ok(client::Command::Reply { request, result: Json::new(reply) })
    }

    /// The user has answered.
    pub(crate) fn answered(&mut self, request: RequestKey, reply: Reply) -> Option<Event> {
        self.over(request, reply, By::User)
    }

    /// The question is moot; nobody may answer it any more.
    pub(crate) fn withdrawn(&mut self, request: RequestKey) -> Option<Event> {
        self.over(request, Reply::Cancel, By::Cancel)
    }

    fn over(&mut self, request: RequestKey, reply: Reply, by: By) -> Option<Event> {
        let Asked { message, form, size } = self.open.remove(&request)?;
        self.bytes -= size;
        let mode = if form.is_some() { "form" } else { "url" };
        let decided = QuestionDecided { request, message, mode: mode.to_owned(), reply, by, why: None };
        Some(Event::QuestionDecided(Box::new(decided)))
    }
}

/// Bytes of what whoever answers has to be shown.
fn size(elicit: &Elicit) -> usize {
    let Elicit { message, requested_schema, url, elicitation_id, .. } = elicit;
    let schema = requested_schema.as_ref().map_or(0, |schema| schema.get().len());
    let texts = [url, elicitation_id].into_iter().flatten().map(String::len).sum::<usize>();
    message.len() + schema + texts
}

fn read(request: RequestKey, elicit: Elicit) -> QuestionAsked {
    let (message, wants) = elicitation::read(elicit);
    let wanted = match wants {
        Wants::Page { url, id } => Wanted::Url { url, id },
        Wants::Form(schema) => Wanted::Form { form: schema.as_ref().map(Form::read).unwrap_or_default() },
    };
    QuestionAsked { request, message, wanted }
}

fn decided(asked: &QuestionAsked, reply: Reply, by: By, why: Option<String>) -> QuestionDecided {
    let mode = match asked.wanted {
        Wanted::Form { .. } => "form",
        Wanted::Url { .. } => "url",
    };
    let message = cut(&asked.message, TEXT).to_owned();
    QuestionDecided { request: asked.request, message, mode: mode.to_owned(), reply, by, why }
}

/// The given values that the form asks for, if they are an answer to it.
fn filled_in(wanted: &Wanted, values: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let Wanted::Form { form } = wanted else {
        return Err("a page has to be agreed to by a person".to_owned());
    };
    let given = form.fields.iter().filter_map(|field| {
        let value = values.get(&field.name)?;
        Some((field.name.clone(), value.clone()))
    });
    let content: Map<String, Value> = given.collect();
    if content.is_empty() {
        return Err("none of its fields was given".to_owned());
    }
    form.check(&content).map_err(|unfit| unfit.to_string())?;
    Ok(content)
}

/// Bytes of all open questions, so that whoever shows them need not count.
const BYTES: usize = 1 << 20;
/// Bytes of a question that the decision repeats.
const TEXT: usize = 4 << 10;
