//! What holds for any sequence of bytes, clients and turns.

use std::collections::BTreeMap;

use quickcheck::quickcheck;

use super::*;

/// A server under any sequence of operations, with what it owes.
struct Model {
    desk: Desk<Server>,
    clients: Vec<Client>,
    received: Vec<PromptId>,
    running: bool,
    asked: u32,
}

struct Client {
    link: LinkId,
    stopped: bool,
    broken: bool,
    /// The ids that were asked for, in order.
    asked: Vec<u32>,
    answers: String,
}

impl Model {
    fn new() -> Self {
        let mut config = config();
        config.limits.connections = 4;
        let desk = serving_with(config);
        Self { desk, clients: Vec::new(), received: Vec::new(), running: false, asked: 0 }
    }

    fn step(&mut self, op: u8, which: u8) {
        let at = usize::from(which) % self.clients.len().max(1);
        match op % 16 {
            0 | 1 if self.desk.accepting.is_some() => self.come(),
            2..=4 => self.ask(at, "session/prompt"),
            5 => self.ask(at, "ping"),
            6 => self.ask(at, "session/load"),
            7 => self.ask(at, "session/cancel"),
            8 => self.stop(at),
            9 => self.shatter(at),
            10 | 11 => self.take(which),
            12 if !self.running => self.turn(Command::TurnStarted),
            13 if self.running => self.turn(ended("so")),
            14 if self.running => self.turn(Command::TurnCancelled),
            15 => self.desk.pass(Duration::from_millis(u64::from(which) * 10)),
            _ => {}
        }
        for event in std::mem::take(&mut self.desk.events) {
            if let Event::PromptReceived { prompt, .. } = event {
                assert!(self.received.last().is_none_or(|last| *last < prompt), "numbers rise");
                self.received.push(prompt);
            }
        }
        for client in &mut self.clients {
            client.answers += &self.desk.read(client.link);
        }
    }

    fn come(&mut self) {
        let link = self.desk.enter();
        self.clients.push(Client {
            link,
            stopped: false,
            broken: false,
            asked: Vec::new(),
            answers: String::new(),
        });
    }

    fn ask(&mut self, at: usize, method: &str) {
        let Some(client) = self.clients.get_mut(at).filter(|client| !client.stopped) else { return };
        self.asked += 1;
        client.asked.push(self.asked);
        let line = format!(r#"{{"id":{},"method":"{method}","params":{{"prompt":"x"}}}}"#, self.asked);
        self.desk.send(client.link, format!("{line}\n").as_bytes());
    }

    fn stop(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at).filter(|client| !client.stopped) {
            client.stopped = true;
            self.desk.heard(client.link, Heard::Eof);
        }
    }

    fn shatter(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at) {
            client.stopped = true;
            client.broken = true;
            self.desk.heard(client.link, Heard::WriteFailed);
            self.desk.heard(client.link, Heard::Eof);
        }
    }

    fn take(&mut self, which: u8) {
        let Some(prompt) = self.received.last().copied() else { return };
        let how = match which % 4 {
            0 => Injection::Steered,
            1 | 2 => Injection::Queued,
            _ => Injection::Unknown,
        };
        // Refused when it is over already.
        let _ = self.desk.command(Command::Injected(prompt, how));
    }

    fn turn(&mut self, command: Command) {
        self.running = matches!(command, Command::TurnStarted);
        self.desk.run([command]);
    }

    /// However it went, everybody has got what they are owed, in order and once.
    fn settle(mut self) {
        // Each prompt that still waits in line waits its ten minutes.
        self.desk.pass(Duration::from_secs(600 * (1 + u64::from(self.asked))));
        self.step(16, 0);
        for client in &self.clients {
            let answered: Vec<u32> = client.answers.lines().map(id).collect();
            if client.broken {
                assert!(client.asked.starts_with(&answered));
            } else {
                assert_eq!(answered, client.asked);
            }
            assert_eq!(client.stopped, self.desk.closed.contains(&client.link));
        }
        assert!(self.desk.accepting.is_some() || self.clients.iter().filter(|c| !c.stopped).count() == 4);
        self.desk.run([Command::Shutdown]);
        self.desk.pass(Duration::from_secs(5));
        assert!(self.desk.ended && self.desk.files.is_empty());
    }
}

fn id(line: &str) -> u32 {
    let line: BTreeMap<String, Value> = serde_json::from_str(line).expect("one object a line");
    u32::try_from(line["id"].as_u64().expect("an id of ours")).expect("small")
}

quickcheck! {
    fn everybody_is_answered_once_and_in_order(ops: Vec<(u8, u8)>) -> bool {
        let mut model = Model::new();
        for (op, which) in ops {
            model.step(op, which);
        }
        model.settle();
        true
    }

    fn no_bytes_make_a_server_panic_or_write_anything_but_json(admitted: bool, chunks: Vec<Vec<u8>>) -> bool {
        let mut desk = serving();
        let client = if admitted { desk.enter() } else { desk.connect() };
        for chunk in chunks {
            desk.send(client, &chunk);
        }
        desk.heard(client, Heard::Eof);
        desk.read(client).lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
    }
}

#[test]
fn any_cut_of_a_clients_bytes_gives_the_same_answers() {
    let prompt = prompt(2, &json!("x"));
    let script =
        format!("{HELLO}\r\n{prompt}\n{PING}\n\nno\n{{\"id\":3,\"method\":\"session/load\"}}\n{PING}");
    let seen = |cuts: [usize; 2]| {
        let mut desk = serving();
        let client = desk.connect();
        let (mut from, bytes) = (0, script.as_bytes());
        for to in cuts.into_iter().chain([bytes.len()]) {
            desk.send(client, &bytes[from..to]);
            from = to;
        }
        desk.heard(client, Heard::Eof);
        desk.start();
        desk.run([ended("done")]);
        assert!(desk.closed.contains(&client));
        desk.read(client)
    };
    let whole = seen([0, 0]);
    assert_eq!(whole.lines().count(), 6);
    for first in (0..=script.len()).step_by(2) {
        for second in first..=script.len() {
            assert_eq!(seen([first, second]), whole, "{first} {second}");
        }
    }
}
