//! A process that delegates: `subagent_host RUNTIME AGENT PROMPT [NAME=VALUE…]` prints the answer and the rung.
//! Its own environment and working directory are what the tests are about.

use std::io::Write;
use std::process::ExitCode;

use agentline_blocking::Providers;
use agentline_core::Closed;
use agentline_core::acp::{ContentBlock, Fault};
use agentline_core::subagent::Finished;
use agentline_core::subagent::provider::{Provider, Task};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, agent, prompt, given @ ..] = &args[..] else { return Ok(ExitCode::FAILURE) };
    let given = given.iter().filter_map(|pair| pair.split_once('='));
    let provider: Provider = serde_json::from_value(serde_json::json!({
        "command": agent,
        "env": given.collect::<std::collections::BTreeMap<_, _>>(),
    }))?;
    let here = std::env::current_dir()?;
    let mut providers = Providers::new(&here);
    providers.add(provider)?;
    let task = Task { prompt: vec![ContentBlock::text(prompt)], parent_cwd: Some(here), ..Task::default() };
    let config = providers.plan("acp", task)?;
    let show = |finished: &Finished, closed: Option<&Closed<Fault>>| {
        let rung = closed.map(|closed| closed.obituary.rung);
        writeln!(std::io::stdout(), "{}|{:?}|{rung:?}", finished.output, finished.outcome)
    };
    if runtime == "smol" {
        let (mut subagent, driver) = agentline_smol::Subagent::start(config)?;
        smol::block_on(smol::future::zip(driver, async {
            let result = subagent.result().await.clone();
            show(&result, subagent.dispose().await)
        }))
        .1?;
    } else {
        let mut subagent = agentline_blocking::Subagent::start(config)?;
        let result = subagent.result().clone();
        show(&result, subagent.dispose())?;
    }
    Ok(ExitCode::SUCCESS)
}
