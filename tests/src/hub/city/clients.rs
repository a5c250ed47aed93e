//! Clients of a city: what they ask is drawn.

use std::collections::BTreeSet;
use std::rc::Rc;

use agentline_core::control::Request;
use agentline_core::control::client::{self, Client as Machine1};
use agentline_core::hub::api::{
    AgentsEnable, AgentsList, ApprovalAsk, ApprovalRespond, ApprovalsWatch, Decision, Drop, HubHealth,
    Method, Policy, SessionArchive, SessionClose, SessionDelete, SessionLoad, SessionNew, SessionQueue,
    SessionRename, SessionRestore, SessionRetry, SessionSend, SessionSet, SessionSetPolicy, SessionShow,
    SessionStop, SessionWait, SessionWatch, SessionsList, SessionsWatch, Variables,
};
use agentline_core::{Machine, Tag};

use super::{City, PEOPLE, address};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::world::{Handle, Node};

/// A connection.
pub(super) struct Client {
    handle: Handle<Machine1>,
    tags: u64,
    /// It carries a stream, so nothing more can be asked on it.
    streams: bool,
}

impl City<'_> {
    /// Somebody asks something.
    pub(super) fn talk(&mut self) {
        let request = self.request();
        // Somebody who cannot wait.
        let times = if request.command == "session.send" && self.dice.once_in(25) { 20 } else { 1 };
        for _ in 0..times {
            self.ask(request.clone());
        }
    }

    fn ask(&mut self, request: Request) {
        let streams = ["session.watch", "sessions.watch", "approvals.watch", "approval.ask"]
            .contains(&&*request.command);
        let at = self.client(streams);
        let client = &mut self.clients[at];
        client.tags += 1;
        client.streams |= streams;
        let (tag, handle) = (Tag(client.tags), client.handle);
        let number = self.desk.borrow().given - self.clients.len() + at;
        self.desk.borrow_mut().calls.insert((number, tag), request.clone());
        // Refused when its connection is gone.
        let _ = self.world.command(handle, client::Command::Call(tag, request));
    }

    /// A connection that can be asked on: one of those that there are, or a new one.
    fn client(&mut self, new: bool) -> usize {
        let usable = |client: &Client| !client.streams && !self.world.is_over(client.handle);
        let free: Vec<usize> = (0..self.clients.len()).filter(|at| usable(&self.clients[*at])).collect();
        if !new && free.len() >= 3 {
            return *self.dice.pick(&free);
        }
        if self.clients.len() >= 4 * PEOPLE {
            let gone = self.clients.remove(0);
            let _ = self.world.command(gone.handle, client::Command::Close);
        }
        let number = self.desk.borrow().given;
        self.desk.borrow_mut().given += 1;
        let config = client::Config::connect(address());
        let machine = Checked::<Machine1>::new(self.world.now(), (Checks::default(), config))
            .and_secrets(self.secrets.clone());
        let desk = Rc::clone(&self.desk);
        let handle =
            self.world.add(Node::new(machine, move |_, event, _| desk.borrow_mut().hear(number, event)));
        if new && self.dice.once_in(6) {
            self.world.hold(handle, true);
        }
        self.clients.push(Client { handle, tags: 0, streams: false });
        self.clients.len() - 1
    }

    fn request(&mut self) -> Request {
        let desk = self.desk.borrow();
        let dice = &mut self.dice;
        let session_id = some(dice, &desk.sessions, "s99");
        let unknown = if dice.once_in(2) { "a999999" } else { "a1" };
        let approval_id = some(dice, &desk.open, unknown);
        let agent = format!("agent-{}", dice.below(PEOPLE + 1));
        match dice.below(34) {
            0..=3 => SessionNew {
                task: (!dice.once_in(6)).then(|| "do".to_owned()),
                agent: Some(agent),
                cwd: Some(if dice.once_in(12) { "/nowhere" } else { "/w" }.to_owned()),
                policy: dice.once_in(3).then(|| *dice.pick(&[Policy::Allow, Policy::Reject])),
                name: dice.once_in(8).then(|| format!("name-{}", dice.below(4))),
                env: Variables(
                    self.secrets.iter().map(|key| ("KEY".to_owned(), key.clone().into())).collect(),
                ),
                ..SessionNew::default()
            }
            .request(),
            4..=11 => {
                SessionSend { session_id, content: "more".to_owned(), ..SessionSend::default() }.request()
            }
            12 | 13 => SessionStop::of(session_id).request(),
            14..=18 => {
                let decision = Some(*dice.pick(&[Decision::Allow, Decision::Deny]));
                let option_id = dice.once_in(8).then(|| "perhaps".to_owned());
                let decision = decision.filter(|_| option_id.is_none());
                ApprovalRespond { approval_id, decision, option_id, ..ApprovalRespond::default() }.request()
            }
            19 => SessionRetry::of(session_id).request(),
            20 => SessionQueue {
                session_id: desk.held(dice).unwrap_or(session_id),
                drop: dice.once_in(3).then_some(Drop::All),
                release: !dice.once_in(3),
            }
            .request(),
            21 => {
                let raw = dice.once_in(2);
                SessionWatch { session_id, tail: 3, thoughts: raw, raw, attended: raw }.request()
            }
            22 => SessionsWatch { thoughts: dice.once_in(2), ..SessionsWatch::default() }.request(),
            23 => ApprovalsWatch::default().request(),
            24 => SessionWait { session_id, timeout_ms: Some(90_000), through_questions: false }.request(),
            25 => SessionShow { session_id, tail: Some(9), load: None }.request(),
            26 => SessionsList { all: dice.once_in(2), ..SessionsList::default() }.request(),
            27 => SessionClose::of(session_id).request(),
            28 => {
                if dice.once_in(2) {
                    SessionArchive::of(session_id).request()
                } else {
                    SessionRestore::of(session_id).request()
                }
            }
            29 if dice.once_in(2) => SessionDelete::of(session_id).request(),
            30 if dice.once_in(2) => AgentsEnable { id: agent, enabled: !dice.once_in(2) }.request(),
            31 => ApprovalAsk {
                title: "may I".to_owned(),
                options: serde_json::from_str(r#"[{"optionId":"y","name":"Y","kind":"allow_once"}]"#)
                    .expect("options"),
                ..ApprovalAsk::default()
            }
            .request(),
            32 => SessionSetPolicy { session_id, policy: Policy::Reject }.request(),
            _ => match dice.below(6) {
                0 => HubHealth {}.request(),
                1 => AgentsList {}.request(),
                2 => SessionRename { session_id, name: format!("name-{}", dice.below(4)) }.request(),
                3 => SessionLoad {
                    session_id: format!("{}-{}", dice.below(PEOPLE), dice.below(20)),
                    agent: Some(agent),
                    ..SessionLoad::default()
                }
                .request(),
                4 => {
                    SessionSet { session_id, model: Some("m".to_owned()), ..SessionSet::default() }.request()
                }
                _ => Request { command: dice.text(6), args: None },
            },
        }
    }
}

fn some(dice: &mut Dice<'_>, from: &BTreeSet<String>, other: &str) -> String {
    let all: Vec<&String> = from.iter().collect();
    let recent = &all[all.len().saturating_sub(12)..];
    if recent.is_empty() || dice.once_in(20) { other.to_owned() } else { (*dice.pick(recent)).clone() }
}
