//! However the bytes are cut, both sides do the same.

use agentline_core::acp::{PermissionOutcome, StopReason};
use agentline_core::reverse::Capabilities;
use agentline_core::reverse::acceptor::{self, Acceptor};
use agentline_core::reverse::agent::{self, Agent};
use agentline_core::{Address, Machine, Now, Tag};
use agentline_tests::Checks;
use agentline_tests::split::{Wire, every_cut};

#[test]
fn an_acceptor_hears_the_same_however_it_is_cut() {
    let wire = Wire::new([
        "{\"method\":\"_botbus/session\",\"params\":{\"sessionId\":\"s\",\"cwd\":\"/w\"}}\n{\"id\":1,\"method\":\"x\"}\r\n\
         {\"id\":2,\"method\":\"_botbus/hello\",\"params\":{\"id\":\"a\",\"version\":1,\"capabilities\":{\"prompt\":true}}}\n\
         {\"method\":\"_botbus/turn\",\"params\":{\"sessionId\":\"s\",\"state\":\"started\"}}\n",
        "no\n{\"id\":3,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s\",\"toolCall\":{\"toolCallId\":\
         \"🎉\"},\"options\":[{\"optionId\":\"y\"}]}}\n",
        "\n{\"method\":\"_botbus/turn\",\"params\":{\"sessionId\":\"s\",\"state\":\"ended\"}}\n",
        "{\"id\":0,\"result\":{}}\n",
    ]);
    every_cut(
        &wire,
        &Checks::default(),
        || Acceptor::new(Now::default(), acceptor::Config::taken()),
        |event| match event {
            acceptor::Event::Hello(_) => vec![acceptor::Command::Accept],
            acceptor::Event::PermissionAsked(asked) => {
                let (request, outcome) = (asked.request, PermissionOutcome::selected("y"));
                vec![acceptor::Command::Answer { request, outcome }]
            }
            acceptor::Event::TurnEnded(ended) if ended.tag.is_none() => {
                vec![acceptor::Command::Prompt { tag: Tag(1), session: "s".into(), text: "go".into() }]
            }
            acceptor::Event::TurnEnded(_) => vec![acceptor::Command::Leave],
            _ => vec![],
        },
    );
}

#[test]
fn an_agent_hears_the_same_however_it_is_cut() {
    let wire = Wire::new([
        "{\"id\":5,\"method\":\"x\"}\n{\"id\":0,\"result\":{\"accepted\":true}}\r\n",
        "\n{\"id\":6,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[{\"type\":\"text\",\"text\":\"🎉\"}]}}\n\
         {\"id\":7,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[]}}\nno\n",
        "{\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}\n",
    ]);
    let capabilities = Capabilities { prompt: true, cancel: true, new_session: false };
    let config = agent::Config { capabilities, ..agent::Config::connect(Address("/s".into()), "a") };
    every_cut(
        &wire,
        &Checks::default(),
        || Agent::new(Now::default(), config.clone()),
        |event| match event {
            agent::Event::Accepted => {
                vec![agent::Command::Announce { session: "s".into(), cwd: "/w".into(), title: None }]
            }
            agent::Event::Prompted(prompted) => {
                let stopped = Box::new(StopReason::EndTurn.into());
                vec![agent::Command::EndPrompt { turn: prompted.turn, stopped }]
            }
            agent::Event::Cancelled(_) => vec![agent::Command::Leave],
            _ => vec![],
        },
    );
}
