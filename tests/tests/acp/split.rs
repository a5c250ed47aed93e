//! How the bytes are cut changes nothing.

use agentline_core::acp::agent::{self, Agent, Reply, Wanted};
use agentline_core::acp::client::{self, Answer, Client, Which};
use agentline_core::acp::update::Speaker;
use agentline_core::acp::{ContentBlock, PermissionOutcome, SessionSetup, StopReason};
use agentline_core::{Limits, Machine, Now, Open, Tag};
use agentline_tests::split::Wire;
use agentline_tests::transcripts::{Direction, captures};
use agentline_tests::{Checks, Dice, dice, split};

fn client() -> Client {
    let limits = Limits { line: 1 << 20, ..Limits::default() };
    Client::new(Now::default(), client::Config { limits, raw: true, ..client::Config::new(Open::Given(0)) })
}

fn agent() -> Agent {
    Agent::new(Now::default(), agent::Config::on_stdio())
}

/// An application that opens a session, prompts it, and says yes to everything.
fn eager(event: &client::Event) -> Vec<client::Command> {
    use client::Event as E;
    let prompt =
        |session| client::Command::Prompt { tag: Tag(2), session, prompt: vec![ContentBlock::text("é")] };
    if let E::Ready(_) = event {
        let setup = SessionSetup::in_directory("/w");
        vec![client::Command::OpenSession { tag: Tag(1), which: Which::New, setup }]
    } else if let E::Answered(_, answer) = event
        && let Answer::SessionOpened { session, .. } = &**answer
    {
        vec![prompt(session.clone())]
    } else if let E::PermissionAsked(asked) = event {
        let option = asked.asked.options.first().map_or("", |option| &option.option_id);
        let outcome = PermissionOutcome::selected(option);
        vec![client::Command::Answer { request: asked.request, outcome }]
    } else if let E::TurnEnded(ended) = event {
        vec![prompt(ended.session.clone())]
    } else {
        vec![]
    }
}

/// An application that opens every session and answers every prompt with a word.
fn terse(event: &agent::Event) -> Vec<agent::Command> {
    use agent::Event as E;
    if let E::Requested(asked) = event {
        let reply = if let Wanted::NewSession(_) = asked.wanted {
            Reply::SessionOpened { session: "s".into(), state: Default::default() }
        } else {
            Reply::Done
        };
        vec![agent::Command::Reply { request: asked.request, reply }]
    } else if let E::Prompted(prompted) = event {
        let turn = prompted.turn;
        vec![
            agent::Command::Say { turn, speaker: Speaker::Agent, text: "中".into() },
            agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() },
        ]
    } else {
        vec![]
    }
}

#[test]
fn utf8_split_chunk_every_cut_of_short_dialogues_of_a_client() {
    const GREETING: &str = "\u{feff}{\"id\":0,\"result\":{\"protocolVersion\":1}}\r\n";
    const OPENED: &str = "\n{\"id\":1,\"result\":{\"sessionId\":\"s\"}}\n";
    let dialogues = [
        vec![GREETING, OPENED, "{\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}"],
        vec![
            "{\"id\":0,\"result\":{\"protocolVersion\":1}}\n",
            "{\"id\":1,\"result\":{\"sessionId\":\"é\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"é\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"中🎉\"}}}}\n",
        ],
        vec![
            GREETING,
            OPENED,
            "{\"id\":0,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\"c\"},\"options\":[{\"optionId\":\"y\",\"name\":\"\",\"kind\":\"\"}]}}\nnoise\n[]",
        ],
        vec!["Content-Length: 5\r\n\r\n{}"],
        vec!["{\"id\":0,\"error\":{\"code\":-32000,\"message\":\"m\"}}\n{\"id\":1,\"method\":\"m\"}\n"],
    ];
    for dialogue in dialogues {
        split::every_cut(&Wire::new(dialogue), &Checks::default(), client, eager);
    }
}

#[test]
fn every_cut_of_short_dialogues_of_an_agent() {
    let dialogues = [
        vec![
            "{\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n",
            "{\"id\":\"é\",\"method\":\"session/new\",\"params\":{\"cwd\":\"/中\"}}\r\n\n",
            "{\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[]}}",
        ],
        vec![
            "{\"id\":1,\"method\":\"x\"}\n[]\n42\n{\"id\":1.5,\"method\":\"x\"}\n{\"method\":\"x\"}\nnoise\n{\"id\":7}\n{",
        ],
    ];
    for dialogue in dialogues {
        split::every_cut(&Wire::new(dialogue), &Checks::default(), agent, terse);
    }
}

#[test]
fn random_cuts_of_real_transcripts() {
    for (run, seed) in captures("acp").iter().zip(0..) {
        let bytes = dice::noise(seed, 200);
        let mut dice = Dice::new(&bytes);
        split::some_cuts(&run.spoken(Direction::Out), &mut dice, &Checks::default(), client, eager);
        split::some_cuts(&run.spoken(Direction::In), &mut dice, &Checks::default(), agent, terse);
    }
}
