//! What may go wrong, and the dice that decide when it does.

use std::time::Duration;

use agentline_core::{Exit, OpenError};

use crate::dice::Dice;

/// Which faults a world may have. Each happens when the dice say so, never when they have run out.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Faults {
    /// News of every kind arrives late, and `Written` after what it led to.
    pub late: bool,
    /// Bytes arrive in other pieces than they were written in.
    pub cut: bool,
    /// Children cannot be started, connections cannot be made or taken, files cannot be written.
    pub refuse: bool,
    /// Children die at a write, and connections break at one.
    pub death: bool,
    /// Children have bad manners: see [`Manners`].
    pub manners: bool,
    /// The clock jumps ahead by an hour.
    pub jump: bool,
}

impl Faults {
    /// A world where nothing goes wrong.
    pub const NONE: Self =
        Self { late: false, cut: false, refuse: false, death: false, manners: false, jump: false };
    /// A world where everything may.
    pub const ALL: Self =
        Self { late: true, cut: true, refuse: true, death: true, manners: true, jump: true };

    pub(super) fn pause(self, dice: &mut Dice<'_>) -> Duration {
        if self.late { dice.pause() } else { Duration::ZERO }
    }

    /// How many bytes arrive together.
    pub(super) fn piece(self, dice: &mut Dice<'_>) -> usize {
        if self.cut && dice.once_in(2) { 1 + dice.below(9) } else { 64 << 10 }
    }

    pub(super) fn spawn_error(self, dice: &mut Dice<'_>) -> Option<OpenError> {
        const ERRORS: [OpenError; 5] = [
            OpenError::TooManyFiles,
            OpenError::NotAProgram,
            OpenError::Busy,
            OpenError::BadDirectory,
            OpenError::System(11),
        ];
        (self.refuse && dice.once_in(12)).then(|| *dice.pick(&ERRORS))
    }

    pub(super) fn connect_error(self, dice: &mut Dice<'_>) -> Option<OpenError> {
        const ERRORS: [OpenError; 3] = [OpenError::TooManyFiles, OpenError::Busy, OpenError::Refused];
        (self.refuse && dice.once_in(12)).then(|| *dice.pick(&ERRORS))
    }

    pub(super) fn accept_fails(self, dice: &mut Dice<'_>) -> bool {
        self.refuse && dice.once_in(9)
    }

    pub(super) fn store_fails(self, dice: &mut Dice<'_>) -> bool {
        self.refuse && dice.once_in(9)
    }

    pub(super) fn breaks(self, dice: &mut Dice<'_>) -> bool {
        self.death && dice.once_in(64)
    }

    pub(super) fn dies(self, dice: &mut Dice<'_>) -> Option<Exit> {
        const EXITS: [Exit; 4] = [Exit::Signal(11), Exit::Code(0), Exit::Code(3), Exit::Unknown];
        (self.death && dice.once_in(48)).then(|| *dice.pick(&EXITS))
    }

    pub(super) fn jumps(self, dice: &mut Dice<'_>) -> bool {
        self.jump && dice.once_in(128)
    }

    pub(super) fn manners(self, dice: &mut Dice<'_>) -> Manners {
        if !self.manners {
            return Manners::default();
        }
        Manners {
            deaf: dice.once_in(10),
            shuts_stdin: dice.once_in(10),
            chatty: dice.once_in(6),
            ignores_term: dice.once_in(4),
            lingers: dice.once_in(5),
            heir: dice.once_in(5).then(|| Heir { ignores_term: dice.once_in(3), chats: dice.below(8) }),
            slow: Duration::from_millis(if dice.once_in(10) { 50 } else { 0 }),
        }
    }
}

/// How a child behaves, apart from what it says.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Manners {
    /// Never reads its stdin, so it never sees the end of it either.
    pub deaf: bool,
    /// Closes its stdin at its first write and lives on.
    pub shuts_stdin: bool,
    /// Adds a line of noise to each write, and writes to standard error.
    pub chatty: bool,
    /// Lives on after SIGTERM.
    pub ignores_term: bool,
    /// Closes its stdout when it is done, but does not exit.
    pub lingers: bool,
    /// Leaves a process behind that holds the pipes.
    pub heir: Option<Heir>,
    /// How long it thinks before each read of its stdin.
    pub slow: Duration,
}

/// A process in the group of a child that outlives it.
#[derive(Clone, Copy, Debug)]
pub struct Heir {
    /// Lives on after SIGTERM.
    pub ignores_term: bool,
    /// Lines of noise that it still writes, one every 300 ms.
    pub chats: usize,
}
