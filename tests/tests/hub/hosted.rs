//! Files and terminals for agents that have none: as a source in a world, and in a hub with real processes.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::rc::Rc;

use agentline_core::acp::update::Speaker;
use agentline_core::acp::{ContentBlock, SessionSetup, client};
use agentline_core::host::{Deed, FileError};
use agentline_core::hub::api::{
    Happening, SessionClose, SessionNew, SessionSend, SessionShow, SessionWait, SessionWatch, WaitedFor,
};
use agentline_core::session::{Acp, Done, Item, Moment, Name, News, Open as Which, Told, TurnId, Wish};
use agentline_core::{Machine, Now, Open, SpawnSpec, Stderr, Tag};
use agentline_tests::puppet::{Deed as Act, Puppet};
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use agentline_tests::scripted::{Exits, Scripted, Start};
use agentline_tests::{Checked, Checks, Dice, Faults, Node, World, habits};
use tempfile::TempDir;

use super::house::{Lines, call, hosting, hub};

/// What a source told of a turn, in a world; `after` are its wishes when that is over.
fn in_a_world(prompt: &str, after: Vec<Wish>) -> (Vec<Told>, usize) {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    world.rude_program("scripted_agent", habits::manners, |now, spec| {
        let checks = Checks { json: false, ..Checks::default() };
        Node::new(Checked::around(Scripted::new(now, Start::of(spec)), checks), |_, _, _| {})
            .exits(|Exits(status)| Some(*status))
    });
    world.rude_program("puppet", habits::manners, |now, spec| {
        let steps = spec.args.last().map(|steps| steps.to_string_lossy().into_owned()).unwrap_or_default();
        let checks = Checks { json: false, ..Checks::default() };
        Node::new(Checked::around(Puppet::new(now, steps), checks), |_, _, _| {})
            .exits(|deed| if let Act::Exit(status) = deed { Some(*status) } else { None })
    });
    let spec = SpawnSpec {
        program: "scripted_agent".into(),
        cwd: "/".into(),
        stderr: Stderr::Pipe,
        ..SpawnSpec::default()
    };
    let source = Acp::hosting(world.now(), client::Config::new(Open::spawn(spec)), hosting());
    let checks = Checks { json: false, ..Checks::default() };
    let (told, mut after) = (Rc::new(RefCell::new(Vec::new())), Some(after));
    let (heard, words) = (told.clone(), vec![ContentBlock::text(prompt)]);
    let node = Node::new(
        Checked::around(source, checks),
        move |_: Now, told: Told, wishes: &mut Vec<(Tag, Wish)>| {
            match &told {
                Told::Up(_) => {
                    let setup = Box::new(SessionSetup::in_directory("/w"));
                    wishes.push((Tag(1), Wish::Open(Which::New, setup)));
                }
                Told::Done(_, done) => {
                    if let Ok(Done::Opened(session, _)) = &**done {
                        let (session, words) = (session.clone(), words.clone());
                        wishes.push((Tag(2), Wish::Prompt { session, turn: TurnId(2), words }));
                    }
                }
                Told::File(wanted) => {
                    let done =
                        if wanted.path == "/w/a" { Ok("held".to_owned()) } else { Err(FileError::Missing) };
                    wishes.push((Tag(3), Wish::FileDone { request: wanted.request, done }));
                }
                Told::News(Item { news: News::Ended(_), .. }) => {
                    let after = after.take().into_iter().flatten();
                    wishes.extend(after.map(|wish| (Tag(4), wish)));
                }
                Told::News(_)
                | Told::Hello(_)
                | Told::Wanted(..)
                | Told::Noted(_)
                | Told::Other(_)
                | Told::Down(_) => {}
            }
            heard.borrow_mut().push(told);
        },
    );
    world.add(node);
    world.run();
    (told.take(), world.processes())
}

fn said(told: &[Told]) -> Vec<&str> {
    let said = told.iter().filter_map(|told| {
        let Told::News(Item { news: News::Text { speaker: Speaker::Agent, text, .. }, .. }) = told else {
            return None;
        };
        Some(&**text)
    });
    said.collect()
}

fn deeds(told: &[Told]) -> Vec<String> {
    let deeds = told.iter().filter_map(|told| {
        let Told::News(Item { news: News::Hosted(hosted), moment, .. }) = told else { return None };
        let turn = if *moment == Moment::Turn { "" } else { " (no turn)" };
        Some(match &hosted.deed {
            Deed::Read { path } => format!("read {path}{turn}"),
            Deed::Wrote { path, bytes } => format!("wrote {path} {bytes}{turn}"),
            Deed::Started { command, .. } => format!("started {}{turn}", command.join(" ")),
            Deed::Exited { status, .. } => format!("exited {:?} {:?}{turn}", status.exit_code, status.signal),
        })
    });
    deeds.collect()
}

#[test]
fn a_source_hosts_and_tells_what_it_did() {
    let (told, left) =
        in_a_world("run say hi & exit 3; wait; read a; read b; release; say end", vec![Wish::Leave]);
    let expected = [
        r#"{"terminalId":"terminal-1"}"#,
        r#"{"exitCode":3,"signal":null}"#,
        r#"{"content":"held"}"#,
        "/w/b is not there (-32002)",
        "{}",
        "end",
    ];
    assert_eq!((said(&told), left), (expected.to_vec(), 0));
    let expected = ["started puppet say hi ; exit 3", "exited Some(3) None", "read /w/a", "read /w/b"];
    assert_eq!(deeds(&told), expected);
}

#[test]
fn what_runs_for_a_session_ends_with_it_also_where_the_agent_cannot_close_one() {
    let close = || Wish::Close { session: Name::from("s-1") };
    let (told, left) = in_a_world("run hang; say end", vec![close()]);
    // The agent alone is left.
    assert_eq!((said(&told).last(), left), (Some(&"end"), 1));
    let (_, left) = in_a_world("run hang; say end", Vec::new());
    assert_eq!(left, 2, "without an end of the session it goes on");
    let (told, left) = in_a_world("run hang; run hang; say end", vec![close(), Wish::Leave]);
    assert!(matches!(told.last(), Some(Told::Down(_))) && left == 0);
}

#[test]
fn a_hub_hosts_on_smol() {
    a_hub_hosts::<Smol>();
}

#[test]
fn a_hub_hosts_on_threads() {
    a_hub_hosts::<Blocking>();
}

fn a_hub_hosts<R: Runtime>() {
    let home = TempDir::with_prefix("al").unwrap();
    let path = home.path().join("run/control.sock");
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    let work = work.canonicalize().unwrap();
    fs::write(home.path().join("secret"), "no").unwrap();
    symlink(home.path().join("secret"), work.join("link")).unwrap();
    hub::<R>(home.path(), || {
        let answer = |agent: &str, prompt: &str| {
            let session = start(&path, agent, prompt, &work);
            let show = SessionShow { session_id: session, tail: Some(1), load: Some(false) };
            call(&path, &show).unwrap()[0].content.clone()
        };
        assert_eq!(answer("hosted", "term pwd; echo $0 >a; cat a"), format!("{}\n/bin/sh\n", work.display()));
        assert_eq!(answer("hosted", "writefile d/b some text"), "Written.\n");
        assert_eq!(answer("hosted", "readfile d/b"), "some text\n");
        for outside in ["link", "../secret", "/etc/passwd"] {
            let said = answer("hosted", &format!("readfile {outside}"));
            assert!(said.ends_with("is outside of the workspace.\n"), "{said}");
        }
        let none = answer("demo", "term pwd");
        assert!(none.contains("this client offers no such thing"), "{none}");

        // It is told to those who look, and ends with its session: that agent cannot close one.
        let session = start(&path, "scripted", "say here", &work);
        let watch = SessionWatch { session_id: session.clone(), ..SessionWatch::default() };
        let mut frames = Lines::ask(&path, &watch);
        let content = "run hang; say left running".into();
        call(&path, &SessionSend { session_id: session.clone(), content, ..SessionSend::default() }).unwrap();
        let deed = loop {
            if let Happening::HostedNow(hosted) = frames.frame().what {
                break hosted.deed;
            }
        };
        assert!(matches!(deed, Deed::Started { terminal_id: Some(_), .. }), "{deed:?}");
        over(&path, &session);
        assert_eq!(in_folder(&work), 1);
        call(&path, &SessionClose::of(&*session)).unwrap();
        while in_folder(&work) > 0 {
            std::thread::yield_now();
        }
    });
    hub::<R>(home.path(), || {
        start(&path, "scripted", "run hang; say left running", &work);
        assert_eq!(in_folder(&work), 1);
    });
    assert_eq!(in_folder(&work), 0, "a command outlives its hub");
}

/// A session whose first turn is over.
fn start(path: &Path, agent: &str, task: &str, work: &Path) -> String {
    let cwd = Some(work.to_str().unwrap().to_owned());
    let new = SessionNew { task: Some(task.into()), agent: Some(agent.into()), cwd, ..SessionNew::default() };
    let session = call(path, &new).unwrap().session.id;
    over(path, &session);
    session
}

fn over(path: &Path, session: &str) {
    let wait = SessionWait { session_id: session.to_owned(), ..SessionWait::default() };
    assert_eq!(call(path, &wait).unwrap().reason, WaitedFor::Completed);
}

/// Processes that work in that folder.
fn in_folder(folder: &Path) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let folders = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    folders.filter(|it| it == folder).count()
}
