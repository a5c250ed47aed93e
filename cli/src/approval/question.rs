//! A question of a hub as one that is put to a person, and the answer as the hub takes it.

use agentline_core::acp::PermissionOutcome;
use agentline_core::acp::form::Form;
use agentline_core::acp::update::ToolCallUpdate;
use agentline_core::hub::api::{ApprovalBrief, ApprovalRespond, AskUser, Class, Decision, Happening};
use agentline_core::rpc::Json;
use agentline_core::subagent::{Reply, Wanted};

use crate::ask::{Answer, Filling, Permission, Question};
use crate::output::{label, plain};

/// What is asked, and of whom it is. `id`: the question as it is typed here.
pub(crate) fn question(asked: &ApprovalBrief, id: &str) -> Question {
    if asked.class != Class::Question {
        let session = asked.session_id.as_deref();
        let whose = [Some(id), session, asked.agent.as_deref()].into_iter().flatten().map(plain);
        return Question::Permission(Permission {
            call: call(asked),
            options: asked.options.clone(),
            whose: Some(whose.collect::<Vec<_>>().join(" · ")),
            // The hub leaves it open, and the agent waits.
            cancels: false,
        });
    }
    Question::Form(match (&asked.url, &asked.schema) {
        (Some(url), _) => Filling::new(asked.title.clone(), Wanted::Url { url: url.clone(), id: None }),
        (None, Some(schema)) => Filling::new(asked.title.clone(), Wanted::Form { form: Form::read(schema) }),
        (None, None) => Filling::words(&asked.title, &asked.candidates),
    })
}

/// The question that a frame of a session brings, if it brings one.
pub(crate) fn asked(what: &Happening) -> Option<ApprovalBrief> {
    if let Happening::ToolCallPending(pending) = what {
        Some(pending.approval.clone())
    } else if let Happening::AskForm(ask) = what {
        Some(ask.approval.clone())
    } else if let Happening::AskUser(ask) = what {
        let AskUser { approval_id, question, candidates } = (**ask).clone();
        let (title, class) = (question, Class::Question);
        Some(ApprovalBrief { approval_id, title, class, candidates, ..ApprovalBrief::default() })
    } else {
        None
    }
}

/// What a permission is about, in a few words.
pub(crate) fn heading(asked: &ApprovalBrief) -> String {
    match asked.class {
        Class::Command | Class::FileChange | Class::Permission => label(&call(asked)),
        Class::Question => plain(&asked.title).into_owned(),
    }
}

/// The call that is asked about, as far as the hub knows it.
fn call(asked: &ApprovalBrief) -> ToolCallUpdate {
    let known = asked.call.clone().unwrap_or_default();
    let title = known.title.filter(|title| !title.trim().is_empty()).or_else(|| Some(asked.title.clone()));
    ToolCallUpdate { title, raw_input: known.raw_input.or_else(|| asked.args.clone()), ..known }
}

/// The answer, as the hub takes it. `None`: it is left open.
pub(crate) fn respond(asked: &ApprovalBrief, answer: Answer) -> Option<ApprovalRespond> {
    let approval_id = asked.approval_id.clone();
    let respond = ApprovalRespond { approval_id, ..ApprovalRespond::default() };
    Some(match answer {
        Answer::Permission(PermissionOutcome::Selected { option_id, .. }) => {
            ApprovalRespond { option_id: Some(option_id), ..respond }
        }
        Answer::Permission(_) | Answer::Reply(Reply::Cancel) => return None,
        Answer::Reply(Reply::Decline) => ApprovalRespond { decision: Some(Decision::Deny), ..respond },
        Answer::Reply(Reply::Accept { content }) => {
            let content = content.unwrap_or_default();
            let words = Filling::said(&content).filter(|_| asked.schema.is_none() && asked.url.is_none());
            let content = words.map_or_else(|| Json::new(&content), Json::new);
            ApprovalRespond { content: Some(content), ..respond }
        }
    })
}
