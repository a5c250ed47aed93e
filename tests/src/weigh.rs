//! What something costs in memory: bytes and allocations of this thread, counted by the allocator.

/// What was allocated while something ran.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Weight {
    /// Bytes that are still held, less those that were given back and had been there before.
    pub kept: i64,
    /// Bytes that were held at once at most.
    pub peak: u64,
    /// How often memory was asked for.
    pub allocations: u64,
}

/// Weighs what runs on this thread. May be nested.
pub fn weigh<T>(run: impl FnOnce() -> T) -> (T, Weight) {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(run()));
    let weight =
        Weight { kept: counted.bytes_current, peak: counted.bytes_max, allocations: counted.count_total };
    (made.expect("it ran"), weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told_from_what_was_only_used() {
        let (kept, weight) = weigh(|| {
            drop(vec![0_u8; 1000]);
            vec![0_u8; 300]
        });
        assert_eq!(weight, Weight { kept: 300, peak: 1000, allocations: 2 });
        let ((), weight) = weigh(|| drop(kept));
        assert_eq!((weight.kept, weight.allocations), (-300, 0));
    }
}
