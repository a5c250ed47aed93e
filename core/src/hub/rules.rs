//! What runners need not ask about: kept in the settings, and told to each before its first message and at each change.

use super::agents::Run;
use super::api::{HubProblem, Policy, ToolRules};
use super::book::{ApprovalId, Sid};
use super::config::{Errand, Switches};
use super::machine::Hub;
use super::open::{Expects, Pending};
use crate::control::{Answer, ErrorTag, Failure, Key};
use crate::galley::{NEVER_EVERYWHERE, Rules};
use crate::machine::Now;
use crate::rpc::Json;
use crate::session::{OfRunner, Question, Wish};

/// Tools and projects that anybody names, and characters of a name.
const MOST: usize = 1000;
const LONGEST: usize = 4096;
/// The problem of rules that could not be kept.
const NOT_KEPT: &str = "rules_not_kept";

impl Hub {
    /// The settings say something else.
    pub(super) fn switches(&mut self, now: Now, switches: Switches) {
        let differ = self.config.switches.rules != switches.rules;
        self.config.switches = switches;
        if differ {
            self.tell_rules(now);
        }
    }

    /// What the runner of a session need not ask about.
    pub(super) fn rules_of(&self, sid: Sid) -> Rules {
        let ToolRules { always_allow_global, always_allow_project } = &self.config.switches.rules;
        let project = self.book.get(sid).and_then(|session| always_allow_project.get(&*session.home.cwd));
        let everywhere = always_allow_global.iter().filter(|tool| *tool != NEVER_EVERYWHERE);
        Rules { global: everywhere.cloned().collect(), project: project.cloned().unwrap_or_default() }
    }

    /// Whoever runs is told what holds from here on.
    fn tell_rules(&mut self, now: Now) {
        let up = self.runners.iter().filter_map(|(sid, runner)| match runner.run {
            Run::Up(source) => Some((*sid, source)),
            Run::Down | Run::Launching | Run::Starting(_) | Run::Leaving(_) => None,
        });
        for (sid, source) in up.collect::<Vec<_>>() {
            let wish = Wish::Rules(Json::new(&self.rules_of(sid)));
            // Refused when it is leaving by itself.
            let _ = self.wish(now, source, wish, Expects::Nothing);
        }
    }

    /// The policy of a session is another one: a runner that may do all need not ask.
    pub(super) fn tell_policy(&mut self, now: Now, sid: Sid, policy: Policy) {
        if let Some(Run::Up(source)) = self.runners.get(&sid).map(|runner| runner.run) {
            let wish = Wish::OfRunner(OfRunner::AutoApprove(policy == Policy::Allow));
            // Refused when it is leaving by itself.
            let _ = self.wish(now, source, wish, Expects::Nothing);
        }
    }

    /// Somebody says what holds from here on.
    pub(super) fn set_rules(&mut self, now: Now, key: Key, rules: ToolRules) -> Result<(), Failure> {
        let names = rules.always_allow_project.values().flatten().chain(&rules.always_allow_global);
        let all = names.chain(rules.always_allow_project.keys());
        if all.clone().count() > MOST || all.clone().any(|name| name.is_empty() || name.len() > LONGEST) {
            return Err(Failure::invalid_args("rules are at most 1000 names of tools and folders"));
        }
        if rules.always_allow_project.keys().any(|folder| !folder.starts_with('/')) {
            return Err(Failure::invalid_args("a project is named by its folder, an absolute path"));
        }
        if rules.always_allow_global.iter().any(|tool| tool == NEVER_EVERYWHERE) {
            let text = format!("{NEVER_EVERYWHERE} may not be allowed everywhere");
            return Err(Failure::invalid_args(text));
        }
        self.keep_rules(now, Some(key), rules);
        Ok(())
    }

    fn keep_rules(&mut self, now: Now, key: Option<Key>, rules: ToolRules) {
        self.errand(Errand::Rules(rules.clone()), Pending::Rules(key));
        let switches = Switches { rules, ..self.config.switches.clone() };
        self.switches(now, switches);
    }

    /// The settings have them, or could not be written: then they hold until this hub ends.
    pub(super) fn rules_kept(&mut self, now: Now, key: Option<Key>, kept: Result<(), String>) {
        match (kept, key) {
            (Ok(()), key) => {
                self.problems.remove(NOT_KEPT);
                if let Some(key) = key {
                    self.answer(now, key, Answer::reply(&self.config.switches.rules.clone()));
                }
            }
            (Err(why), Some(key)) => self.fail(now, key, Failure::new(ErrorTag::RunnerError, why)),
            (Err(why), None) => {
                let text = format!("what was allowed always is not kept: {why}");
                let next = Some("mend the settings, and allow it again".to_owned());
                self.problem(now, HubProblem { id: NOT_KEPT.to_owned(), since: String::new(), text, next });
            }
        }
    }

    /// A question is over. A tool that is allowed always is one for all runners of the project, or for all.
    pub(super) fn learn(&mut self, now: Now, sid: Sid, id: ApprovalId) {
        let Some(ask) = self.book.ask(id).filter(|_| self.runners.contains_key(&sid)) else { return };
        let option = ask.settled.as_ref().and_then(|settled| settled.option.as_deref());
        let Question::Permission { call, .. } = &ask.asked.question else { return };
        let (Some(option), Some(tool)) = (option, call.name.clone()) else { return };
        let mut rules = self.config.switches.rules.clone();
        let tools = match option {
            "always_allow_global" => &mut rules.always_allow_global,
            "always_allow_project" => {
                let Some(session) = self.book.get(sid) else { return };
                rules.always_allow_project.entry(session.home.cwd.to_string()).or_default()
            }
            _ => return,
        };
        if tools.len() < MOST && tool.len() <= LONGEST && !tools.contains(&tool) {
            tools.push(tool);
            self.keep_rules(now, None, rules);
        }
    }
}
