//! One delegated task, one fresh child, nothing left behind (seed 003).

mod api;

pub use api::{
    Allow, By, Choice, Command, Config, Decision, Event, Finished, Outcome, Policy, SessionOpened, Setting,
    Verdict,
};
