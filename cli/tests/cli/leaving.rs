//! However we are ended: the right exit code, one result where somebody can read it, and nobody left behind.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{AGENTLINE, Bench, Running, done};

const RUNTIMES: [&str; 2] = ["blocking", "smol"];

#[test]
fn ctrl_c_cancels_the_turn() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let (agent, witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
        let mut run =
            Running::new(bench.agentline(&["run", "--json", "--runtime", runtime, "slow 1000"]).args(agent));
        run.until("session");
        run.signal(Signal::INT);
        let result = run.until("result");
        assert_eq!((&result["outcome"], &result["stopReason"]), (&json!("aborted"), &json!("cancelled")));
        assert_eq!(run.end().0.code(), Some(130));
        assert!(witness.last_words().contains("session/cancel"));
    }
}

#[test]
fn ctrl_c_again_does_not_wait_for_the_agent() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let (agent, mut witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
        let command = &["run", "--json", "--runtime", runtime, "--cancel-grace", "1h", "hang"];
        let mut run = Running::new(bench.agentline(command).args(agent));
        run.until("session");
        run.signal(Signal::INT);
        witness.wait_for_text("session/cancel");
        run.signal(Signal::INT);
        let result = run.until("result");
        assert_eq!(result["outcome"], "aborted");
        assert_eq!(run.end().0.code(), Some(130));
        let _ = witness.last_words();
    }
}

#[test]
fn a3_ctrl_c_again_waits_for_no_grace() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let stays = "trap '' TERM; \"$0\" demo-agent; sleep 1000";
        let (agent, mut witness) = bench.tapped(&["/bin/sh", "-c", stays, AGENTLINE]);
        let command =
            &["run", "--json", "--runtime", runtime, "--cancel-grace", "1h", "--leave-grace", "1h", "hang"];
        let mut run = Running::new(bench.agentline(command).args(agent));
        run.until("session");
        run.signal(Signal::INT);
        witness.wait_for_text("session/cancel");
        run.signal(Signal::INT);
        assert_eq!(run.until("result")["outcome"], "aborted");
        assert_eq!(run.end().0.code(), Some(130));
        let _ = witness.last_words();
    }
}

#[test]
fn a3_ctrl_c_after_the_answer_does_not_wait_for_an_agent_that_stays() {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", "ignore-term"]);
    let command = &["run", "--json", "--leave-grace", "1h", "hi"];
    let mut run = Running::new(bench.agentline(command).args(agent));
    assert_eq!(run.until("result")["outcome"], "completed");
    run.signal(Signal::INT);
    assert_eq!(run.end().0.code(), Some(0));
    let _ = witness.last_words();
}

#[test]
fn an_agent_that_does_not_answer_a_cancel_is_waited_for_no_longer_than_the_grace() {
    let bench = Bench::new();
    let mut run = Running::new(&mut bench.agentline(&["run", "--json", "--cancel-grace", "50ms", "hang"]));
    run.until("session");
    run.signal(Signal::INT);
    assert_eq!(run.until("result")["outcome"], "aborted");
    assert_eq!(run.end().0.code(), Some(130));
}

#[test]
fn ctrl_c_during_the_handshake_ends_the_agent() {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", "silent"]);
    let mut run = Running::new(bench.agentline(&["run", "--json", "hi"]).args(agent));
    run.until("start");
    run.signal(Signal::INT);
    assert_eq!(run.until("result")["outcome"], "aborted");
    assert_eq!(run.end().0.code(), Some(130));
    let _ = witness.last_words();
}

#[test]
fn other_signals_end_the_agent_and_are_the_exit_code() {
    let each = |runtime| [(runtime, Signal::TERM, 143), (runtime, Signal::HUP, 129)];
    for (runtime, signal, code) in RUNTIMES.into_iter().flat_map(each) {
        let bench = Bench::new();
        let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", "ignore-eof"]);
        let command = &["run", "--json", "--runtime", runtime, "hi"];
        let mut run = Running::new(bench.agentline(command).args(agent));
        run.until("ready");
        run.signal(signal);
        run.until("result");
        assert_eq!(run.end().0.code(), Some(code));
        let _ = witness.last_words();
    }
}

#[test]
fn no_agent_outlives_a_sudden_death() {
    for runtime in RUNTIMES {
        let bench = Bench::new();
        let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", "ignore-term"]);
        let command = &["run", "--json", "--runtime", runtime, "hi"];
        let mut run = Running::new(bench.agentline(command).args(agent));
        run.until("text");
        run.signal(Signal::KILL);
        assert_eq!(run.end().0.signal(), Some(9));
        let _ = witness.last_words();
    }
}

#[test]
fn cli_broken_pipe_panic_a_reader_that_is_gone_cancels_quietly() {
    let json = r#"{"type":"text","text":"1\n"}"#;
    for (options, line) in [(&["--json"][..], json), (&[], "1"), (&["--json", "--runtime", "smol"], json)] {
        let bench = Bench::new();
        let (agent, witness) = bench.tapped(&[AGENTLINE, "demo-agent"]);
        let command = &["run", "-q", "flood 100000000"];
        let mut run = Running::new(bench.agentline(command).args(options).args(agent));
        run.until_line(line);
        run.hang_up();
        let (status, _, err) = run.end();
        assert_eq!((status.code(), &*err), (Some(0), ""), "{options:?}");
        assert!(witness.last_words().contains("session/cancel"));
    }
}

#[test]
fn a_full_disk_is_told() {
    let bench = Bench::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = bench.agentline(&["run", "hello"]);
    let output = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("✗ stdout cannot be written: No space left"), "{said}");
}

#[test]
fn the_result_comes_before_the_agent_goes() {
    let bench = Bench::new();
    let (agent, witness) = bench.watched(&[AGENTLINE, "demo-agent", "--fault", "ignore-term"]);
    let mut run = Running::new(bench.agentline(&["run", "--json", "hi"]).args(agent));
    let pid = run.until("start")["pid"].as_i64().unwrap();
    let result = run.until("result");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_ok(), "it ignores every wish, so it lives");
    assert_eq!(result["outcome"], "completed");
    assert_eq!(run.end().0.code(), Some(0));
    let _ = witness.last_words();
}

#[test]
fn everything_is_written_before_the_exit() {
    let bench = Bench::new();
    let ended = done(&mut bench.agentline(&["run", "-q", "flood 300000"]));
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!((ended.code, lines.len(), lines.last()), (Some(0), 300_000, Some(&"300000")));
}
