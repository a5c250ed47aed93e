//! What people ask of sessions.

use std::sync::Arc;

use super::session::{Child, Queued, Stuck};
use super::{Book, Fact, Kept, No, Prompt, QUEUE, Sid, Stand, Taken};
use crate::hub::api::{By, Dispatched, Policy, Reason, Status};
use crate::machine::Now;
use crate::session::{Outcome, Reply, TurnId, Wish, may};

impl Book {
    /// Accepted: it is sent now, or waits in the place that is told. It releases what was held.
    ///
    /// # Errors
    ///
    /// Nothing of it is kept.
    pub fn prompt(&mut self, now: Now, sid: Sid, prompt: Prompt) -> Result<Taken, No> {
        let session = self.session(sid)?;
        if session.archived {
            return Err(No::Archived);
        }
        if session.queue.len() >= QUEUE {
            return Err(No::Full);
        }
        let (can, name) = (session.can(), session.name.clone().unwrap_or_else(|| "".into()));
        let Prompt { words, by, at } = prompt;
        let wish = Wish::Prompt { session: name, turn: TurnId(0), words };
        may(can, &wish, false).map_err(No::Refused)?;
        let Wish::Prompt { words, .. } = wish else { return Err(No::Session) };
        let prompt = Arc::new(Prompt { words, by, at });
        let turn = self.turn_id();
        Ok(self.enqueue(now, sid, turn, prompt, false))
    }

    fn enqueue(&mut self, now: Now, sid: Sid, turn: TurnId, prompt: Arc<Prompt>, first: bool) -> Taken {
        let mut taken = Taken { turn, dispatched: Dispatched::Dispatched, place: 0 };
        let Some(session) = self.sessions.get_mut(&sid) else { return taken };
        let answers = session.words.filter(|_| !first);
        let queued = Queued { turn, prompt: Arc::clone(&prompt), said_to: answers };
        if first {
            session.queue.push_front(queued);
        } else {
            session.queue.push_back(queued);
        }
        session.held = None;
        session.active = now.unix;
        self.files.push_back(Kept::Prompt(sid, turn, Arc::clone(&prompt)));
        self.go_on(now, sid);
        let Some(session) = self.sessions.get(&sid) else { return taken };
        let place = session.queue.iter().position(|queued| queued.turn == turn);
        taken.place = place.map_or(0, |place| place + 1);
        let opens = session.child == Child::Wanted && place == Some(0);
        taken.dispatched = match () {
            () if taken.place == 0 && answers.is_some() => Dispatched::Answered,
            () if taken.place == 0 || opens => Dispatched::Dispatched,
            () if session.stuck.is_some() => Dispatched::Held,
            () => Dispatched::Queued,
        };
        if taken.place > 0 {
            self.tell(sid, Fact::Queued(turn, taken.place, prompt));
        }
        self.show(now, sid);
        taken
    }

    /// The last prompt once more, or the start that failed. It releases what was held.
    ///
    /// # Errors
    ///
    /// Something runs, or there is nothing that could be tried again.
    pub fn retry(&mut self, now: Now, sid: Sid) -> Result<Option<Taken>, No> {
        let session = self.session(sid)?;
        if session.archived {
            return Err(No::Archived);
        }
        if session.turn.is_some() || session.child == Child::Wanted {
            return Err(No::Running);
        }
        match &session.last {
            Some((_, prompt)) if session.queue.len() < QUEUE => {
                let (prompt, turn) = (Arc::clone(prompt), self.turn_id());
                let taken = self.enqueue(now, sid, turn, prompt, true);
                if taken.place > 0 {
                    self.remember(sid, None);
                }
                Ok(Some(taken))
            }
            Some(_) => Err(No::Full),
            None if session.stand.status == Status::Error => {
                self.open(now, sid)?;
                Ok(None)
            }
            None => Err(No::NothingToRetry),
        }
    }

    /// Opens it, without a prompt. `false`: it is open.
    ///
    /// # Errors
    ///
    /// It is archived.
    pub fn open(&mut self, now: Now, sid: Sid) -> Result<bool, No> {
        let session = self.session(sid)?;
        if session.archived {
            return Err(No::Archived);
        }
        let opens = session.driver().is_none() && session.child == Child::None;
        if opens {
            session.child = Child::Wanted;
            self.out.push_back(super::Do::Open(sid));
        }
        self.settle(now, sid);
        Ok(opens || self.session(sid)?.child == Child::Wanted)
    }

    /// What waits is sent, oldest first.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn release(&mut self, now: Now, sid: Sid) -> Result<(), No> {
        self.session(sid)?.held = None;
        self.settle(now, sid);
        Ok(())
    }

    /// Takes back one prompt: if it waits it goes, if it runs it is stopped; what others said is left alone. `false`: it
    /// is over, or being stopped.
    ///
    /// # Errors
    ///
    /// There is no such session, or its source takes no cancel.
    pub fn withdraw(&mut self, now: Now, sid: Sid, turn: TurnId) -> Result<bool, No> {
        let session = self.session(sid)?;
        if session.turn.as_ref().is_some_and(|running| running.id == turn) {
            return self.stop(now, sid);
        }
        let Some(place) = session.queue.iter().position(|queued| queued.turn == turn) else {
            return Ok(false);
        };
        session.queue.remove(place);
        self.files.push_back(Kept::NoPrompt(sid, turn));
        self.tell(sid, Fact::NotSent(turn, "withdrawn"));
        self.settle(now, sid);
        Ok(true)
    }

    /// Takes back all that waits, and says how many that were.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn withdraw_all(&mut self, now: Now, sid: Sid) -> Result<usize, No> {
        self.session(sid)?;
        let dropped = self.drop_queue(sid, "withdrawn");
        self.settle(now, sid);
        Ok(dropped)
    }

    /// Cancels what runs; what waits is held. `false`: nothing runs and nothing is asked, or it is being cancelled already.
    ///
    /// Whatever is asked is over as well, also when nothing runs. A link has no clock: its turn ends when it says so.
    ///
    /// # Errors
    ///
    /// There is no such session, or its source takes no cancel.
    pub fn stop(&mut self, now: Now, sid: Sid) -> Result<bool, No> {
        let session = self.session(sid)?;
        let name = session.name.clone().unwrap_or_else(|| "".into());
        let can = session.can();
        let runs = session.turn.as_ref().filter(|turn| !turn.cancelled).map(|turn| turn.source);
        let asks = session.driver().filter(|_| session.open > 0);
        if runs.or(asks).is_some() {
            may(can, &Wish::Cancel { session: name.clone() }, true).map_err(No::Refused)?;
        }
        self.drop_words(now, sid, By::Cancelled);
        if let Some(source) = runs {
            let is_child = self.session(sid)?.link != Some(source);
            let due = is_child.then(|| self.confirm_by(now, sid));
            if let Some(turn) = &mut self.session(sid)?.turn {
                (turn.cancelled, turn.due) = (true, due);
            }
        }
        if let Some(source) = runs.or(asks) {
            self.session(sid)?.hold(Reason::CancelAsked);
            self.drop_asks(now, Some(sid), source, Some(&Reply::Cancel), By::Cancelled);
            self.wish(source, sid, Wish::Cancel { session: name });
        }
        self.settle(now, sid);
        Ok(runs.or(asks).is_some())
    }

    /// Ends it at its source: a turn is cancelled, what waits is over. The row stays; the next prompt opens it again.
    /// How many prompts were not sent.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn close(&mut self, now: Now, sid: Sid, why: &'static str) -> Result<usize, No> {
        self.session(sid)?;
        let dropped = self.drop_queue(sid, why);
        self.drop_words(now, sid, By::Cancelled);
        let session = self.session(sid)?;
        let (driver, link) = (session.driver(), session.link);
        let name = session.name.clone().unwrap_or_else(|| "".into());
        if let Some(turn) = &session.turn {
            let (id, source) = (turn.id, turn.source);
            self.drop_asks(now, Some(sid), source, Some(&Reply::Cancel), By::Cancelled);
            self.wish(source, sid, Wish::Cancel { session: name.clone() });
            self.end(now, sid, Outcome::Cancelled, Stand::new(Status::Cancelled, None), None, None);
            // It runs on there until the source says that it does not: nothing is sent meanwhile.
            let due = (link != Some(source)).then(|| self.confirm_by(now, sid));
            self.session(sid)?.stuck = Some(Stuck { source, turn: id, due, given_up: false });
        }
        if let Some(source) = driver {
            self.drop_asks(now, Some(sid), source, Some(&Reply::Cancel), By::Cancelled);
            if link.is_none() {
                // Refused by an agent that knows no end of a session; what is hosted for it ends all the same.
                self.wish(source, sid, Wish::Close { session: name });
            }
        }
        let session = self.session(sid)?;
        if link.is_none() {
            session.child = Child::None;
        }
        session.story.read(false);
        self.settle(now, sid);
        Ok(dropped)
    }

    /// Takes it out of the lists, and closes it first. How many prompts were not sent.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn archive(&mut self, now: Now, sid: Sid) -> Result<usize, No> {
        let dropped = self.close(now, sid, "archived")?;
        self.session(sid)?.archived = true;
        self.show(now, sid);
        Ok(dropped)
    }

    /// Puts it back, as it was.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn restore(&mut self, now: Now, sid: Sid) -> Result<(), No> {
        self.session(sid)?.archived = false;
        self.show(now, sid);
        Ok(())
    }

    /// Closes it, removes it at its source where that is offered, and forgets it. How many prompts were not sent.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn delete(&mut self, now: Now, sid: Sid) -> Result<usize, No> {
        let session = self.session(sid)?;
        let (source, can, name) = (session.child(), session.can(), session.name.clone());
        let dropped = self.close(now, sid, "deleted")?;
        if let (Some(source), Some(session), true) = (source, name, can.delete) {
            self.wish(source, sid, Wish::Delete { session });
        }
        self.forget(sid);
        Ok(dropped)
    }

    /// Forgets a session at which nothing is at work.
    pub fn forget(&mut self, sid: Sid) {
        let Some(session) = self.sessions.remove(&sid) else { return };
        if let Some(rows) = self.of.get_mut(&session.home.agent) {
            rows.sids.remove(&sid);
            if rows.sids.is_empty() {
                self.of.remove(&session.home.agent);
            }
        }
        if let Some(name) = session.name {
            self.names.remove(&(session.home.agent, name));
        }
        if let Some(due) = session.stuck.and_then(|stuck| stuck.due) {
            self.clocks.remove(&(due, sid));
        }
        for sids in self.at.values_mut() {
            sids.remove(&sid);
        }
        let prompts = session.last.map(|(turn, _)| turn).into_iter();
        for turn in prompts.chain(session.queue.iter().map(|queued| queued.turn)) {
            self.files.push_back(Kept::NoPrompt(sid, turn));
        }
        self.dirty.insert(sid);
        self.tell(sid, Fact::Changed);
    }

    /// Gives it another name; nothing but the user's own changes by that.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn label(&mut self, now: Now, sid: Sid, label: Option<String>) -> Result<(), No> {
        self.session(sid)?.label = label;
        self.show(now, sid);
        Ok(())
    }

    /// Says which model its next process begins with. What it has now is its source's to change.
    pub fn set_model(&mut self, sid: Sid, model: String) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.model = Some(model);
            self.dirty.insert(sid);
        }
    }

    /// Says what answers its permissions from here on. What is open stays open.
    ///
    /// # Errors
    ///
    /// There is no such session.
    pub fn set_policy(&mut self, now: Now, sid: Sid, policy: Policy) -> Result<(), No> {
        self.session(sid)?.policy = policy;
        self.show(now, sid);
        Ok(())
    }
}
