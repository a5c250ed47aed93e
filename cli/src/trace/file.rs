//! The file of `--trace`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::words::Problem;
use agentline_os::file;

use crate::prompt::of_file;

/// A record of everything that is said. Only we may read it: masked or not, it holds what was said.
pub(crate) struct Trace {
    file: BufWriter<File>,
    broken: bool,
}

impl Trace {
    /// A new file. `replace`: one that is there may go.
    pub(crate) fn new(path: &Path, replace: bool) -> Result<Self, Problem> {
        let file = file::create_private(path, replace).map_err(|error| {
            let hint =
                if error.is_in_the_way() && !replace { "--force replaces it" } else { "--trace NEW-FILE" };
            of_file("--trace", path, error).hint(hint)
        })?;
        Ok(Self { file: BufWriter::new(file), broken: false })
    }

    /// Takes a line; what is told is why the trace ends here.
    pub(crate) fn write(&mut self, line: &str) -> Option<String> {
        if self.broken {
            return None;
        }
        let written = writeln!(self.file, "{line}");
        self.note(&written)
    }

    /// Brings what was taken to the file; what is told is why the trace ends here.
    pub(crate) fn flush(&mut self) -> Option<String> {
        if self.broken {
            return None;
        }
        let flushed = self.file.flush();
        self.note(&flushed)
    }

    /// A trace with a gap would be worse than one that ends.
    fn note(&mut self, done: &io::Result<()>) -> Option<String> {
        let error = done.as_ref().err()?;
        self.broken = true;
        Some(format!("the trace ends here: {error}"))
    }
}
