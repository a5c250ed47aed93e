//! One delegated task, one fresh child: in a world in virtual time, and with real processes on each runtime.

mod answers;
mod cases;
mod checks;
mod hosted;
mod moments;
mod offered;
mod providers;
mod retries;
mod rig;
mod sessions;
mod traps;
mod worlds;

use cases::cases;
use rig::{blocking, simulated, smol};

#[test]
fn the_case_table_holds_in_virtual_time() {
    cases().into_iter().for_each(|case| case.run(rig::PROGRAM, simulated));
}

#[test]
fn the_case_table_holds_on_the_blocking_runtime() {
    cases().into_iter().for_each(|case| case.run(env!("CARGO_BIN_EXE_scripted_agent"), blocking));
}

#[test]
fn the_case_table_holds_on_the_smol_runtime() {
    cases().into_iter().for_each(|case| case.run(env!("CARGO_BIN_EXE_scripted_agent"), smol));
}
