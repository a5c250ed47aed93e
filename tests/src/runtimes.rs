//! The runtimes, as far as an application sees them.

use agentline_blocking::Given;
use agentline_core::Machine;
use smol::future::zip;

/// Drives a machine to its end.
pub trait Runtime {
    /// Drives it on this thread: gives the first commands, then hands each event to `on`, which pushes the
    /// commands that it answers with. What is refused is lost.
    ///
    /// # Panics
    ///
    /// The system has no descriptor left.
    fn run<M: Machine>(
        config: M::Config,
        first: Vec<M::Command>,
        on: impl FnMut(M::Event, &mut Vec<M::Command>),
    ) {
        Self::run_with_given::<M>(config, Vec::new(), first, on);
    }

    /// The same beside streams that are there already.
    ///
    /// # Panics
    ///
    /// The system has no descriptor left.
    fn run_with_given<M: Machine>(
        config: M::Config,
        given: Vec<Given>,
        first: Vec<M::Command>,
        on: impl FnMut(M::Event, &mut Vec<M::Command>),
    );
}

/// `agentline-blocking`.
#[derive(Clone, Copy, Debug)]
pub struct Blocking;

/// `agentline-smol`.
#[derive(Clone, Copy, Debug)]
pub struct Smol;

impl Runtime for Blocking {
    fn run_with_given<M: Machine>(
        config: M::Config,
        given: Vec<Given>,
        mut say: Vec<M::Command>,
        mut on: impl FnMut(M::Event, &mut Vec<M::Command>),
    ) {
        let mut driver = agentline_blocking::Driver::<M>::with_given(config, given).expect("a driver");
        loop {
            for command in say.drain(..) {
                let _ = driver.command(command);
            }
            let Some(event) = driver.next() else { return };
            on(event, &mut say);
        }
    }
}

impl Runtime for Smol {
    fn run_with_given<M: Machine>(
        config: M::Config,
        given: Vec<Given>,
        mut say: Vec<M::Command>,
        mut on: impl FnMut(M::Event, &mut Vec<M::Command>),
    ) {
        let (mut events, driver) = agentline_smol::spawn_with_given::<M>(config, given).expect("a driver");
        let application = async {
            loop {
                for command in say.drain(..) {
                    let _ = events.command(command);
                }
                let Some(event) = events.next().await else { return };
                on(event, &mut say);
            }
        };
        smol::block_on(zip(application, driver));
    }
}
