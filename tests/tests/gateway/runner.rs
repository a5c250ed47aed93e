//! An ACP client over a Galley runner: the real bridge behind the gateway.

use std::time::Duration;

use agentline_core::acp::client;
use agentline_core::acp::session::ConfigValue;
use agentline_core::galley::bridge::{self, Bridge, Command, Event, RunEnd, RunKey, Turn};
use agentline_core::galley::{AskUser, Exit, ExitReason, Llm, Ready, ToolStatus, desktop};
use agentline_core::gateway::{self, Config, Gateway};
use agentline_core::rpc::Json;
use agentline_core::session::{SourceConfig, galley};
use agentline_core::{Machine, Now, Open, SpawnSpec, Stderr, Tag};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, World};

use super::editor::Editor;

fn ready() -> Ready {
    let llm = |(index, name): (u32, &str)| Llm {
        index,
        name: name.into(),
        display_name: name.into(),
        is_current: index == 0,
    };
    Ready { available_llms: [(0, "small"), (1, "large")].map(llm).into(), ..Ready::default() }
}

/// What a runner does with words: `tool NAME`, `ask`, `fail`, `hang`, `die`; else it says them.
fn runner() -> impl FnMut(Now, Event, &mut Vec<Command>) {
    let mut run = None;
    move |_, event, say| match event {
        Event::Told(prompt) => {
            run = Some(prompt.run);
            match prompt.text.split_once(' ').unwrap_or((&prompt.text, "")) {
                ("tool", tool) => say.push(Command::CallTool {
                    run: prompt.run,
                    tag: Tag(1),
                    tool: tool.to_owned(),
                    args: Json::new(&serde_json::json!({ "code": "rm" })),
                    reason: "it changes something".to_owned(),
                }),
                ("ask", _) => {
                    let question =
                        AskUser { question: "Which one?".into(), candidates: vec!["a".into(), "b".into()] };
                    say.push(end(prompt.run, &Exit::Exited, Some(question)));
                }
                ("fail", _) => say.push(end(prompt.run, &Exit::Exited, None)),
                ("hang", _) => say.push(text("hanging")),
                ("die", _) => say.push(Command::Shutdown),
                _ => {
                    let pieces = ["<think", "ing>hm</thinking><sum", "mary>s</summary>", &prompt.text];
                    say.extend(pieces.map(text));
                    say.push(end(prompt.run, &Exit::Done, None));
                }
            }
        }
        Event::Decided(tag, verdict) => {
            if verdict.allows() {
                let (status, result) = (ToolStatus::Success, "done".to_owned());
                say.push(Command::EndTool { tag, status, result, elapsed_ms: 1 });
            }
            say.extend(run.map(|run| end(run, &Exit::Done, None)));
        }
        Event::LlmWanted(request, _) => {
            say.push(Command::Reply { request, reply: bridge::Reply::LlmSet });
        }
        _ => {}
    }
}

fn text(text: &str) -> Command {
    Command::Progress { delta: text.to_owned() }
}

fn end(run: RunKey, exit: &Exit, question: Option<AskUser>) -> Command {
    let reason = ExitReason::new(exit);
    let end = RunEnd { reason, final_content: String::new(), telemetry: None, question };
    Command::EndRun { run, turn: Box::new(Turn::default()), end: Box::new(end) }
}

/// What an editor sees that does so.
fn scene(editor: Editor) -> Vec<String> {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    world.program("runner", |now, _: &SpawnSpec| {
        let config = bridge::Config::on_stdio("s1", ready());
        let machine = Checked::<Bridge>::new(now, (Checks::default(), config));
        Node::new(machine, runner()).on_term(|| Command::Shutdown)
    });
    let spec = SpawnSpec { program: "runner".into(), stderr: Stderr::Pipe, ..SpawnSpec::default() };
    let desktop = desktop::Config::new(Open::spawn(spec));
    let source = SourceConfig::Runner(Box::new(galley::Config { desktop, session: "s1".into() }));
    let (ours, theirs) = world.stream();
    let machine: Checked<Gateway> =
        Checked::new(Now::default(), (Checks::default(), Config::on_stdio(source)));
    let gateway = world.add_with_given(Node::new(machine, |_, _, _: &mut Vec<gateway::Command>| {}), ours);
    let (client, seen) = editor.sit(&mut world, theirs);
    world.run_until(world.now().mono + Duration::from_secs(30));
    let _ = world.command(client, client::Command::Shutdown);
    world.run();
    assert!(world.is_over(gateway), "it stays");
    assert_eq!(world.processes(), 0, "the runner is left behind");
    let mut seen = std::mem::take(&mut *seen.borrow_mut());
    assert_eq!(seen.pop().as_deref(), Some("closed"));
    seen
}

const OPEN: &str = "open ask yolo model";
const ASKED: &str = "code_run: {\"code\":\"rm\"}? allow_once always_allow_project always_allow_global deny";

#[test]
fn text_comes_without_the_tags_of_the_model_however_it_is_cut() {
    let seen = scene(Editor::says(&["hello"]));
    assert_eq!(seen, [OPEN, "Thought: hm", "Agent: hello", "end_turn"]);
}

#[test]
fn a_tool_waits_for_the_person_at_the_editor() {
    let told = ["tool_call", "tool_call_update", "end_turn"];
    let seen = scene(Editor::says(&["tool code_run"]));
    assert_eq!(seen, [&[OPEN, ASKED][..], &told].concat());
    let seen = scene(Editor { option: "deny", ..Editor::says(&["tool code_run"]) });
    assert_eq!(seen, [OPEN, ASKED, "tool_call_update", "end_turn"]);
    let always =
        Editor { option: "always_allow_project", ..Editor::says(&["tool code_run", "tool code_run"]) };
    assert_eq!(scene(always), [&[OPEN, ASKED][..], &told, &told].concat());
    let seen = scene(Editor::says(&["tool start_long_term_update"]));
    assert!(seen[1].ends_with("? allow_once always_allow_project deny"), "never everywhere: {seen:#?}");
}

#[test]
fn a_question_is_a_message_and_the_next_prompt_its_answer() {
    let seen = scene(Editor::says(&["ask", "a"]));
    let question = "Agent: Which one?\n- a\n- b";
    assert_eq!(seen, [OPEN, question, "end_turn", "Thought: hm", "Agent: a", "end_turn"]);
}

#[test]
fn modes_and_models_are_the_runners() {
    let (mode, session) = ("yolo".to_owned(), || "s1".into());
    let (option, value) = ("model".to_owned(), ConfigValue::Id("large".to_owned()));
    let asks = vec![
        client::Command::SetMode { tag: Tag(2), session: session(), mode },
        client::Command::SetOption { tag: Tag(3), session: session(), option, value },
        client::Command::SetMode { tag: Tag(4), session: session(), mode: "none".to_owned() },
    ];
    let seen = scene(Editor { asks, ..Editor::says(&["tool code_run"]) });
    assert!(!seen.iter().any(|line| line.contains('?')), "nobody is asked: {seen:#?}");
    let failed = seen.iter().filter(|line| line.starts_with("failed")).count();
    assert_eq!((failed, seen.iter().filter(|line| *line == "done").count()), (1, 2), "{seen:#?}");
}

#[test]
fn each_end_is_told_once_and_for_its_reason() {
    let seen = scene(Editor { cancels_at: Some("hanging"), ..Editor::says(&["hang", "after"]) });
    assert_eq!(seen[1..3], ["Agent: hanging", "cancelled"], "{seen:#?}");
    assert!(seen.contains(&"Agent: after".to_owned()), "{seen:#?}");
    let seen = scene(Editor::says(&["fail"]));
    assert_eq!(seen, [OPEN, "failed: the agent gave up (-32603)"]);
    let seen = scene(Editor::says(&["die", "more"]));
    let [open, died, lost] = &seen[..] else { panic!("{seen:#?}") };
    assert_eq!(open, OPEN);
    assert!(died.starts_with("failed: "), "{died}");
    assert!(lost.contains("open a new one"), "{lost}");
}
