//! Stored files, and streams that are given.

use super::Row;

pub(super) fn rows() -> Vec<Row> {
    Vec::new()
}
