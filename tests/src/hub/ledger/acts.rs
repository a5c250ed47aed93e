//! What people, sources and clocks do.

use agentline_core::acp::update::ToolCallUpdate;
use agentline_core::acp::{ContentBlock, OptionKind, PermissionOption};
use agentline_core::hub::api::{By as Settler, Decision, Policy, Reason, Status};
use agentline_core::hub::book::{Answer, ApprovalId, No, Prompt, Sid, SourceId, Stand};
use agentline_core::session::{
    AskId, Asked, By, Can, Ended, Item, Moment, News, Outcome, Question, Settled, TurnId,
};

use super::{Ledger, Said};

impl Ledger<'_> {
    pub(super) fn act(&mut self) {
        match self.dice.below(32) {
            0..=5 => {
                let sid = self.sid();
                let times = if self.dice.once_in(40) { 17 } else { 1 };
                (0..times).for_each(|_| self.prompt(sid));
            }
            6 => self.add(),
            7 => self.arrive(),
            8 | 9 => self.opened(),
            10 | 11 => self.end_one(),
            12 => self.stray(),
            13..=15 => self.ask(),
            16 => self.stop(),
            17 | 18 => self.respond(),
            19 => self.withdraw(),
            20 => self.announce(),
            21 => self.settle_there(),
            22 => self.manage(),
            23 => self.retry(),
            24 => self.release(),
            25 if self.dice.once_in(3) => self.crash(),
            26 => self.policy(),
            27 => self.end_one(),
            28 => self.opened(),
            _ => self.tick(),
        }
    }

    fn sid(&mut self) -> Sid {
        let sids: Vec<Sid> = self.book.sessions().map(|(sid, _)| sid).collect();
        if sids.is_empty() { Sid(99) } else { *self.dice.pick(&sids) }
    }

    fn source(&mut self) -> Option<SourceId> {
        let alive: Vec<SourceId> = self.alive.iter().copied().collect();
        if alive.is_empty() { None } else { Some(*self.dice.pick(&alive)) }
    }

    fn add(&mut self) {
        if self.book.sessions().count() < 4 {
            let (now, home) = (self.now(), self.home());
            let sid = self.book.add(now, home);
            assert!(sid.0 > self.seen.sessions, "a handle is given twice");
            self.paper_of(sid);
            self.log.push(format!("add {sid}"));
        }
    }

    fn arrive(&mut self) {
        if self.alive.len() < 4 {
            self.sources += 1;
            self.alive.insert(SourceId(self.sources));
        }
    }

    fn can(&mut self) -> Can {
        let [prompt, cancel] = [0; 2].map(|_| !self.dice.once_in(8));
        Can {
            prompt,
            cancel,
            asks: true,
            close: self.dice.byte().is_multiple_of(2),
            delete: true,
            ..Can::default()
        }
    }

    fn prompt(&mut self, sid: Sid) {
        let now = self.now();
        self.log.push(format!("prompt {sid}"));
        let prompt = Prompt { words: vec![ContentBlock::text("x")], by: None, at: now.unix };
        let before = self.book.get(sid).map(|session| (session.queued().len(), session.held().is_some()));
        match self.book.prompt(now, sid, prompt) {
            Ok(taken) => {
                assert!(taken.turn.0 > self.seen.turns, "a number is given twice");
                self.accepted(sid, taken.turn);
                if before.is_some_and(|(_, held)| held) {
                    self.tally.count("released by a prompt");
                }
                let session = self.book.get(sid).expect("it took it");
                if taken.place > 0 && session.running().is_some() {
                    self.tally.count("queued behind a turn");
                }
                if taken.place > 0 && session.stuck_at().is_some() {
                    self.tally.count("stuck keeps prompts back");
                }
            }
            Err(No::Full) => {
                assert_eq!(before.map(|(queued, _)| queued), Some(16));
                self.tally.count("full");
            }
            Err(No::Archived) => {
                assert!(self.paper[&sid].archived);
                self.tally.count("archived refuses");
            }
            Err(No::Session) => assert!(before.is_none()),
            Err(No::Refused(_)) => assert!(!self.book.get(sid).expect("it said no").can().prompt),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn accepted(&mut self, sid: Sid, turn: TurnId) {
        self.prompts.insert(turn, Said { sid, begun: false, ended: None });
        self.fresh.insert(turn);
        self.paper_of(sid).held = false;
    }

    fn retry(&mut self) {
        let (sid, now) = (self.sid(), self.now());
        self.log.push(format!("retry {sid}"));
        let runs = self.paper.get(&sid).is_some_and(|paper| paper.running.is_some() || paper.wanted);
        match self.book.retry(now, sid) {
            Ok(taken) => {
                assert!(!runs, "retried while something runs");
                if let Some(taken) = taken {
                    self.accepted(sid, taken.turn);
                    self.tally.count("retried");
                }
            }
            Err(No::Running) => assert!(runs),
            Err(No::NothingToRetry) => self.tally.count("nothing to retry"),
            Err(No::Session | No::Archived | No::Full) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    fn stop(&mut self) {
        let (sid, now) = (self.sid(), self.now());
        self.log.push(format!("stop {sid}"));
        let asks = self.book.open_asks().any(|ask| ask.sid == Some(sid) && !ask.is_words());
        let Ok(stopped) = self.book.stop(now, sid) else { return };
        let asked = self.book.open_asks().any(|ask| ask.sid == Some(sid));
        assert!(!asked, "a question outlives a cancel");
        if !stopped {
            return;
        }
        let session = self.book.get(sid).expect("it was stopped");
        if self.paper[&sid].running.is_none() {
            assert!(asks, "stopped what does not run");
        } else {
            assert!(session.archived || session.status().1 == Some(Reason::CancelAsked));
        }
        let queued = session.queued().len() > 0;
        if session.link().is_some() && session.link() == session.turn_at() {
            self.tally.count("a link has no clock");
        }
        if queued {
            self.paper_of(sid).held = true;
            self.tally.count("held after a cancel");
        }
    }

    fn release(&mut self) {
        let (sid, now) = (self.sid(), self.now());
        self.log.push(format!("release {sid}"));
        let held = self.book.get(sid).is_some_and(|session| session.held().is_some());
        if self.book.release(now, sid).is_ok() {
            self.paper_of(sid).held = false;
            if held {
                self.tally.count("released by a person");
            }
        }
    }

    fn withdraw(&mut self) {
        let prompts: Vec<(TurnId, Sid)> = self.prompts.iter().map(|(turn, said)| (*turn, said.sid)).collect();
        let recent = prompts.len().saturating_sub(8);
        let Some(recent) = prompts.get(recent..).filter(|recent| !recent.is_empty()) else { return };
        let (turn, sid) = *self.dice.pick(recent);
        self.log.push(format!("withdraw {sid} {turn:?}"));
        let others = self.paper.get(&sid).and_then(|it| it.running).filter(|running| *running != turn);
        let over = self.prompts[&turn].ended.is_some();
        let now = self.now();
        if let Ok(true) = self.book.withdraw(now, sid, turn) {
            assert!(!over, "taken back after its end");
            let session = self.book.get(sid).expect("it is there");
            let runs = session.running().is_some_and(|(running, _)| running == turn);
            if runs {
                self.paper_of(sid).held |= self.book.get(sid).is_some_and(|it| it.held().is_some());
            }
            self.tally.count(if runs { "withdrawn while it runs" } else { "withdrawn while it waits" });
        }
        let runs = self.book.get(sid).and_then(|session| session.running()).map(|(turn, _)| turn);
        assert!(others.is_none_or(|other| runs == Some(other)), "another's turn was ended");
        self.relax(sid);
    }

    /// A queue that is empty is held no more.
    fn relax(&mut self, sid: Sid) {
        if self.book.get(sid).is_some_and(|session| session.queued().len() == 0) {
            self.paper_of(sid).held = false;
        }
    }

    fn manage(&mut self) {
        let (sid, now) = (self.sid(), self.now());
        let what = self.dice.below(8);
        self.log.push(format!("manage {sid} {what}"));
        let held = self.book.get(sid).is_some_and(|session| session.queued().len() > 0);
        let done = match what {
            0 | 1 => self.book.close(now, sid, "closed").map(drop),
            2 => self.book.archive(now, sid).map(drop),
            3 => self.book.delete(now, sid).map(drop),
            4 => self.book.withdraw_all(now, sid).map(drop),
            5 => self.book.open(now, sid).map(drop),
            _ => self.book.restore(now, sid),
        };
        if done.is_err() || self.book.get(sid).is_none() {
            return;
        }
        if held && what < 3 {
            self.tally.count("closed with prompts");
        }
        let paper = self.paper_of(sid);
        match what {
            0 | 1 => paper.wanted = false,
            2 => (paper.wanted, paper.archived) = (false, true),
            6.. => paper.archived = false,
            _ => {}
        }
        self.relax(sid);
    }

    fn policy(&mut self) {
        let (sid, now) = (self.sid(), self.now());
        let policy = *self.dice.pick(&[Policy::Ask, Policy::Allow, Policy::Reject]);
        let _ = self.book.set_policy(now, sid, policy);
    }

    fn opened(&mut self) {
        let wants: Vec<Sid> = self.opens.iter().copied().collect();
        if wants.is_empty() {
            return;
        }
        let (sid, now) = (*self.dice.pick(&wants), self.now());
        self.opens.remove(&sid);
        self.paper_of(sid).wanted = false;
        match self.source().filter(|source| !self.links.contains(source)) {
            Some(source) if !self.dice.once_in(6) => {
                self.log.push(format!("opened {sid} {source:?}"));
                self.children.insert(source);
                let can = self.can();
                let name = format!("n{sid}");
                if !self.book.opened(now, sid, source, (*name).into(), can) {
                    self.tally.count("opened too late");
                }
            }
            _ => self.fails_to_open(sid),
        }
    }

    fn fails_to_open(&mut self, sid: Sid) {
        self.log.push(format!("not opened {sid}"));
        let Some(session) = self.book.get(sid) else { return };
        let (wanted, queued) = (session.is_wanted(), session.queued().len());
        let now = self.now();
        self.book.not_opened(now, sid, Stand::new(Status::Error, Some(Reason::StartFailed)));
        if wanted {
            let held = self.paper_of(sid).held;
            self.paper_of(sid).held = queued > 1 || (held && queued > 0);
            self.paper_of(sid).stand = Status::Error;
            if queued > 0 {
                self.tally.count("the wanted start fails");
            }
            if queued > 1 {
                self.tally.count("held after a failed start");
            }
        }
    }

    fn announce(&mut self) {
        let (Some(source), sid, can, now) = (self.source(), self.sid(), self.can(), self.now()) else {
            return;
        };
        if self.book.get(sid).is_none() {
            return;
        }
        // What is a child stays one.
        if self.children.contains(&source) {
            return;
        }
        self.links.insert(source);
        let (busy, wanted) =
            (self.paper_of(sid).running.is_some(), self.book.get(sid).is_some_and(|it| it.is_wanted()));
        let queued = self.book.get(sid).map_or(0, |session| session.queued().len());
        self.log.push(format!("announce {sid} {source:?}"));
        let name = format!("n{sid}");
        if self.book.announce(now, sid, source, (*name).into(), can) {
            assert!(!busy || self.book.get(sid).and_then(|it| it.link()) == Some(source));
            self.tally.count("a link takes an idle session");
            if wanted {
                // Whoever opens it is too late.
                self.paper_of(sid).wanted = false;
            }
            if queued > 0 && !can.prompt {
                self.tally.count("a link without prompts");
                self.relax(sid);
            }
        } else if busy {
            self.tally.count("nobody is robbed");
        }
    }

    fn news(&mut self, sid: Sid, source: SourceId, news: News) {
        let now = self.now();
        self.log.push(format!("{sid} {source:?} {news:?}"));
        let item = Item { session: "n".into(), moment: Moment::Turn, news, raw: None };
        if !self.book.news(now, sid, source, &item) {
            self.tally.count("words of a stranger");
        }
    }

    /// A source finishes what it works on.
    fn end_one(&mut self) {
        let works: Vec<_> = self.at_source.iter().map(|(at, turn)| (*at, *turn)).collect();
        if works.is_empty() {
            return;
        }
        let ((source, sid), turn) = *self.dice.pick(&works);
        let how =
            *self.dice.pick(&[Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Refused]);
        self.end(sid, source, Some(turn), how);
    }

    fn end(&mut self, sid: Sid, source: SourceId, turn: Option<TurnId>, how: Outcome) {
        self.at_source.remove(&(source, sid));
        let stuck = self.book.get(sid).is_some_and(|session| session.stuck_at() == Some(source));
        let cancelled = self.book.get(sid).is_some_and(|it| it.status().1 == Some(Reason::CancelAsked));
        let ended = Ended { turn, how, word: None, trouble: None, spent: None, meta: None };
        self.news(sid, source, News::Ended(Box::new(ended)));
        let free = self.book.get(sid).is_some_and(|session| session.stuck_at().is_none());
        if stuck && free {
            self.tally.count("a late end frees");
        }
        if cancelled {
            self.tally.count("a cancel is confirmed");
        }
    }

    /// From the agent's side, true or not.
    fn stray(&mut self) {
        let (Some(source), sid) = (self.source(), self.sid()) else { return };
        if self.at_source.contains_key(&(source, sid)) {
            return;
        }
        if self.dice.byte().is_multiple_of(2) {
            let idle = self.paper.get(&sid).is_some_and(|paper| paper.running.is_none());
            self.news(sid, source, News::Began(By::There));
            if idle && self.book.get(sid).is_some_and(|it| it.running().is_some()) {
                self.tally.count("a terminal's turn");
            }
        } else {
            let turn = self.paper.get(&sid).and_then(|paper| paper.running);
            let ours = turn.is_some_and(|turn| self.prompts.contains_key(&turn));
            // A source that has no prompt of ours ends no turn of ours.
            let turn = if ours { Some(TurnId(1 << 40)) } else { None };
            self.end(sid, source, turn, Outcome::Completed);
        }
    }

    fn ask(&mut self) {
        let (Some(source), sid, now) = (self.source(), self.sid(), self.now()) else { return };
        self.asks += 1;
        let ask = AskId(self.asks);
        let option = |id: &str, kind| PermissionOption { option_id: id.into(), name: id.into(), kind };
        let options = match self.dice.below(4) {
            0 => vec![],
            1 => vec![option("for ever", OptionKind::AllowAlways)],
            _ => vec![
                option("no", OptionKind::RejectOnce),
                option("for ever", OptionKind::AllowAlways),
                option("yes", OptionKind::AllowOnce),
            ],
        };
        let tool_call_id = if self.dice.once_in(3) { "same".to_owned() } else { format!("c{}", self.asks) };
        let call = ToolCallUpdate { tool_call_id, ..ToolCallUpdate::default() };
        let question = match self.dice.below(8) {
            0 => Question::Words { text: "?".into(), candidates: vec![] },
            1 => Question::Form { text: "?".into(), schema: None },
            _ => Question::Permission { call, options, why: None, meta: None },
        };
        let asked = Asked { ask, question, of: None, expires: None };
        self.log.push(format!("asked {sid} {source:?} {asked:?}"));
        self.waiting.insert((source, ask));
        if self.dice.once_in(12) {
            let works = self.at_source.keys().any(|(of, _)| *of == source);
            self.book.ask_beside(now, source, "one".into(), asked);
            if !works {
                self.tally.count("an answer nobody waits for");
            }
            return;
        }
        let policy = self.book.get(sid).map(|session| session.policy);
        let item =
            Item { session: "n".into(), moment: Moment::Turn, news: News::Asked(Box::new(asked)), raw: None };
        if !self.book.news(now, sid, source, &item) {
            self.tally.count("words of a stranger");
        } else if policy == Some(Policy::Allow) && self.book.get(sid).is_some_and(|it| it.questions() > 0) {
            self.tally.count("a policy is narrower");
        }
    }

    fn settle_there(&mut self) {
        let waiting: Vec<_> = self.waiting.iter().copied().collect();
        if waiting.is_empty() {
            return;
        }
        let (source, ask) = *self.dice.pick(&waiting);
        let of = self.book.open_asks().find(|open| open.asked.ask == ask).and_then(|open| open.sid);
        let Some(sid) = of else { return };
        self.waiting.remove(&(source, ask));
        let how = *self.dice.pick(&[Settled::Elsewhere, Settled::Withdrawn, Settled::Expired]);
        self.news(sid, source, News::Settled(ask, how));
    }

    fn respond(&mut self) {
        let open: Vec<ApprovalId> = self.book.open_asks().map(|ask| ask.id).collect();
        let id = if open.is_empty() || self.dice.once_in(3) {
            ApprovalId(u32::try_from(self.dice.below(self.seen.approvals as usize + 80)).unwrap_or(0))
        } else {
            *self.dice.pick(&open)
        };
        let now = self.now();
        let answer = match self.dice.below(5) {
            0 => Answer::Decision(Decision::Allow),
            1 => Answer::Decision(Decision::Deny),
            2 => Answer::Option("yes".into()),
            3 => Answer::Option("never offered".into()),
            _ => Answer::Content(agentline_core::rpc::Json::new(&serde_json::json!({}))),
        };
        self.log.push(format!("respond {id} {answer:?}"));
        let known = self.questions.get(&id).map(|asked| asked.settled.is_none());
        match self.book.respond(now, id, &answer, None) {
            Ok(()) => assert_eq!(known, Some(true)),
            Err(No::Answered(by)) => {
                assert_ne!(known, Some(true));
                if let Some(asked) = self.questions.get(&id) {
                    assert!(asked.settled == Some(by) || by == Settler::Gone, "another end than was told");
                }
                self.tally.count("already answered");
            }
            Err(No::Question) => {
                assert_eq!(known, None);
                self.tally.count("never asked");
            }
            Err(No::NotOffered) => {
                assert_eq!(known, Some(true));
                self.tally.count("not offered");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn crash(&mut self) {
        if let Some(source) = self.source() {
            let is_link = self.links.contains(&source);
            self.down(source, Some(if is_link { Reason::LinkLost } else { Reason::AgentExited }));
        }
    }

    pub(super) fn down(&mut self, source: SourceId, reason: Option<Reason>) {
        self.log.push(format!("down {source:?}"));
        self.alive.remove(&source);
        self.waiting.retain(|(of, _)| *of != source);
        let now = self.now();
        self.book.down(now, source, &Stand::new(Status::Error, reason));
        let sids: Vec<Sid> = self.book.sessions().map(|(sid, _)| sid).collect();
        self.drain(usize::MAX);
        for sid in sids {
            if self.book.get(sid).is_some_and(|session| session.held().is_some()) {
                self.paper_of(sid).held = true;
            }
        }
        self.at_source.retain(|(of, _), _| *of != source);
        self.links.remove(&source);
    }

    fn tick(&mut self) {
        self.log.push("tick".to_owned());
        let before: Vec<(Sid, bool)> =
            self.book.sessions().map(|(sid, session)| (sid, session.stuck_at().is_some())).collect();
        let now = self.now();
        self.book.tick(now);
        for (sid, stuck) in before {
            let Some(session) = self.book.get(sid) else { continue };
            if !stuck && session.stuck_at().is_some() {
                self.tally.count("a cancel is given up");
            }
            if session.held() == Some(Reason::AgentBusy) {
                self.paper_of(sid).held = true;
                self.tally.count("held by an agent that is busy");
            }
        }
    }
}
