//! Our stdout: gathered, and never the reason for a panic.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// What is written to stdout, gathered until [`Out::flush`].
#[derive(Debug, Default)]
pub(crate) struct Out {
    gathered: Vec<u8>,
    broken: Option<Errno>,
}

impl Out {
    pub(crate) fn write(&mut self, text: &str) {
        if self.broken.is_none() {
            self.gathered.extend_from_slice(text.as_bytes());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    pub(crate) fn is_large(&self) -> bool {
        self.gathered.len() >= ENOUGH
    }

    /// Writes all of it; waits for a slow reader, whether or not somebody made our stdout non-blocking.
    ///
    /// After an error there is nothing but that error, and what is written is dropped.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(error) = self.broken {
            return Err(error.into());
        }
        let stdout = rustix::stdio::stdout();
        let mut rest = &self.gathered[..];
        while !rest.is_empty() {
            match rustix::io::write(stdout, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = rustix::event::poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None);
                }
                Err(error) => {
                    *self = Self { gathered: Vec::new(), broken: Some(error) };
                    return Err(error.into());
                }
            }
        }
        self.gathered.clear();
        self.gathered.shrink_to(ENOUGH);
        Ok(())
    }
}

/// Writes to stdout. A reader that is gone has read enough.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = Out::default();
    out.write(text);
    match out.flush() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// Bytes that are written even while more arrive: what a pipe holds.
const ENOUGH: usize = 64 << 10;
