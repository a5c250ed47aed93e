//! The properties of traces.

use agentline_core::acp::client::{self, Client};
use agentline_core::acp::session::{McpServer, McpStdio, Pair};
use agentline_core::acp::{ContentBlock, SessionSetup};
use agentline_core::trace::{Recording, Tap, Tapped, Traced, Until, replay};
use agentline_core::{Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Refused, Secret};

use crate::acp::play::{CLIENT, MARK, client_config, play};
use crate::dice::Dice;

/// A run that was recorded replays without a difference, or shows no secret, whoever said it: where one was hidden, what
/// is told of columns and cut at a length may differ. A file that is none is refused, and harms nobody.
pub fn trace(data: &[u8]) {
    let mut dice = Dice::new(data);
    if dice.once_in(4) {
        let _ = replay::<Client>(dice.rest(), Until::End);
        return;
    }
    let secret = secret(&mut dice.clone());
    let mut config = client_config(&mut dice);
    // A tail that begins within a secret shows the rest of it.
    config.limits.stderr_tail = 4096;
    if let Open::Spawn(spec) = &mut config.open {
        spec.args.push(format!("--key={secret}").into());
        spec.env.push(("KEY".into(), Secret::new((&*secret).into())));
    }
    let secrets = vec![secret.as_bytes().to_vec().into()];
    let recording = Recording { channel: "acp".to_owned(), role: "client".to_owned(), secrets };
    let tap = Tap::<Client>::new(Now::default(), Tapped { config, recording: Some(recording) });
    let mut file = String::new();
    let mut told = |event| {
        if let Traced::Line(line) = event {
            file += &line;
            file.push('\n');
        }
    };
    if data.len().is_multiple_of(2) {
        play(&mut Gossip { tap, secret: &secret, said: 0 }, &mut dice, &CLIENT, &mut told);
        shows_nothing(&file, &secret);
        let _ = replay::<Client>(file.as_bytes(), Until::End);
        return;
    }
    let mut tap = tap;
    play(&mut tap, &mut dice, &CLIENT, &mut told);
    shows_nothing(&file, &secret);
    let replayed =
        replay::<Client>(file.as_bytes(), Until::End).unwrap_or_else(|error| panic!("{error}\n{file}"));
    assert!(replayed.ended && replayed.damaged.is_empty(), "{file}");
}

/// Of letters that are written in more than one way.
fn secret(dice: &mut Dice<'_>) -> String {
    const LETTERS: [char; 12] = ['k', '"', '\\', '/', 'é', '🦀', '%', 'u', '0', ' ', '&', '\t'];
    let letters = (0..4 + dice.below(12)).map(|_| *dice.pick(&LETTERS));
    format!("hush{}", letters.collect::<String>())
}

/// Whatever a reader makes of it: as it stands, or with its escapes undone once and twice.
fn shows_nothing(file: &str, secret: &str) {
    let mut text = file.to_owned();
    for _ in 0..3 {
        assert!(!text.contains(secret), "{secret:?} in {file}");
        text = unescaped(&text);
    }
}

fn unescaped(text: &str) -> String {
    let mut units = Vec::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            units.extend(letter.encode_utf16(&mut [0; 2]).iter());
            continue;
        }
        let hex: String = rest.as_str().chars().skip(1).take(4).collect();
        match (rest.next(), u16::from_str_radix(&hex, 16)) {
            (Some('u'), Ok(unit)) if hex.len() == 4 => {
                units.push(unit);
                rest = rest.as_str()[4..].chars();
            }
            (Some('t'), _) => units.push(9),
            (Some('n'), _) => units.push(10),
            (Some(other), _) => units.extend(other.encode_utf16(&mut [0; 2]).iter()),
            (None, _) => {}
        }
    }
    String::from_utf16_lossy(&units)
}

/// A client whose peer and whose application say the secret where there is a mark, each time in another spelling.
struct Gossip<'a> {
    tap: Tap<Client>,
    secret: &'a str,
    said: usize,
}

impl Gossip<'_> {
    /// As a JSON string has it, some letters by number.
    fn spelled(&mut self) -> String {
        self.said += 1;
        let mut spelled = String::new();
        for (at, letter) in self.secret.chars().enumerate() {
            if (at + self.said).is_multiple_of(3) {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    spelled += &format!("\\u{unit:04x}");
                }
            } else if letter == '/' && self.said.is_multiple_of(2) {
                spelled += "\\/";
            } else {
                spelled += serde_json::json!(letter.to_string()).to_string().trim_matches('"');
                if letter == '"' {
                    spelled += "\"";
                }
            }
        }
        spelled
    }

    fn setup(&self, setup: SessionSetup) -> SessionSetup {
        let env = vec![Pair { name: "KEY".into(), value: Secret::new(self.secret.to_owned()) }];
        let args = vec![format!("--key={}", self.secret)];
        let server = McpStdio { name: "m".into(), command: "/m".into(), args, env };
        SessionSetup { mcp_servers: vec![McpServer::Stdio(server)], ..setup }
    }
}

impl Machine for Gossip<'_> {
    type Config = ();
    type Command = client::Command;
    type Event = Traced<client::Event>;

    fn new(_: Now, (): ()) -> Self {
        unreachable!("it is put together by hand")
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, Heard::Bytes(bytes)) => {
                let text = String::from_utf8_lossy(bytes);
                if text.contains(MARK) && std::str::from_utf8(bytes).is_ok() {
                    let spelled = self.spelled();
                    let text = text.replace(MARK, &spelled);
                    return self.tap.handle(now, Input::Link(link, Heard::Bytes(text.as_bytes())));
                }
                self.tap.handle(now, input);
            }
            Input::Link(LinkId::FIRST, Heard::Stderr(bytes)) => {
                self.tap.handle(now, input);
                let (start, end) = self.secret.split_at("hush".len());
                for piece in [start, end, "\n"] {
                    self.tap.handle(now, Input::Link(LinkId::FIRST, Heard::Stderr(piece.as_bytes())));
                }
                self.tap.handle(now, Input::Link(LinkId::FIRST, Heard::Stderr(bytes)));
            }
            Input::Link(..) | Input::Tick | Input::Hold(_) | Input::StoreFailed(..) => {
                self.tap.handle(now, input);
            }
        }
    }

    fn command(&mut self, now: Now, command: client::Command) -> Result<(), Refused> {
        use client::Command as C;
        let command = if let C::OpenSession { tag, which, setup } = command {
            C::OpenSession { tag, which, setup: self.setup(setup) }
        } else if let C::Prompt { tag, session, .. } = command {
            C::Prompt { tag, session, prompt: vec![ContentBlock::text(self.secret)] }
        } else {
            command
        };
        self.tap.command(now, command)
    }

    fn poll(&mut self) -> Option<Output<Self::Event>> {
        self.tap.poll()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.tap.deadline()
    }
}
