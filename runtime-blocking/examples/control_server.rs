//! A server of the control protocol: `control_server PATH` in a private directory, then `agentline hub call --socket PATH ping`.

use agentline_blocking::Driver;
use agentline_core::Address;
use agentline_core::control::server::{Command, Config, Event};
use agentline_core::control::{Answer, Failure, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: control_server PATH")?;
    let mut driver = Driver::<Server>::new(Config::new(Address(path.clone().into())))?;
    let pong = Answer::reply(&serde_json::json!({ "pong": true }));
    while let Some(event) = driver.next() {
        let (key, request) = match event {
            Event::Requested(key, request) => (key, request),
            Event::Closed(None) => break,
            Event::Closed(Some(error)) => return Err(format!("{}: {error}", path.display()).into()),
            Event::Listening | Event::CaughtUp(..) | Event::Abandoned(_) => continue,
        };
        let say = |answer| {
            // Refused: the client is gone, and nobody waits.
            let _ = driver.command(Command::Answer(key, answer));
        };
        match &*request.command {
            "ping" => say(pong.clone()),
            "echo" => say(Answer::reply(&request.args)),
            "count" => match request.decode::<u32>() {
                Ok(to) => {
                    (1..=to).for_each(|n| say(Answer::frame(&n)));
                    say(Answer::End("completed".to_owned()));
                }
                Err(failure) => say(Answer::Fail(failure)),
            },
            other => say(Answer::Fail(Failure::unknown_command(other))),
        }
    }
    Ok(())
}
