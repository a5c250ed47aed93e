//! Record and replay: a run is its config plus the sequence of inputs and commands, so a file of those is the
//! run itself.
//!
//! [`Tap`] wraps any machine and tells one line per input and output beside the machine's own events; the
//! application writes the lines to a file. [`Reader`] reads such a file, damaged or not, and [`Replay`] runs it
//! again in virtual time and names the first difference.
//!
//! ```text
//! {"format":1,"channel":"acp","role":"client","version":"0.1.0","t":0,"unix":{"secs":1764460800,"nanos":0},"config":{…}}
//! {"t":0,"link":0,"dir":"act","value":{"open":{"spawn":{…}}}}
//! {"t":1840,"link":0,"dir":"opened","value":{"pid":4711,"uid":null}}
//! {"t":1840,"link":0,"dir":"out","line":"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",…}"}
//! ```
//!
//! The header holds the config, and with it limits and seeds. A record holds the monotonic time in microseconds
//! (`t`), the link, the kind ([`Dir`]) and either the bytes (`line` when they are exactly one line, `text`, else
//! `hex`) or a `value`. `unix` stands where the wall clock did not run along with `t` since it was last stated.
//!
//! # Secrets
//!
//! A [`Secret`](crate::Secret) is written as a placeholder, and so is each byte string that [`Recording`] names,
//! wherever it is met, as `‹secret 1›` and so on. For a replay all placeholders are one, so a password that is
//! sent or checked still fits; two that are told apart in one run are not, and a limit on lengths may be met
//! elsewhere. Out of reach is a secret that the peer itself spreads over several messages or encodes, as in base64.

mod mask;
mod record;
mod replay;
mod tap;
#[cfg(test)]
mod tests;
mod value;

pub use mask::Masks;
pub use record::{Body, Damage, Dir, Header, Reader, Record};
pub use replay::{Replay, ReplayError, Replayed, Until, replay};
pub use tap::{Recording, Tap, Tapped, Traced};
pub(crate) use value::{os, os_env, os_list, wire};
