//! What a fuzz target is: under cargo-fuzz a property that libFuzzer calls, else a program that replays files.

use std::path::Path;
use std::{fs, io};

/// Makes a property the whole of a fuzz target. The target's file begins with `#![cfg_attr(fuzzing, no_main)]`.
#[macro_export]
macro_rules! target {
    ($property:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $property(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            std::env::args_os().skip(1).try_for_each(|path| $crate::replay($property, path.as_ref()))
        }
    };
}

/// Holds a property against a file, or against every file below a folder.
///
/// # Errors
///
/// Something cannot be read.
///
/// # Panics
///
/// The property does not hold.
pub fn replay(property: fn(&[u8]), path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| replay(property, &entry?.path()));
    }
    let data = fs::read(path)?;
    println!("{}", path.display());
    property(&data);
    Ok(())
}
