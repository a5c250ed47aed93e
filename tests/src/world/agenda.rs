//! What is to happen, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use agentline_core::Time;

/// Entries in order of time, and of insertion at the same time.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    key: (Time, u64),
    what: T,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { entries: BinaryHeap::new(), count: 0 }
    }
}

impl<T> Agenda<T> {
    pub(super) fn add(&mut self, at: Time, what: T) {
        self.count += 1;
        self.entries.push(Reverse(Entry { key: (at, self.count), what }));
    }

    pub(super) fn first(&self) -> Option<(Time, &T)> {
        self.entries.peek().map(|Reverse(entry)| (entry.key.0, &entry.what))
    }

    pub(super) fn pop(&mut self) -> Option<(Time, T)> {
        self.entries.pop().map(|Reverse(entry)| (entry.key.0, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}
