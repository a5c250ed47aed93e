//! What a front is, whatever it speaks: the mirror of a source.

use crate::acp::agent::Initialized;
use crate::machine::Tag;
use crate::session::{Noted, TurnId, Wish};

/// What a front says. It is told what a source tells, with the book's own names of turns and questions.
#[derive(Debug)]
pub(super) enum Said {
    /// Its client has introduced itself, and waits for [`Told::Up`](crate::session::Told::Up).
    Introduced(Box<Initialized>),
    /// Its client wants something. A prompt has a name of the front's own; everything else is told as
    /// [`Told::Done`](crate::session::Told::Done) of that tag, where it has an answer.
    Wish(Tag, Wish),
    /// Its client takes a prompt back: if that waits it goes, if it runs it is cancelled.
    Withdraw(TurnId),
    /// Its client does not read (`true`), or does again.
    Full(bool),
    /// Worth knowing, needs no reaction.
    Noted(Noted),
    /// Its client is gone.
    Left,
}
