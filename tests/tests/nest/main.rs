//! Machines made of machines.

mod deadlines;
mod gateway;
mod holding;
mod serve;
mod session;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::machine::Heard as News;
use agentline_core::nest::{Nest, Told};
use agentline_core::{
    Action, Address, Graces, Ids, Limits, Machine, Now, Open, OpenError, Output, Outputs, Time,
};
use agentline_tests::toy::{Heard, Say, Start, Talk};
use agentline_tests::world::Manners;
use agentline_tests::{Checked, Checks, Dice, Faults, Handle, Node, World, dice};
use gateway::{Gateway, Hose, Over};
use session::{Command, Event, Hub, Place, Session};

const CHECKS: Checks = Checks { json: false, line: 100_000, write: 64 << 10 };
/// Everything but broken connections: then no prompt may be lost.
const SURVIVABLE: Faults = Faults { death: false, ..Faults::ALL };

/// What became of one caller.
type Fate = Rc<RefCell<Vec<Heard>>>;

/// A session that answers each line with "re".
fn session(world: &mut World<'_>, place: Place, asked: Rc<Cell<usize>>) -> Handle<Session> {
    let machine: Checked<Session> = Checked::new(world.now(), (CHECKS, place));
    world.add(Node::new(machine, move |_, event, say| {
        if let Event::Asked(line) = event {
            asked.set(asked.get() + 1);
            say.push(Command::Answer(format!("re {line}")));
        }
    }))
}

/// A caller that says one line and leaves when it is answered.
fn caller(world: &mut World<'_>, path: &str, line: &str) -> (Handle<Talk>, Fate) {
    let fate = Fate::default();
    let how = Some(Open::Connect(Address(path.into())));
    let start = Start { how, limits: Limits::default(), graces: Graces::default() };
    let machine: Checked<Talk> = Checked::new(world.now(), (CHECKS, start));
    let (seen, line) = (fate.clone(), line.to_owned());
    let node = world.add(Node::new(machine, move |_, heard, say| {
        match &heard {
            Heard::Opened => say.push(Say::Line(line.clone())),
            Heard::Line(_) => say.push(Say::Leave),
            Heard::Failed(_) | Heard::Ended | Heard::Deaf | Heard::Closed(_) => {}
        }
        seen.borrow_mut().push(heard);
    }));
    (node, fate)
}

fn answers(fate: &Fate) -> usize {
    fate.borrow().iter().filter(|heard| matches!(heard, Heard::Line(_))).count()
}

fn failed(fate: &Fate) -> bool {
    fate.borrow().iter().any(|heard| matches!(heard, Heard::Failed(_)))
}

#[test]
fn callers_are_served_one_after_the_other_and_no_time_passes() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    let asked = Rc::new(Cell::new(0));
    let server = session(&mut world, Place("s", 2), asked.clone());
    let callers: Vec<_> = (0..4).map(|n| caller(&mut world, "s", &format!("p{n}"))).collect();
    world.run();
    for (n, (node, fate)) in callers.iter().enumerate() {
        assert!(world.is_over(*node));
        let answer = Heard::Line(Ok(format!("re p{n}")));
        assert_eq!(fate.borrow().iter().filter(|heard| **heard == answer).count(), 1);
    }
    assert_eq!((asked.get(), world.now().mono), (4, Time::ZERO));
    assert!(!world.is_over(server));
    world.command(server, Command::Close).unwrap();
    world.run();
    assert!(world.is_over(server));
}

#[test]
fn in_a_faulty_world_each_prompt_is_answered_exactly_once() {
    let (mut answered, mut steps) = (0, 0);
    for seed in 0..5_000 {
        let bytes = dice::noise(seed, 400);
        let mut world = World::new(Dice::new(&bytes), SURVIVABLE);
        let asked = Rc::new(Cell::new(0));
        session(&mut world, Place("s", 8), asked.clone());
        world.run();
        let callers: Vec<_> = (0..12).map(|n| caller(&mut world, "s", &format!("p{n}"))).collect();
        world.run();
        for (node, fate) in &callers {
            assert!(world.is_over(*node), "seed {seed}");
            assert_eq!(answers(fate), usize::from(!failed(fate)), "seed {seed}: {fate:?}");
        }
        let now = callers.iter().map(|(_, fate)| answers(fate)).sum::<usize>();
        assert_eq!(asked.get(), now, "seed {seed}");
        answered += now;
        steps += world.steps();
    }
    assert!(answered > 40_000, "only {answered} of 60,000: the faults leave nothing to test");
    assert!(steps > 500_000, "only {steps} steps");
}

#[test]
fn when_connections_break_no_prompt_is_answered_twice_and_the_lock_comes_free() {
    for seed in 0..2_000 {
        let bytes = dice::noise(seed, 600);
        let mut world = World::new(Dice::new(&bytes), Faults::ALL);
        let asked = Rc::new(Cell::new(0));
        let server = session(&mut world, Place("s", 3), asked.clone());
        world.run();
        let callers: Vec<_> = (0..8).map(|n| caller(&mut world, "s", &format!("p{n}"))).collect();
        world.run();
        for (node, fate) in &callers {
            assert!(world.is_over(*node), "seed {seed}");
            assert!(answers(fate) <= 1, "seed {seed}: {fate:?}");
        }
        // Whoever comes when the dice have run out is served, whatever happened before.
        while !world.dice().is_empty() {
            caller(&mut world, "s", "early");
            world.run();
        }
        let (_, fate) = caller(&mut world, "s", "late");
        world.run();
        assert_eq!(answers(&fate), 1, "seed {seed}: {fate:?}");
        world.command(server, Command::Close).unwrap();
        world.run();
        assert!(world.is_over(server), "seed {seed}");
    }
}

#[test]
fn a_composite_inside_a_composite_keeps_its_links_apart() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    let places = vec![Place("a", 1), Place("b", 1)];
    let machine: Checked<Hub> = Checked::new(world.now(), (CHECKS, places));
    let hub = world.add(Node::new(machine, |_, (key, event), say| {
        if let Event::Asked(line) = event {
            say.push((key, Command::Answer(format!("{key} heard {line}"))));
        }
    }));
    let callers: Vec<_> = ["b", "a", "b"].map(|path| caller(&mut world, path, path)).into();
    world.run();
    for ((_, fate), answer) in callers.iter().zip(["1 heard b", "0 heard a", "1 heard b"]) {
        assert!(fate.borrow().contains(&Heard::Line(Ok(answer.to_owned()))), "{fate:?}");
    }
    for key in 0..2 {
        world.command(hub, (key, Command::Close)).unwrap();
    }
    world.run();
    assert!(world.is_over(hub));
}

#[test]
fn a_place_that_is_taken_is_reported() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    session(&mut world, Place("s", 1), Rc::default());
    world.run();
    let failed = Rc::new(Cell::new(None));
    let told = failed.clone();
    let machine: Checked<Session> = Checked::new(world.now(), (CHECKS, Place("s", 1)));
    world.add(Node::new(machine, move |_, event, _| {
        if let Event::ListenFailed(error) = event {
            told.set(Some(error));
        }
    }));
    world.run();
    assert_eq!(failed.get(), Some(OpenError::InUse));
}

#[test]
fn the_links_of_a_child_that_is_gone_are_nobodys() {
    let (now, mut ids, mut out) = (Now::default(), Ids::default(), Outputs::<()>::default());
    let mut nest = Nest::default();
    let how = Some(Open::Connect(Address("s".into())));
    let start = Start { how, limits: Limits::default(), graces: Graces::default() };
    assert!(nest.insert(now, "child", Talk::new(now, start)).is_ok());
    while nest.next(&mut ids, &mut out).is_some() {}
    let Some(Output::Do(link, Action::Open(_))) = out.pop() else { panic!("it opens nothing") };
    assert!(nest.handle(now, link, News::OpenFailed(OpenError::NotFound)));
    let told: Vec<_> = std::iter::from_fn(|| nest.next(&mut ids, &mut out)).collect();
    assert!(matches!(told.last(), Some(("child", Told::Ended))), "{told:?}");
    assert!(!nest.handle(now, link, News::Eof));
    assert_eq!((nest.len(), nest.deadline()), (0, None));
}

/// Passes 2 MB to a listener that takes 64 KiB in 10 ms; returns the peak and how many lines came through.
fn pass_on(hold: bool, faults: Faults, data: &[u8]) -> (usize, usize) {
    const LINES: usize = 30_000;
    let mut world = World::new(Dice::new(data), faults);
    world.rude_program(
        "talker",
        |_| Manners::default(),
        |now, _| Node::<Hose>::new(Checked::new(now, (CHECKS, LINES)), |_, (), _| {}),
    );
    let heard = Rc::new(Cell::new(0));
    let count = heard.clone();
    let slow = Manners { slow: Duration::from_millis(10), ..Manners::default() };
    world.rude_program(
        "listener",
        move |_| slow,
        move |now, _| {
            let start =
                Start { how: Some(Open::Given(0)), limits: Limits::default(), graces: Graces::default() };
            let count = count.clone();
            Node::<Talk>::new(Checked::new(now, (CHECKS, start)), move |_, heard, _| {
                if let Heard::Line(line) = heard {
                    assert_eq!(line.as_deref(), Ok(Hose::LINE));
                    count.set(count.get() + 1);
                }
            })
        },
    );
    let peak = Rc::new(Cell::new(0));
    let told = peak.clone();
    let gateway: Checked<Gateway> = Checked::new(world.now(), (CHECKS, hold));
    world.add(Node::new(gateway, move |_, Over { peak }, _| told.set(peak)));
    world.run();
    assert_eq!(world.processes(), 0);
    (peak.get(), heard.get())
}

#[test]
fn a_gateway_that_holds_its_talker_is_bounded_by_one_read() {
    let (peak, lines) = pass_on(true, Faults::NONE, &[]);
    assert_eq!(lines, 30_000);
    assert!(peak <= 3 * (64 << 10), "{peak} bytes unsent");
    let (peak, _) = pass_on(false, Faults::NONE, &[]);
    assert!(peak > 1_000_000, "only {peak} bytes unsent: the listener is not slow");
}
