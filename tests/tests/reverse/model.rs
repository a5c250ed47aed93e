//! Both sides against models of a page each: what is told, said and refused at every moment.

use std::mem::take;

use agentline_core::acp::{PermissionOutcome, RequestKey, StopReason};
use agentline_core::reverse::acceptor::Command;
use agentline_core::reverse::agent;
use agentline_core::rpc::RpcError;
use agentline_core::{Refused, Tag};
use agentline_tests::{Dice, dice};
use quickcheck::quickcheck;

use super::agent::{Looking as _, ask, end, prompt as hub_prompt, say, shown, start};
use super::{Looking as _, chunk, key, link, prompt, question, resolved, turn};

/// One session at a hub, as the module's page has it.
#[derive(Debug, Default)]
struct Hub {
    turn: Option<Turn>,
    /// An `ended` that is still to come for a turn that its answer ended: surely, or perhaps.
    due: Option<bool>,
    /// The id and the call of the question that is open.
    question: Option<(u32, String)>,
    resolved: Option<String>,
    told: Vec<String>,
    wrote: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Turn {
    Theirs,
    Ours { tag: u64, number: u64, started: bool },
}

impl Hub {
    fn settle(&mut self, why: &str, answer: &str) {
        if let Some((id, _)) = self.question.take() {
            self.told.push(format!("settled {why}"));
            self.wrote.push(format!("{id} {answer}"));
        }
    }

    fn begin(&mut self, turn: Turn) {
        self.settle("TurnOver", "error -32001");
        self.resolved = None;
        self.turn = Some(turn);
        self.told.push(match turn {
            Turn::Theirs => "started there".to_owned(),
            Turn::Ours { tag, .. } => format!("started {tag}"),
        });
    }

    fn over(&mut self) {
        self.settle("TurnOver", "error -32001");
        self.resolved = None;
        match self.turn.take() {
            Some(Turn::Theirs) => self.told.push("ended there end_turn".to_owned()),
            Some(Turn::Ours { tag, .. }) => self.told.push(format!("ended {tag} end_turn")),
            None => {}
        }
    }

    fn hears_started(&mut self) {
        if self.due == Some(false) {
            self.due = None;
        }
        match &mut self.turn {
            Some(Turn::Ours { started, .. }) => *started = true,
            Some(Turn::Theirs) => {}
            None => self.begin(Turn::Theirs),
        }
    }

    fn hears_ended(&mut self) {
        let is_due = take(&mut self.due).is_some();
        if !is_due || self.turn.is_none() {
            self.over();
        }
    }

    fn hears_answer(&mut self, of: u64) {
        if let Some(Turn::Ours { number, started, .. }) = self.turn
            && number == of
        {
            self.over();
            self.due = Some(started);
        }
    }

    fn hears_question(&mut self, id: u32, call: &str) {
        if self.resolved.take_if(|resolved| resolved == call).is_some() {
            return self.wrote.push(format!("{id} error -32001"));
        }
        self.settle("Overtaken", "error -32001");
        self.question = Some((id, call.to_owned()));
        self.told.push(format!("asked {call}"));
    }

    fn hears_resolved(&mut self, call: &str) {
        if self.question.as_ref().is_some_and(|(_, open)| open == call) {
            self.settle("InTerminal", "error -32001");
        } else {
            self.resolved = Some(call.to_owned());
        }
    }
}

fn acceptor_is_its_model(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut desk = link();
    let mut model = Hub::default();
    let mut asked: Option<RequestKey> = None;
    let (mut prompts, mut calls) = (0, 0);
    for step in 0..60_u64 {
        let call = format!("c{}", dice.below(2));
        match dice.below(10) {
            0 | 1 => {
                desk.hear(&[&turn("s", "started")]);
                model.hears_started();
            }
            2 | 3 => {
                desk.hear(&[&turn("s", "ended")]);
                model.hears_ended();
            }
            4 => {
                let of = dice.below(3) as u64;
                let number = u64::checked_sub(prompts, of).unwrap_or(0);
                desk.hear(&[&format!(r#"{{"id":{number},"result":{{"stopReason":"end_turn"}}}}"#)]);
                if number < prompts {
                    model.hears_answer(number);
                } else {
                    model.told.push("noticed orphan".to_owned());
                }
            }
            5 => {
                let done = desk.command(prompt(step));
                if model.turn.is_some() {
                    assert_eq!(done, Err(Refused::Busy), "{model:?}");
                } else {
                    assert_eq!(done, Ok(()), "{model:?}");
                    model.wrote.push(format!("{prompts} session/prompt s"));
                    model.begin(Turn::Ours { tag: step, number: prompts, started: false });
                    prompts += 1;
                }
            }
            6 => {
                calls += 1;
                desk.hear(&[&question(100 + calls, "s", &call)]);
                model.hears_question(100 + calls, &call);
                if model.question.as_ref().is_some_and(|(id, _)| *id == 100 + calls) {
                    asked = Some(key(&desk));
                }
            }
            7 => {
                desk.hear(&[&resolved("s", &call)]);
                model.hears_resolved(&call);
            }
            8 => {
                let kind = if dice.once_in(2) { "user_message_chunk" } else { "agent_message_chunk" };
                desk.hear(&[&chunk("s", kind, "x")]);
                match model.turn {
                    Some(Turn::Ours { .. }) if kind.starts_with("user") => {}
                    Some(_) => model.told.push("turn x".to_owned()),
                    None => model.told.push("between x".to_owned()),
                }
            }
            _ => {
                let Some(request) = asked else { continue };
                let (command, answer) = match dice.below(3) {
                    0 => (Command::Answer { request, outcome: PermissionOutcome::selected("y") }, "y"),
                    1 => (Command::NoAnswer { request }, "error -32001"),
                    _ => (Command::Cancel { session: "s".into() }, "cancelled"),
                };
                let is_cancel = matches!(command, Command::Cancel { .. });
                let done = desk.command(command);
                if is_cancel {
                    model.settle("Cancelled", "cancelled");
                    model.wrote.push("session/cancel s".to_owned());
                } else if let Some((id, _)) = model.question.take() {
                    model.wrote.push(format!("{id} {answer}"));
                } else {
                    assert_eq!(done, Err(Refused::Unknown));
                    continue;
                }
                assert_eq!(done, Ok(()));
            }
        }
        assert_eq!((desk.told(), desk.wrote()), (take(&mut model.told), take(&mut model.wrote)), "{model:?}");
    }
}

/// One session at an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mine {
    Idle,
    Own,
    Hubs(u32),
}

fn agent_is_its_model(data: &[u8]) {
    use agent::Command;
    use agentline_core::acp::update::Speaker;

    let mut dice = Dice::new(data);
    let mut desk = shown();
    let mut model = Mine::Idle;
    let mut turn = None;
    // By tag, with the number of its request.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let mut numbers = 1;
    for step in 0..60_u32 {
        let tag = u64::from(step);
        let (mut told, mut wrote) = (Vec::new(), Vec::new());
        match dice.below(8) {
            0 => {
                let done = desk.command(start());
                assert_eq!(done, if model == Mine::Idle { Ok(()) } else { Err(Refused::Busy) });
                if done.is_ok() {
                    model = Mine::Own;
                    wrote.push("started -".to_owned());
                }
            }
            1 => {
                let done = desk.command(end());
                assert_eq!(done, if model == Mine::Own { Ok(()) } else { Err(Refused::Unknown) });
                if done.is_ok() {
                    model = Mine::Idle;
                    wrote.push("ended end_turn".to_owned());
                }
            }
            2 => {
                desk.hear(&[&hub_prompt(step, "s")]);
                if model == Mine::Idle {
                    model = Mine::Hubs(step);
                    turn = Some(super::agent::key(&desk));
                    told.push("prompted go".to_owned());
                    wrote.push("started -".to_owned());
                } else {
                    wrote.push(format!("{step} error -32600"));
                    if model == Mine::Own {
                        wrote.extend(["ended -".to_owned(), "started -".to_owned()]);
                    }
                }
            }
            3 => {
                let Some(turn) = turn else { continue };
                let failed = dice.once_in(2);
                let done = desk.command(if failed {
                    Command::FailPrompt { turn, error: Box::new(RpcError::new(-5, "no")) }
                } else {
                    Command::EndPrompt { turn, stopped: Box::new(StopReason::EndTurn.into()) }
                });
                let Mine::Hubs(id) = model else {
                    assert_eq!(done, Err(Refused::Unknown));
                    continue;
                };
                assert_eq!(done, Ok(()));
                model = Mine::Idle;
                let answered = [format!("{id} error -5"), "ended -".to_owned()];
                let ended = ["ended end_turn".to_owned(), format!(r#"{id} {{"stopReason":"end_turn"}}"#)];
                wrote.extend(if failed { answered } else { ended });
            }
            4 => {
                desk.run([ask(tag)]);
                wrote.push(format!("{numbers} session/request_permission s"));
                open.push((tag, numbers));
                numbers += 1;
            }
            5 => {
                let known = open.pop();
                let done =
                    desk.command(Command::ResolvePermission { tag: Tag(known.map_or(9999, |(tag, _)| tag)) });
                assert_eq!(done, if known.is_some() { Ok(()) } else { Err(Refused::Unknown) });
                wrote.extend(known.map(|_| "_botbus/permission_resolved s".to_owned()));
            }
            6 => {
                let number = dice.below(numbers as usize + 1) as u64;
                let (line, word) = *dice.pick(&[
                    (r#""result":{"outcome":{"outcome":"selected","optionId":"y"}}"#, "y"),
                    (r#""result":{"outcome":{"outcome":"cancelled"}}"#, "cancelled"),
                    (r#""error":{"code":-32001,"message":"x"}"#, ""),
                ]);
                desk.hear(&[&format!(r#"{{"id":{number},{line}}}"#)]);
                if number >= numbers {
                    told.push("noticed orphan".to_owned());
                } else if let Some(at) = open.iter().position(|(_, of)| *of == number) {
                    let (tag, _) = open.remove(at);
                    let answer = if word.is_empty() {
                        format!("unanswered {tag}")
                    } else {
                        format!("answered {tag} {word}")
                    };
                    told.push(answer);
                }
            }
            _ => {
                let speaker = if dice.once_in(2) { Speaker::User } else { Speaker::Agent };
                let is_echo = speaker == Speaker::User && matches!(model, Mine::Hubs(_));
                let done = desk.command(say(speaker));
                let echo = Err(Refused::Invalid("the hub knows what it said"));
                assert_eq!(done, if is_echo { echo } else { Ok(()) });
                wrote.extend(done.map(|()| "session/update s".to_owned()));
            }
        }
        assert_eq!((desk.told(), desk.wrote()), (told, wrote), "{model:?}");
    }
}

#[test]
fn both_are_their_models() {
    for seed in 0..3000 {
        acceptor_is_its_model(&dice::noise(seed, 200));
        agent_is_its_model(&dice::noise(seed, 200));
    }
}

quickcheck! {
    fn an_acceptor_is_its_model(data: Vec<u8>) -> bool {
        acceptor_is_its_model(&data);
        true
    }

    fn an_agent_is_its_model(data: Vec<u8>) -> bool {
        agent_is_its_model(&data);
        true
    }
}
