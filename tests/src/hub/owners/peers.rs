//! What links and processes say, and what has to come of it.

use std::collections::BTreeSet;

use agentline_core::hub::api::{Reason, Status};
use agentline_core::hub::book::SourceId;
use agentline_core::{Exit, Group, Heard, LinkId, Peer};
use serde_json::{Value, json};

use super::{AGENTS, Port};

/// An agent that dialled in.
pub(super) struct Link {
    pub(super) at: LinkId,
    pub(super) agent: usize,
    pub(super) owns: BTreeSet<String>,
    /// What the hub calls it, once that was seen.
    pub(super) source: Option<SourceId>,
    prompts: bool,
    opens: bool,
    /// Whatever it named, taken or not: at most fifty.
    named: BTreeSet<String>,
    /// Named while it opens a session, at most [`EARLY`]: whether one of these is that one is not known yet.
    early: Vec<String>,
    /// Requests of the hub that it has not answered.
    asked: Vec<Value>,
    /// Answers to its own.
    answers: Vec<Value>,
    requests: u32,
}

/// So many of a link wait for that here, half of what may: whatever else it says of them waits as well.
const EARLY: usize = 50;

/// An agent's process.
pub(super) struct Child {
    at: LinkId,
    agent: usize,
    asked: Vec<Value>,
    given: u32,
}

fn method(request: &Value) -> &str {
    request["method"].as_str().unwrap_or_default()
}

fn session_of(request: &Value) -> &str {
    request["params"]["sessionId"].as_str().unwrap_or_default()
}

impl Link {
    pub(super) fn is_opening(&self) -> bool {
        self.asked.iter().any(|request| method(request) == "session/new")
    }

    fn prompts_of(&self, name: &str) -> usize {
        let is = |request: &&Value| method(request) == "session/prompt" && session_of(request) == name;
        self.asked.iter().filter(is).count()
    }
}

impl Port<'_> {
    /// An agent dials in. One that is off is refused.
    pub(super) fn dial(&mut self) {
        let agent = self.dice.below(2);
        let [prompts, opens] = [8, 2].map(|n| !self.dice.once_in(n));
        let Some(at) = self.hub.accept_at(self.reverse) else { return };
        self.hub.heard(at, Heard::Opened(Peer::default()));
        let can = json!({ "prompt": prompts, "cancel": true, "newSession": opens });
        let hello = json!({ "id": AGENTS[agent], "version": 1, "capabilities": can });
        self.tell(at, &json!({ "id": 0, "method": "_botbus/hello", "params": hello }));
        let answer: Value = serde_json::from_str(&self.hub.read(at)).expect("an answer");
        assert_eq!(answer["result"]["accepted"].as_bool(), Some(self.on[agent]), "{answer}");
        if !self.on[agent] {
            self.tally.count("refused while it is off");
            assert!(self.is_left(at), "refused, and kept");
            return self.hub.heard(at, Heard::Eof);
        }
        self.links.push(Link {
            at,
            agent,
            owns: BTreeSet::new(),
            source: None,
            prompts,
            opens,
            named: BTreeSet::new(),
            early: Vec::new(),
            asked: Vec::new(),
            answers: Vec::new(),
            requests: 1,
        });
    }

    fn tell(&mut self, at: LinkId, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        self.hub.send(at, format!("{message}\n").as_bytes());
    }

    fn note(&mut self, link: usize, method: &str, params: &Value) {
        self.tell(self.links[link].at, &json!({ "method": method, "params": params }));
        self.settle();
    }

    pub(super) fn some_link(&mut self) -> Option<usize> {
        (!self.links.is_empty()).then(|| self.dice.below(self.links.len()))
    }

    /// A name that the link has said, mostly one of its own.
    fn said(&mut self, link: usize) -> Option<String> {
        let Link { owns, named, .. } = &self.links[link];
        let others: Vec<&String> = named.difference(owns).collect();
        let from = if others.is_empty() || self.dice.once_in(2) { owns.iter().collect() } else { others };
        if from.is_empty() { None } else { Some((*self.dice.pick(&from)).clone()) }
    }

    pub(super) fn announce(&mut self) {
        let Some(at) = self.some_link() else { return };
        let agent = self.links[at].agent;
        let again = if self.dice.once_in(6) { self.said(at) } else { None };
        let lost = self.lost.iter().find(|(of, _)| *of == agent).map(|(_, name)| name.clone());
        let lost = lost.filter(|_| self.dice.once_in(4));
        let name = again.or(lost).unwrap_or_else(|| self.name_of(agent));
        self.announce_as(at, name);
    }

    /// Somebody has more than may be shown.
    pub(super) fn announce_all(&mut self) {
        let Some(at) = self.some_link() else { return };
        let agent = self.links[at].agent;
        for number in 0..super::NAMES[agent] {
            self.announce_as(at, format!("{}-{number}", AGENTS[agent]));
        }
    }

    fn announce_as(&mut self, at: usize, name: String) {
        let agent = self.links[at].agent;
        let wait = self.links[at].is_opening() && !self.links[at].owns.contains(&name);
        if wait && self.links[at].early.len() == EARLY {
            return;
        }
        let before = self.before(agent, &name);
        self.note(at, "_botbus/session", &json!({ "sessionId": name, "cwd": "/w", "title": "t" }));
        if self.is_named(at, &name) {
            if wait {
                self.links[at].early.push(name);
            } else {
                self.announced(at, &name, &before);
            }
        }
    }

    /// Whether its name counts: more than fifty do not.
    fn is_named(&mut self, at: usize, name: &str) -> bool {
        let link = &mut self.links[at];
        if link.named.len() == 50 && !link.named.contains(name) {
            self.tally.count("fifty sessions a link");
            return false;
        }
        link.named.insert(name.to_owned());
        true
    }

    /// What the announcement comes to, by the rules.
    fn announced(&mut self, at: usize, name: &str, before: &Before) {
        let agent = self.links[at].agent;
        let rule = match self.owner(agent, name) {
            Some(owner) if owner == at => "announced again",
            Some(_) => "a session of another link is not taken",
            None if before.works => "a turn of a process is not robbed",
            None => {
                self.links[at].owns.insert(name.to_owned());
                match () {
                    () if before.queued > 0 && before.wanted && self.links[at].prompts => {
                        assert_eq!(
                            self.links[at].prompts_of(name),
                            1,
                            "the prompt is said once, at the link"
                        );
                        "a prompt on its way goes by the link"
                    }
                    () if before.open => "an idle process gives it up",
                    () if self.lost.remove(&(agent, name.to_owned())) => "comes back",
                    () => "a free session is taken",
                }
            }
        };
        self.lost.remove(&(agent, name.to_owned()));
        self.tally.count(rule);
    }

    fn before(&self, agent: usize, name: &str) -> Before {
        let Some(session) = self.session(agent, name) else { return Before::default() };
        Before {
            works: session.running().is_some() || session.stuck_at().is_some(),
            open: session.child().is_some(),
            wanted: session.is_wanted(),
            queued: session.held().map_or(session.queued().len(), |_| 0),
        }
    }

    pub(super) fn turn(&mut self) {
        let Some(at) = self.some_link() else { return };
        let Some(name) = self.said(at) else { return };
        let agent = self.links[at].agent;
        let (ours, before) = (self.links[at].owns.contains(&name), self.status(agent, &name));
        let runs = self.runs(agent, &name);
        let state = if runs && ours { "ended" } else { "started" };
        if !ours && self.links[at].is_opening() {
            return;
        }
        self.note(at, "_botbus/turn", &json!({ "sessionId": name, "state": state }));
        if ours {
            // What waits for the end of a turn goes on.
            let waits = self.links[at].prompts_of(&name) > 0;
            assert!(self.runs(agent, &name) != runs || waits, "{name} {state}");
            self.tally.count("a turn of the owner");
        } else {
            assert_eq!(self.status(agent, &name), before, "{name}: another's turn");
            // Else it would still run when the link has the session one day.
            self.note(at, "_botbus/turn", &json!({ "sessionId": name, "state": "ended" }));
            assert_eq!(self.status(agent, &name), before, "{name}: another's turn");
            self.tally.count("a turn of another link is nothing");
        }
    }

    pub(super) fn update(&mut self) {
        let Some(at) = self.some_link() else { return };
        let Some(name) = self.said(at) else { return };
        let (agent, ours) = (self.links[at].agent, self.links[at].owns.contains(&name));
        if !ours && self.links[at].is_opening() {
            return;
        }
        let text = |port: &Self| {
            let said = port.session(agent, &name).map(|session| session.story.transcript.entries());
            said.into_iter().flatten().map(|entry| entry.text.len()).sum::<usize>()
        };
        let before = text(self);
        let chunk =
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "word" } });
        self.note(at, "session/update", &json!({ "sessionId": name, "update": chunk }));
        let more = text(self) - before;
        assert_eq!(more, if ours { 4 } else { 0 }, "{name}");
        self.tally.count(if ours {
            "an update of the owner"
        } else {
            "an update of another link is nothing"
        });
    }

    /// A link asks, and the question is over in one of the ways that there are; where nobody else may answer, at once.
    pub(super) fn ask(&mut self) {
        let Some(at) = self.some_link() else { return };
        let Some(name) = self.said(at) else { return };
        let (agent, ours) = (self.links[at].agent, self.links[at].owns.contains(&name));
        if !ours && self.links[at].is_opening() {
            return;
        }
        let id = self.request(at, &name);
        if !ours {
            assert_eq!(self.answer(at, id), no_answer());
            return self.tally.count("a question of another link is left to its terminal");
        }
        let stands = self.status(agent, &name).map(|(status, _)| status);
        assert_eq!((self.answer(at, id), stands), (Value::Null, Some(Status::WaitingApproval)));
        self.tally.count("a question of the owner");
        let runs = self.runs(agent, &name);
        let (rule, answer) = match self.dice.below(8) {
            0 => {
                let state = if runs { "ended" } else { "started" };
                self.note(at, "_botbus/turn", &json!({ "sessionId": name, "state": state }));
                if self.answer(at, id).is_null() {
                    // It was the end of an earlier turn, whose prompt was answered first.
                    assert!(runs && self.links[at].prompts_of(&name) > 0, "{name}: {state} is not heard");
                    return self.resolve(at, &name, id);
                }
                ("over by a turn", no_answer())
            }
            1 => {
                let newer = self.request(at, &name);
                assert_eq!(self.answer(at, newer), Value::Null);
                self.resolve(at, &name, newer);
                assert_eq!(self.answer(at, newer), no_answer());
                ("a newer one takes its place", no_answer())
            }
            2 | 3 => {
                let args = json!({ "approvalId": self.question(agent, &name), "decision": "allow" });
                self.client("approval.respond", &args);
                ("answered by a client", json!({ "outcome": { "outcome": "selected", "optionId": "y" } }))
            }
            4 | 5 => {
                self.client("session.stop", &json!({ "sessionId": name }));
                ("cancelled", json!({ "outcome": { "outcome": "cancelled" } }))
            }
            6 if self.dice.once_in(4) => {
                self.hang_up(at);
                assert_eq!(self.question(agent, &name), None);
                return self.tally.count("lost with its link");
            }
            7 => {
                let next = self.links[at].requests + 1;
                self.resolve(at, &name, id);
                self.resolve(at, &name, next);
                assert_eq!(self.request(at, &name), next);
                assert_eq!(self.answer(at, next), no_answer());
                ("over before it was asked", no_answer())
            }
            _ => {
                self.resolve(at, &name, id);
                ("over in its terminal", no_answer())
            }
        };
        assert_eq!((self.answer(at, id), self.question(agent, &name)), (answer, None), "{rule}: {name}");
        self.tally.count(rule);
    }

    /// The link asks for a permission; its number, and that of the call.
    fn request(&mut self, at: usize, name: &str) -> u32 {
        let link = &mut self.links[at];
        link.requests += 1;
        let (id, link) = (link.requests, link.at);
        let options = json!([{ "optionId": "y", "name": "yes", "kind": "allow_once" }]);
        let call = json!({ "toolCallId": format!("c{id}") });
        let params = json!({ "sessionId": name, "toolCall": call, "options": options });
        self.tell(link, &json!({ "id": id, "method": "session/request_permission", "params": params }));
        self.settle();
        id
    }

    /// It was answered where the agent runs.
    fn resolve(&mut self, at: usize, name: &str, id: u32) {
        let params = json!({ "sessionId": name, "toolCallId": format!("c{id}") });
        self.note(at, "_botbus/permission_resolved", &params);
    }

    /// What the hub answered: a result, the code of an error, or nothing yet.
    fn answer(&self, at: usize, id: u32) -> Value {
        let answer = self.links[at].answers.iter().find(|answer| answer["id"] == id);
        answer.map_or(Value::Null, |answer| {
            let code = &answer["error"]["code"];
            if code.is_null() { answer["result"].clone() } else { code.clone() }
        })
    }

    /// The question that is open in a session.
    fn question(&self, agent: usize, name: &str) -> Option<String> {
        let book = self.hub.machine.machine().book();
        let sid = book.find(AGENTS[agent], &name.into());
        book.open_asks().find(|ask| ask.sid == sid).map(|ask| ask.id.to_string())
    }

    /// A client says something to a session; one that nobody knows is opened by a process.
    pub(super) fn send(&mut self) {
        let (agent, name) = self.name();
        if !self.on[agent] {
            return;
        }
        let Some(session) = self.session(agent, &name) else {
            return self.client("session.load", &json!({ "agent": AGENTS[agent], "sessionId": name }));
        };
        let free = session.running().is_none() && session.stuck_at().is_none() && session.queued().len() == 0;
        let owner = self.owner(agent, &name);
        let asked = |port: &Self| owner.map_or(0, |at| port.links[at].prompts_of(&name));
        let before = asked(self);
        self.client("session.send", &json!({ "sessionId": name, "content": "more" }));
        match owner {
            Some(at) if !self.links[at].prompts => {
                assert_eq!(asked(self), before, "it takes no prompts");
                self.tally.count("a link that takes no prompts");
            }
            Some(_) if free => {
                assert_eq!(asked(self), before + 1, "{name} is not said at its link");
                self.tally.count("prompted at the link");
            }
            Some(_) | None => {}
        }
    }

    /// A client wants a new session: of the link that came last of those that offer it, else of a process.
    pub(super) fn new_session(&mut self) {
        let agent = self.dice.below(2);
        if !self.on[agent] {
            return;
        }
        let offers = |link: &Link| link.agent == agent && link.opens && link.prompts;
        let last = self.links.iter().rposition(offers);
        let several = self.links.iter().filter(|link| offers(link)).count() > 1;
        let new = |link: &Link| link.asked.iter().filter(|it| method(it) == "session/new").count();
        let before: Vec<usize> = self.links.iter().map(new).collect();
        self.client("session.new", &json!({ "agent": AGENTS[agent], "task": "do", "cwd": "/w" }));
        for (at, link) in self.links.iter().enumerate() {
            assert_eq!(new(link) - before[at], usize::from(last == Some(at)), "asked of another one");
        }
        if several {
            self.tally.count("the link that came last");
        }
    }

    /// A link answers a request of the hub's.
    pub(super) fn answer_link(&mut self) {
        let Some(at) = self.some_link() else { return };
        let Some(request) = self.links[at].asked.first() else { return };
        if method(request) == "session/new" {
            let fails = self.dice.once_in(8);
            return self.answer_new(at, fails);
        }
        let request = self.links[at].asked.remove(0);
        self.tell(self.links[at].at, &json!({ "id": request["id"], "result": { "stopReason": "end_turn" } }));
        self.settle();
    }

    /// It opened a session, perhaps one that it has shown meanwhile, or one of somebody else's; or it did not.
    pub(super) fn answer_new(&mut self, at: usize, fails: bool) {
        let place = self.links[at].asked.iter().position(|request| method(request) == "session/new");
        let Some(place) = place else { return };
        let request = self.links[at].asked.remove(place);
        let agent = self.links[at].agent;
        let early = self.links[at].early.first().cloned();
        let others = self.links.iter().enumerate().filter(|(of, link)| *of != at && link.agent == agent);
        let others: Vec<String> = others.flat_map(|(_, link)| link.owns.iter().cloned()).collect();
        let name = match self.dice.below(4) {
            0 if !others.is_empty() => self.dice.pick(&others).clone(),
            1 | 2 => early.unwrap_or_else(|| self.name_of(agent)),
            _ => self.name_of(agent),
        };
        let before = self.before(agent, &name);
        let full = self.links[at].named.len() == 50 && !self.links[at].named.contains(&name);
        let answer = if fails {
            json!({ "id": request["id"], "error": { "code": -32603, "message": "no" } })
        } else {
            json!({ "id": request["id"], "result": { "sessionId": name } })
        };
        self.tell(self.links[at].at, &answer);
        self.settle();
        let driven = before.works || before.open || before.wanted || before.queued > 0;
        if !fails && !full {
            self.links[at].named.insert(name.clone());
            if self.owner(agent, &name).is_some() || driven {
                self.tally.count("a new session that is somebody's");
            } else {
                self.links[at].owns.insert(name.clone());
                self.lost.remove(&(agent, name.clone()));
                assert_eq!(self.links[at].prompts_of(&name), 1, "{name}: its prompt is said at the link");
                let early = self.links[at].early.contains(&name);
                self.tally.count(if early {
                    "announced before it is answered"
                } else {
                    "a new session of a link"
                });
            }
        }
        if !self.links[at].is_opening() {
            for name in std::mem::take(&mut self.links[at].early) {
                // Nothing else happened since the answer.
                let before = self.before(agent, &name);
                let before = Before { works: before.works && self.owner(agent, &name).is_none(), ..before };
                let taken = self.session(agent, &name).is_some_and(|session| session.link().is_some());
                let before = if taken { Before::default() } else { before };
                self.announced(at, &name, &before);
            }
        }
    }

    /// A link goes: its turns are over, and what waits is held.
    pub(super) fn hang_up(&mut self, at: usize) {
        let opens = self.links[at].asked.iter().filter(|it| method(it) == "session/new").count();
        let link = self.links[at].at;
        let running = self.running(|of| of.at == link);
        self.hub.heard(link, Heard::Eof);
        (0..opens).for_each(|_| self.tally.count("lost while it opens"));
        self.tally.count("a link goes");
        self.left("a link goes in a turn", Reason::LinkLost, running, |of| of.at == link);
    }

    pub(super) fn start(&mut self, at: LinkId) {
        self.hub.heard(at, Heard::Opened(Peer::default()));
        let program = self.hub.programs[&at].clone();
        let agent = AGENTS.iter().position(|id| program == **id).expect("an agent");
        self.children.push(Child { at, agent, asked: Vec::new(), given: 0 });
    }

    /// A process answers one request; which, is drawn.
    pub(super) fn answer_child(&mut self) {
        if self.children.is_empty() {
            return;
        }
        let at = self.dice.below(self.children.len());
        let child = &mut self.children[at];
        if child.asked.is_empty() {
            return;
        }
        let request = child.asked.remove(self.dice.below(child.asked.len()));
        child.given += 1;
        let (link, given) = (child.at, child.given);
        let result = match method(&request) {
            "session/new" => json!({ "sessionId": format!("new-{}-{given}", link.number()) }),
            "session/prompt" => json!({ "stopReason": "end_turn" }),
            _ => json!({}),
        };
        let fails = method(&request) != "session/prompt" && self.dice.once_in(10);
        let answer = if fails {
            json!({ "id": request["id"], "error": { "code": -32603, "message": "no" } })
        } else {
            json!({ "id": request["id"], "result": result })
        };
        self.tell(link, &answer);
        self.settle();
    }

    pub(super) fn crash(&mut self) {
        if let Some(at) = self.children.pop().map(|child| child.at) {
            self.gone(at);
            self.settle();
        }
    }

    fn gone(&mut self, at: LinkId) {
        for heard in [Heard::Eof, Heard::Exited(Exit::Code(1)), Heard::Group(Group::Gone)] {
            self.hub.heard(at, heard);
        }
    }

    /// Processes that were asked to leave do.
    pub(super) fn bury(&mut self) {
        let leaves = |child: &Child| self.hub.shut.contains(&child.at) || self.hub.closed.contains(&child.at);
        let (gone, stay) = std::mem::take(&mut self.children).into_iter().partition(leaves);
        self.children = stay;
        let gone: Vec<Child> = gone;
        for child in gone {
            self.gone(child.at);
        }
    }

    /// What the hub wrote. Whether it wrote anything.
    pub(super) fn read(&mut self) -> bool {
        let mut said = false;
        for at in 0..self.links.len() {
            for message in self.lines(self.links[at].at) {
                said = true;
                match method(&message) {
                    "session/prompt" | "session/new" => self.links[at].asked.push(message),
                    "" => self.links[at].answers.push(message),
                    _ => {}
                }
            }
        }
        for at in 0..self.children.len() {
            for message in self.lines(self.children[at].at) {
                said = true;
                self.asked_of_child(at, message);
            }
        }
        said
    }

    fn lines(&mut self, at: LinkId) -> Vec<Value> {
        self.hub.read(at).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn asked_of_child(&mut self, at: usize, message: Value) {
        let (agent, name) = (self.children[at].agent, session_of(&message).to_owned());
        match method(&message) {
            "initialize" => {
                let can = ["{\"loadSession\":true}", "{\"sessionCapabilities\":{\"resume\":{}}}"][agent];
                let can: Value = serde_json::from_str(can).expect("JSON");
                let result = json!({ "protocolVersion": 1, "agentCapabilities": can });
                return self.tell(self.children[at].at, &json!({ "id": message["id"], "result": result }));
            }
            "session/load" | "session/resume" | "session/prompt" => {
                assert_eq!(self.owner(agent, &name), None, "{name} is a link's: {message}");
            }
            _ => {}
        }
        if method(&message) == "session/prompt" {
            let was_lost = self.lost.remove(&(agent, name));
            self.tally.count(if was_lost { "goes on in a process" } else { "prompted at a process" });
        }
        if message["id"].is_u64() {
            self.children[at].asked.push(message);
        }
    }
}

/// The agent goes on as its own terminal says.
fn no_answer() -> Value {
    json!(-32001)
}

/// How a session stood before something was said.
#[derive(Default)]
struct Before {
    /// A turn runs on it, or one that was given up.
    works: bool,
    /// A process has it open.
    open: bool,
    /// A process is asked to open it.
    wanted: bool,
    /// Prompts that wait for that, or for the end of a turn.
    queued: usize,
}
