//! Clients of a city: what they ask is drawn, and what they hear is judged.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use agentline_core::control::client::{self, Client as Machine1};
use agentline_core::control::{Answer, ErrorTag, Failure, Request};
use agentline_core::hub::api::{
    AgentsEnable, AgentsList, ApprovalAsk, ApprovalRespond, ApprovalsWatch, By, Decision, Dispatched, Drop,
    Frame, Happening, HubHealth, Method, Policy, Reason, SessionArchive, SessionClose, SessionDelete,
    SessionLoad, SessionNew, SessionQueue, SessionRename, SessionRestore, SessionRetry, SessionSend,
    SessionSet, SessionSetPolicy, SessionShow, SessionStop, SessionWait, SessionWatch, SessionsList,
    SessionsWatch, Started, Status,
};
use agentline_core::hub::book::Sid;
use agentline_core::{Machine, Tag};

use super::{City, PEOPLE, address};
use crate::dice::Dice;
use crate::hub::Tally;
use crate::invariants::{Checked, Checks};
use crate::world::{Handle, Node};

/// A connection.
pub(super) struct Client {
    handle: Handle<Machine1>,
    tags: u64,
    /// It carries a stream, so nothing more can be asked on it.
    streams: bool,
}

/// What all clients know together.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) tally: Tally,
    calls: BTreeMap<(usize, Tag), Request>,
    sessions: BTreeSet<String>,
    open: BTreeSet<String>,
    known: BTreeSet<(Sid, Reason)>,
    streams: BTreeMap<usize, Stream>,
    given: usize,
}

/// What a stream has told so far.
#[derive(Default)]
struct Stream {
    synced: bool,
    began: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    asked: BTreeSet<String>,
    resolved: BTreeSet<String>,
    lagged: bool,
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
        let machine = Checked::<Machine1>::new(self.world.now(), (Checks::default(), config));
        let desk = Rc::clone(&self.desk);
        let handle = self.world.add(Node::new(machine, move |_, event, _| hear(&desk, number, event)));
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
        let approval_id = some(dice, &desk.open, "a1");
        let agent = format!("agent-{}", dice.below(PEOPLE + 1));
        match dice.below(34) {
            0..=3 => SessionNew {
                task: (!dice.once_in(6)).then(|| "do".to_owned()),
                agent: Some(agent),
                cwd: Some(if dice.once_in(12) { "/nowhere" } else { "/w" }.to_owned()),
                policy: dice.once_in(3).then(|| *dice.pick(&[Policy::Allow, Policy::Reject])),
                name: dice.once_in(8).then(|| format!("name-{}", dice.below(4))),
                ..SessionNew::default()
            }
            .request(),
            4..=11 => {
                SessionSend { session_id, content: "more".to_owned(), ..SessionSend::default() }.request()
            }
            12 | 13 => SessionStop::of(session_id).request(),
            14..=18 => {
                let decision = Some(*dice.pick(&[Decision::Allow, Decision::Deny]));
                ApprovalRespond { approval_id, decision, ..ApprovalRespond::default() }.request()
            }
            19 => SessionRetry::of(session_id).request(),
            20 => SessionQueue {
                session_id,
                drop: dice.once_in(3).then_some(Drop::All),
                release: dice.once_in(2),
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

fn hear(desk: &Rc<RefCell<Desk>>, client: usize, event: client::Event) {
    let mut desk = desk.borrow_mut();
    match event {
        client::Event::Answered(tag, answer) => desk.answered(client, tag, answer),
        client::Event::Unexpected { why, line } => {
            let (idle, torn) = (line.contains("idle_timeout"), why == "not a JSON object");
            assert!(idle || torn, "{why}: {line}");
        }
        client::Event::Greeted(_)
        | client::Event::Lost(..)
        | client::Event::Line(_)
        | client::Event::Closed(_) => {}
    }
}

impl Desk {
    /// A hub is another one: its clients and streams are gone.
    pub(super) fn forget(&mut self) {
        self.streams.clear();
        self.open.clear();
    }

    /// A session stands there, for that reason.
    pub(super) fn seen(&mut self, sid: Sid, running: Option<u64>, reason: Reason) {
        if running.is_none() && self.known.insert((sid, reason)) {
            let word = serde_json::to_value(reason).expect("a word");
            if let Some(rule) = super::RULES.iter().find(|rule| word == **rule) {
                self.tally.count(rule);
            }
        }
    }

    fn answered(&mut self, client: usize, tag: Tag, answer: Answer) {
        let Some(request) = self.calls.get(&(client, tag)).cloned() else {
            panic!("nobody asked: {answer:?}")
        };
        match answer {
            Answer::Frame(data) => {
                let frame = Frame::read(&data).unwrap_or_else(|error| panic!("{error}: {data:?}"));
                self.frame(client, &request, &frame);
            }
            Answer::Reply(result) => self.replied(&request, result.get()),
            Answer::Fail(failure) => self.failed(&request, &failure),
            Answer::End(_) => drop(self.streams.remove(&client)),
        }
    }

    fn failed(&mut self, request: &Request, failure: &Failure) {
        // A connection that breaks tears a line, which its client reports so.
        let torn = failure.message.starts_with("the answer is");
        assert!(failure.tag != ErrorTag::Internal || torn, "{request:?}: {failure:?}");
        let beside = |name| failure.member(name).is_some();
        assert!(failure.tag != ErrorTag::AlreadyAnswered || beside("by"), "{failure:?}");
        assert!(failure.tag != ErrorTag::NeedsLogin || beside("sessionId"), "{failure:?}");
        if let Some(rule) = super::RULES.iter().find(|rule| **rule == failure.tag.as_str()) {
            self.tally.count(rule);
        }
        if let Some(sid) = failure.member("sessionId") {
            self.sessions.insert(sid);
        }
    }

    fn replied(&mut self, request: &Request, result: &str) {
        let count = match &*request.command {
            "session.new" | "session.send" | "session.retry" => return self.started(request, result),
            "session.wait" => "waited",
            "session.show" => "shown",
            "sessions.list" => "listed",
            "session.delete" => "deleted",
            "session.archive" => "archived",
            "session.stop" if result.contains("abort_sent") => "abort_sent",
            "session.stop" => "already_stopped",
            _ => return,
        };
        self.tally.count(count);
    }

    fn started(&mut self, request: &Request, result: &str) {
        let started: Started = serde_json::from_str(result).expect("what the command gives");
        self.sessions.insert(started.session.id.clone());
        let prompted = request.command != "session.new" || started.turn.is_some();
        assert!(!prompted || started.turn.is_some() || request.command == "session.retry", "{result}");
        self.tally.count(match request.command.as_str() {
            "session.new" => "session.new",
            "session.retry" => "retried",
            _ => "sent",
        });
        if started.warning.as_deref() == Some("slow_start") {
            self.tally.count("slow_start");
        }
        self.tally.count(match started.dispatch {
            Dispatched::Opened => "opened",
            Dispatched::Dispatched => "dispatched",
            Dispatched::Queued => "queued",
            Dispatched::Answered => "answered",
            Dispatched::Held => "held",
        });
    }

    fn frame(&mut self, client: usize, request: &Request, frame: &Frame) {
        let stream = self.streams.entry(client).or_default();
        let sid = frame.session_id.as_deref();
        assert!(sid.is_none_or(|sid| sid.starts_with('s')), "not the hub's own name: {frame:?}");
        let first = |set: &mut BTreeSet<u64>, turn: Option<u64>| turn.is_none_or(|turn| set.insert(turn));
        match &frame.what {
            Happening::Synced(_) => stream.synced = true,
            Happening::Lagged(_) => {
                stream.lagged = true;
                self.tally.count("lagged");
            }
            Happening::TurnStart(_) => {
                assert!(stream.lagged || first(&mut stream.began, frame.turn), "began twice: {frame:?}");
            }
            Happening::RunComplete(end) => {
                assert!(first(&mut stream.ended, frame.turn), "ended twice: {frame:?}");
                self.tally.count(match end.status {
                    Status::Completed => "completed",
                    Status::Cancelled => "cancelled",
                    Status::Idle
                    | Status::Connecting
                    | Status::Running
                    | Status::WaitingApproval
                    | Status::Error
                    | Status::Archived => "error",
                });
            }
            Happening::NotSent(_) => {
                assert!(first(&mut stream.ended, frame.turn), "ended twice: {frame:?}");
                self.tally.count("not sent");
            }
            Happening::ToolCallPending(pending) => {
                let new = stream.asked.insert(pending.approval_id.clone());
                assert!(new || stream.lagged, "asked twice: {frame:?}");
                self.open.insert(pending.approval_id.clone());
            }
            Happening::ApprovalBrief(asked) => {
                let new = stream.asked.insert(asked.approval_id.clone());
                assert!(new || stream.lagged, "asked twice: {frame:?}");
                self.open.insert(asked.approval_id.clone());
                let asks = request.command == "approval.ask";
                self.tally.count(if asks { "program asked" } else { "asked" });
            }
            Happening::Resolved(over) => {
                assert!(stream.resolved.insert(over.approval_id.clone()), "over twice: {frame:?}");
                self.tally.count(match over.by {
                    By::Client => "by client",
                    By::Policy => "by policy",
                    By::Withdrawn => "by withdrawn",
                    By::TurnEnded => "by turn_ended",
                    By::Cancelled => "by cancelled",
                    By::Terminal => "by terminal",
                    By::Expired => "by expired",
                    By::Gone => "by gone",
                });
            }
            Happening::SessionBrief(row) => {
                assert_eq!(sid, Some(&*row.id));
                self.sessions.insert(row.id.clone());
            }
            Happening::Other(kind) => panic!("a kind that nobody knows: {kind}"),
            Happening::MessageBrief(_)
            | Happening::QueuedAt(_)
            | Happening::UserMessage(_)
            | Happening::TurnProgress(_)
            | Happening::Thought(_)
            | Happening::Block(_)
            | Happening::ToolCallStart(_)
            | Happening::ToolCallProgress(_)
            | Happening::ToolCallEnd(_)
            | Happening::AskUser(_)
            | Happening::AskForm(_)
            | Happening::PlanNow(_)
            | Happening::UsageNow(_)
            | Happening::ModeNow(_)
            | Happening::OptionsNow(_)
            | Happening::Warned(_)
            | Happening::SystemMessage(_)
            | Happening::TurnEnd(_)
            | Happening::Update(_) => {}
        }
    }
}
