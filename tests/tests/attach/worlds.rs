//! Callers and a session in one world, in virtual time, with everything that can go wrong.

use std::cell::RefCell;
use std::rc::Rc;

use agentline_core::attach::caller;
use agentline_core::attach::client;
use agentline_core::attach::{Answer, Caller, Failure, Stop, Target, Turn};
use agentline_core::{Now, Secret};
use agentline_tests::{Checked, Checks, Dice, Faults, Handle, Node, World, dice};
use quickcheck::quickcheck;

use super::*;

const CALLERS: usize = 5;
/// Longer than any prompt waits.
const LIFE: Duration = Duration::from_secs(CALLERS as u64 * 600 + 60);

/// What one caller was told of its one prompt.
#[derive(Debug, Default)]
struct Told {
    asked: usize,
    answers: Vec<Result<Answer, Failure>>,
    cancels: usize,
    closed: usize,
}

type Log = Rc<RefCell<Told>>;

/// A session whose turns take no time, or run until they are cancelled.
fn session(world: &mut World<'_>, endless: bool, token: &str) -> Handle<Server> {
    let config = Config { token: Secret::new(token.to_owned()), ..config() };
    let machine = Checked::around(Server::new(Now::default(), config), Checks::default());
    let machine = machine.and_secrets(vec![token.to_owned()]);
    let handle = world.add(Node::new(machine, move |_, event, commands| match event {
        Event::PromptReceived { prompt, text } => {
            commands.extend([Command::Injected(prompt, Injection::Queued), Command::TurnStarted]);
            if !endless {
                commands.push(ended(&format!("to {text}")));
            }
        }
        Event::CancelReceived => commands.push(Command::TurnEnded(Turn::cancelled())),
        Event::Listening(_) | Event::PresenceFailed { .. } | Event::Closed(_) => {}
    }));
    world.command_in(LIFE, handle, Command::Shutdown);
    handle
}

/// A caller that says one thing and leaves; an impatient one cancels it.
fn caller(world: &mut World<'_>, text: &str, impatient: bool, token: &str) -> (Handle<Caller>, Log) {
    let (log, text) = (Log::default(), text.to_owned());
    let told = Rc::clone(&log);
    let target = Target { token: Secret::new(token.to_owned()), ..target() };
    let machine = Checked::around(Caller::new(world.now(), target), Checks::default());
    let machine = machine.and_secrets(vec![token.to_owned()]);
    let handle = world.add(Node::new(machine, move |_, event, commands| {
        let mut told = told.borrow_mut();
        match event {
            caller::Event::Said(client::Event::Ready(_)) => {
                told.asked += 1;
                let prompt = client::Command::Prompt { session: None, text: text.clone() };
                commands.push(caller::Command::Ask(prompt));
                if impatient {
                    commands.push(caller::Command::Cancel);
                }
            }
            caller::Event::Said(client::Event::Answered(answer)) => {
                told.answers.push(answer);
                commands.push(caller::Command::Ask(client::Command::Shutdown));
            }
            caller::Event::Said(client::Event::Closed(_)) => told.closed += 1,
            caller::Event::Said(client::Event::Noticed(_)) => {}
            caller::Event::Cancelled(_) => told.cancels += 1,
        }
    }));
    (handle, log)
}

#[test]
fn each_caller_gets_the_answer_to_its_own_words_and_nobody_waits() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    session(&mut world, false, TOKEN);
    // As many as the backlog holds.
    let callers: Vec<_> = (0..4).map(|n| caller(&mut world, &format!("words {n}"), false, TOKEN)).collect();
    world.run_until(Time::from_micros(1));
    for (n, (handle, log)) in callers.iter().enumerate() {
        assert!(world.is_over(*handle), "within no time");
        let turn = Turn { stop: Stop::EndTurn, answer: Some(format!("to words {n}")) };
        assert_eq!(log.borrow().answers, [Ok(Answer::Turn(turn))]);
    }
}

#[test]
fn a_caller_cancels_its_own_endless_turn() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    session(&mut world, true, TOKEN);
    let (handle, log) = caller(&mut world, "count to infinity", true, TOKEN);
    world.run_until(Time::from_micros(1));
    assert!(world.is_over(handle));
    assert_eq!(log.borrow().answers, [Ok(Answer::Turn(Turn { stop: Stop::Cancelled, answer: None }))]);
    assert_eq!(log.borrow().cancels, 1);
}

/// Whatever goes wrong, each prompt has one end, everybody comes home, and nobody shows the token.
fn faulty(data: &[u8]) {
    let mut dice = Dice::new(data);
    let token = dice.clone().secret();
    let (endless, impatient) = (dice.once_in(2), dice.below(CALLERS + 1));
    let mut world = World::new(dice, Faults { jump: false, ..Faults::ALL });
    let server = session(&mut world, endless, &token);
    let callers: Vec<_> =
        (0..CALLERS).map(|n| caller(&mut world, &format!("words {n}"), n < impatient, &token)).collect();
    world.run();
    assert!(world.is_over(server));
    for (handle, log) in &callers {
        assert!(world.is_over(*handle));
        let told = log.borrow();
        assert_eq!((told.asked, told.closed), (told.answers.len(), 1), "{told:?}");
    }
}

quickcheck! {
    fn each_prompt_ends_once_in_a_faulty_world(data: Vec<u8>) -> bool {
        faulty(&data);
        true
    }
}

#[test]
fn each_prompt_ends_once_in_many_faulty_worlds() {
    for seed in 0..500 {
        faulty(&dice::noise(seed, 400));
    }
}
