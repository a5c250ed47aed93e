//! Who decides about a permission: a rule, the policy, or a person.

use std::sync::Arc;

use super::api::{Allow, By, Policy};
use crate::acp::{OptionKind, PermissionOption, PermissionRequest};
use crate::rules::{Rule, Rules, Then};

/// What decides about permissions before a person is asked.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) policy: Policy,
    pub(crate) rules: Rules,
    /// Paths of rules start there.
    pub(crate) cwd: String,
    /// Whether there is a person to ask, also where the policy asks nobody.
    pub(crate) asks: bool,
}

/// What was decided, and by what.
pub(crate) struct Ruling<'a> {
    pub(crate) option: Option<&'a PermissionOption>,
    pub(crate) by: By,
    pub(crate) rule: Option<Arc<str>>,
}

impl Judge {
    /// The decision, or that a person is to be asked; either way with the rule that had a say.
    pub(crate) fn decide<'a>(&self, asked: &'a PermissionRequest) -> Result<Ruling<'a>, Option<Arc<str>>> {
        let Some(rule) = self.rules.decide(&asked.tool_call, &self.cwd, self.otherwise()) else {
            return self.by_policy(asked);
        };
        self.by_rule(rule, asked)
    }

    /// The same about what was offered: nothing, where no rule stands in the way.
    pub(crate) fn decide_of_host<'a>(
        &self,
        asked: &'a PermissionRequest,
    ) -> Option<Result<Ruling<'a>, Option<Arc<str>>>> {
        let rule = self.rules.decide(&asked.tool_call, &self.cwd, Then::Allow)?;
        Some(self.by_rule(rule, asked))
    }

    fn by_rule<'a>(&self, rule: &Rule, asked: &'a PermissionRequest) -> Result<Ruling<'a>, Option<Arc<str>>> {
        let from = Some(rule.from.clone());
        let ruled = |option| Ok(Ruling { option, by: By::Rule, rule: from.clone() });
        match (rule.then, rule.then.option(asked)) {
            (_, option @ Some(_)) => ruled(option),
            // It says no, and the agent offers no such answer.
            (Then::Reject | Then::RejectAlways, None) => ruled(None),
            // It says yes, but not for good; or it says who is to be asked.
            (Then::Allow | Then::AllowAlways | Then::Ask, None) if self.asks => Err(from),
            (Then::Allow | Then::AllowAlways | Then::Ask, None) => ruled(Then::Reject.option(asked)),
        }
    }

    fn by_policy<'a>(&self, asked: &'a PermissionRequest) -> Result<Ruling<'a>, Option<Arc<str>>> {
        let option = match self.policy {
            Policy::Ask => return Err(None),
            Policy::Allow(Allow::InOrder) => asked.options.iter().find(|option| option.kind.allows()),
            Policy::Allow(Allow::OnceFirst) => {
                asked.first_of(&[OptionKind::AllowOnce, OptionKind::AllowAlways])
            }
            Policy::Reject | Policy::Fail => {
                asked.first_of(&[OptionKind::RejectOnce, OptionKind::RejectAlways])
            }
            Policy::Cancel => None,
        };
        Ok(Ruling { option, by: By::Policy, rule: None })
    }

    /// What the policy says, in the words of rules.
    const fn otherwise(&self) -> Then {
        match self.policy {
            Policy::Ask => Then::Ask,
            Policy::Allow(_) => Then::Allow,
            Policy::Reject | Policy::Fail | Policy::Cancel => Then::Reject,
        }
    }
}
