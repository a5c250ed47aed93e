//! A hub with real processes and real sockets, on each runtime: started, asked, approved, crashed, tried again, stopped,
//! and started once more from its files.

use std::path::Path;

use agentline_core::control::ErrorTag;
use agentline_core::hub::api::{
    ApprovalRespond, ApprovalsWatch, By, Decision, Dispatched, Happening, Reason, SessionNew, SessionRetry,
    SessionSend, SessionShow, SessionWait, SessionsList, Status, WaitedFor,
};
use agentline_tests::runtimes::{Blocking, Runtime, Smol};
use tempfile::TempDir;

use super::house::{Lines, call, hub};

#[test]
fn a_day_of_a_hub_on_smol() {
    a_day::<Smol>();
}

#[test]
fn a_day_of_a_hub_on_threads() {
    a_day::<Blocking>();
}

fn a_day<R: Runtime>() {
    let home = TempDir::with_prefix("al").unwrap();
    let path = home.path().join("run/control.sock");
    hub::<R>(home.path(), || {
        let approvals = Lines::ask(&path, &ApprovalsWatch::default());
        let started = call(&path, &new("ask", home.path())).unwrap();
        assert_eq!((&*started.session.id, started.dispatch), ("s1", Dispatched::Dispatched));
        approve(&path, approvals);
        assert_eq!(wait(&path, "s1"), (WaitedFor::Completed, None));

        call(&path, &send("crash 3")).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Error, Some(Reason::AgentExited)));
        // That agent keeps no sessions.
        let lost = call(&path, &SessionRetry::of("s1")).unwrap_err();
        assert_eq!(
            (lost.tag.clone(), lost.member("sessionId").as_deref()),
            (ErrorTag::RunnerError, Some("s1"))
        );
        let again = call(&path, &new("good evening", home.path())).unwrap();
        assert_eq!(wait(&path, &again.session.id), (WaitedFor::Completed, None));
        let shown = SessionShow { session_id: again.session.id, tail: Some(1), load: Some(false) };
        let shown = call(&path, &shown);
        assert_eq!(shown.unwrap()[0].content, "good evening");
        let nowhere = SessionNew { cwd: Some("/no/such/folder".into()), ..new("hi", home.path()) };
        assert_eq!(call(&path, &nowhere).unwrap_err().tag, ErrorTag::InvalidArgs);
    });
    assert!(!path.exists(), "the socket is left behind");
    hub::<R>(home.path(), || {
        let rows = call(&path, &SessionsList::default()).unwrap();
        let rows: Vec<_> = rows.iter().map(|row| (&*row.id, row.status)).collect();
        assert_eq!(rows, [("s2", Status::Completed), ("s1", Status::Error)]);
        let started = call(&path, &new("hi", home.path())).unwrap();
        assert!(!rows.iter().any(|(id, _)| *id == started.session.id), "a handle is given twice");
        assert!(started.turn.unwrap() > 4, "a number is given twice: {started:?}");
    });
}

#[test]
fn a_session_goes_on_after_the_hub_and_after_a_crash_on_smol() {
    goes_on::<Smol>();
}

#[test]
fn a_session_goes_on_after_the_hub_and_after_a_crash_on_threads() {
    goes_on::<Blocking>();
}

fn goes_on<R: Runtime>() {
    let home = TempDir::with_prefix("al").unwrap();
    let path = home.path().join("run/control.sock");
    let all = || {
        let show = SessionShow { session_id: "s1".into(), ..SessionShow::default() };
        let said = call(&path, &show).unwrap();
        said.into_iter().map(|message| message.content).collect::<Vec<_>>()
    };
    hub::<R>(home.path(), || {
        let new = SessionNew { agent: Some("keeper".into()), ..new("good morning", home.path()) };
        call(&path, &new).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Completed, None));
    });
    hub::<R>(home.path(), || {
        // Nobody has it open: it is read from the agent.
        assert_eq!(all(), ["good morning", "good morning"]);
        call(&path, &send("good day")).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Completed, None));
        call(&path, &send("crash 3")).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Error, Some(Reason::AgentExited)));
        // The turn is over when its words end, the process is gone a moment later.
        let row = loop {
            let row = call(&path, &SessionsList::default()).unwrap().remove(0);
            if !row.live {
                break row;
            }
        };
        assert!(row.retryable && row.controllable);
        call(&path, &send("good evening")).unwrap();
        assert_eq!(wait(&path, "s1"), (WaitedFor::Completed, None));
        assert_eq!(all().last().map(String::as_str), Some("good evening"));
    });
}

/// The first answer counts, and everybody is told.
fn approve(path: &Path, mut approvals: Lines) {
    let mut next = |wanted: &str| loop {
        let frame = approvals.frame();
        if frame.what.kind() == wanted {
            return frame.what;
        }
    };
    next("synced");
    let Happening::ApprovalBrief(asked) = next("asked") else { panic!("no question") };
    let allow = ApprovalRespond {
        approval_id: asked.approval_id.clone(),
        decision: Some(Decision::Allow),
        ..ApprovalRespond::default()
    };
    assert_eq!(call(path, &allow).unwrap().by, By::Client);
    let late = call(path, &allow).unwrap_err();
    assert_eq!((late.tag.clone(), late.member("by").as_deref()), (ErrorTag::AlreadyAnswered, Some("client")));
    let Happening::Resolved(over) = next("resolved") else { panic!("not told") };
    assert_eq!((over.approval_id, over.by), (asked.approval_id, By::Client));
}

fn new(task: &str, cwd: &Path) -> SessionNew {
    let cwd = Some(cwd.to_str().unwrap().to_owned());
    SessionNew { task: Some(task.into()), agent: Some("demo".into()), cwd, ..SessionNew::default() }
}

fn send(content: &str) -> SessionSend {
    SessionSend { session_id: "s1".into(), content: content.into(), ..SessionSend::default() }
}

fn wait(path: &Path, sid: &str) -> (WaitedFor, Option<Reason>) {
    let waited = call(path, &SessionWait { session_id: sid.into(), ..SessionWait::default() }).unwrap();
    (waited.reason, waited.session.status_reason)
}
