//! One scenario, three stages: the simulator and both runtimes, which all have to give the same account of it.
//!
//! A scenario is data: machines with their configs, what their applications say at which event, and what the
//! account must show. Children are named with their behaviour; each is one machine that lives in a world and in a
//! process of its own.

mod account;
mod part;
mod stages;

use std::path::Path;
use std::sync::{PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use agentline_blocking::guardian;
use tempfile::TempDir;

use crate::world::World;
use stages::STAGES;

pub use account::{Account, Ledger};
pub use part::{Leave, Part, Role, Seated};

/// A scenario.
pub struct Scenario {
    /// The behaviour that it shows, as a sentence.
    pub name: &'static str,
    /// Its parts. They get a directory of their own.
    pub cast: fn(&Path) -> Cast,
    /// What the account says, in this order, among other things.
    pub shows: &'static [&'static str],
}

/// Who plays, and what connects them.
pub enum Cast {
    /// A machine that has all it needs, such as a child to spawn.
    Alone(Box<dyn Part>),
    /// Two machines that are given the ends of one socket.
    Pair(Box<dyn Part>, Box<dyn Part>),
    /// A host, and a guest who comes at its first event. When the guest is gone, the host is asked to leave.
    Visit {
        /// The host.
        host: Box<dyn Part>,
        /// The guest.
        guest: Box<dyn Part>,
    },
}

/// Names the children that a world can spawn.
pub type Programs = fn(&mut World<'_>);

/// Plays a scenario on every stage.
///
/// # Panics
///
/// The accounts differ, do not show what they should, or a stage does not come to its end.
pub fn play(scenario: &Scenario, programs: Programs) {
    // A stage that hangs fails the test, and its children shall not outlive it.
    guardian::arm().expect("a guardian");
    let accounts = STAGES.map(|(stage, play)| {
        let dir = TempDir::with_prefix("al").expect("a temporary directory");
        let cast = (scenario.cast)(dir.path());
        let ledgers = cast.ledgers();
        let done = within_patience(move || play(cast, programs));
        let accounts = ledgers.iter().map(|ledger| ledger.lock().unwrap_or_else(PoisonError::into_inner));
        let lines: Vec<String> = accounts.flat_map(|account| account.lines(dir.path())).collect();
        assert!(done, "{}: {stage} does not come to its end: {lines:#?}", scenario.name);
        (stage, lines)
    });
    let [(model, first), others @ ..] = &accounts;
    for (stage, account) in others {
        let same = first.iter().zip(account).take_while(|(one, other)| one == other).count();
        let differ = (first.get(same), account.get(same));
        assert_eq!(
            differ,
            (None, None),
            "{}: {model} and {stage}, after {:#?}",
            scenario.name,
            &first[..same]
        );
    }
    let account = first.join("\n");
    let mut rest = &*account;
    for text in scenario.shows {
        let found = rest.split_once(text);
        rest = found.unwrap_or_else(|| panic!("{}: no {text:?} in {rest}", scenario.name)).1;
    }
}

impl Cast {
    /// [`Cast::Alone`].
    #[must_use]
    pub fn alone(part: impl Part + 'static) -> Self {
        Self::Alone(Box::new(part))
    }

    /// [`Cast::Pair`].
    #[must_use]
    pub fn pair(one: impl Part + 'static, other: impl Part + 'static) -> Self {
        Self::Pair(Box::new(one), Box::new(other))
    }

    /// [`Cast::Visit`].
    #[must_use]
    pub fn visit(host: impl Part + 'static, guest: impl Part + 'static) -> Self {
        Self::Visit { host: Box::new(host), guest: Box::new(guest) }
    }

    fn ledgers(&self) -> Vec<Ledger> {
        match self {
            Self::Alone(part) => vec![part.ledger()],
            Self::Pair(one, other) | Self::Visit { host: one, guest: other } => {
                vec![one.ledger(), other.ledger()]
            }
        }
    }
}

/// Whether it comes to its end before the global deadline. A panic is passed on.
fn within_patience(play: impl FnOnce() + Send + 'static) -> bool {
    let (done, ended) = mpsc::channel();
    let playing = thread::spawn(move || {
        play();
        let _ = done.send(());
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(()) => true,
        Err(mpsc::RecvTimeoutError::Timeout) => false,
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            playing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            false
        }
    }
}

/// The global deadline: no stage is expected to take any time worth mentioning.
const PATIENCE: Duration = Duration::from_secs(30);
