//! Requests of ours that wait for an answer.

use std::collections::BTreeMap;

use super::Id;

/// Open requests by number, each with what the asker needs to know when the answer comes.
///
/// Numbers rise and are never used again on a connection, so a late answer cannot hit a newer request.
#[derive(Debug)]
pub struct Pending<Ask> {
    open: BTreeMap<u64, Ask>,
    next: u64,
}

impl<Ask> Default for Pending<Ask> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), next: 0 }
    }
}

impl<Ask> Pending<Ask> {
    /// Opens a request and returns its number.
    pub fn open(&mut self, ask: Ask) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, ask);
        number
    }

    /// The number that the next request will have.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Closes the request that an answer names; `None` when nobody waits for it.
    pub fn close(&mut self, id: &Id) -> Option<Ask> {
        self.open.remove(&id.number()?)
    }

    /// Closes a request by number.
    pub fn forget(&mut self, number: u64) -> Option<Ask> {
        self.open.remove(&number)
    }

    /// What is known of an open request.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Ask> {
        self.open.get(&number)
    }

    /// What is known of an open request, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Ask> {
        self.open.get_mut(&number)
    }

    /// Closes the oldest request.
    pub fn pop(&mut self) -> Option<Ask> {
        self.open.pop_first().map(|(_, ask)| ask)
    }

    /// The open requests, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Ask)> {
        self.open.iter().map(|(number, ask)| (*number, ask))
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
