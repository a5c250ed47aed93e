//! News that come before anybody knows whose they are.

use super::{Item, Name};
use crate::rpc::Json;

/// News that came before the name of their session: an agent may speak about one before it has answered the request that
/// opens it. Bounded in number and in bytes.
#[derive(Debug, Default)]
pub(crate) struct Early {
    items: Vec<Item>,
    bytes: usize,
}

/// News of a source that are kept until their session has a name, and the bytes of them.
const MOST: usize = 100;
const MOST_BYTES: usize = 256 << 10;

impl Early {
    /// Keeps it. `false`: there is no room.
    pub(crate) fn keep(&mut self, item: &Item) -> bool {
        let raw = item.raw.as_ref().map_or(0, |raw| raw.get().len());
        let bytes = self.bytes + raw + Json::new(item).get().len();
        let fits = self.items.len() < MOST && bytes <= MOST_BYTES;
        if fits {
            self.items.push(item.clone());
            self.bytes = bytes;
        }
        fits
    }

    /// Whether something was said of that one.
    pub(crate) fn knows(&self, name: &Name) -> bool {
        self.items.iter().any(|item| item.session == *name)
    }

    /// All of it, in order.
    pub(crate) fn into_items(self) -> Vec<Item> {
        self.items
    }
}
