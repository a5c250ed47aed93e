//! A home of its own for each test, and the binary in it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use agentline_tests::driver_table::Witness;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary.
pub(crate) const AGENTLINE: &str = env!("CARGO_BIN_EXE_agentline");

/// A home and a workspace that nobody else has.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        for name in ["home", "work"] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        Self { dir }
    }

    /// A file outside the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// `agentline` in the workspace, with nothing of our own environment.
    pub(crate) fn agentline(&self, args: &[&str]) -> Command {
        let mut command = Command::new(AGENTLINE);
        command
            .args(args)
            .current_dir(self.path("work"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    /// The command of an agent that holds the witness while anybody of it lives.
    pub(crate) fn watched(&self, agent: &[&str]) -> (Vec<String>, Witness) {
        self.shell("exec 9>\"$0\"; exec \"$@\"", agent)
    }

    /// The same, and the witness is told what the agent is sent.
    pub(crate) fn tapped(&self, agent: &[&str]) -> (Vec<String>, Witness) {
        self.shell("exec 9>\"$0\"; tee /dev/fd/9 | exec \"$@\"", agent)
    }

    /// The command of an agent that answers each line with the next of these texts, whatever it was asked.
    pub(crate) fn answering(&self, answers: &[String]) -> Vec<String> {
        let script = "for file; do read -r line || exit 0; cat \"$file\"; done; cat >/dev/null";
        let files = answers.iter().enumerate().map(|(at, answer)| {
            let file = self.file(&format!("answer-{at}"), answer);
            text(&file).to_owned()
        });
        ["--", "/bin/sh", "-c", script, "sh"].map(str::to_owned).into_iter().chain(files).collect()
    }

    fn shell(&self, script: &str, agent: &[&str]) -> (Vec<String>, Witness) {
        let path = self.path("witness");
        let witness = Witness::new(&path);
        let words = ["--", "/bin/sh", "-c", script, path.to_str().expect("UTF-8")];
        (words.iter().chain(agent).map(|word| (*word).to_owned()).collect(), witness)
    }
}

/// Runs to the end.
pub(crate) fn done(command: &mut Command) -> Done {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let _leash = Leash::of(&child);
    Done::of(child.wait_with_output().expect("it ends"))
}

/// The global deadline of a test: a child that hangs is killed, so that the test fails and does not hang too.
pub(crate) struct Leash {
    _dropped: Sender<()>,
}

impl Leash {
    pub(crate) fn of(child: &Child) -> Self {
        let (dropped, drops) = channel();
        let pid = Pid::from_child(child);
        thread::spawn(move || {
            if drops.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { _dropped: dropped }
    }
}

/// Far more than any test takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// The objects of stdout: one a line, and nothing else.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The one result of a run, which is the last object as its one start is the first.
    pub(crate) fn result(&self) -> Value {
        let objects = self.objects();
        let count = |kind: &str| objects.iter().filter(|object| object["type"] == kind).count();
        assert_eq!((count("start"), count("result")), (1, 1), "{self:?}");
        assert_eq!(objects[0]["type"], "start", "{self:?}");
        assert_eq!(objects[0]["schemaVersion"], 1);
        let last = objects.last().expect("an object");
        assert_eq!(last["type"], "result", "{self:?}");
        last.clone()
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    _leash: Leash,
}

impl Running {
    pub(crate) fn new(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let stdout = child.stdout.take().map(BufReader::new);
        Self { _leash: Leash::of(&child), child, stdout }
    }

    /// Reads stdout up to an object of that type.
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        self.until_some(|object| object["type"] == kind)
    }

    /// Reads stdout up to such an object.
    pub(crate) fn until_some(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        let lines = self.stdout.as_mut().expect("a pipe").lines();
        let mut objects = lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("an object"));
        objects.find(is_meant).expect("such an object")
    }

    /// Reads stdout up to that line.
    pub(crate) fn until_line(&mut self, line: &str) {
        let stdout = self.stdout.as_mut().expect("a pipe");
        assert!(stdout.lines().any(|read| read.is_ok_and(|read| read == line)), "no {line}");
    }

    /// Reads stderr up to that text.
    pub(crate) fn until_said(&mut self, text: &str) -> String {
        let mut said = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&said).ends_with(text) {
            self.child.stderr.as_mut().expect("a pipe").read_exact(&mut byte).expect(text);
            said.extend(byte);
        }
        String::from_utf8(said).expect("UTF-8")
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Stops reading stdout.
    pub(crate) fn hang_up(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// How it ended, and what else it said.
    pub(crate) fn end(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut out).expect("UTF-8");
        }
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("UTF-8");
        (self.child.wait().expect("it ends"), out, err)
    }
}

/// How often a test repeats what goes wrong only now and then. `AGENTLINE_TEST_RUNS=200 cargo test -p agentline-cli c1_ g6_`
/// repeats it more often.
pub(crate) fn repeats(otherwise: u32) -> u32 {
    std::env::var("AGENTLINE_TEST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(otherwise)
}

/// Messages of an agent, one a line.
pub(crate) fn messages(values: &[Value]) -> String {
    values.iter().map(|value| value.to_string() + "\n").collect()
}

/// An agent's answer to the request of that number.
pub(crate) fn result(id: u64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An agent's update of the session `s`.
pub(crate) fn update(update: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
}

/// A text with its times replaced, since they are never the same.
pub(crate) fn timeless(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let is_unit = |word: &str| {
        matches!(word.trim_end(), "s" | "ms") || word.starts_with("s\n") || word.starts_with("ms\n")
    };
    let mut shown = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_time = word.parse::<f64>().is_ok() && words.get(at + 1).is_some_and(|next| is_unit(next));
        let after = at > 0 && words[at - 1].parse::<f64>().is_ok() && is_unit(word);
        shown.push(match (is_time, after) {
            (true, _) => "N".to_owned(),
            (_, true) => word.replacen("ms", "s", 1),
            (false, false) => (*word).to_owned(),
        });
    }
    shown.join(" ")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
