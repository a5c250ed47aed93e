//! Who answers a permission request, and with which of the offered options.

use super::api::{Allow, By, Decision, Event, Policy, Verdict};
use super::run::{Halt, Run};
use crate::acp::client::{self, PermissionAsked};
use crate::acp::{OptionKind, PermissionOption, PermissionOutcome, PermissionRequest, RequestKey};
use crate::machine::{Now, Refused};
use crate::problem::{Kind, Phase, Problem};

impl Run {
    pub(super) fn permission_asked(&mut self, now: Now, asked: PermissionAsked) {
        let PermissionAsked { request, asked } = asked;
        let option = match self.policy {
            Policy::Ask => {
                self.asked.insert(request, asked.clone());
                return self.out.tell(Event::PermissionAsked(Box::new(PermissionAsked { request, asked })));
            }
            Policy::Allow(Allow::InOrder) => asked.options.iter().find(|option| option.kind.allows()),
            Policy::Allow(Allow::OnceFirst) => {
                asked.first_of(&[OptionKind::AllowOnce, OptionKind::AllowAlways])
            }
            Policy::Reject | Policy::Fail => {
                asked.first_of(&[OptionKind::RejectOnce, OptionKind::RejectAlways])
            }
        };
        let outcome = option
            .map_or(PermissionOutcome::Cancelled, |option| PermissionOutcome::selected(&*option.option_id));
        // Refused only when the connection is leaving: then nobody waits for it.
        let _ = self.reply(now, client::Command::Answer { request, outcome });
        self.decided(request, &asked, option, By::Policy);
        if self.policy == Policy::Fail {
            let title = asked.tool_call.title.as_deref().unwrap_or(&asked.tool_call.tool_call_id);
            let problem =
                Problem::new(Phase::Prompt, Kind::Refused, format!("permission was refused: {title}"))
                    .hint("allow it: --permission allow, or --permission ask");
            self.halt(now, Halt::Failed(Box::new(problem)));
        }
    }

    pub(super) fn answered_by_user(
        &mut self,
        now: Now,
        request: RequestKey,
        outcome: PermissionOutcome,
    ) -> Result<(), Refused> {
        self.reply(now, client::Command::Answer { request, outcome: outcome.clone() })?;
        if let Some(asked) = self.asked.remove(&request) {
            let option = match &outcome {
                PermissionOutcome::Selected { option_id } => asked.option(option_id),
                PermissionOutcome::Cancelled => None,
            };
            self.decided(request, &asked, option, By::User);
        }
        Ok(())
    }

    /// The question is moot; nobody may answer it any more.
    pub(super) fn withdrawn(&mut self, request: RequestKey) {
        if let Some(asked) = self.asked.remove(&request) {
            self.decided(request, &asked, None, By::Cancel);
        }
    }

    fn decided(
        &mut self,
        request: RequestKey,
        asked: &PermissionRequest,
        option: Option<&PermissionOption>,
        by: By,
    ) {
        let decision = Decision {
            request,
            tool_call_id: asked.tool_call.tool_call_id.clone(),
            title: asked.tool_call.title.clone(),
            options: asked.options.clone(),
            decision: match option {
                Some(option) if option.kind.allows() => Verdict::Allowed,
                Some(_) => Verdict::Rejected,
                None => Verdict::Cancelled,
            },
            option_id: option.map(|option| option.option_id.clone()),
            by,
        };
        if self.decisions.len() < DECISIONS {
            self.decisions.push(decision.clone());
        }
        self.out.tell(Event::PermissionDecided(Box::new(decision)));
    }
}

/// Decisions that the result lists. Each was told when it was made.
const DECISIONS: usize = 10_000;
