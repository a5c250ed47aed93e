//! Agents of a city: what they say and do is drawn, and always within the protocol.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use agentline_core::acp::agent::{self, Agent, Of, Reply, TurnKey, Wanted};
use agentline_core::acp::session::{SessionInfo, SessionList, SessionState};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, ToolStatus, Update};
use agentline_core::acp::{OptionKind, PermissionOption, SessionId, StopReason};
use agentline_core::rpc::{RpcError, code};
use agentline_core::{Machine, SpawnSpec, Tag};

use crate::invariants::{Checked, Checks};
use crate::world::{Node, World};

/// What all agents have in common: their decisions, and the sessions on their disks.
pub(super) struct Minds {
    state: u64,
    sessions: BTreeMap<usize, Vec<SessionId>>,
    given: u64,
}

impl Minds {
    pub(super) fn new(seed: &[u8]) -> Self {
        let seed =
            seed.iter().fold(0x9E37_79B9_7F4A_7C15u64, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte));
        Self { state: seed | 1, sessions: BTreeMap::new(), given: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % n
    }
}

/// An agent's process.
struct Mind {
    number: usize,
    common: Rc<RefCell<Minds>>,
    /// Turns that wait for an answer, by its tag.
    asks: BTreeMap<Tag, TurnKey>,
    tags: u64,
    stubborn: bool,
}

pub(super) fn move_in(world: &mut World<'_>, minds: &Rc<RefCell<Minds>>, secrets: &[String], number: usize) {
    let (minds, secrets) = (Rc::clone(minds), secrets.to_vec());
    world.program(&format!("agent-{number}"), move |now, _: &SpawnSpec| {
        let offers = match number % 3 {
            0 => r#"{"loadSession":true,"sessionCapabilities":{"list":{},"close":{},"delete":{}}}"#,
            1 => r#"{"sessionCapabilities":{"resume":{},"list":{}},"promptCapabilities":{"image":true}}"#,
            _ => "{}",
        };
        let config = agent::Config {
            capabilities: serde_json::from_str(offers).expect("capabilities"),
            ..agent::Config::on_stdio()
        };
        let machine = Checked::<Agent>::new(now, (Checks::default(), config)).and_secrets(secrets.clone());
        let stubborn = minds.borrow_mut().below(4) == 0;
        let mut mind = Mind { number, common: Rc::clone(&minds), asks: BTreeMap::new(), tags: 0, stubborn };
        Node::new(machine, move |_, event, say| mind.hear(event, say)).on_term(|| agent::Command::Shutdown)
    });
}

impl Mind {
    fn roll(&self, n: u64) -> u64 {
        self.common.borrow_mut().below(n)
    }

    fn hear(&mut self, event: agent::Event, say: &mut Vec<agent::Command>) {
        match event {
            agent::Event::Requested(asked) => {
                let agent::Requested { request, wanted } = *asked;
                if let Some(answer) = self.wanted(wanted, say) {
                    say.push(match answer {
                        Ok(reply) => agent::Command::Reply { request, reply },
                        Err(error) => agent::Command::Fail { request, error },
                    });
                }
            }
            agent::Event::Prompted(prompted) => self.prompted(prompted.turn, &prompted.session, say),
            agent::Event::Cancelled(turn) if !self.stubborn => say.push(end(turn)),
            agent::Event::PermissionAnswered(tag, _) => {
                if let Some(turn) = self.asks.remove(&tag) {
                    say.push(end(turn));
                }
            }
            agent::Event::Initialized(_)
            | agent::Event::Cancelled(_)
            | agent::Event::TurnOver(_)
            | agent::Event::Withdrawn(_)
            | agent::Event::Served(..)
            | agent::Event::Crowded
            | agent::Event::Drained
            | agent::Event::Notified(_)
            | agent::Event::Noticed(_)
            | agent::Event::Closed(_) => {}
        }
    }

    fn wanted(&mut self, wanted: Wanted, say: &mut Vec<agent::Command>) -> Option<Result<Reply, RpcError>> {
        Some(match wanted {
            Wanted::NewSession(_) => match self.roll(12) {
                0 => Err(RpcError::new(code::AUTH_REQUIRED, "log in")),
                1 => Err(RpcError::new(code::INTERNAL_ERROR, "no")),
                2 => return None,
                _ => {
                    let mut common = self.common.borrow_mut();
                    common.given += 1;
                    let session: SessionId = (*format!("{}-{}", self.number, common.given)).into();
                    common.sessions.entry(self.number).or_default().push(session.clone());
                    Ok(Reply::SessionOpened { session, state: SessionState::default() })
                }
            },
            Wanted::LoadSession(session, _) => {
                for (speaker, text) in [(Speaker::User, "before"), (Speaker::Agent, "it was so")] {
                    let (session, text) = (session.clone(), text.to_owned());
                    say.push(agent::Command::Tell { session, speaker, text, message: None });
                }
                self.again(session)
            }
            Wanted::ResumeSession(session, _) => self.again(session),
            Wanted::ListSessions { .. } => {
                let common = self.common.borrow();
                let known = common.sessions.get(&self.number).into_iter().flatten();
                let info = |session: &SessionId| SessionInfo {
                    session_id: session.clone(),
                    cwd: "/w".to_owned(),
                    additional_directories: Vec::new(),
                    title: Some("a title".to_owned()),
                    updated_at: None,
                };
                let sessions = known.map(info).collect();
                Ok(Reply::Sessions(SessionList { sessions, ..SessionList::default() }))
            }
            Wanted::DeleteSession(session) => {
                let mut common = self.common.borrow_mut();
                common.sessions.entry(self.number).or_default().retain(|known| *known != session);
                Ok(Reply::Done)
            }
            Wanted::Authenticate(_)
            | Wanted::Logout
            | Wanted::CloseSession(_)
            | Wanted::SetMode(..)
            | Wanted::SetOption(..)
            | Wanted::Extension(..) => Ok(Reply::Done),
        })
    }

    fn again(&self, session: SessionId) -> Result<Reply, RpcError> {
        if self.roll(8) == 0 {
            return Err(RpcError::new(code::NOT_FOUND, "no such session"));
        }
        Ok(Reply::SessionOpened { session, state: SessionState::default() })
    }

    fn prompted(&mut self, turn: TurnKey, session: &SessionId, say: &mut Vec<agent::Command>) {
        let text = "word ".repeat(usize::try_from(self.roll(200)).unwrap_or(0));
        say.push(agent::Command::Say { turn, speaker: Speaker::Thought, text: "hm".to_owned() });
        say.push(agent::Command::Say { turn, speaker: Speaker::Agent, text });
        if self.roll(40) == 0 {
            return say.push(agent::Command::Shutdown);
        }
        match self.roll(10) {
            0 => {
                say.push(agent::Command::FailTurn { turn, error: RpcError::new(code::INTERNAL_ERROR, "no") })
            }
            1 => say.push(agent::Command::EndTurn { turn, stopped: StopReason::Refusal.into() }),
            // Until somebody cancels it.
            2 | 3 => {}
            4..=7 => {
                let tool_call = ToolCallUpdate { title: Some("rm x".to_owned()), ..call() };
                let once = self.roll(4) > 0;
                let yes =
                    if once { ("yes", OptionKind::AllowOnce) } else { ("ever", OptionKind::AllowAlways) };
                let no = Some(("no", OptionKind::RejectOnce)).filter(|_| self.roll(4) > 0);
                let options = std::iter::once(yes).chain(no).map(|(id, kind)| PermissionOption {
                    option_id: id.to_owned(),
                    name: id.to_owned(),
                    kind,
                });
                self.tags += 1;
                let tag = Tag(self.tags);
                self.asks.insert(tag, turn);
                let of = if self.roll(2) == 0 { Of::Turn(turn) } else { Of::Session(session.clone()) };
                let options = options.collect();
                say.push(agent::Command::AskPermission { tag, of, tool_call, options, meta: None });
                // One that does not wait for the answer.
                if self.roll(6) == 0 {
                    self.asks.remove(&tag);
                    say.push(end(turn));
                }
            }
            _ => {
                let started =
                    ToolCall { tool_call_id: "c".to_owned(), title: "ls".to_owned(), ..ToolCall::default() };
                say.push(agent::Command::Report { turn, update: Update::ToolCall(started) });
                let done = ToolCallUpdate { status: Some(ToolStatus::Completed), ..call() };
                say.push(agent::Command::Report { turn, update: Update::ToolCallUpdate(done) });
                say.push(end(turn));
            }
        }
    }
}

fn call() -> ToolCallUpdate {
    ToolCallUpdate { tool_call_id: "c".to_owned(), ..ToolCallUpdate::default() }
}

fn end(turn: TurnKey) -> agent::Command {
    agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() }
}
