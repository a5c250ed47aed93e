//! Two ends in a world.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::link::{Obituary, Rung};
use agentline_core::{Exit, Graces, Group, Limits, Machine, Now, Open, SpawnSpec, Time};
use agentline_tests::split::{self, Wire};
use agentline_tests::toy::{Heard, Say, Start, Talk};
use agentline_tests::world::{Heir, Manners};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, World, dice};

const CHECKS: Checks = Checks { json: false, line: 100_000, write: 64 << 10 };

fn talk(now: Now, how: Open, limits: Limits) -> Checked<Talk> {
    Checked::new(now, (CHECKS, Start { how: Some(how), limits, graces: Graces::default() }))
}

/// A child that says "re" to everything.
fn parrot(now: Now, _: &SpawnSpec) -> Node<Talk> {
    Node::new(talk(now, Open::Given(0), Limits::default()), |_, heard, say| {
        if let Heard::Line(Ok(line)) = heard {
            say.push(Say::Line(format!("re {line}")));
        }
    })
    .on_term(|| Say::Leave)
}

/// A caller that says each of the lines after the answer to the one before, and leaves after the last.
fn caller(world: &World<'_>, lines: usize) -> (Node<Talk>, Rc<RefCell<Vec<Heard>>>) {
    let spec = SpawnSpec { program: "parrot".into(), ..SpawnSpec::default() };
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (heard_by, mut said) = (seen.clone(), 0);
    let node = Node::new(talk(world.now(), Open::spawn(spec), Limits::default()), move |_, heard, say| {
        match &heard {
            Heard::Opened | Heard::Line(Ok(_)) if said < lines => {
                said += 1;
                say.push(Say::Line(format!("line {said}")));
            }
            Heard::Line(Ok(_)) => say.push(Say::Leave),
            Heard::Opened
            | Heard::Failed(_)
            | Heard::Line(_)
            | Heard::Ended
            | Heard::Deaf
            | Heard::Closed(_) => {}
        }
        heard_by.borrow_mut().push(heard);
    });
    (node, seen)
}

fn obituary(seen: &[Heard]) -> Obituary {
    match seen.last() {
        Some(Heard::Closed(obituary)) => (**obituary).clone(),
        other => panic!("the last word is {other:?} of {seen:?}"),
    }
}

#[test]
fn on_the_clean_path_no_time_passes() {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    world.program("parrot", parrot);
    let (node, seen) = caller(&world, 3);
    let node = world.add(node);
    world.run();
    assert_eq!(world.now().mono, Time::ZERO);
    assert!(world.is_over(node));
    assert_eq!(world.processes(), 0);
    let seen = seen.borrow();
    let lines: Vec<&Heard> = seen.iter().filter(|heard| matches!(heard, Heard::Line(_))).collect();
    assert_eq!(lines.len(), 3);
    let obituary = obituary(&seen);
    assert_eq!(
        (obituary.exit, obituary.rung, obituary.group),
        (Some(Exit::Code(0)), Rung::Eof, Some(Group::Gone))
    );
}

#[test]
fn every_kind_of_bad_manners_costs_its_graces_and_leaves_nobody_behind() {
    let heir = |ignores_term| Some(Heir { ignores_term, chats: 3 });
    let table = [
        (Manners { ignores_term: true, lingers: true, ..Manners::default() }, Rung::Kill, 4_500),
        (Manners { lingers: true, ..Manners::default() }, Rung::Term, 2_500),
        (Manners { deaf: true, ..Manners::default() }, Rung::Term, 2_500),
        (Manners { deaf: true, ignores_term: true, ..Manners::default() }, Rung::Kill, 4_500),
        (Manners { heir: heir(false), ..Manners::default() }, Rung::Term, 2_500),
        (Manners { heir: heir(true), ..Manners::default() }, Rung::Kill, 4_500),
    ];
    for (manners, rung, millis) in table {
        let mut world = World::new(Dice::new(&[]), Faults::NONE).logged();
        world.rude_program("parrot", move |_| manners, parrot);
        let (node, seen) = caller(&world, 1);
        let node = world.add(node);
        if manners.deaf {
            world.command(node, Say::Leave).unwrap();
        }
        world.run();
        let seen = seen.borrow();
        let obituary = obituary(&seen);
        assert_eq!(obituary.rung, rung, "{manners:?} {:#?}", world.log());
        // The look after the last signal finds nobody.
        let end = world.now().mono.since(Time::ZERO);
        let (least, most) = (Duration::from_millis(millis), Duration::from_millis(millis + 15));
        assert!(least <= end && end <= most, "{manners:?} took {end:?}: {:#?}", world.log());
        assert_eq!(world.processes(), 0, "{manners:?}");
    }
}

#[test]
fn in_a_faulty_world_every_conversation_ends_once_and_nobody_is_left_behind() {
    let (mut answered, mut steps) = (0, 0);
    for seed in 0..20_000 {
        let bytes = dice::noise(seed, 200);
        let mut world = World::new(Dice::new(&bytes), Faults::ALL);
        world.program("parrot", parrot);
        let (node, seen) = caller(&world, 3);
        let node = world.add(node);
        world.command_in(Duration::from_secs(20), node, Say::Leave);
        world.run();
        assert!(world.is_over(node), "seed {seed}");
        assert_eq!(world.processes(), 0, "seed {seed}");
        let seen = seen.borrow();
        let closed = seen.iter().filter(|heard| matches!(heard, Heard::Closed(_))).count();
        assert_eq!(closed, 1, "seed {seed}");
        obituary(&seen);
        answered += seen
            .iter()
            .filter(|heard| matches!(heard, Heard::Line(Ok(line)) if line.starts_with("re")))
            .count();
        steps += world.steps();
    }
    assert!(answered > 20_000, "only {answered} answers: the faults leave nothing to test");
    assert!(steps > 400_000, "only {steps} steps");
}

#[test]
fn how_the_bytes_are_cut_changes_nothing() {
    let limits = Limits { line: 10, ..Limits::default() };
    let echo = |heard: &Heard| match heard {
        Heard::Line(line) => vec![Say::Line(format!("{line:?}"))],
        Heard::Opened | Heard::Failed(_) | Heard::Ended | Heard::Deaf | Heard::Closed(_) => vec![],
    };
    let make = || Talk::adopt(&limits, &Graces::default());
    let wire = ["a\nbc\r\n\n0123456789\n0123456789a\n中🎉\n", "rest"];
    split::every_cut(&Wire::new(wire), &CHECKS, make, echo);
    for seed in 0..500 {
        let bytes = dice::noise(seed, 400);
        let mut dice = Dice::new(&bytes);
        let wire = Wire::new([dice.text(200)]);
        split::some_cuts(&wire, &mut dice, &CHECKS, make, echo);
    }
}
