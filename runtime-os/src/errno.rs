//! What the system's error numbers mean to a machine.

use std::io;

use agentline_core::OpenError;
use rustix::io::Errno;

/// Why something could not be opened, as far as the number alone says.
pub(crate) fn open_error(errno: Errno) -> OpenError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => OpenError::NotFound,
        Errno::CONNREFUSED => OpenError::Refused,
        Errno::AGAIN => OpenError::Busy,
        Errno::MFILE | Errno::NFILE => OpenError::TooManyFiles,
        Errno::PROTOTYPE | Errno::NOTSOCK => OpenError::NotASocket,
        Errno::ADDRINUSE => OpenError::InUse,
        Errno::TOOBIG => OpenError::TooLong,
        Errno::ACCESS | Errno::PERM => OpenError::Denied,
        Errno::TIMEDOUT => OpenError::TimedOut,
        other => OpenError::System(other.raw_os_error()),
    }
}

/// Why a program that was found does not run.
pub(crate) fn spawn_error(errno: Errno) -> OpenError {
    match errno {
        Errno::NOEXEC => OpenError::NotAProgram,
        Errno::NOENT => OpenError::NoInterpreter,
        Errno::ACCESS | Errno::PERM | Errno::ISDIR => OpenError::NotExecutable,
        // Somebody is still writing it.
        Errno::TXTBSY => OpenError::Busy,
        other => open_error(other),
    }
}

/// The number behind an error of the standard library.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::INVAL)
}
