//! Who decides about what is hosted for the agent: it was offered, so only a rule stands in the way.

use super::Conversation;
use super::api::Event;
use crate::acp::client::PermissionAsked;
use crate::acp::{PermissionOutcome, RequestKey};
use crate::host::ALLOW;
use crate::machine::{Now, Refused};
use crate::rpc::{RpcError, code};

impl Conversation {
    /// The agent wants something done that we offered.
    pub(super) fn hosting_asked(&mut self, now: Now, asked: Box<PermissionAsked>) {
        self.retry.bears();
        let request = asked.request;
        let (event, allowed) = self.turn.asked_of_host(asked);
        self.out.tell_all(event);
        if let Some(allowed) = allowed {
            self.client.decide(now, request, if allowed { Ok(()) } else { Err(not_permitted()) });
        }
    }

    /// A person has decided about it.
    pub(super) fn answer_hosting(
        &mut self,
        now: Now,
        request: RequestKey,
        outcome: &PermissionOutcome,
    ) -> Result<(), Refused> {
        let decided = match outcome {
            PermissionOutcome::Selected { option_id } if !self.turn.offers(request, option_id) => {
                return Err(Refused::Invalid("that option was not offered"));
            }
            PermissionOutcome::Selected { option_id } if option_id == ALLOW => Ok(()),
            PermissionOutcome::Selected { .. } => Err(not_permitted()),
            PermissionOutcome::Cancelled => Err(cancelled()),
        };
        self.out.tell_all(self.turn.answered(request, outcome));
        self.client.decide(now, request, decided);
        Ok(())
    }

    /// The turn is over or cancelled, so nobody is to decide any more.
    pub(super) fn give_up_hosting(&mut self, now: Now) {
        for request in self.client.undecided() {
            let withdrawn: Option<Event> = self.turn.withdrawn(request);
            self.out.tell_all(withdrawn);
            self.client.decide(now, request, Err(cancelled()));
        }
    }
}

fn not_permitted() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the user does not permit it")
}

fn cancelled() -> RpcError {
    RpcError::new(code::CANCELLED, "the turn was cancelled")
}
