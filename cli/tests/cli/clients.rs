//! The demo agent below clients of other habits than ours.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Leash};

/// A client that gives its agent six variables, names its requests by UUID and says nothing of itself.
struct Stranger {
    agent: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    asked: u32,
    _leash: Leash,
}

impl Stranger {
    fn new(bench: &Bench) -> Self {
        let home = bench.path("home");
        let mut agent = Command::new(AGENTLINE)
            .arg("demo-agent")
            .env_clear()
            .env("HOME", home)
            .envs([
                ("LOGNAME", "u"),
                ("PATH", "/usr/bin:/bin"),
                ("SHELL", "/bin/sh"),
                ("TERM", "dumb"),
                ("USER", "u"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let asks = agent.stdin.take();
        let answers = BufReader::new(agent.stdout.take().expect("a pipe"));
        let mut stranger = Self { _leash: Leash::of(&agent), agent, asks, answers, asked: 0 };
        let ready = stranger.ask("initialize", &json!({ "protocolVersion": 1 }));
        assert_eq!(ready["result"]["protocolVersion"], 1, "{ready}");
        stranger
    }

    fn says(&mut self, line: &str) {
        writeln!(self.asks.as_mut().expect("a pipe"), "{line}").expect("a reader");
    }

    fn asks(&mut self, method: &str, params: &Value) -> String {
        self.asked += 1;
        let id = format!("7d3f0c52-0b1e-4c63-9d0a-{:012}", self.asked);
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Asks, and reads up to the answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.asks(method, params);
        loop {
            let said = self.hears().expect("an answer");
            if said.get("method").is_none() {
                assert_eq!(said["id"], id, "{said}");
                return said;
            }
        }
    }

    fn hears(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("an object"))
    }

    fn opens_session(&mut self) -> Value {
        let opened = self.ask("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
        opened["result"]["sessionId"].clone()
    }

    /// Closes its end and sends a signal behind it; says how the agent ended, and what it still said.
    fn leaves(mut self) -> (Option<i32>, Vec<Value>, String) {
        self.asks = None;
        kill_process(Pid::from_child(&self.agent), Signal::TERM).expect("it is not reaped yet");
        let last: Vec<Value> = std::iter::from_fn(|| self.hears()).collect();
        let mut said = String::new();
        self.agent.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
        (self.agent.wait().expect("it ends").code(), last, said)
    }
}

#[test]
fn a_client_that_says_nothing_of_itself_is_served() {
    let bench = Bench::new();
    let mut stranger = Stranger::new(&bench);
    let session = stranger.opens_session();
    // Complaints about nothing, blank lines, and a cancel when nothing runs: none is answered, none is the end.
    stranger.says(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found: a/b"}}"#);
    stranger.says("");
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    stranger.says(&cancel.to_string());
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hello" }] });
    assert_eq!(stranger.ask("session/prompt", &prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(stranger.leaves(), (Some(0), vec![], String::new()));
}

#[test]
fn a_client_that_leaves_in_the_middle_is_answered() {
    let bench = Bench::new();
    let mut stranger = Stranger::new(&bench);
    let session = stranger.opens_session();
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "flood 100000000" }] });
    let id = stranger.asks("session/prompt", &prompt);
    assert_eq!(stranger.hears().expect("an update")["method"], "session/update");
    let (code, last, said) = stranger.leaves();
    assert_eq!((code, &*said), (Some(0), ""));
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "cancelled" } });
    assert_eq!(last.last(), Some(&answer), "{last:?}");
}
