//! Questions: who sees them, and what is answered.

use super::{Desk, not_found, reply};
use crate::control::{Answer, ErrorTag, Failure, Key};
use crate::excerpt;
use crate::hub::api::{
    ApprovalAsk, ApprovalBrief, ApprovalRespond, ApprovalsList, ApprovalsWatch, By, Frame, Happening,
    Responded, Who,
};
use crate::hub::book::{self, ApprovalId, No};
use crate::hub::machine::Hub;
use crate::hub::show;
use crate::hub::watch::{Place, Watcher};
use crate::machine::Now;
use crate::session::Question;

impl Hub {
    pub(super) fn approvals_list(&mut self, it: &ApprovalsList) -> Desk {
        let of = it.session_id.as_deref().map(|word| self.sid(word)).transpose()?;
        let wanted = |ask: &&book::Ask| of.is_none() || ask.sid == of;
        let rows: Vec<ApprovalBrief> = if it.answered {
            self.book.settled_asks().filter(wanted).map(show::approval).collect()
        } else {
            self.book.open_asks().filter(wanted).map(show::approval).collect()
        };
        reply::<ApprovalsList>(&rows)
    }

    pub(super) fn approvals_watch(&mut self, now: Now, key: Key, it: &ApprovalsWatch) -> Desk {
        let watcher = Watcher { key, thoughts: false, raw: false, attended: it.attended };
        self.watch.add(Place::Questions, watcher);
        self.show_state(now, key, Place::Questions, 0);
        Ok(None)
    }

    /// A frame of streams of questions: encoded once for all.
    fn about(&mut self, now: Now, keys: &[Key], session_id: Option<String>, what: Happening) {
        if keys.is_empty() {
            return;
        }
        let frame = Frame { session_id, turn: None, timestamp: Some(show::time(now.unix)), what, raw: None };
        let json = frame.to_json();
        for key in keys {
            self.frame(now, *key, json.clone());
        }
    }

    /// A question was asked, or is over.
    pub(in super::super) fn question(&mut self, now: Now, id: ApprovalId, over: bool) {
        let program = self.programs.iter().find(|(_, of)| **of == id).map(|(key, _)| *key).filter(|_| over);
        let keys: Vec<Key> = self.watch.questions().map(|watcher| watcher.key).chain(program).collect();
        let Some(ask) = self.book.ask(id).filter(|_| !keys.is_empty()) else { return };
        let what: Happening = match show::resolved(ask).filter(|_| over) {
            Some(resolved) => resolved.into(),
            // A policy may have answered already: that is told next.
            None => ApprovalBrief { resolved: None, ..show::approval(ask) }.into(),
        };
        let session = ask.sid.map(|sid| sid.to_string());
        self.about(now, &keys, session, what);
        if let Some(key) = program {
            self.programs.remove(&key);
            self.answer(now, key, Answer::End("completed".to_owned()));
        }
    }

    pub(super) fn approval_respond(&mut self, now: Now, it: ApprovalRespond, who: &Who) -> Desk {
        let id = id(&it.approval_id)?;
        let answer = match (it.decision, it.option_id, it.content) {
            (Some(decision), None, None) => book::Answer::Decision(decision),
            (None, Some(option), None) => book::Answer::Option(option),
            (None, None, Some(content)) => book::Answer::Content(content),
            _ => return Err(Failure::invalid_args("one of decision, optionId and content is the answer")),
        };
        let who = Some(who.clone()).filter(|who| *who != Who::default());
        if let Err(no) = self.book.respond(now, id, &answer, who) {
            return Err(self.no_answer(id, no));
        }
        let ask = self.book.ask(id).ok_or_else(|| not_found(format!("no question {id}")))?;
        let brief = show::approval(ask);
        let option_id = ask.settled.as_ref().and_then(|settled| settled.option.clone());
        let kind = option_id.as_deref().and_then(|option| show::option_kind(ask, option));
        let (approval_id, title) = (brief.approval_id, brief.title);
        reply::<ApprovalRespond>(&Responded { approval_id, title, option_id, kind, by: By::Client })
    }

    fn no_answer(&self, id: ApprovalId, no: No) -> Failure {
        match no {
            No::Question => not_found(format!("no question {id}: agentline approval list")),
            No::Answered(by) => {
                let settled = self.book.ask(id).and_then(|ask| ask.settled.as_ref());
                let option = settled.and_then(|settled| settled.option.clone());
                let beside = match option {
                    Some(option) => serde_json::json!({ "by": by, "optionId": option }),
                    None => serde_json::json!({ "by": by }),
                };
                let text = format!("{id} is over already");
                Failure::new(ErrorTag::AlreadyAnswered, text).beside(&beside)
            }
            No::NotOffered => {
                let options =
                    self.book.ask(id).map(|ask| ask.options().iter().map(|it| it.option_id.clone()));
                let options = options.map(|all| all.collect::<Vec<_>>().join(", ")).unwrap_or_default();
                let text = match &*options {
                    "" => format!("{id} takes no such answer: agentline approval show {id}"),
                    options => format!("{id} takes no such answer; it offers {options}"),
                };
                Failure::invalid_args(text)
            }
            No::Session | No::Archived | No::Full | No::Running | No::NothingToRetry | No::Refused(_) => {
                let sid = self.book.ask(id).and_then(|ask| ask.sid);
                sid.map_or_else(|| not_found(format!("no question {id}")), |sid| self.no(sid, no))
            }
        }
    }

    pub(super) fn approval_ask(&mut self, now: Now, key: Key, it: ApprovalAsk, who: &Who) -> Desk {
        if it.options.is_empty() || it.options.len() > 32 || it.title.trim().is_empty() {
            return Err(Failure::invalid_args("a question has a title, and 1 to 32 options"));
        }
        if self.programs.len() >= PROGRAMS {
            return Err(Failure::new(ErrorTag::Busy, "too many programs ask at once"));
        }
        let program = it.name.or_else(|| who.program.clone()).unwrap_or_else(|| "a program".to_owned());
        let mut call = it.call.unwrap_or_default();
        call.title = Some(it.title);
        call.name = it.tool_name.or(call.name);
        call.raw_input = it.args.or(call.raw_input);
        call.kind = call.kind.or(Some(match it.class {
            crate::hub::api::Class::Command => crate::acp::update::ToolKind::Execute,
            crate::hub::api::Class::FileChange => crate::acp::update::ToolKind::Edit,
            crate::hub::api::Class::Permission | crate::hub::api::Class::Question => {
                crate::acp::update::ToolKind::Other
            }
        }));
        let why = (!it.cwd.is_empty()).then(|| it.cwd.clone());
        let question = Question::Permission { call, options: it.options, why, meta: None };
        let asker = format!("run · {} · {}", excerpt::line(&program, 80), excerpt::line(&it.cwd, 200));
        let id = self.book.ask_for(now, asker.into(), question);
        self.programs.insert(key, id);
        if let Some(ask) = self.book.ask(id) {
            let what = show::approval(ask).into();
            self.about(now, &[key], None, what);
        }
        Ok(None)
    }
}

/// Questions of programs that are open at once.
const PROGRAMS: usize = 256;

fn id(word: &str) -> Result<ApprovalId, Failure> {
    let number = word.strip_prefix('a').and_then(|number| number.parse().ok());
    number
        .map(ApprovalId)
        .ok_or_else(|| not_found(format!("no question \"{word}\": agentline approval list")))
}
