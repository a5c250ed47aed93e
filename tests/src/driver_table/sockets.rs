//! Unix sockets: private places, connections both ways, and what is never deleted.

use super::Row;

pub(super) fn rows() -> Vec<Row> {
    Vec::new()
}
