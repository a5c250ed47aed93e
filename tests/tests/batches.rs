//! What a batch of commands writes. Only a socket that keeps the bounds of writes shows them.
#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;

use agentline_blocking::{Batch, Driver, Given};
use agentline_core::acp::StopReason;
use agentline_core::acp::agent::{Agent, Command, Config, Event, Reply};
use agentline_core::acp::session::SessionState;
use agentline_core::acp::update::Speaker;
use agentline_smol::spawn_with_given;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use smol::future::zip;

/// Answers what comes; a turn is all said in one batch.
fn serve(event: Event, batch: &mut Batch<'_, Agent>) {
    match event {
        Event::Requested(asked) => {
            let reply = Reply::SessionOpened { session: "s".into(), state: SessionState::default() };
            batch.command(Command::Reply { request: asked.request, reply }).expect("it may");
        }
        Event::Prompted(prompted) => {
            let turn = prompted.turn;
            for n in 0..100 {
                let text = n.to_string();
                batch.command(Command::Say { turn, speaker: Speaker::Agent, text }).expect("it may");
            }
            batch.command(Command::EndTurn { turn, stopped: StopReason::EndTurn.into() }).expect("it may");
            batch.command(Command::Shutdown).expect("it may");
        }
        Event::Initialized(_)
        | Event::Cancelled(_)
        | Event::TurnOver(_)
        | Event::Withdrawn(_)
        | Event::PermissionAnswered(..)
        | Event::Served(..)
        | Event::Crowded
        | Event::Drained
        | Event::Notified(_)
        | Event::Noticed(_)
        | Event::Closed(_) => {}
    }
}

/// A client that has said everything already, over a socket that keeps the bounds of writes.
fn client() -> (OwnedFd, Given) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("it may");
    for line in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    ] {
        rustix::io::write(&theirs, format!("{line}\n").as_bytes()).expect("it may");
    }
    (theirs, Given::pair(ours.try_clone().expect("a descriptor"), ours))
}

/// How many lines each write had.
fn writes(theirs: &OwnedFd) -> Vec<usize> {
    let mut buffer = [0; 1 << 16];
    std::iter::from_fn(|| {
        let n = rustix::io::read(theirs, &mut buffer).ok().filter(|n| *n > 0)?;
        Some(buffer[..n].iter().filter(|byte| **byte == b'\n').count())
    })
    .collect()
}

#[test]
fn blocking_what_a_batch_writes_goes_out_together() {
    let (theirs, given) = client();
    let mut driver = Driver::<Agent>::with_given(Config::on_stdio(), [given]).expect("it may");
    while let Some(event) = driver.next() {
        driver.batch(|batch| serve(event, batch));
    }
    assert_eq!(writes(&theirs), [1, 1, 1, 100]);
}

#[test]
fn smol_what_a_batch_writes_goes_out_together() {
    let (theirs, given) = client();
    let (mut events, driver) = spawn_with_given::<Agent>(Config::on_stdio(), [given]).expect("it may");
    smol::block_on(zip(driver, async {
        while let Some(event) = events.next().await {
            events.batch(|batch| serve(event, batch));
        }
    }));
    assert_eq!(writes(&theirs), [1, 1, 1, 100]);
}
