//! However the bytes are cut, both sides do the same.

use agentline_core::acp::Json;
use agentline_core::galley::bridge::{self, Bridge, RunEnd};
use agentline_core::galley::desktop::{Command, Config, Desktop, Event, Message};
use agentline_core::galley::{Decision, Exit, ExitReason, ToolStatus};
use agentline_core::{Machine, Now, Open, SpawnSpec, Tag};
use agentline_tests::Checks;
use agentline_tests::split::{Wire, every_cut};

use super::runner;

#[test]
fn a_desktop_hears_the_same_however_it_is_cut() {
    let wire = Wire::new([
        "{\"kind\":\"ready\",\"protocolVersion\":\"0.1\"}\n",
        "{\"kind\":\"turn_start\",\"turnIndex\":1}\nno\n{\"kind\":\"tool_call_pending\",\"approvalId\":\"a\"}\r\n",
        "{\"kind\":\"turn_progress\",\"delta\":\"🎉\\n\"}\n\n{\"kind\":\"run_complete\"}\n",
    ]);
    let make = || Desktop::new(Now::default(), Config::new(Open::spawn(SpawnSpec::default())));
    every_cut(&wire, &Checks::default(), make, |event| match event {
        Event::Ready(_) => vec![Command::Say { tag: Tag(1), message: Box::new(Message::text("go")) }],
        Event::ApprovalAsked(asked) => {
            vec![Command::Decide { approval: asked.approval_id.clone(), decision: Decision::AllowOnce }]
        }
        Event::RunEnded(_) => vec![Command::Close],
        _ => vec![],
    });
}

#[test]
fn a_bridge_hears_the_same_however_it_is_cut() {
    let wire = Wire::new([
        "{\"kind\":\"user_message\",\"text\":\"🎉\"}\n{\"kind\":\"nope\"}\r\n",
        "\n{\"kind\":\"approval_response\",\"approvalId\":\"appr_000000000001\",\"decision\":\"allow_once\"}\n",
        "{\"kind\":\"abort\"}\n{\"kind\":\"shutdown\"}\n",
    ]);
    every_cut(
        &wire,
        &Checks::default(),
        || Bridge::new(Now::default(), runner()),
        |event| match event {
            bridge::Event::Told(prompt) => vec![bridge::Command::CallTool {
                run: prompt.run,
                tag: Tag(1),
                tool: "code_run".to_owned(),
                args: Json::new(&()),
                reason: String::new(),
            }],
            bridge::Event::Decided(tag, _) => {
                let end = RunEnd {
                    reason: ExitReason::new(&Exit::Done),
                    final_content: String::new(),
                    telemetry: None,
                    question: None,
                };
                let (turn, end) = (Box::default(), Box::new(end));
                let (status, result) = (ToolStatus::Success, "42".to_owned());
                vec![
                    bridge::Command::EndTool { tag: *tag, status, result, elapsed_ms: 1 },
                    bridge::Command::EndRun { run: bridge::RunKey::from_number(1), turn, end },
                ]
            }
            _ => vec![],
        },
    );
}
