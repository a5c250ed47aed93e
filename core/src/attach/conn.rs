//! One connection of a server: lines, token, refusals. It owns no turn.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::wire::{self, AgentInfo, Answer, HEALTHY, Method, NOT_ADMITTED, Welcome};
use crate::closed::{Cause, Closed};
use crate::limits::{Graces, Limits};
use crate::lines::Line;
use crate::link::Listened;
use crate::machine::{Deadline, Now, Refused};
use crate::role::{Role, Takes, Wire};
use crate::rpc::{self, After, Frame, Id, RpcError, code};
use crate::secret::Secret;

/// What all connections of a server have in common.
#[derive(Debug)]
pub(super) struct House {
    pub(super) token: Secret<String>,
    pub(super) agent: AgentInfo,
    pub(super) limits: Limits,
    pub(super) graces: Graces,
    /// For the token to come.
    pub(super) admission: Duration,
    /// Bytes of a line before it.
    pub(super) stranger_line: usize,
}

/// What a connection asks of the session. It is answered before the next request is looked at: clients may
/// read answers by their order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Ask {
    Load { session: Option<String> },
    Prompt { session: Option<String>, text: String },
    Cancel { session: Option<String> },
}

/// What the session tells a connection.
#[derive(Debug)]
pub(super) enum Tell {
    /// The outcome of what was asked.
    Answer(Result<Answer, RpcError>),
    /// Others without the token want its seat.
    MakeRoom,
    /// The session is over.
    Leave,
}

#[derive(Debug)]
pub(super) struct Conn {
    house: Arc<House>,
    wire: Wire<Ask, Infallible>,
    stage: Stage,
    /// Whoever takes our events is full.
    full: bool,
}

#[derive(Debug)]
enum Stage {
    /// No right token yet, for which there is time until then.
    Stranger {
        until: Listened,
    },
    Admitted,
    /// The session was asked. `None`: by a notification.
    Asked(Option<Id>),
}

impl Role for Conn {
    type Config = Arc<House>;
    type Command = Tell;
    type Event = Ask;
    type Fault = Infallible;

    fn start(now: Now, house: Self::Config) -> Self {
        let wire = Wire::adopt(&house.limits, &house.graces);
        let until = wire.link.listened(now) + house.admission;
        Self { wire, stage: Stage::Stranger { until }, full: false, house }
    }

    fn wire(&self) -> &Wire<Ask, Infallible> {
        &self.wire
    }

    fn wire_mut(&mut self) -> &mut Wire<Ask, Infallible> {
        &mut self.wire
    }

    fn takes(&self) -> Takes {
        match self.stage {
            Stage::Stranger { .. } | Stage::Admitted if !self.full && self.has_room() => Takes::Now,
            Stage::Stranger { .. } | Stage::Admitted | Stage::Asked(_) => Takes::Later,
        }
    }

    fn longest(&self) -> Option<usize> {
        Some(match self.stage {
            Stage::Stranger { .. } => self.house.stranger_line.min(self.house.limits.line),
            Stage::Admitted | Stage::Asked(_) => self.house.limits.line,
        })
    }

    fn line(&mut self, now: Now, line: Line<'_>) {
        rpc::read(line, self.house.limits.depth, |frame| self.frame(now, frame));
    }

    /// What was asked is answered first.
    fn ended(&mut self, _: Now) {}

    fn obey(&mut self, now: Now, tell: Tell) -> Result<(), Refused> {
        match tell {
            Tell::Answer(outcome) => {
                let Stage::Asked(id) = &mut self.stage else { return Err(Refused::Closed) };
                let id = id.take();
                self.stage = Stage::Admitted;
                match outcome {
                    Ok(answer) => self.reply(id.as_ref(), &answer),
                    Err(error) => self.refuse(id.as_ref(), &error),
                }
            }
            Tell::MakeRoom => self.dismiss(now, "too many connections without the token"),
            Tell::Leave => self.part(now, Cause::Left),
        }
        Ok(())
    }

    fn tick(&mut self, now: Now) {
        if let Stage::Stranger { until } = self.stage
            && until <= self.wire.link.listened(now)
        {
            self.dismiss(now, "the token did not come in time");
        }
    }

    fn due(&self) -> Option<Deadline> {
        let Stage::Stranger { until } = self.stage else { return None };
        self.wire.link.due_at(until).map(|at| (at, "the token"))
    }

    /// One of several reasons not to read: `settle` weighs them.
    fn hold(&mut self, _: Now, full: bool) {
        self.full = full;
    }

    fn settle(&mut self, now: Now) {
        // A client that closes its half after asking is owed the answer, and nothing else.
        if self.is_finished() {
            return self.part(now, Cause::Gone);
        }
        let hold = self.full || !self.has_room() || self.is_stuffed();
        self.wire.hold(now, hold);
    }

    fn last(&mut self, _: Closed<Infallible>) -> Option<Ask> {
        None
    }
}

impl Conn {
    /// Whether it would be noticed if the client went away. Who only closed its sending half is owed the
    /// answer all the same, but looks no different from who is gone.
    pub(super) fn is_watched(&self) -> bool {
        self.wire.link.is_open() && !self.wire.link.has_ended() && !self.is_stuffed()
    }

    /// Whether it has a seat, and no right token yet.
    pub(super) const fn is_stranger(&self) -> bool {
        self.wire.is_up() && matches!(self.stage, Stage::Stranger { .. })
    }

    fn dismiss(&mut self, now: Now, why: &'static str) {
        self.error(&Id::null(), NOT_ADMITTED, why);
        self.part(now, Cause::Left);
    }

    /// Too much came that cannot be taken yet: the rest stays in the pipe until it is.
    fn is_stuffed(&self) -> bool {
        self.wire.waiting() >= self.house.limits.unsent_soft
    }

    const fn is_finished(&self) -> bool {
        self.wire.link.has_ended()
            && self.wire.waiting() == 0
            && matches!(self.stage, Stage::Stranger { .. } | Stage::Admitted)
    }

    /// Whether one more answer can wait to be sent.
    fn has_room(&self) -> bool {
        self.wire.link.unsent() <= self.house.limits.unsent_soft
    }

    fn frame(&mut self, now: Now, frame: Frame<'_>) {
        match frame {
            Frame::Request { id, method, params } => self.request(Some(id), &method, params),
            Frame::Notification { method, params } => self.request(None, &method, params),
            // Nothing is ever asked of a client, so these cannot be answers.
            Frame::Response { id, .. } => self.error(&id, code::INVALID_REQUEST, "method is missing"),
            Frame::Complaint(_) => self.error(&Id::null(), code::INVALID_REQUEST, "method is missing"),
            Frame::Malformed(flaw) => {
                self.error(&flaw.id, flaw.answer.unwrap_or(code::INVALID_REQUEST), flaw.why);
                if flaw.after == After::End {
                    self.part(now, Cause::Left);
                }
            }
        }
    }

    /// Without the token nobody learns anything, not even which methods there are.
    fn request(&mut self, id: Option<Id>, method: &str, params: Option<&RawValue>) {
        let admitted = matches!(self.stage, Stage::Admitted);
        let asked = match (Method::from_name(method), admitted) {
            (Some(Method::Initialize), _) => return self.initialize(id.as_ref(), params),
            (_, false) => Err(RpcError::new(NOT_ADMITTED, "initialize with the token first")),
            (None, true) => Err(RpcError::method_not_found(method)),
            (Some(Method::Ping), true) => return self.reply(id.as_ref(), &HEALTHY),
            (Some(Method::Load), true) => wire::session(params).map(|session| Ask::Load { session }),
            (Some(Method::Cancel), true) => wire::session(params).map(|session| Ask::Cancel { session }),
            (Some(Method::Prompt), true) => {
                wire::prompt(params).map(|(session, text)| Ask::Prompt { session, text })
            }
        };
        match asked {
            Ok(ask) => {
                self.stage = Stage::Asked(id);
                self.wire.tell(ask);
            }
            Err(error) => self.refuse(id.as_ref(), &error),
        }
    }

    /// Whoever is admitted stays so. A wrong token may be followed by the right one.
    fn initialize(&mut self, id: Option<&Id>, params: Option<&RawValue>) {
        let right = wire::token(params).is_some_and(|token| self.house.token.matches(token.as_bytes()));
        if right {
            self.stage = Stage::Admitted;
        }
        if matches!(self.stage, Stage::Admitted) {
            let house = Arc::clone(&self.house);
            self.reply(id, &Welcome::new(&house.agent));
        } else {
            self.refuse(id, &RpcError::new(NOT_ADMITTED, "authToken is missing or wrong"));
        }
    }

    /// Notifications are never answered.
    fn reply<R: Serialize>(&mut self, id: Option<&Id>, result: &R) {
        if let Some(id) = id {
            self.wire.link.line(|buf| rpc::reply(buf, id, result));
        }
    }

    fn refuse(&mut self, id: Option<&Id>, error: &RpcError) {
        if let Some(id) = id {
            self.wire.link.line(|buf| rpc::reply_error(buf, id, error));
        }
    }

    fn error(&mut self, id: &Id, code: i64, why: &'static str) {
        self.refuse(Some(id), &RpcError::new(code, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Action, Heard, Input, LinkId, Machine, Output};

    const LOAD: &[u8] = b"{\"id\":1,\"method\":\"session/load\"}\n";
    const PING: &[u8] = b"{\"id\":2,\"method\":\"ping\"}\n";

    fn admitted() -> Conn {
        let house = House {
            token: Secret::new("t".to_owned()),
            agent: AgentInfo::default(),
            limits: Limits { unsent_soft: 1000, write: 300, ..Limits::default() },
            graces: Graces::default(),
            admission: Duration::from_secs(10),
            stranger_line: 1000,
        };
        let mut conn = Conn::new(Now::default(), Arc::new(house));
        hear(
            &mut conn,
            Heard::Bytes(b"{\"id\":0,\"method\":\"initialize\",\"params\":{\"authToken\":\"t\"}}\n"),
        );
        hear(&mut conn, Heard::Written);
        conn
    }

    /// Tells it what happened on its link, and returns what it wrote.
    fn hear(conn: &mut Conn, heard: Heard<'_>) -> Vec<u8> {
        conn.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
        let written = std::iter::from_fn(|| conn.poll()).filter_map(|output| match output {
            Output::Do(_, Action::Write(bytes)) => Some(bytes),
            Output::Do(..) | Output::Tell(_) | Output::Store(..) | Output::End => None,
        });
        written.flatten().collect()
    }

    #[test]
    fn what_waits_behind_requests_is_bounded_however_many_there_are() {
        let mut conn = admitted();
        let mut send = |bytes: &[u8]| {
            hear(&mut conn, Heard::Bytes(bytes));
            hear(&mut conn, Heard::Written);
            let _ = conn.command(Now::default(), Tell::Answer(Ok(Answer::Done {})));
            conn.wire.waiting()
        };
        send(&LOAD.repeat(20));
        // One comes for each that is answered, so it never runs empty.
        assert!((0..1000).map(|_| send(LOAD)).max() <= Some(1000));
    }

    #[test]
    fn what_waits_for_a_client_that_does_not_read_is_bounded_however_much_it_asks() {
        for goes in [false, true] {
            let mut conn = admitted();
            let mut written = hear(&mut conn, Heard::Bytes(&PING.repeat(1000)));
            assert!(conn.wire.link.is_held());
            if goes {
                hear(&mut conn, Heard::Eof);
            }
            for _ in 0..1000 {
                assert!(conn.wire.link.unsent() < 1100, "{}", conn.wire.link.unsent());
                written.extend(hear(&mut conn, Heard::Written));
            }
            // Nothing is lost, and who only stopped sending gets it all.
            assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1000);
            assert_eq!((conn.wire.link.is_held(), conn.wire.link.is_closed()), (false, goes));
        }
    }
}
