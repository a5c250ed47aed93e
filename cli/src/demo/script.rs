//! What the demo agent plays for which prompt.

use std::collections::BTreeMap;

use agentline_core::acp::update::ToolKind;
use agentline_core::acp::{Json, OptionKind, StopReason};
use agentline_core::rpc::RpcError;
use serde::Deserialize;

/// Steps by the first word of the prompt; `*` is for any other. What is not here is built in.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub(crate) struct Script(BTreeMap<String, Vec<Step>>);

/// One thing that the demo agent does.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Say a piece of the answer.
    Say(String),
    /// Say a piece of the reasoning.
    Think(String),
    /// Show a plan.
    Plan(Vec<String>),
    /// Use a tool.
    Tool(Tool),
    /// Ask for permission to use a tool.
    Ask {
        tool: Tool,
        /// What can be answered: id, name and kind of each. Usually to allow it once or always, or to reject it.
        #[serde(default = "usual")]
        options: Vec<(String, String, OptionKind)>,
        /// What follows when it may.
        #[serde(default)]
        allowed: Vec<Self>,
        /// What follows when it may not.
        #[serde(default)]
        rejected: Vec<Self>,
    },
    /// Ask for a form to be filled in, and say what came back.
    Form { message: String, schema: Json },
    /// Ask for a page to be visited, and say what came back.
    Page { message: String, url: String },
    /// Have a command run by the client, and say what it wrote and how it ended. A demo agent has no shell of its own.
    Term(String),
    /// Have a file read by the client, and say what it holds.
    ReadFile(String),
    /// Have a file written by the client: its path, and what it will hold.
    WriteFile(String, String),
    /// Have an agent of its own do these steps, in a session of its own, where the client wants to know of such.
    Delegate {
        /// Its name.
        title: String,
        /// Its questions come by the session that it works for.
        #[serde(default)]
        asks_as_its_owner: bool,
        steps: Vec<Self>,
    },
    /// Tell what the session has used so far: tokens, and dollars.
    Spend(u64, f64),
    /// Tell any update, as it is written.
    Update(Json),
    /// Write to standard error.
    Grumble(String),
    /// Seconds of silence.
    Wait(f64),
    /// So many pieces of text, as fast as they are taken.
    Flood(u64),
    /// End the turn with an error.
    Fail(String),
    /// End the turn with this error, as it is written.
    Error(RpcError),
    /// End the turn with this reason.
    Stop(StopReason),
    /// End the process with this status.
    Exit(i32),
    /// Do nothing any more, not even when cancelled.
    Hang,
}

/// A tool that is not really there.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) kind: ToolKind,
    /// A command to show.
    pub(crate) command: Option<String>,
    /// A file to show, and what becomes of it.
    pub(crate) diff: Option<(String, String, String)>,
    #[serde(default)]
    pub(crate) seconds: f64,
}

impl Script {
    /// Whether all is built in.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The steps for a prompt.
    pub(crate) fn steps(&self, prompt: &str) -> Vec<Step> {
        let prompt = prompt.trim();
        let (word, rest) = prompt.split_once(char::is_whitespace).unwrap_or((prompt, ""));
        let own = self.0.get(word).cloned();
        own.or_else(|| built_in(word, rest.trim()))
            .or_else(|| self.0.get("*").cloned())
            .unwrap_or_else(|| vec![Step::Say(prompt.into())])
    }
}

fn built_in(word: &str, rest: &str) -> Option<Vec<Step>> {
    let number = || rest.parse().ok();
    Some(match word {
        "hello" if rest.is_empty() => hello(),
        "ask" if rest.is_empty() => vec![Step::Ask {
            tool: Tool {
                title: "Clean the build folder".into(),
                kind: ToolKind::Execute,
                command: Some("rm -rf target && cargo build --release".into()),
                diff: None,
                seconds: 0.1,
            },
            options: usual(),
            allowed: say("I may: the command ran. (It did not really: I am scripted.)\n"),
            rejected: say("I may not, so I left everything as it was.\n"),
        }],
        "json" => say("Here it is.\n```json\n{\"name\": \"agentline\", \"channels\": \"many\"}\n```\n"),
        "diff" => {
            vec![Step::Ask { tool: rewrite(number()?), options: usual(), allowed: vec![], rejected: vec![] }]
        }
        "options" if rest.is_empty() => vec![Step::Ask {
            tool: Tool {
                title: "Fetch the newest release notes".into(),
                kind: ToolKind::Fetch,
                command: Some("curl https://example.org/releases.json".into()),
                diff: None,
                seconds: 0.0,
            },
            options: [
                ("once", "Yes", OptionKind::AllowOnce),
                ("host", "Yes, and do not ask again for example.org", OptionKind::AllowAlways),
                ("all", "Yes, and do not ask again for any page in this session", OptionKind::AllowAlways),
                ("no", "No, and say what to do instead", OptionKind::RejectOnce),
            ]
            .map(|(id, name, kind)| (id.into(), name.into(), kind))
            .into(),
            allowed: say("Fetched. (Not really: I am scripted.)\n"),
            rejected: say("Then tell me what to do instead.\n"),
        }],
        "form" if rest.is_empty() => vec![Step::Form {
            message: "How shall I set the project up?".into(),
            schema: serde_json::from_str(FORM).ok()?,
        }],
        "page" if rest.is_empty() => vec![Step::Page {
            message: "Enter the code ABCD-1234 there".into(),
            url: "https://example.org/device".into(),
        }],
        "term" if !rest.is_empty() => vec![Step::Term(rest.into())],
        "readfile" if !rest.is_empty() => vec![Step::ReadFile(rest.into())],
        "writefile" => {
            let (path, text) = rest.split_once(char::is_whitespace)?;
            vec![Step::WriteFile(path.into(), format!("{}\n", text.trim()))]
        }
        "spend" => {
            let tool = |n: u64| Tool {
                title: format!("step {n}"),
                kind: ToolKind::Other,
                command: None,
                diff: None,
                seconds: 0.05,
            };
            #[expect(clippy::cast_precision_loss, reason = "as few as that")]
            let step = |n: u64| [Step::Tool(tool(n)), Step::Spend(n * 1000, n as f64 / 10.0)];
            let said = say("Spent. (Not really: I am scripted.)\n");
            (1..=u64::min(number()?, 100)).flat_map(step).chain(said).collect()
        }
        "team" if rest.is_empty() => team(),
        "news" if rest.is_empty() => NEWS
            .iter()
            .filter_map(|update| serde_json::from_str(update).ok().map(Step::Update))
            .chain(say("That is the news.\n"))
            .collect(),
        "noisy" if rest.is_empty() => {
            let grumble =
                |n: u32| Step::Grumble(format!("debug: \u{1b}[2J\u{1b}[31mline {n} that nobody needs\n"));
            let ask = built_in("ask", "")?;
            (1..=3).map(grumble).chain(ask).chain((4..=6).map(grumble)).collect()
        }
        "fail" if rest.is_empty() => {
            vec![
                Step::Say("This will not end well.\n".into()),
                Step::Fail("the demo agent was asked to fail".into()),
            ]
        }
        "refuse" if rest.is_empty() => {
            vec![Step::Say("I will not do that.\n".into()), Step::Stop(StopReason::Refusal)]
        }
        "slow" => {
            let chunk = |n: u64| [Step::Wait(1.0), Step::Say(format!("{n}\n"))];
            (1..=u64::min(number()?, 3600)).flat_map(chunk).collect()
        }
        "flood" => vec![Step::Flood(number()?)],
        "crash" => vec![Step::Say("Down I go.\n".into()), Step::Exit(rest.parse().ok()?)],
        "hang" if rest.is_empty() => vec![Step::Hang],
        _ => return None,
    })
}

/// A file of so many lines, all of them new.
fn rewrite(lines: u64) -> Tool {
    let text: String = (1..=lines.min(100_000)).map(|n| format!("line {n} of the new text\n")).collect();
    Tool {
        title: "Rewrite notes.md".into(),
        kind: ToolKind::Edit,
        command: None,
        diff: Some(("notes.md".into(), String::new(), text)),
        seconds: 0.0,
    }
}

/// Two agents of the agent. Agents differ in whose session their questions come by, so one does it the other way.
fn team() -> Vec<Step> {
    let tool =
        |title: &str, kind| Tool { title: title.into(), kind, command: None, diff: None, seconds: 0.05 };
    let ask = |tool, said: &str| Step::Ask {
        tool,
        options: usual(),
        allowed: say(said),
        rejected: say("I may not, so I leave it.\n"),
    };
    vec![
        Step::Say("I have two of mine do it.\n".into()),
        Step::Delegate {
            title: "scout".into(),
            asks_as_its_owner: false,
            steps: vec![
                Step::Tool(tool("src", ToolKind::Search)),
                ask(tool("https://example.org/style", ToolKind::Fetch), "I read how it is done there.\n"),
            ],
        },
        Step::Delegate {
            title: "builder".into(),
            asks_as_its_owner: true,
            steps: vec![ask(tool("notes.md", ToolKind::Edit), "It is written.\n")],
        },
        Step::Say("Both are done. (Not really: we are scripted.)\n".into()),
    ]
}

fn usual() -> Vec<(String, String, OptionKind)> {
    [
        ("yes", "Allow once", OptionKind::AllowOnce),
        ("always", "Always allow", OptionKind::AllowAlways),
        ("no", "Reject", OptionKind::RejectOnce),
    ]
    .map(|(id, name, kind)| (id.into(), name.into(), kind))
    .into()
}

fn hello() -> Vec<Step> {
    let mut steps = vec![
        Step::Think("The user says hello. I will look around before I answer.".into()),
        Step::Plan(vec!["look around".into(), "answer".into()]),
        Step::Tool(Tool {
            title: "README.md".into(),
            kind: ToolKind::Read,
            command: None,
            diff: None,
            seconds: 0.1,
        }),
    ];
    for piece in HELLO.split_inclusive(' ') {
        steps.extend([Step::Say(piece.into()), Step::Wait(0.01)]);
    }
    steps
}

fn say(text: &str) -> Vec<Step> {
    vec![Step::Say(text.into())]
}

const NEWS: [&str; 5] = [
    r#"{"sessionUpdate":"notice","severity":"warning","title":"The model is slow today"}"#,
    r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"in_progress"}"#,
    r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"}"#,
    r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[
        {"content":"tell the news","priority":"low","status":"pending"}]}}"#,
    r#"{"sessionUpdate":"plan_removed","planId":"p"}"#,
];

const FORM: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Its name", "minLength": 2},
        "kind": {"type": "string", "title": "What it is", "oneOf": [
            {"const": "lib", "title": "A library"}, {"const": "bin", "title": "A program"}]},
        "tests": {"type": "boolean", "title": "With tests", "default": true}
    },
    "required": ["name", "kind"]
}"#;

const HELLO: &str = "\
Hello! I am a scripted agent speaking ACP over stdio. Every line you see came
through the same code that drives Gemini CLI, Codex or your own agent.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_else_is_echoed() {
        let script = Script::default();
        for prompt in ["good morning", "hello there", "slow", "slow down", "flood -1", "crash hard", "你好"]
        {
            assert_eq!(script.steps(prompt), say(prompt), "{prompt}");
        }
    }

    #[test]
    fn a_script_comes_first_and_its_star_last() {
        let script: Script = serde_json::from_str(
            r#"{"hello":[{"say":"hi"},{"stop":"max_tokens"}],
                "*":["hang"],
                "write":[{"ask":{"tool":{"title":"Write","kind":"edit","diff":["/a","old\n","new\n"]},
                                 "allowed":[{"say":"written"}]}}]}"#,
        )
        .unwrap();
        assert_eq!(script.steps("hello"), [Step::Say("hi".into()), Step::Stop(StopReason::MaxTokens)]);
        assert_eq!(script.steps("whatever"), [Step::Hang]);
        assert_eq!(script.steps("crash 3").last(), Some(&Step::Exit(3)));
        assert!(matches!(&script.steps("write it")[..], [Step::Ask { rejected, .. }] if rejected.is_empty()));
        assert!(serde_json::from_str::<Script>(r#"{"x":[{"sing":"la"}]}"#).is_err());
    }
}
