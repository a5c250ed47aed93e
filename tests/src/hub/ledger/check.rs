//! What holds after each step.

use std::collections::{BTreeMap, BTreeSet};

use agentline_core::hub::api::Status;
use agentline_core::hub::book::{ApprovalId, QUEUE, Session, Sid};
use agentline_core::session::TurnId;

use super::Ledger;

impl Ledger<'_> {
    pub(super) fn check(&mut self) {
        let mut open = BTreeMap::<Sid, BTreeSet<TurnId>>::new();
        for (turn, said) in self.prompts.iter().filter(|(_, said)| said.ended.is_none()) {
            open.entry(said.sid).or_default().insert(*turn);
        }
        for (sid, session) in self.book.sessions() {
            let mut known: BTreeSet<TurnId> = session.queued().map(|(turn, _)| turn).collect();
            let queued = known.len();
            known.extend(session.running().and_then(|(turn, prompt)| prompt.map(|_| turn)));
            assert_eq!(open.remove(&sid).unwrap_or_default(), known, "{sid}: a prompt is lost");
            assert!(queued <= QUEUE);
            self.check_owner(sid, session);
            self.check_status(sid, session);
            self.check_flow(sid, session);
            self.check_record(sid, session);
        }
        assert!(open.is_empty(), "lost with its session: {open:?}");
        let listed: BTreeSet<ApprovalId> = self.book.open_asks().map(|ask| ask.id).collect();
        let asked = self.questions.iter().filter(|(_, asked)| asked.settled.is_none());
        assert_eq!(listed, asked.map(|(id, _)| *id).collect());
        assert!(self.counters.sessions >= self.seen.sessions);
        assert!(self.counters.approvals >= self.seen.approvals);
        assert!(self.counters.turns >= self.seen.turns);
        self.count_words();
    }

    fn check_owner(&self, sid: Sid, session: &Session) {
        assert!(
            session.link().is_none() || session.child().is_none(),
            "{sid}: a link's session is in a child too"
        );
        for at in [session.stuck_at(), session.turn_at()].into_iter().flatten() {
            assert!(self.alive.contains(&at), "{sid}: at work in a dead source");
            assert!(session.link().is_none_or(|link| link == at), "{sid}: taken from whoever is at work");
        }
        assert!(
            session.driver().is_none_or(|driver| self.alive.contains(&driver)),
            "{sid}: driven by the dead"
        );
    }

    /// The status is what readers were told, and nothing else.
    fn check_status(&self, sid: Sid, session: &Session) {
        let paper = &self.paper[&sid];
        assert_eq!(session.running().map(|(turn, _)| turn), paper.running, "{sid}");
        let asks = self.questions.values().any(|asked| asked.sid == Some(sid) && asked.settled.is_none());
        let expected = match () {
            () if paper.archived => Status::Archived,
            () if asks => Status::WaitingApproval,
            () if paper.running.is_some() => Status::Running,
            () if paper.wanted => Status::Connecting,
            () => paper.stand,
        };
        assert_eq!(session.status().0, expected, "{sid}: {paper:?}");
        assert_eq!(session.held().is_some(), paper.held && session.queued().len() > 0, "{sid}: {paper:?}");
    }

    /// What may go has gone.
    fn check_flow(&self, sid: Sid, session: &Session) {
        let stuck = session.stuck_at().is_some();
        let mut open =
            self.questions.values().filter(|asked| asked.sid == Some(sid) && asked.settled.is_none());
        let blocked = session.running().is_some()
            || session.held().is_some()
            || stuck
            || session.is_wanted()
            || open.clone().any(|asked| !asked.words);
        let words = open.find(|asked| asked.words).map(|asked| asked.after);
        let may_go = |turn: TurnId| words.is_none_or(|after| turn > after);
        let waits = session.queued().any(|(turn, _)| may_go(turn));
        // A prompt that is tried again is no answer, however new its number is.
        let retried = words.is_some();
        assert!(blocked || retried || !waits, "{sid}: stalls");
    }

    /// The disk knows what runs and what waits.
    fn check_record(&self, sid: Sid, session: &Session) {
        let record = self.records.get(&sid).expect("a record");
        let runs = session.running().is_some() || session.stuck_at().is_some();
        assert_eq!(record.stand.status == Status::Running, runs, "{sid}");
        assert_eq!((record.archived, &record.agent_session_id), (session.archived, &session.name), "{sid}");
        let kept: BTreeSet<TurnId> =
            self.files.keys().filter(|(of, _)| *of == sid).map(|(_, turn)| *turn).collect();
        let mut needed: BTreeSet<TurnId> = session.queued().map(|(turn, _)| turn).collect();
        needed.extend(record.last);
        assert_eq!(kept, needed, "{sid}: the prompts on disk");
    }

    pub(super) fn check_disk(&self) {
        for (_, sid) in self.at_source.keys() {
            let Some(record) = self.records.get(sid) else { continue };
            let runs = self.paper.get(sid).is_some_and(|paper| paper.running.is_some());
            assert!(
                !runs || record.stand.status == Status::Running,
                "{sid}: it runs, and its record does not say so"
            );
        }
    }

    fn count_words(&mut self) {
        let waits = self.book.sessions().any(|(sid, session)| {
            let words = self.paper.get(&sid).and_then(|paper| paper.words);
            words.is_some_and(|words| session.queued().any(|(turn, _)| turn <= self.questions[&words].after))
        });
        if waits {
            self.tally.count("words are for later prompts only");
        }
    }
}
