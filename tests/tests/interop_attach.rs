//! The attach channel with published peers: our client speaks into the attach server of agentica, the channel's own
//! client speaks into our session, and what the real server says to a line, ours says as well. Needs
//! `AGENTLINE_INTEROP`, the folder that `tests/interop/setup.sh` filled.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use agentline_tests::interop::{peers, script};
use agentline_tests::program::agentline;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A session that others can speak into, and what it said when it began.
struct Session {
    child: Child,
    said: Value,
    dir: TempDir,
}

impl Session {
    /// The real server, around a small host.
    fn real(options: &[&str]) -> Option<Self> {
        let python = peers()?.join("py/bin/python");
        let dir = TempDir::with_prefix("al").expect("a folder");
        let mut command = Command::new(python);
        command.arg(script("attach_server.py")).args(options).arg("--home").arg(dir.path());
        Some(Self::begin(&mut command, dir, |said| said["ok"] == true))
    }

    /// Ours, around the demo agent.
    fn ours() -> Option<Self> {
        peers()?;
        let dir = TempDir::with_prefix("al").expect("a folder");
        let mut command = Command::new(agentline());
        command.args(["chat", "--attachable", "--json", "--agent", "demo"]);
        command.env("HOME", dir.path()).env("AGENTICA_ATTACH_DIR", dir.path().join("at"));
        Some(Self::begin(&mut command, dir, |said| said["type"] == "listening"))
    }

    fn begin(command: &mut Command, dir: TempDir, began: impl Fn(&Value) -> bool) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut objects = lines.by_ref().map(|line| serde_json::from_str(&line).expect("an object"));
        let said = objects.find(|object| began(object)).expect("it begins");
        // Who stops reading ends the session.
        thread::spawn(move || lines.for_each(drop));
        Self { child, said, dir }
    }

    fn socket(&self) -> &str {
        self.said["socket"].as_str().expect("a path")
    }

    /// `agentline attach …`, with this session among those that can be found.
    fn attach(&self, args: &[&str]) -> Command {
        let mut command = Command::new(agentline());
        command.args(["attach", "--json"]).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("HOME", self.dir.path()).env("AGENTICA_CACHE_DIR", self.dir.path().join("cache"));
        command
    }

    fn send(&self, words: &str) -> Command {
        self.attach(&["send", self.socket(), words])
    }

    /// A connection that is let in, by hand.
    fn enter(&self) -> BufReader<UnixStream> {
        let mut stream = BufReader::new(UnixStream::connect(self.socket()).expect("somebody listens"));
        let token = fs::read_to_string(Path::new(self.socket()).with_extension("token")).expect("a token");
        let hello =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"authToken": token.trim()}});
        assert!(ask(&mut stream, &hello.to_string())["result"].is_object());
        stream
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn ask(stream: &mut BufReader<UnixStream>, line: &str) -> Value {
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_line(&mut answer).expect("a line");
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{line} is answered by {answer:?}"))
}

/// The one object that was printed, and the exit code.
fn result(output: &Output) -> (Value, Option<i32>) {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    (serde_json::from_str(&text).expect(&text), output.status.code())
}

fn run(command: &mut Command) -> (Value, Option<i32>) {
    result(&command.output().expect("it runs"))
}

#[test]
fn our_client_finds_the_real_server_and_is_answered() {
    let Some(session) = Session::real(&["--echo-answer"]) else { return };
    let id = session.said["peer_id"].as_str().expect("an id");
    let (listed, _) = run(&mut session.attach(&["list"]));
    let expected = json!([id, session.said["socket"], "sess-0001", true]);
    assert_eq!(json!([listed["peerId"], listed["socket"], listed["sessionId"], listed["alive"]]), expected);
    let (said, code) = run(&mut session.attach(&["send", &id[..4], "say PONG", "--session", "sess-0001"]));
    let told = [&said["outcome"], &said["stopReason"], &said["answer"]];
    assert_eq!(
        (told, code),
        (["completed", "end_turn", "echo: say PONG"].map(Value::from).each_ref(), Some(0))
    );
    assert_eq!(run(&mut session.attach(&["ping", id])).1, Some(0));
    assert_eq!(run(&mut session.attach(&["load", id])).0["sessionId"], "sess-0001");
    let (other, code) = run(&mut session.attach(&["send", id, "x", "--session", "other"]));
    assert_eq!((&other["error"]["kind"], code), (&json!("not_found"), Some(3)));
}

#[test]
fn our_client_cancels_a_turn_of_the_real_server_over_a_second_connection() {
    let Some(session) = Session::real(&["--turn", "600"]) else { return };
    let sent = session.send("count to infinity").spawn().expect("it runs");
    while run(&mut session.attach(&["load", session.socket()])).0["busy"] != true {}
    assert_eq!(run(&mut session.attach(&["cancel", session.socket()])).0["type"], "ok");
    let (said, code) = result(&sent.wait_with_output().expect("it ends"));
    assert_eq!(
        (&said["outcome"], &said["stopReason"], code),
        (&json!("aborted"), &json!("cancelled"), Some(130))
    );
}

#[test]
fn two_of_our_clients_take_turns_at_the_real_server() {
    let Some(session) = Session::real(&["--echo-answer"]) else { return };
    let both = ["one", "two"].map(|words| (words, session.send(words).spawn().expect("it runs")));
    for (words, sent) in both {
        let (said, _) = result(&sent.wait_with_output().expect("it ends"));
        assert_eq!(
            (&said["stopReason"], &said["answer"]),
            (&json!("end_turn"), &json!(format!("echo: {words}")))
        );
    }
}

#[test]
fn a_line_of_eight_mebibytes_goes_through_and_no_byte_more() {
    for session in [Session::real(&[]), Session::ours()].into_iter().flatten() {
        let around = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"prompt": [{"type": "text", "text": ""}]}});
        let room = (8 << 20) - 1 - around.to_string().len();
        for (length, code) in [(room, Some(0)), (room + 1, Some(2))] {
            let words = session.dir.path().join("words");
            fs::write(&words, "x".repeat(length)).expect("a file");
            let mut send = session.attach(&["send", session.socket(), "-"]);
            let (said, ended) = run(send.stdin(fs::File::open(&words).expect("a file")));
            assert_eq!(ended, code, "{} {}", said["stopReason"], said["error"]);
        }
    }
}

#[test]
fn the_channels_own_client_speaks_into_our_session() {
    let Some(session) = Session::ours() else { return };
    let mut client = Command::new("python3");
    client.arg(script("seed_attach_client.py")).args([session.socket(), "PONG"]);
    let output = client.output().expect("python3 runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(answers[0]["result"]["agentInfo"]["name"], "agentline");
    let turn = json!({"stopReason": "end_turn", "agenticaAnswer": "PONG"});
    assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": 2, "result": turn}));
}

/// What both servers say to a line: the id, and the code or the members of the result.
fn verdict(answer: &Value) -> Value {
    let members = answer["result"].as_object().map(|result| result.keys().cloned().collect::<Vec<_>>());
    json!([answer["id"], answer["error"]["code"], members])
}

#[test]
fn what_the_real_server_says_to_a_line_ours_says_as_well() {
    let (Some(real), Some(ours)) = (Session::real(&["--turn", "0.05"]), Session::ours()) else { return };
    let (mut real, mut ours) = (real.enter(), ours.enter());
    let prompt = |blocks: Value| {
        json!({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": {"prompt": blocks}})
            .to_string()
    };
    let text = json!({"type": "text", "text": "say PONG"});
    let mixed = prompt(json!([text, {"type": "image", "data": "", "mimeType": "image/png"}]));
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(),
        r#"{"id":1,"method":"ping"}"#.to_owned(),
        r#"{"id":"x🎉","method":"ping","params":[]}"#.to_owned(),
        r#"{"id":-3,"method":"ping","params":null}"#.to_owned(),
        "  {\"id\":1,\"method\":\"ping\"}\r".to_owned(),
        r#"{"id":12345678901234567890123456789012345678901,"method":"ping"}"#.to_owned(),
        r#"{"id":1,"method":"session/new"}"#.to_owned(),
        r#"{"id":1,"method":7}"#.to_owned(),
        r#"{"id":1}"#.to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
        "{not json".to_owned(),
        r#"{"id":1,"method":"ping"} {}"#.to_owned(),
        r#"{"id":1,"method":"session/load","params":{}}"#.to_owned(),
        r#"{"id":1,"method":"session/load","params":{"sessionId":"other"}}"#.to_owned(),
        r#"{"id":1,"method":"session/cancel"}"#.to_owned(),
        r#"{"id":1,"method":"initialize","params":{}}"#.to_owned(),
        prompt(json!("say PONG")),
        prompt(json!([text, text])),
        mixed,
        prompt(json!([])),
        prompt(json!([{"type": "text", "text": " "}])),
        prompt(json!(7)),
        r#"{"id":1,"method":"session/prompt","params":{"sessionId":"other","prompt":"x"}}"#.to_owned(),
    ];
    for line in lines {
        let (real, ours) = (ask(&mut real, &line), ask(&mut ours, &line));
        assert_eq!(verdict(&ours), verdict(&real), "{line}: {ours} and not {real}");
    }
}

#[test]
fn the_peers_are_where_they_should_be() {
    let Some(folder) = peers() else { return };
    let python: PathBuf = folder.join("py/bin/python");
    assert!(python.exists(), "run tests/interop/setup.sh {}", folder.display());
}
