//! One run, step by step: what is asked at each moment, and what comes in each order.

use std::time::Duration;

use agentline_core::acp::{ContentBlock, SessionSetup, client};
use agentline_core::conversation::Config as Talk;
use agentline_core::link::Rung;
use agentline_core::problem::{AgentExit, Clock, Failed, Foreign, Kind, Phase, RootCause};
use agentline_core::subagent::{Command, Config, Event, Finished, Outcome, Policy, Run};
use agentline_core::{
    Action, Exit, Group, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Refused, SpawnSpec,
};
use agentline_tests::Checked;

use crate::rig::{finished, watched};

/// A run and whoever feeds it.
pub(crate) struct Hand {
    run: Checked<Run>,
    now: Now,
    pub(crate) events: Vec<Event>,
    pub(crate) wrote: String,
    pub(crate) over: bool,
}

pub(crate) fn talk() -> Talk {
    let spec = SpawnSpec { program: "/bin/agent".into(), args: vec!["--acp".into()], ..SpawnSpec::default() };
    Talk::new(client::Config::new(Open::spawn(spec)), SessionSetup::in_directory("/w"))
}

/// A run of that conversation.
pub(crate) fn of(conversation: Talk) -> Config {
    Config::new(conversation, vec![ContentBlock::text("do it")])
}

pub(crate) fn config() -> Config {
    of(talk())
}

impl Hand {
    pub(crate) fn new(config: Config) -> Self {
        let now = Now::default();
        let run = watched(now, config);
        let mut hand = Self { run, now, events: Vec::new(), wrote: String::new(), over: false };
        hand.drain();
        hand
    }

    /// A run whose child is up and has answered with these lines.
    pub(crate) fn after(config: Config, lines: &[&str]) -> Self {
        let mut hand = Self::new(config);
        hand.hear(Heard::Opened(Peer::default()));
        lines.iter().for_each(|line| hand.line(line));
        hand
    }

    pub(crate) fn hear(&mut self, heard: Heard<'_>) {
        self.run.handle(self.now, Input::Link(LinkId::FIRST, heard));
        self.drain();
    }

    fn hold(&mut self, hold: bool) {
        self.run.handle(self.now, Input::Hold(hold));
        self.drain();
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.hear(Heard::Bytes(format!("{}\n", line.replace('\n', " ")).as_bytes()));
        if line.contains("stopReason") {
            // Until nothing more can belong to the turn.
            self.wait(DRAIN);
        }
    }

    /// A line, and no time passes.
    fn line_at_once(&mut self, line: &str) {
        self.hear(Heard::Bytes(format!("{}\n", line.replace('\n', " ")).as_bytes()));
    }

    pub(crate) fn command(&mut self, command: Command) -> Result<(), Refused> {
        let done = self.run.command(self.now, command);
        self.drain();
        done
    }

    /// Lets time pass, with a tick for each deadline.
    pub(crate) fn wait(&mut self, span: Duration) {
        let until = self.now.mono + span;
        while let Some((at, _)) = self.run.deadline().filter(|(at, _)| *at <= until) {
            self.now.mono = at;
            self.run.handle(self.now, Input::Tick);
            self.drain();
        }
        self.now.mono = until;
    }

    /// The child goes, by itself.
    pub(crate) fn gone(&mut self, exit: Exit) {
        self.hear(Heard::Exited(exit));
        self.hear(Heard::Eof);
        self.hear(Heard::Group(Group::Gone));
    }

    fn drain(&mut self) {
        while let Some(output) = self.run.poll() {
            match output {
                Output::Do(_, Action::Write(bytes)) => {
                    self.wrote += &String::from_utf8(bytes).expect("text");
                    self.run.handle(self.now, Input::Link(LinkId::FIRST, Heard::Written));
                }
                Output::Do(..) | Output::Store(..) => {}
                Output::Tell(event) => self.events.push(event),
                Output::End => self.over = true,
            }
        }
    }

    pub(crate) fn finished(&self) -> Option<&Finished> {
        self.events.iter().find_map(finished)
    }

    pub(crate) fn failed(&self) -> &Failed {
        self.finished().and_then(|finished| finished.error.as_ref()).expect("a failure")
    }
}

/// How long words may come behind the end of their turn.
const DRAIN: Duration = Duration::from_millis(10);
pub(crate) const GREETING: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"authMethods":[
    {"id":"a","name":"Web login"},{"id":"t","name":"Terminal login","type":"terminal","args":["login","--now"]}]}}"#;
pub(crate) const SESSION: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
pub(crate) const CHUNK: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
    {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"so far"}}}}"#;
pub(crate) const PERMISSION: &str = r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s",
    "toolCall":{"toolCallId":"t"},"options":[{"optionId":"n","name":"No","kind":"reject_once"}]}}"#;
pub(crate) const END: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;

#[test]
fn cancelled_at_any_moment_a_run_ends_once_and_as_cancelled_unless_it_was_over() {
    let dialogue = [GREETING, SESSION, CHUNK, PERMISSION, CHUNK, END];
    for command in [Command::Cancel, Command::Dispose, Command::Hasten] {
        for policy in [Policy::Reject, Policy::Ask] {
            for moment in 0..=dialogue.len() + 4 {
                for times in 1..=3 {
                    let mut hand = Hand::new(of(Talk { policy, ..talk() }));
                    let mut told = None;
                    let mut step = 0;
                    let mut ask = |hand: &mut Hand| {
                        if step == moment {
                            let over = hand.finished().cloned();
                            for _ in 0..times {
                                let done = hand.command(command.clone());
                                let may_fail = hand.finished().is_some() && command != Command::Dispose;
                                assert!(done.is_ok() || may_fail, "{moment}: {done:?}");
                            }
                            told = Some(over);
                        }
                        step += 1;
                    };
                    ask(&mut hand);
                    hand.hear(Heard::Opened(Peer::default()));
                    ask(&mut hand);
                    for text in dialogue {
                        hand.line(text);
                        ask(&mut hand);
                    }
                    hand.wait(Duration::from_secs(10));
                    hand.gone(Exit::Code(0));
                    ask(&mut hand);
                    hand.wait(Duration::from_secs(60));
                    ask(&mut hand);
                    ask(&mut hand);
                    assert!(hand.over, "{moment}");
                    let finished = hand.finished().expect("a result");
                    match told.expect("a moment") {
                        Some(before) => assert_eq!(*finished, before),
                        None => assert_eq!(finished.outcome, Outcome::Aborted, "{moment}"),
                    }
                }
            }
        }
    }
}

#[test]
fn what_comes_after_the_end_is_ignored() {
    let mut hand = Hand::after(config(), &[GREETING, SESSION, END]);
    hand.gone(Exit::Code(0));
    assert!(hand.over);
    let told = hand.events.len();
    hand.hear(Heard::Opened(Peer::default()));
    hand.line(CHUNK);
    hand.gone(Exit::Code(0));
    assert_eq!(hand.command(Command::Cancel), Err(Refused::Closed));
    assert_eq!(hand.command(Command::Dispose), Ok(()));
    assert_eq!(hand.events.len(), told);
}

#[test]
fn a_cancel_is_sent_once_and_the_agents_word_is_waited_for() {
    let mut hand = Hand::after(config(), &[GREETING, SESSION, CHUNK]);
    hand.command(Command::Cancel).unwrap();
    assert_eq!(hand.wrote.matches("session/cancel").count(), 1);
    assert!(hand.finished().is_none());
    hand.line(END);
    let finished = hand.finished().expect("a result");
    assert_eq!((finished.outcome, finished.stop_reason.as_deref()), (Outcome::Aborted, Some("end_turn")));
    assert_eq!(hand.wrote.matches("session/cancel").count(), 1);
}

#[test]
fn an_answer_counts_for_more_than_the_exit_after_it() {
    let refusal = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"who are you\"}}\n";
    let (bytes, exit) = (Heard::Bytes(refusal.as_bytes()), Heard::Exited(Exit::Code(42)));
    for order in [[bytes, exit, Heard::Eof], [bytes, Heard::Eof, exit], [exit, bytes, Heard::Eof]] {
        let mut hand = Hand::after(config(), &[GREETING]);
        order.into_iter().for_each(|heard| hand.hear(heard));
        hand.hear(Heard::Group(Group::Gone));
        let failed = hand.failed();
        assert_eq!(failed.phase, Phase::Session, "{order:?}");
        let RootCause::NeedsLogin { error, methods } = &failed.cause else { panic!("{failed:?}") };
        assert_eq!((&*error.message, methods.len()), ("who are you", 2));
    }
}

#[test]
fn a_crash_is_named_whether_its_end_of_output_or_its_exit_comes_first() {
    let exit = Heard::Exited(Exit::Signal(11));
    for order in [[exit, Heard::Eof], [Heard::Eof, exit]] {
        let mut hand = Hand::after(config(), &[GREETING, SESSION, CHUNK]);
        hand.hear(Heard::Stderr(b"Segmentation fault\n"));
        order.into_iter().for_each(|heard| hand.hear(heard));
        hand.hear(Heard::Group(Group::Gone));
        let (finished, failed) = (hand.finished().unwrap(), hand.failed());
        assert_eq!((finished.outcome, &*finished.output), (Outcome::Error, "so far"));
        assert_eq!((failed.kind(), failed.phase), (Kind::Signalled, Phase::Prompt), "{order:?}");
        assert_eq!(failed.agent_exit, Some(AgentExit::Signal(11)));
        assert_eq!(failed.stderr_tail.as_deref(), Some("Segmentation fault"));
    }
}

#[test]
fn c6_an_exit_before_our_signals_is_the_cause_though_they_came_before_the_end() {
    let mut hand = Hand::after(config(), &[GREETING, SESSION]);
    hand.wait(Duration::from_secs(7));
    hand.hear(Heard::Eof);
    hand.hear(Heard::Exited(Exit::Code(3)));
    hand.hear(Heard::Group(Group::Alive));
    // What it left behind is told to end, and does.
    hand.wait(Duration::from_secs(20));
    hand.hear(Heard::Group(Group::Gone));
    hand.wait(Duration::from_secs(20));
    let failed = hand.failed();
    assert_eq!(failed.cause, RootCause::Gone(Some(Exit::Code(3))), "{failed:?}");
    assert_eq!((failed.agent_exit, failed.lived), (Some(AgentExit::Code(3)), Some(Duration::from_secs(7))));
}

#[test]
fn c13_words_that_the_end_of_the_turn_has_overtaken_belong_to_it() {
    let tool = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}}}"#;
    let early = || {
        let mut hand = Hand::after(config(), &[GREETING, SESSION, CHUNK]);
        hand.line_at_once(END);
        assert!(hand.finished().is_none());
        hand
    };
    let moment = |event: &Event| {
        if let Event::Text(text) = event {
            Some(text.moment)
        } else if let Event::Updated(updated) = event {
            Some(updated.moment)
        } else {
            None
        }
    };
    let is_of_the_turn =
        |hand: &Hand| hand.events.iter().filter_map(moment).all(|moment| moment == client::Moment::Turn);
    let mut hand = early();
    hand.wait(DRAIN / 2);
    hand.line(CHUNK);
    hand.line(tool);
    hand.wait(DRAIN / 2);
    assert_eq!(hand.finished().expect("a result").output, "so farso far");
    assert!(is_of_the_turn(&hand), "{:?}", hand.events);
    // Then it is told, and the agent is left.
    assert!(matches!(hand.events.last(), Some(Event::Finished(_))), "{:?}", hand.events);
    hand.line(CHUNK);
    assert_eq!(hand.finished().expect("a result").output, "so farso far");
    // An agent that is gone is not waited for, and neither is one that we end.
    let mut hand = early();
    hand.hear(Heard::Eof);
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Completed);
    for command in [Command::Cancel, Command::Dispose, Command::Hasten] {
        let mut hand = early();
        hand.line(CHUNK);
        hand.command(command).unwrap();
        let finished = hand.finished().expect("a result");
        assert_eq!((finished.outcome, &*finished.output), (Outcome::Aborted, "so farso far"));
    }
}

#[test]
fn c9_where_one_message_ends_messages_between_other_things_are_set_off_from_each_other() {
    let tool = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":
        {"sessionUpdate":"tool_call","toolCallId":"t","title":"look"}}}"#;
    let thought = CHUNK.replace("agent_message_chunk", "agent_thought_chunk");
    let hand = Hand::after(config(), &[GREETING, SESSION, CHUNK, CHUNK, tool, CHUNK, &thought, CHUNK, END]);
    let finished = hand.finished().expect("a result");
    assert_eq!(finished.output, "so farso far\nso far\nso far");
    assert_eq!(finished.messages().collect::<Vec<_>>(), ["so farso far", "so far", "so far"]);
}

#[test]
fn c14_an_agent_that_calls_it_cancelled_when_it_may_not_go_on_was_refused() {
    let cancelled = END.replace("end_turn", "cancelled");
    let lines = [GREETING, SESSION, PERMISSION, &cancelled];
    let hand = Hand::after(config(), &lines);
    let finished = hand.finished().expect("a result");
    assert_eq!((finished.outcome, finished.stop_reason.as_deref()), (Outcome::Rejected, Some("cancelled")));
    assert_eq!(finished.decisions.rejected + finished.decisions.cancelled, 1);

    let mut hand = Hand::after(config(), &lines[..3]);
    hand.command(Command::Cancel).unwrap();
    hand.line(&cancelled);
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Aborted);

    let hand = Hand::after(config(), &[GREETING, SESSION, &cancelled]);
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Aborted);
}

#[test]
fn c6_an_agent_that_sends_back_what_it_gets_is_recognised() {
    for noise in ["", "ready\n"] {
        let mut hand = Hand::after(config(), &[]);
        let echo = format!("{noise}{}", hand.wrote);
        hand.hear(Heard::Bytes(echo.as_bytes()));
        hand.gone(Exit::Code(0));
        let failed = hand.failed();
        assert_eq!((failed.phase, &failed.cause), (Phase::Initialize, &RootCause::NotAcp(Foreign::Echo)));
        assert_eq!(hand.wrote.lines().count(), 1, "an answer would come back as well: {}", hand.wrote);
    }
}

#[test]
fn an_end_that_we_brought_about_is_not_called_a_crash() {
    let mut hand = Hand::after(config(), &[GREETING, SESSION]);
    hand.hear(Heard::Eof);
    hand.wait(Duration::from_secs(3));
    hand.gone(Exit::Signal(15));
    let failed = hand.failed();
    assert_eq!(
        (&failed.cause, failed.phase, failed.agent_exit),
        (&RootCause::Gone(None), Phase::Prompt, None)
    );
    let Some(Event::Closed(closed)) = hand.events.last() else { panic!("no last word") };
    assert_eq!(closed.obituary.rung, Rung::Term);
}

#[test]
fn the_clock_of_the_whole_run_ends_it_and_does_not_overtake_a_failure() {
    let timed = Config { timeout: Some(Duration::from_secs(20)), ..config() };
    let mut hand = Hand::after(timed.clone(), &[GREETING, SESSION, CHUNK]);
    hand.wait(Duration::from_secs(21));
    let (finished, failed) = (hand.finished().expect("a result"), hand.failed());
    assert_eq!(
        (finished.outcome, &*finished.output, failed.kind()),
        (Outcome::Error, "so far", Kind::Timeout)
    );

    // The child lingers beyond the clock; what it did before is what counts.
    let mut hand = Hand::after(timed, &[GREETING]);
    hand.wait(Duration::from_secs(19));
    hand.line(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#);
    hand.wait(Duration::from_secs(60));
    assert_eq!((hand.failed().kind(), hand.failed().phase), (Kind::Rpc, Phase::Session));
}

#[test]
fn while_nobody_takes_its_events_only_the_clock_of_the_whole_run_goes_on() {
    let mut timed = Config { timeout: Some(Duration::from_secs(20)), ..config() };
    timed.conversation.client.timeouts.silence = Some(Duration::from_secs(5));
    let mut hand = Hand::after(timed, &[GREETING, SESSION]);
    hand.hold(true);
    hand.wait(Duration::from_secs(19));
    assert!(hand.finished().is_none());
    hand.wait(Duration::from_secs(1));
    let after = Duration::from_secs(20);
    assert_eq!(hand.failed().cause, RootCause::TimedOut { clock: Clock::Run, after, saw: None });
}

#[test]
fn the_first_reason_to_end_a_run_counts() {
    let timed = Config { timeout: Some(Duration::from_secs(5)), ..config() };
    let mut hand = Hand::after(timed, &[]);
    hand.command(Command::Cancel).unwrap();
    hand.wait(Duration::from_secs(30));
    hand.gone(Exit::Signal(9));
    assert_eq!(hand.finished().expect("a result").outcome, Outcome::Aborted);
}

#[test]
fn a_turn_that_lasts_too_long_is_cancelled_once() {
    for cancelled in [false, true] {
        let mut config = config();
        config.conversation.client.timeouts.turn = Some(Duration::from_secs(20));
        config.conversation.client.timeouts.cancel = None;
        let mut hand = Hand::after(config, &[GREETING, SESSION]);
        hand.wait(Duration::from_secs(19));
        if cancelled {
            hand.command(Command::Cancel).unwrap();
        }
        assert!(hand.finished().is_none());
        hand.wait(Duration::from_secs(1));
        assert_eq!(hand.finished().expect("a result").outcome == Outcome::Aborted, cancelled);
        assert_eq!(hand.wrote.matches("session/cancel").count(), 1);
    }
}

#[test]
fn an_answer_longer_than_the_limit_keeps_its_beginning() {
    let mut hand = Hand::after(of(Talk { output: 8, ..talk() }), &[GREETING, SESSION]);
    let chunk = CHUNK.replace("so far", "a中b");
    hand.line(&chunk);
    hand.line(&chunk);
    hand.line(END);
    let finished = hand.finished().expect("a result");
    assert_eq!((&*finished.output, finished.output_truncated), ("a中ba", true));
}
