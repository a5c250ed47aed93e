//! The demo runner: Galley's protocol on stdin and stdout, scripted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::words::{Kind, Phase, Problem};
use agentline_blocking::{Driver, Given, Handle};
use agentline_core::acp::Json;
use agentline_core::galley::bridge::{Command, Config, Event, Prompt, Reply, RunEnd, RunKey, Turn, Verdict};
use agentline_core::galley::{
    AskUser, Bridge, Exit, ExitReason, Llm, PROTOCOL_VERSION, Ready, SystemMessage, Telemetry, ToolStatus,
    Variant, runtime_error,
};
use agentline_core::{Refused, Tag};
use serde_json::{Value, json};

use crate::args::DemoRunner;
use crate::output::Notes;

/// Serves one host on stdin and stdout.
pub(crate) fn serve(args: &DemoRunner, notes: &Notes) -> Result<ExitCode, Problem> {
    if let Some(name) = args.llm_name.as_deref().filter(|name| !MODELS.contains(name)) {
        notes.line(&format!("no model is named {name}: {} answers", MODELS[0]));
    }
    let internal = |error: std::io::Error| Problem::new(Phase::Initialize, Kind::Internal, error.to_string());
    let config = Config::on_stdio(&*args.session_id, greeting(args));
    let mut driver = Driver::<Bridge>::with_given(config, [Given::stdio()]).map_err(internal)?;
    crate::signals::on_each(driver.handle(), |bridge, _| {
        let _ = bridge.command(Command::Shutdown);
    })
    .map_err(internal)?;
    let project =
        args.workspace_root.as_ref().map_or_else(|| "none".to_owned(), |root| root.display().to_string());
    let place = format!("I work in {}. The project is {project}.", cwd(args).display());
    let mut runner = Runner { bridge: driver.handle(), run: None, remembered: 0, place };
    for event in driver.by_ref() {
        runner.on(event);
    }
    Ok(ExitCode::SUCCESS)
}

fn greeting(args: &DemoRunner) -> Ready {
    let named = |name: &str| MODELS.iter().position(|model| *model == name).unwrap_or(0);
    let numbered = || usize::try_from(args.llm_no).unwrap_or(0).min(MODELS.len() - 1);
    // The name counts for more than the number, which may mean another model after a restart.
    let current = args.llm_name.as_deref().map_or_else(numbered, named);
    let llm = |(index, name): (usize, &&str)| Llm {
        index: u32::try_from(index).unwrap_or(0),
        name: (*name).to_owned(),
        display_name: (*name).to_owned(),
        is_current: index == current,
    };
    Ready {
        protocol_version: PROTOCOL_VERSION.to_owned(),
        ga_commit: "unknown".to_owned(),
        ga_commit_date: "unknown".to_owned(),
        ga_path: args.ga_path.display().to_string(),
        llm_name: MODELS[current].to_owned(),
        cwd: cwd(args).display().to_string(),
        pid: std::process::id(),
        available_llms: MODELS.iter().enumerate().map(llm).collect(),
        images_supported: None,
    }
}

fn cwd(args: &DemoRunner) -> PathBuf {
    args.cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default()
}

const MODELS: [&str; 2] = ["demo/small", "demo/large"];

struct Runner {
    bridge: Handle<Bridge>,
    run: Option<(RunKey, Sender<Note>)>,
    /// Messages of the history that it was given.
    remembered: usize,
    /// Where it works, in words.
    place: String,
}

/// What a run is told from outside.
enum Note {
    Decided(Verdict),
    Aborted,
    /// There is room for text again.
    Drained,
}

impl Runner {
    fn on(&mut self, event: Event) {
        match event {
            Event::Told(prompt) => self.begin(*prompt),
            Event::AskedAside(question) => {
                let content = format!("You asked beside the conversation: {question}");
                let message = SystemMessage { content, variant: Variant::SideQuestion };
                self.say(Command::Say(Box::new(message)));
            }
            Event::Aborted(_) => self.note(Note::Aborted),
            Event::Decided(_, verdict) => self.note(Note::Decided(verdict)),
            Event::Drained => self.note(Note::Drained),
            Event::HistoryGiven(request, messages) => {
                self.remembered = messages.len();
                let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
                self.say(Command::Reply { request, reply: Reply::HistoryLoaded(count) });
            }
            Event::LlmWanted(request, _) => self.say(Command::Reply { request, reply: Reply::LlmSet }),
            Event::ToolsWanted(request) => {
                self.say(Command::Reply { request, reply: Reply::ToolsReinjected(1) });
            }
            Event::PetWanted(request, _) => {
                self.say(Command::Fail { request, why: "the demo runner has no pet".to_owned() });
            }
            Event::PetUnwanted(Some(request)) => {
                self.say(Command::Reply { request, reply: Reply::PetDetached });
            }
            // Nothing of it concerns a script.
            Event::PetUnwanted(None)
            | Event::RulesSet(..)
            | Event::ShutdownAsked
            | Event::Crowded
            | Event::Unreadable(_)
            | Event::Closed(_)
            | _ => {}
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        let (notes, inbox) = channel();
        self.run = Some((prompt.run, notes));
        let player = Player { bridge: self.bridge.clone(), run: prompt.run, notes: inbox, calls: 0 };
        let (text, remembered, place) = (prompt.text, self.remembered, self.place.clone());
        thread::spawn(move || player.play(&text, remembered, &place));
    }

    fn note(&self, note: Note) {
        // A run that is over takes no notes.
        if let Some((_, notes)) = &self.run {
            let _ = notes.send(note);
        }
    }

    /// Refused only when the host is gone.
    fn say(&self, command: Command) {
        let _ = self.bridge.command(command);
    }
}

/// One run, on a thread of its own.
struct Player {
    bridge: Handle<Bridge>,
    run: RunKey,
    notes: Receiver<Note>,
    calls: u64,
}

/// The run is over, or the host is gone.
struct Over;

impl Player {
    fn play(mut self, text: &str, remembered: usize, place: &str) {
        let (word, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        // An abort ends a run without us.
        let _: Result<(), Over> = match (word, rest.trim()) {
            ("code", "") => self.code("code_run", &json!({ "type": "python", "code": "print(6*7)" }), "42"),
            ("patch", "") => {
                let args =
                    json!({ "path": "hello.txt", "old_content": "hello\n", "new_content": "hello, you\n" });
                self.code("file_patch", &args, "patched")
            }
            ("read", "") => self.code("file_read", &json!({ "path": "README.md" }), "[FILE] 268 lines"),
            ("ask", "") => self.ask(),
            ("fail", "") => self.fail(),
            ("history", "") => self.answer(&format!("I remember {remembered} messages.")),
            ("where", "") => self.answer(place),
            ("slow", seconds) if seconds.parse::<u64>().is_ok() => self.slow(seconds.parse().unwrap_or(0)),
            ("crash", status) if status.parse::<i32>().is_ok() => {
                std::process::exit(status.parse().unwrap_or(1))
            }
            ("hang", "") => self.hang(),
            _ => self.answer(&format!("You said: {}", text.trim())),
        };
    }

    fn answer(&self, text: &str) -> Result<(), Over> {
        self.progress(&format!("<summary>answer</summary>{text}"))?;
        self.end(text, &Exit::Done, None)
    }

    /// One step with a tool, and one that tells what came of it.
    fn code(&mut self, tool: &str, args: &Value, result: &str) -> Result<(), Over> {
        self.progress("I will use a tool.\n")?;
        let said = match self.call(tool, args, result)? {
            true => format!("It said: {result}"),
            false => "I may not, so I left everything as it was.".to_owned(),
        };
        let turn = Turn { summary: format!("used {tool}"), content: "I will use a tool.".to_owned() };
        self.tell(Command::EndTurn { run: self.run, turn: Box::new(turn) })?;
        self.answer(&said)
    }

    /// Whether the tool ran.
    fn call(&mut self, tool: &str, args: &Value, result: &str) -> Result<bool, Over> {
        self.calls += 1;
        let tag = Tag(self.calls);
        self.tell(Command::CallTool {
            run: self.run,
            tag,
            tool: tool.to_owned(),
            args: Json::new(args),
            reason: "it changes something".to_owned(),
        })?;
        loop {
            match self.notes.recv().map_err(|_| Over)? {
                Note::Decided(verdict) if verdict.allows() => break,
                Note::Decided(_) => return Ok(false),
                Note::Aborted => return Err(Over),
                Note::Drained => {}
            }
        }
        self.tell(Command::ToolSaid { tag, text: format!("[Action] {tool}") })?;
        let (status, result) = (ToolStatus::Success, result.to_owned());
        self.tell(Command::EndTool { tag, status, result, elapsed_ms: 1 })?;
        Ok(true)
    }

    fn ask(&self) -> Result<(), Over> {
        self.progress("I need to know something first.\n")?;
        let candidates = vec!["the whole folder".to_owned(), "only the caches".to_owned()];
        let question = AskUser { question: "What shall I delete?".to_owned(), candidates };
        self.end("", &Exit::Exited, Some(question))
    }

    fn fail(&self) -> Result<(), Over> {
        let trouble = runtime_error("HTTP 401: invalid api_key", "user_message", None);
        self.tell(Command::Warn(Box::new(trouble)))?;
        self.end("", &Exit::Exited, None)
    }

    fn slow(&self, seconds: u64) -> Result<(), Over> {
        for second in 1..=seconds.min(LONGEST_WAIT) {
            self.wait(Duration::from_secs(1))?;
            self.progress(&format!("{second}\n"))?;
        }
        self.answer("That took a while.")
    }

    /// Nothing more comes of this run until it is aborted.
    fn hang(&self) -> Result<(), Over> {
        loop {
            if let Note::Aborted = self.notes.recv().map_err(|_| Over)? {
                return Err(Over);
            }
        }
    }

    fn wait(&self, span: Duration) -> Result<(), Over> {
        match self.notes.recv_timeout(span) {
            Err(RecvTimeoutError::Timeout) | Ok(Note::Drained | Note::Decided(_)) => Ok(()),
            Err(RecvTimeoutError::Disconnected) | Ok(Note::Aborted) => Err(Over),
        }
    }

    fn end(&self, answer: &str, exit: &Exit, question: Option<AskUser>) -> Result<(), Over> {
        let turn = Turn { summary: "answered".to_owned(), content: answer.to_owned() };
        let end = RunEnd {
            reason: ExitReason::new(exit),
            final_content: answer.to_owned(),
            telemetry: Some(Telemetry { output_tokens: Some(7), ..Telemetry::default() }),
            question,
        };
        self.tell(Command::EndRun { run: self.run, turn: Box::new(turn), end: Box::new(end) })
    }

    fn progress(&self, delta: &str) -> Result<(), Over> {
        self.tell(Command::Progress { delta: delta.to_owned() })
    }

    /// Waits while the host reads more slowly than we write.
    fn tell(&self, command: Command) -> Result<(), Over> {
        loop {
            match self.bridge.command(command.clone()) {
                Ok(()) => return Ok(()),
                Err(Refused::Crowded) => {
                    if let Note::Aborted = self.notes.recv().map_err(|_| Over)? {
                        return Err(Over);
                    }
                }
                Err(_) => return Err(Over),
            }
        }
    }
}

/// A day, in seconds: no test means more.
const LONGEST_WAIT: u64 = 86_400;
