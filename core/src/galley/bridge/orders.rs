//! What the desktop wants.

use super::super::classify::refusal;
use super::super::command::{ApprovalResponse, Command as Order, Decision, HistoryMessage};
use super::super::event::{Category, Event as Said, Exit, ExitReason, Llm, Severity, Trouble, Visibility};
use super::api::{Event, Prompt, RequestKey, RunKey, Verdict};
use super::run::Run;
use super::{Bridge, Pet, Request, Stage};
use crate::machine::Now;
use crate::rpc::{Json, shown};

impl Bridge {
    pub(super) fn ordered(&mut self, now: Now, order: Order) {
        match order {
            Order::UserMessage(message) if Order::is_aside(&message.text) => {
                self.wire.tell(Event::AskedAside(message.text));
            }
            Order::UserMessage(message) => {
                let (text, images) = (message.text, message.images);
                self.begin(
                    now,
                    "user_message",
                    text,
                    images,
                    message.visibility,
                    message.absolute_turn_index,
                );
            }
            Order::AskUserResponse(answer) => {
                let (text, visibility) = (answer.text, Visibility::Visible);
                self.begin(
                    now,
                    "ask_user_response",
                    text,
                    Vec::new(),
                    visibility,
                    answer.absolute_turn_index,
                );
            }
            Order::ApprovalResponse(response) => self.decided(now, *response),
            Order::Abort => self.abort(now),
            Order::LoadHistory(messages) => self.history(now, &messages),
            Order::SetApprovalRules(rules) => {
                self.rules = rules;
                self.wire.tell(Event::RulesSet(self.rules.clone(), self.auto_approve));
            }
            Order::SetYoloMode(on) => {
                self.auto_approve = on;
                self.wire.tell(Event::RulesSet(self.rules.clone(), on));
            }
            Order::SetLlm(index) => self.set_llm(now, index),
            Order::ReinjectTools => self.ask(now, Request::Tools, Event::ToolsWanted),
            Order::AttachPet(port) => {
                self.dismiss_pet();
                self.pet = Pet::Wanted;
                self.ask(now, Request::Pet(port), |key| Event::PetWanted(key, port));
            }
            Order::DetachPet if self.pet == Pet::None => self.say(now, &Said::PetDetached),
            Order::DetachPet => self.ask(now, Request::NoPet, |key| Event::PetUnwanted(Some(key))),
            Order::Shutdown => {
                self.withdraw(now);
                self.dismiss_pet();
                self.stage = Stage::Finishing;
                self.wire.tell(Event::ShutdownAsked);
            }
        }
    }

    pub(super) fn begin(
        &mut self,
        now: Now,
        context: &str,
        text: String,
        images: Vec<String>,
        visibility: Visibility,
        first: Option<u64>,
    ) {
        if self.run.is_some() {
            return self.refuse(
                now,
                Category::Business,
                "a run is open: wait for its end, or abort it",
                Some(context),
            );
        }
        self.runs += 1;
        let run = RunKey(self.runs);
        self.run = Some(Run::new(run, visibility, first));
        self.turn_start(now);
        self.wire.tell(Event::Told(Box::new(Prompt { run, text, images, visibility })));
    }

    pub(super) fn decided(&mut self, now: Now, response: ApprovalResponse) {
        let ApprovalResponse { approval_id, decision } = response;
        let Some(call) = self.run.as_mut().and_then(|run| run.pending(&approval_id)) else {
            let why = format!("Unknown approvalId: {}", shown(&approval_id));
            return self.refuse(now, Category::Bridge, &why, Some("approval_response"));
        };
        let (tag, tool) = (call.tag, call.tool.clone());
        let mut verdict = Verdict::AllowedAlways;
        match decision {
            Decision::AllowOnce => verdict = Verdict::Allowed,
            Decision::AlwaysAllowProject => self.rules.project.push(tool),
            Decision::AlwaysAllowGlobal => self.rules.global.push(tool),
            Decision::Deny => return self.deny(now, tag, Verdict::Denied, "User denied this action"),
            Decision::Other(word) => {
                let why = format!("Unknown decision '{}': denied", shown(&word));
                return self.deny(now, tag, Verdict::Unclear, &why);
            }
        }
        self.run_call(now, tag, verdict);
    }

    /// Nothing is said of it between runs.
    pub(super) fn abort(&mut self, now: Now) {
        self.withdraw(now);
        if let Some(run) = self.run.take() {
            self.complete(now, &run, ExitReason::new(&Exit::Aborted), String::new(), run.turn - 1);
            self.wire.tell(Event::Aborted(run.key));
        }
    }

    pub(super) fn history(&mut self, now: Now, messages: &[Json]) {
        if self.run.is_some() {
            return self.refuse(now, Category::Business, "a run is open", Some("load_history"));
        }
        let read: Result<Vec<HistoryMessage>, _> =
            messages.iter().map(|message| serde_json::from_str(message.get())).collect();
        match read {
            Ok(messages) => self.ask(now, Request::History, |key| Event::HistoryGiven(key, messages)),
            Err(_) => {
                let why = "a message of the history has no role or content: none was taken";
                let trouble = Trouble {
                    severity: Severity::Warning,
                    ..refusal(Category::Business, why, Some("load_history"))
                };
                self.say(now, &Said::Error(Box::new(trouble)));
            }
        }
    }

    pub(super) fn set_llm(&mut self, now: Now, index: i64) {
        let known = u32::try_from(index).ok().filter(|index| self.llm(*index).is_some());
        match known {
            _ if self.run.is_some() => self.refuse(now, Category::Business, "a run is open", Some("set_llm")),
            None => {
                let why = format!(
                    "llmIndex {index} is out of range: there are {}",
                    self.ready.available_llms.len()
                );
                self.refuse(now, Category::Business, &why, Some("set_llm"));
            }
            Some(index) => self.ask(now, Request::Llm(index), |key| Event::LlmWanted(key, index)),
        }
    }

    pub(super) fn llm(&self, index: u32) -> Option<&Llm> {
        self.ready.available_llms.iter().find(|llm| llm.index == index)
    }

    /// Passes a request on to the application.
    pub(super) fn ask(&mut self, now: Now, request: Request, event: impl FnOnce(RequestKey) -> Event) {
        if self.requests.len() >= self.limits.peer_requests {
            return self.refuse(
                now,
                Category::Business,
                "too many requests at once",
                Some(request.context()),
            );
        }
        self.asked += 1;
        let key = RequestKey(self.asked);
        self.requests.insert(key, request);
        self.wire.tell(event(key));
    }

    pub(super) fn dismiss_pet(&mut self) {
        if std::mem::replace(&mut self.pet, Pet::None) == Pet::Wanted {
            self.requests.retain(|_, request| !matches!(request, Request::Pet(_)));
            self.wire.tell(Event::PetUnwanted(None));
        }
    }
}
