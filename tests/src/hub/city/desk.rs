//! What the clients of a city hear, all together, and what must hold of it.

use std::collections::{BTreeMap, BTreeSet};

use agentline_core::Tag;
use agentline_core::acp::OptionKind;
use agentline_core::control::{Answer, ErrorTag, Failure, Request, client};
use agentline_core::hub::api::{By, Dispatched, Frame, Happening, Policy, Reason, Started, Status};
use agentline_core::hub::book::{ApprovalId, Ask, Book, Session, Sid};
use agentline_core::session::Question;
use serde_json::Value;

use crate::dice::Dice;
use crate::hub::Tally;

/// What all clients know together.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) tally: Tally,
    pub(super) calls: BTreeMap<(usize, Tag), Request>,
    pub(super) sessions: BTreeSet<String>,
    /// Questions that were asked.
    pub(super) open: BTreeSet<String>,
    /// Connections so far.
    pub(super) given: usize,
    known: BTreeSet<(Sid, Reason)>,
    streams: BTreeMap<usize, Stream>,
    /// Sessions that were started, ever.
    born: BTreeSet<String>,
    /// Questions of earlier hubs, and the connections to these.
    spent: BTreeSet<String>,
    earlier: usize,
    /// Sessions whose prompts are held.
    held: BTreeMap<Sid, Reason>,
    /// Those that were released since that was looked at, and by which rule.
    released: BTreeMap<String, &'static str>,
    /// Questions that a person is asked although there is a policy.
    narrow: BTreeSet<ApprovalId>,
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

impl Desk {
    pub(super) fn hear(&mut self, client: usize, event: client::Event) {
        match event {
            client::Event::Answered(tag, answer) => self.answered(client, tag, answer),
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

    /// A hub is another one: its clients and streams are gone.
    pub(super) fn forget(&mut self) {
        self.streams.clear();
        self.spent.append(&mut self.open);
        self.earlier = self.given;
        self.held.clear();
        self.narrow.clear();
    }

    /// The disk would not keep which numbers were given: they may be given again.
    pub(super) fn uncounted(&mut self) {
        self.spent.clear();
        self.open.clear();
        self.born.clear();
    }

    /// A session whose prompts are held, mostly.
    pub(super) fn held(&self, dice: &mut Dice<'_>) -> Option<String> {
        let all: Vec<&Sid> = self.held.keys().collect();
        (!all.is_empty() && !dice.once_in(4)).then(|| dice.pick(&all).to_string())
    }

    /// The book, as anybody could see it by asking all the time.
    pub(super) fn look(&mut self, book: &Book) {
        for (sid, session) in book.sessions() {
            self.stands(sid, session);
            self.holds(sid, session.held());
        }
        self.held.retain(|sid, _| book.get(*sid).is_some());
        self.released.clear();
        for ask in book.open_asks() {
            let session = ask.sid.map(|sid| book.get(sid).expect("a question of a session that is gone"));
            session.inspect(|session| self.asks(ask, session.policy));
        }
    }

    fn stands(&mut self, sid: Sid, session: &Session) {
        if let (Status::Cancelled | Status::Error, Some(reason)) = session.status()
            && session.running().is_none()
            && self.known.insert((sid, reason))
        {
            self.counted("", &word(reason));
        }
    }

    /// Prompts are held for a reason that is told, and released by people only.
    fn holds(&mut self, sid: Sid, held: Option<Reason>) {
        let before = match held {
            Some(reason) => self.held.insert(sid, reason),
            None => self.held.remove(&sid),
        };
        match held {
            Some(reason) if before != held => self.counted("held: ", &word(reason)),
            None if before.is_some() => {
                if let Some(rule) = self.released.get(&sid.to_string()) {
                    self.tally.count(rule);
                }
            }
            Some(_) | None => {}
        }
    }

    /// A policy answers at once whatever it may; the rest is asked.
    fn asks(&mut self, ask: &Ask, policy: Policy) {
        let Question::Permission { options, .. } = &ask.asked.question else { return };
        let rule = match policy {
            Policy::Ask => return,
            Policy::Allow => {
                let once = options.iter().any(|option| option.kind == OptionKind::AllowOnce);
                assert!(!once, "a policy did not answer: {ask:?}");
                "a policy is narrower"
            }
            Policy::Reject => "a policy comes too late",
        };
        if self.narrow.insert(ask.id) {
            self.tally.count(rule);
        }
    }

    /// Counts the rule of that kind and name, if there is one.
    fn counted(&mut self, kind: &str, name: &str) {
        if let Some(rule) = super::RULES.iter().find(|rule| rule.strip_prefix(kind) == Some(name)) {
            self.tally.count(rule);
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
        self.counted("", failure.tag.as_str());
        match (&*request.command, &failure.tag) {
            ("session.send", ErrorTag::Busy) if failure.message.starts_with("16 prompts") => {
                self.tally.count("the queue is full");
            }
            ("session.retry", ErrorTag::InvalidArgs) => self.tally.count("nothing to try again"),
            ("session.send", ErrorTag::InvalidArgs) if failure.message.contains("archived") => {
                self.tally.count("archived takes none");
            }
            ("approval.respond", ErrorTag::InvalidArgs) => self.tally.count("not an option of it"),
            ("approval.respond", ErrorTag::NotFound) => self.tally.count("never asked"),
            ("approval.respond", ErrorTag::NotPermitted) => self.tally.count("an agent may not answer"),
            _ => {}
        }
        if let Some(sid) = failure.member("sessionId") {
            self.sessions.insert(sid);
        }
    }

    fn replied(&mut self, request: &Request, result: &str) {
        let count = match &*request.command {
            "session.new" | "session.send" | "session.retry" => return self.started(request, result),
            "session.queue" => return self.queue(request),
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

    fn queue(&mut self, request: &Request) {
        let args: Value =
            request.args.as_ref().and_then(|args| serde_json::from_str(args.get()).ok()).expect("arguments");
        if args["release"] == true {
            let sid = args["sessionId"].as_str().unwrap_or_default().to_owned();
            self.released.insert(sid, "released by a person");
        }
    }

    fn started(&mut self, request: &Request, result: &str) {
        let started: Started = serde_json::from_str(result).expect("what the command gives");
        let id = started.session.id.clone();
        self.sessions.insert(id.clone());
        let prompted = request.command != "session.new" || started.turn.is_some();
        assert!(!prompted || started.turn.is_some() || request.command == "session.retry", "{result}");
        self.tally.count(match request.command.as_str() {
            "session.new" => {
                assert!(self.born.insert(id), "a handle is given twice: {result}");
                "session.new"
            }
            "session.retry" => "retried",
            _ => {
                self.released.insert(id, "released by a prompt");
                "sent"
            }
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
            Happening::NotSent(over) => {
                assert!(first(&mut stream.ended, frame.turn), "ended twice: {frame:?}");
                self.counted("not sent: ", &over.reason);
            }
            Happening::ToolCallPending(pending) => {
                let new = stream.asked.insert(pending.approval_id.clone());
                assert!(new || stream.lagged, "asked twice: {frame:?}");
                self.asked(client, &pending.approval_id);
            }
            Happening::ApprovalBrief(asked) => {
                let new = stream.asked.insert(asked.approval_id.clone());
                assert!(new || stream.lagged, "asked twice: {frame:?}");
                self.asked(client, &asked.approval_id);
                let asks = request.command == "approval.ask";
                self.tally.count(if asks { "program asked" } else { "asked" });
            }
            Happening::Resolved(over) => {
                assert!(stream.resolved.insert(over.approval_id.clone()), "over twice: {frame:?}");
                self.tally.count(match (over.by, over.option_id.as_deref()) {
                    (By::Client, _) => "by client",
                    (By::Policy, Some("yes")) => "by policy: allowed",
                    (By::Policy, Some(_)) => "by policy: rejected",
                    (By::Policy, None) => "by policy: cancelled",
                    (By::Withdrawn, _) => "by withdrawn",
                    (By::TurnEnded, _) => "by turn_ended",
                    (By::Cancelled, _) => "by cancelled",
                    (By::Terminal, _) => "by terminal",
                    (By::Expired, _) => "by expired",
                    (By::Gone, _) => "by gone",
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
            | Happening::HostedNow(_)
            | Happening::TurnEnd(_)
            | Happening::Update(_) => {}
        }
    }

    /// A question's number is never used twice, not even by another hub.
    fn asked(&mut self, client: usize, id: &str) {
        assert!(client < self.earlier || !self.spent.contains(id), "{id} was another question's");
        self.open.insert(id.to_owned());
    }
}

/// A reason, as it is on the wire.
fn word(reason: Reason) -> String {
    serde_json::to_value(reason).ok().and_then(|word| Some(word.as_str()?.to_owned())).expect("a word")
}
