//! Files for agents that have none of their own. Their commands are links of their source.

use super::book::SourceId;
use super::config::Errand;
use super::machine::Hub;
use super::open::{Expects, Pending};
use crate::acp::RequestKey;
use crate::host::{FileError, FileWanted};
use crate::machine::Now;
use crate::session::Wish;

impl Hub {
    /// Somebody outside has the files.
    pub(super) fn file_wanted(&mut self, source: SourceId, wanted: Box<FileWanted>) {
        let pending = Pending::File(source, wanted.request);
        self.errand(Errand::File { wanted }, pending);
    }

    /// How it went.
    pub(super) fn file_done(
        &mut self,
        now: Now,
        source: SourceId,
        request: RequestKey,
        done: Result<String, FileError>,
    ) {
        // Refused when nobody waits for it any more.
        let _ = self.wish(now, source, Wish::FileDone { request, done }, Expects::Nothing);
    }
}
