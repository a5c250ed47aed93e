//! The control channel: a town in a faulty world, and each role against a peer that says anything.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::control::{Client, Server, client, server};
use agentline_core::{Address, Graces, Limits, Machine, Open, SpawnSpec, Tag, Time};

use crate::control::{Calls, Desk, Requests, Town, Wish, request};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::toy::{Heard, Say, Start, Talk};
use crate::world::{Faults, Handle, Node, World};

/// Clients come, call, watch, stop reading and leave; whatever goes wrong, each call ends once, each request is
/// answered or abandoned once, frames are numbered without a gap that is not told, and nobody is left behind.
pub fn control_world(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut town = Town::new(Dice::new(faults), Faults::ALL, *script.pick(&[4096, 0, 1 << 20]));
    for _ in 0..MOST_STEPS {
        if script.is_empty() {
            break;
        }
        let clients = town.fates().len();
        match script.below(8) {
            0 if clients < 20 => town.visit(Wish {
                calls: script.below(20) as u64,
                stream: *script.pick(&[None, Some("watch"), Some("burst")]),
            }),
            0..=3 => (0..script.below(64)).for_each(|_| town.publish()),
            4 if clients > 0 => town.hold(script.below(clients), script.once_in(2)),
            5 if clients > 0 => town.leave(script.below(clients)),
            6 => town.end_streams(),
            _ => town.pass(script.pause() * 10),
        }
    }
    town.close();
}

/// Whatever clients say, they are answered in whole lines, and neither how their bytes are cut nor when news
/// come changes what each of them hears.
pub fn control_server(data: &[u8]) {
    let (lines, faults) = data.split_at(data.len() / 2);
    let heard = |faults, dice| {
        let mut dice = (Dice::new(lines), dice);
        let mut world = World::new(std::mem::replace(&mut dice.1, Dice::new(&[])), faults);
        let server = serve(&mut world);
        let heard: Vec<_> = (0..3).map(|_| talk(&mut world, requests(&mut dice.0))).collect();
        world.run_until(Time::ZERO + DAY / 2);
        // A watcher is gone, or stays for ever.
        let _ = world.command(server, server::Command::Shutdown("closed".to_owned()));
        world.run();
        heard.iter().map(|heard| heard.take()).collect::<Vec<_>>()
    };
    let late = Faults { late: true, cut: true, ..Faults::NONE };
    assert_eq!(heard(late, Dice::new(faults)), heard(Faults::NONE, Dice::new(&[])));
}

/// Whatever a server says, each call ends once, and so does the connection.
pub fn control_client(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut world = World::new(Dice::new(faults), Faults::ALL);
    let answers = answers(&mut script);
    world.program("server", move |now, _| {
        let machine = Checked::<Talk>::new(now, (UNCHECKED, start(Open::Given(0))));
        let answers = answers.clone();
        Node::new(machine, move |_, heard, say| {
            if let Heard::Line(_) | Heard::Opened = heard {
                say.push(Say::Lines(answers.clone()));
            }
        })
    });
    let spec = SpawnSpec { program: "server".into(), ..SpawnSpec::default() };
    let config = client::Config::new(Open::spawn(spec));
    let limits = Limits { line: *script.pick(&[1000, 60]), own_requests: 4, ..config.limits };
    let machine =
        Checked::<Client>::new(world.now(), (Checks::default(), client::Config { limits, ..config }));
    let client = world.add(Node::new(machine.and(Calls::default()), |_, _, _| {}));
    for tag in 0..script.below(12) as u64 {
        // Too many, too soon after a stream, too late: all are refused.
        let _ = world.command(client, client::Command::Call(Tag(tag % 6), request("x", &tag)));
        world.run_until(world.now().mono + script.pause());
    }
    let _ = world.command(client, client::Command::Close);
    world.run();
    assert!(world.is_over(client), "the client goes on");
}

fn serve(world: &mut World<'_>) -> Handle<Server> {
    let config = server::Config::new(address());
    let limits = Limits { line: 100, unsent_soft: 300, write: 128, ..config.limits };
    let config = server::Config { idle: DAY, limits, ..config };
    let machine = Checked::<Server>::new(world.now(), (Checks { write: 128, ..Checks::default() }, config));
    let mut desk = Desk::default();
    world.add(Node::new(machine.and(Requests::default()), move |_, event, say| desk.on(event, say)))
}

/// Somebody who says these lines, and what they hear.
fn talk(world: &mut World<'_>, lines: Vec<String>) -> Rc<RefCell<Vec<Heard>>> {
    let machine = Checked::<Talk>::new(world.now(), (UNCHECKED, start(Open::Connect(address()))));
    let heard = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&heard);
    world.add(Node::new(machine, move |_, heard, say| {
        if heard == Heard::Opened {
            say.push(Say::Lines(lines.clone()));
        }
        if let Heard::Line(_) = heard {
            seen.borrow_mut().push(heard);
        }
    }));
    heard
}

fn start(how: Open) -> Start {
    Start { how: Some(how), limits: Limits::default(), graces: Graces::default() }
}

fn address() -> Address {
    Address("/run/control.sock".into())
}

/// Lines of a client.
fn requests(dice: &mut Dice<'_>) -> Vec<String> {
    const COMMANDS: [&str; 7] = ["echo", "fail", "burst", "no.such", "", "\\u0065cho", "\\ud800"];
    const VALUES: [&str; 10] =
        ["3", "null", "{}", "[1,{}]", "\"a\"", "\"\u{2028}\"", "\"\\udc00\"", "1e999", "-0", "[[[[["];
    const OTHERS: [&str; 6] = [
        "schemaVersion\":1",
        "schemaVersion\":2",
        "requestId\":\"r\"",
        "requestId\":7",
        "x\":1",
        "command\":1",
    ];
    lines(dice, |dice| {
        let command = *dice.pick(&COMMANDS);
        let mut line = format!("{{\"command\":\"{command}\"");
        if dice.once_in(2) {
            line += &format!(",\"args\":{}", dice.pick(&VALUES));
        }
        if dice.once_in(2) {
            line += &format!(",\"{}", dice.pick(&OTHERS));
        }
        line + "}"
    })
}

/// Lines of a server.
fn answers(dice: &mut Dice<'_>) -> Vec<String> {
    const MEMBERS: [&str; 14] = [
        "ok\":true",
        "stream\":\"event\"",
        "ok\":false",
        "stream\":\"end\"",
        "requestId\":\"0\"",
        "requestId\":\"1\"",
        "requestId\":\"x\"",
        "requestId\":1",
        "result\":{}",
        "data\":[]",
        "error\":\"busy\"",
        "error\":1",
        "message\":\"m\"",
        "reason\":\"r\"",
    ];
    lines(dice, |dice| {
        let members: Vec<_> = (0..dice.below(5)).map(|_| format!("\"{}", dice.pick(&MEMBERS))).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// A few lines, most of them good, some torn, some noise; now and then the bytes as they are.
fn lines(dice: &mut Dice<'_>, good: impl Fn(&mut Dice<'_>) -> String) -> Vec<String> {
    if dice.once_in(5) {
        return String::from_utf8_lossy(dice.bytes(400)).lines().map(str::to_owned).collect();
    }
    let line = |dice: &mut Dice<'_>| match dice.below(8) {
        6 => good(dice).chars().skip(dice.below(9)).collect(),
        7 => dice.text(30),
        _ => good(dice),
    };
    (0..dice.below(6)).map(|_| line(dice)).collect()
}

const UNCHECKED: Checks = Checks { json: false, line: 32 << 20, write: 64 << 10 };
/// Longer than news can be late.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Of one script.
const MOST_STEPS: usize = 200;
