//! What an application sees of each runtime: commands from elsewhere, drops, events that are not taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{process, thread};

use agentline_blocking::Driver;
use agentline_core::acp::SessionSetup;
use agentline_core::acp::client::{Client, Command, Config, Event, Timeouts, Which};
use agentline_core::{
    Action, Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Outputs, Refused, SpawnSpec, Tag,
};
use agentline_smol::spawn;
use agentline_tests::driver_table::whole::stubborn;
use agentline_tests::driver_table::{A, Release, Script, Scripted, Step, Until, Witness, sh};
use smol::future::{or, yield_now, zip};
use smol::stream::StreamExt;
use tempfile::TempDir;

/// A child that tells the witness what it hears first, then repeats what it hears.
fn repeats(dir: &TempDir) -> Script {
    let script = "read -r x; echo $x >witness; exec cat";
    vec![Step::Do(A, Action::Open(Open::spawn(sh(dir.path(), script)))), Step::Until(A, Until::Bytes(7))]
}

fn place() -> (TempDir, Witness) {
    let dir = TempDir::with_prefix("al").expect("a directory");
    let witness = Witness::new(&dir.path().join("witness"));
    (dir, witness)
}

fn say(text: &str) -> (LinkId, Action) {
    (A, Action::Write(text.into()))
}

#[test]
fn blocking_a_command_from_another_thread_is_written_at_once_and_wakes_the_driver() {
    let (dir, mut witness) = place();
    let mut driver = Driver::<Scripted>::new(repeats(&dir)).unwrap();
    let handle = driver.handle();
    // Nobody drives, and yet the child hears it.
    handle.command(say("first\n")).unwrap();
    witness.wait_for(6);
    let seen = thread::scope(|scope| {
        let driving = scope.spawn(move || driver.next());
        handle.command(say("second\n")).unwrap();
        driving.join().unwrap()
    });
    assert_eq!(seen.unwrap().on(A).bytes, b"second\n");
    assert_eq!(handle.command(say("third\n")), Err(Refused::Closed));
}

#[test]
fn smol_a_command_from_another_thread_is_written_at_once_and_wakes_the_driver() {
    let (dir, mut witness) = place();
    let (mut events, driver) = spawn::<Scripted>(repeats(&dir)).unwrap();
    let handle = events.handle();
    handle.command(say("first\n")).unwrap();
    witness.wait_for(6);
    let seen = thread::scope(|scope| {
        let driving = scope.spawn(|| smol::block_on(zip(driver, StreamExt::next(&mut events))));
        handle.command(say("second\n")).unwrap();
        driving.join().unwrap().1
    });
    assert_eq!(seen.unwrap().on(A).bytes, b"second\n");
    assert_eq!(smol::block_on(events.next()).map(|seen| seen.stuck), None);
    assert_eq!(handle.command(say("third\n")), Err(Refused::Closed));
}

/// Opens a session behind 300 KB of updates, for each of which the application takes its time.
fn slow_reader(dir: &TempDir) -> Config {
    let script = r#"
        read -r _; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
        read -r _; text=$(head -c 30000 /dev/zero | tr '\0' x)
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
            printf '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' "$text"
        done
        echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'; cat"#;
    let timeouts = Timeouts { session: Some(Duration::from_millis(300)), ..Timeouts::default() };
    Config { timeouts, ..Config::new(Open::spawn(sh(dir.path(), script))) }
}

/// What to do next; `Err`: how the session was opened.
fn next(event: Event) -> Result<Option<Command>, String> {
    if let Event::Ready(_) = event {
        let setup = SessionSetup::in_directory("/");
        return Ok(Some(Command::OpenSession { tag: Tag(1), which: Which::New, setup }));
    }
    if let Event::Text(_) = event {
        // Its exit is what the application waits for.
        process::Command::new("sleep").arg("0.06").status().expect("it runs");
        return Ok(None);
    }
    Err(if let Event::Answered(..) = event { "opened".to_owned() } else { format!("{event:?}") })
}

#[test]
fn blocking_no_clock_of_a_peer_runs_while_the_application_is_away() {
    let (dir, _) = place();
    let mut driver = Driver::<Client>::new(slow_reader(&dir)).unwrap();
    let opened = loop {
        match next(driver.next().unwrap()) {
            Ok(command) => command.into_iter().for_each(|command| driver.command(command).unwrap()),
            Err(opened) => break opened,
        }
    };
    assert_eq!(opened, "opened");
}

#[test]
fn smol_no_clock_of_a_peer_runs_while_the_application_is_away() {
    let (dir, _) = place();
    let (mut events, driver) = spawn::<Client>(slow_reader(&dir)).unwrap();
    let application = async {
        loop {
            match next(StreamExt::next(&mut events).await.unwrap()) {
                Ok(command) => command.into_iter().for_each(|command| events.command(command).unwrap()),
                Err(opened) => break opened,
            }
        }
    };
    let driven = async {
        driver.await;
        "the driver has ended".to_owned()
    };
    assert_eq!(smol::block_on(or(application, driven)), "opened");
}

#[test]
fn blocking_dropping_the_driver_kills_the_group() {
    let (dir, mut witness) = place();
    let release = Release::new(dir.path());
    let driver = Driver::<Scripted>::new(stubborn(dir.path())).unwrap();
    let handle = driver.handle();
    witness.wait_for(5);
    drop(driver);
    assert_eq!(handle.command(say("")), Err(Refused::Closed));
    release.let_go();
    assert_eq!(witness.last_words(), "");
}

#[test]
fn smol_dropping_the_driver_kills_the_group_and_ends_the_events() {
    let (dir, mut witness) = place();
    let release = Release::new(dir.path());
    let (mut events, driver) = spawn::<Scripted>(stubborn(dir.path())).unwrap();
    witness.wait_for(5);
    drop(driver);
    release.let_go();
    assert_eq!(witness.last_words(), "");
    assert_eq!(events.command(say("")), Err(Refused::Closed));
    assert!(smol::block_on(events.next()).is_none());
}

#[test]
fn smol_dropping_the_events_says_farewell_and_the_driver_ends() {
    let (dir, _witness) = place();
    let script = vec![
        Step::Do(A, Action::Open(Open::spawn(sh(dir.path(), "exec cat")))),
        Step::Until(A, Until::Exited),
    ];
    let (events, driver) = spawn::<Scripted>(script).unwrap();
    drop(events.farewell((A, Action::CloseWrite)));
    smol::block_on(driver);
}

/// Reads a flood, tells the number of each read, and counts them where the application sees it.
struct Flooded {
    reads: Arc<AtomicUsize>,
    out: Outputs<usize>,
}

impl Machine for Flooded {
    type Config = (SpawnSpec, Arc<AtomicUsize>);
    type Command = ();
    type Event = usize;

    fn new(_: Now, (spec, reads): Self::Config) -> Self {
        let mut out = Outputs::default();
        out.act(A, Action::Open(Open::spawn(spec)));
        Self { reads, out }
    }

    fn handle(&mut self, _: Now, input: Input<'_>) {
        match input {
            Input::Link(_, Heard::Bytes(_)) => {
                self.out.tell(self.reads.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Input::Link(_, Heard::Eof) => {
                self.out.act(A, Action::Close);
                self.out.end();
            }
            Input::Hold(_) | Input::Tick | Input::Link(..) | Input::StoreFailed(..) => {}
        }
    }

    fn command(&mut self, _: Now, (): ()) -> Result<(), Refused> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<usize>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

fn flood(dir: &TempDir, bytes: &str) -> (SpawnSpec, Arc<AtomicUsize>) {
    (sh(dir.path(), &format!("head -c {bytes} /dev/zero")), Arc::default())
}

#[test]
fn blocking_reads_once_until_the_event_is_taken() {
    let (dir, _witness) = place();
    let (spec, reads) = flood(&dir, "10000000");
    let mut taken = 0;
    for read in Driver::<Flooded>::new((spec, Arc::clone(&reads))).unwrap() {
        taken += 1;
        assert_eq!((read, reads.load(Ordering::Relaxed)), (taken, taken));
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn smol_reads_once_until_the_event_is_taken() {
    let (dir, _witness) = place();
    let (spec, reads) = flood(&dir, "10000000");
    let (mut events, driver) = spawn::<Flooded>((spec, Arc::clone(&reads))).unwrap();
    let mut taken = 0;
    let application = async {
        while let Some(read) = StreamExt::next(&mut events).await {
            taken += 1;
            assert_eq!((read, reads.load(Ordering::Relaxed)), (taken, taken));
            // The driver may read on now, but once only.
            yield_now().await;
            assert!(reads.load(Ordering::Relaxed) <= taken + 1);
        }
    };
    smol::block_on(zip(application, driver));
    assert!(taken > 100, "{taken}");
}

#[test]
fn smol_throws_away_what_nobody_takes() {
    let (dir, _witness) = place();
    let (events, driver) = spawn::<Flooded>(flood(&dir, "10000000")).unwrap();
    drop(events);
    smol::block_on(driver);
}

#[test]
fn smol_drives_many_on_one_executor() {
    let (dir, _witness) = place();
    let executor = smol::Executor::new();
    let machines: Vec<_> = (0..50)
        .map(|n| {
            let (events, driver) = spawn::<Flooded>(flood(&dir, &format!("{n}00000"))).unwrap();
            executor.spawn(driver).detach();
            executor.spawn(events.count())
        })
        .collect();
    let all = async {
        for (n, machine) in machines.into_iter().enumerate() {
            assert!(machine.await >= n);
        }
    };
    smol::block_on(or(all, async { executor.run(std::future::pending()).await }));
}
