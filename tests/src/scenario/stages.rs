//! Where a cast can play: in a world, and on both runtimes.

use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use agentline_blocking::Given;
use smol::future::zip;

use super::part::{Leave, Seated};
use super::{Cast, Programs};
use crate::dice::Dice;
use crate::world::{Faults, World};

/// Plays a cast to its end.
pub(super) type Stage = fn(Cast, Programs);

/// Every stage, by name.
pub(super) const STAGES: [(&str, Stage); 3] =
    [("the simulator", simulated), ("blocking", blocking), ("smol", smol)];

fn simulated(cast: Cast, programs: Programs) {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    programs(&mut world);
    match cast {
        Cast::Alone(part) => {
            part.seat(&mut world, None);
        }
        Cast::Pair(one, other) => {
            let (here, there) = world.stream();
            one.seat(&mut world, Some(here));
            other.seat(&mut world, Some(there));
        }
        Cast::Visit { host, guest } => {
            let Seated { leave, .. } = host.seat(&mut world, None);
            world.run_until(world.now().mono);
            let Seated { is_over, .. } = guest.seat(&mut world, None);
            while !is_over(&world) {
                world.run_until(world.now().mono + STRIDE);
            }
            leave(&mut world);
        }
    }
    world.run();
    assert_eq!(world.processes(), 0, "somebody is left");
}

fn blocking(cast: Cast, _: Programs) {
    match cast {
        Cast::Alone(part) => part.block(None, Box::new(drop)),
        Cast::Pair(one, other) => {
            let (here, there) = socket();
            thread::scope(|scope| {
                scope.spawn(move || one.block(Some(here), Box::new(drop)));
                other.block(Some(there), Box::new(drop));
            });
        }
        Cast::Visit { host, guest } => thread::scope(|scope| {
            let (begun, begins) = mpsc::channel::<Leave>();
            scope.spawn(move || host.block(None, Box::new(move |leave| drop(begun.send(leave)))));
            let leave = begins.recv().expect("a host says something");
            guest.block(None, Box::new(drop));
            leave();
        }),
    }
}

/// All on one executor.
fn smol(cast: Cast, _: Programs) {
    smol::block_on(async {
        match cast {
            Cast::Alone(part) => part.run(None, Box::new(drop)).await,
            Cast::Pair(one, other) => {
                let (here, there) = socket();
                zip(one.run(Some(here), Box::new(drop)), other.run(Some(there), Box::new(drop))).await;
            }
            Cast::Visit { host, guest } => {
                let (begun, begins) = smol::channel::bounded::<Leave>(1);
                let host = host.run(None, Box::new(move |leave| drop(begun.try_send(leave))));
                zip(host, async {
                    let leave = begins.recv().await.expect("a host says something");
                    guest.run(None, Box::new(drop)).await;
                    leave();
                })
                .await;
            }
        }
    });
}

fn socket() -> (Given, Given) {
    let (here, there) = UnixStream::pair().expect("two descriptors");
    let given = |socket| Given::socket(socket).expect("a descriptor");
    (given(here), given(there))
}

/// How far a world runs before somebody looks whether the guest is still there.
const STRIDE: Duration = Duration::from_secs(1);
