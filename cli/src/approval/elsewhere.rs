//! `run --permission hub`: the questions of a run, asked in the hub and answered from any terminal.

use std::collections::BTreeMap;
use std::thread;

use agentline_core::acp::client::{PermissionAsked, Updated};
use agentline_core::acp::{PermissionOutcome, RequestKey};
use agentline_core::hub::api::{ApprovalAsk, Class, Happening};
use agentline_core::subagent::{QuestionAsked, Reply};

use crate::ask::{Answer, Asked, Asks, Known, Permission, Question};
use crate::hub::{Close, Route, Said, Stream, To};
use crate::output::{Notes, label, plain};
use crate::words::Problem;

/// Starts the hub of this user where none runs.
///
/// # Errors
///
/// There is none, and none may be started from here.
pub(crate) fn begin(notes: &Notes) -> Result<(), Problem> {
    let (to, route) = To::here()?;
    to.start(&route, None, notes).map(drop)
}

/// Asks in the hub of this user.
pub(crate) struct Elsewhere<F> {
    to: To,
    route: Route,
    notes: Notes,
    cwd: String,
    known: Known,
    /// The questions that are open. Whoever closes one takes it back.
    open: BTreeMap<RequestKey, Close>,
    answer: F,
}

impl<F: Fn(RequestKey, Answer) + Clone + Send + 'static> Elsewhere<F> {
    /// `answer` is called on threads of its own.
    ///
    /// # Errors
    ///
    /// There is no home.
    pub(crate) fn new(cwd: String, notes: &Notes, answer: F) -> Result<Self, Problem> {
        let (to, route) = To::here()?;
        let (known, open, notes) = (Known::default(), BTreeMap::new(), notes.clone());
        Ok(Self { to, route, notes, cwd, known, open, answer })
    }

    fn put(&self, permission: &Permission) -> Result<Stream, Problem> {
        let call = &permission.call;
        let ask = ApprovalAsk {
            title: label(call),
            tool_name: call.name.clone().or_else(|| call.kind.map(|kind| kind.as_str().to_owned())),
            class: Class::of(call.kind),
            args: call.raw_input.clone(),
            call: Some(call.clone()),
            options: permission.options.clone(),
            cwd: self.cwd.clone(),
            name: Some("run".into()),
        };
        self.to.start(&self.route, None, &self.notes)?.stream(&ask)
    }
}

impl<F: Fn(RequestKey, Answer) + Clone + Send + 'static> Asks for Elsewhere<F> {
    fn learn(&mut self, updated: &Updated) {
        self.known.hear(updated);
    }

    fn ask(&mut self, asked: PermissionAsked) {
        let Asked { key, question } = self.known.permission(asked);
        let Question::Permission(permission) = question else { return };
        let stream = match self.put(&permission) {
            Ok(stream) => stream,
            Err(problem) => {
                self.notes.line(&format!("! it cannot be asked in the hub: {}", plain(&problem.message)));
                return (self.answer)(key, permission.denial());
            }
        };
        self.open.insert(key, stream.close());
        let (notes, answer) = (self.notes.clone(), self.answer.clone());
        thread::spawn(move || {
            if let Some(given) = wait(stream, &permission, &notes) {
                answer(key, given);
            }
        });
    }

    /// A hub asks permissions only.
    fn ask_form(&mut self, asked: QuestionAsked) {
        (self.answer)(asked.request, Answer::Reply(Reply::Decline));
    }

    fn decided(&mut self, request: RequestKey) {
        // Whoever waits there has to decide nothing any more.
        self.open.remove(&request).into_iter().for_each(Close::close);
    }
}

/// Waits for the answer. `None`: it was taken back.
fn wait(mut stream: Stream, permission: &Permission, notes: &Notes) -> Option<Answer> {
    loop {
        match stream.next() {
            Ok(Said::Frame(frame, _)) => {
                if let Happening::ApprovalBrief(asked) = frame.what {
                    let (title, id) = (label(&permission.call), plain(&asked.approval_id).into_owned());
                    notes.line(&format!("  ? {title}  waiting: agentline approve {id}"));
                } else if let Happening::Resolved(resolved) = frame.what {
                    let outcome = resolved.option_id.map(PermissionOutcome::selected);
                    return Some(outcome.map_or_else(|| permission.denial(), Answer::Permission));
                }
            }
            Ok(Said::Other(_)) => {}
            Ok(Said::End(_)) => return Some(permission.denial()),
            Err(problem) if problem.kind == crate::words::Kind::Cancelled => return None,
            Err(problem) => {
                notes.line(&format!("! {}", plain(&problem.message)));
                return Some(permission.denial());
            }
        }
    }
}
