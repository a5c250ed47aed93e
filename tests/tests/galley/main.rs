//! Galley's runner protocol: a desktop against captures of the real runner, a bridge against what hosts may
//! send, and the two against each other in faulty worlds.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

mod bridge;
mod captures;
mod cuts;
mod desktop;
mod model;
mod source;
mod worlds;

use std::time::Duration;

use agentline_core::galley::bridge::Config as RunnerConfig;
use agentline_core::galley::desktop::{Config, Desktop};
use agentline_core::galley::{Llm, PROTOCOL_VERSION, Ready};
use agentline_core::{Heard, LinkId, Open, Peer, SpawnSpec};
use agentline_tests::desk::Desk;

/// A desktop whose runner is started, and has said nothing.
fn started() -> Desk<Desktop> {
    started_with(Config::new(Open::spawn(SpawnSpec::default())))
}

fn started_with(config: Config) -> Desk<Desktop> {
    let mut desk = Desk::new(config);
    desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
    desk
}

fn greeting() -> Ready {
    let llm = |index: u32, name: &str| Llm {
        index,
        name: name.to_owned(),
        display_name: name.to_owned(),
        is_current: index == 0,
    };
    Ready {
        protocol_version: PROTOCOL_VERSION.to_owned(),
        ga_commit: "unknown".to_owned(),
        ga_commit_date: "unknown".to_owned(),
        ga_path: "/ga".to_owned(),
        llm_name: "one".to_owned(),
        cwd: "/ga".to_owned(),
        pid: 7,
        available_llms: vec![llm(0, "one"), llm(1, "two")],
        images_supported: None,
    }
}

fn runner() -> RunnerConfig {
    RunnerConfig::on_stdio("s-1", greeting())
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
