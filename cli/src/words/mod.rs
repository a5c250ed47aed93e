//! Everything that this program says about what it found and what went wrong: sentences, hints and exit codes, and
//! nothing of it anywhere else. What happened comes as data.

mod agent;
mod attach;
pub(crate) mod check;
mod discovery;
mod ended;
mod odd;
mod offers;
mod problem;
mod quote;
mod shell;

pub(crate) use agent::{Subject, Verb, notice, problem};
pub(crate) use ended::Ended;
pub(crate) use odd::Odd;
pub(crate) use offers::{hosts, offers};
pub(crate) use problem::{Kind, Phase, Problem};
pub(crate) use quote::{quote, quote_details};
pub(crate) use shell::command_line;

/// The language of a text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, as BotBus itself writes it.
    Chinese,
}

impl Language {
    const fn pick<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}
