//! The properties of traces.

use agentline_core::acp::client::Client;
use agentline_core::trace::{Recording, Tap, Tapped, Traced, Until, replay};
use agentline_core::{Machine, Now};

use crate::acp::play::{CLIENT, client_config, play};
use crate::dice::Dice;

/// A run that was recorded replays without a difference; a file that is none is refused, and harms nobody.
pub fn trace(data: &[u8]) {
    let mut dice = Dice::new(data);
    if dice.once_in(4) {
        let _ = replay::<Client>(dice.rest(), Until::End);
        return;
    }
    let config = client_config(&mut dice);
    let recording = Recording { channel: "acp".to_owned(), role: "client".to_owned(), secrets: Vec::new() };
    let mut tap = Tap::<Client>::new(Now::default(), Tapped { config, recording: Some(recording) });
    let mut file = String::new();
    play(&mut tap, &mut dice, &CLIENT, &mut |event| {
        if let Traced::Line(line) = event {
            file += &line;
            file.push('\n');
        }
    });
    let replayed =
        replay::<Client>(file.as_bytes(), Until::End).unwrap_or_else(|error| panic!("{error}\n{file}"));
    assert!(replayed.ended && replayed.damaged.is_empty(), "{file}");
}
