//! Speaking into a session: which one is meant, what is printed, how it ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::chat::open;
use crate::rig::{AGENTLINE, Bench, Done, Running, done, text};

/// `agentline attach …` with JSON output.
fn attach(bench: &Bench, args: &[&str]) -> Done {
    done(bench.agentline(&["attach", "--json"]).args(args))
}

fn first(done: &Done) -> Value {
    let objects = done.objects();
    assert_eq!((objects.len(), &objects[0]["schemaVersion"]), (1, &json!(1)), "{done:?}");
    objects.into_iter().next().expect("an object")
}

/// The record of a session that is not there.
fn leave_record(bench: &Bench, record: &Value) {
    let live = bench.path("home").join(".agentica/cache/peers/live");
    fs::create_dir_all(&live).expect("a folder");
    let file = live.join(format!("{}.json", record["peer_id"].as_str().expect("an id")));
    fs::write(file, record.to_string()).expect("a file");
}

/// The id and the name of the one session that lives.
fn peer(bench: &Bench) -> (String, String) {
    let [peer] = &attach(bench, &["list"]).objects()[..] else { panic!("not one") };
    let word = |member: &str| peer[member].as_str().expect("a word").to_owned();
    (word("peerId"), word("name"))
}

fn kind_and_code(done: &Done) -> (String, Option<i32>) {
    let object = first(done);
    assert_eq!((&object["type"], object["exitCode"].as_i64()), (&json!("error"), done.code.map(i64::from)));
    (object["error"]["kind"].as_str().expect("a kind").to_owned(), done.code)
}

#[test]
fn a_session_is_found_by_id_name_and_path_and_says_what_it_is() {
    let bench = Bench::new();
    let (_chat, socket) = open(&bench, &[]);
    let (id, name) = peer(&bench);
    assert!(name.starts_with("work-"), "{name}");
    for word in [&*id, &id[..3], &name, text(&socket)] {
        assert_eq!(first(&attach(&bench, &["ping", word])), json!({"type": "ok", "schemaVersion": 1}));
    }
    let event = json!({"v": 1, "event": "run.started", "transport": {"ppid": 1, "cwd": "/", "attach_socket": socket, "peer_id": id}});
    let event = bench.file("event", event.to_string());
    let mut send = bench.agentline(&["attach", "send", "-", "by event"]);
    assert_eq!(done(send.stdin(fs::File::open(event).expect("a file"))).out, "by event\n");
    let loaded = first(&attach(&bench, &["load", &id]));
    let work = fs::canonicalize(bench.path("work")).expect("a folder");
    let told =
        json!({"type": "session", "schemaVersion": 1, "sessionId": "demo-1", "cwd": work, "busy": false});
    assert_eq!(loaded, told);
    assert_eq!(done(&mut bench.agentline(&["attach", "ping", &id])).out, "ok\n");
    assert_eq!(
        done(&mut bench.agentline(&["attach", "load", &id])).out,
        format!("session  demo-1\ncwd      {}\nbusy     no\n", work.display())
    );
}

#[test]
fn sessions_are_listed_the_dead_among_them() {
    let bench = Bench::new();
    let none = attach(&bench, &["list"]);
    assert_eq!((none.code, &*none.out), (Some(0), ""));
    assert!(none.err.contains(".agentica/cache/peers/live (chosen by HOME)"), "{}", none.err);

    leave_record(&bench, &json!({"peer_id": "00dead00", "name": "old-1f", "pid": 0, "cwd": "/x"}));
    let (_chat, socket) = open(&bench, &[]);
    let listed = attach(&bench, &["list"]).objects();
    assert_eq!(listed.len(), 2);
    let alive = listed.iter().find(|peer| peer["alive"] == true).expect("ours");
    assert_eq!((&alive["socket"], &alive["busy"]), (&json!(socket), &json!(false)));
    let dead = listed.iter().find(|peer| peer["alive"] == false).expect("the other");
    assert_eq!((&dead["peerId"], &dead["socket"]), (&json!("00dead00"), &Value::Null));
    let text = done(&mut bench.agentline(&["attach", "list"])).out;
    assert!(text.contains("00dead00\told-1f\tdead\t0\t/x\t-\n"), "{text}");
    assert!(bench.path("home").join(".agentica/cache/peers/live/00dead00.json").exists(), "it is not ours");
}

#[test]
fn a_dead_session_is_called_dead_and_one_that_never_was_is_not() {
    let bench = Bench::new();
    let mut child = Command::new("true").spawn().expect("it runs");
    let pid = child.id();
    child.wait().expect("it ends");
    let record = |id: &str, name: &str| json!({"peer_id": id, "name": name, "pid": pid, "updated_at": now()});
    leave_record(&bench, &record("ab12cd34", "proj-7f"));
    leave_record(&bench, &record("ab56cd34", "proj-80"));
    let dead = attach(&bench, &["ping", "proj-7f"]);
    assert_eq!(kind_and_code(&dead), ("not_found".to_owned(), Some(3)));
    let message = format!("the session ab12cd34 (proj-7f) is dead: its process {pid} is gone");
    assert_eq!(first(&dead)["error"]["message"], message);
    let stale = json!({"peer_id": "cd", "name": "s", "pid": std::process::id(), "updated_at": now() - 200.0});
    leave_record(&bench, &stale);
    let stale = first(&attach(&bench, &["ping", "cd"]));
    assert_eq!(
        stale["error"]["message"],
        "the session cd (s) is dead: it has not renewed its record for too long"
    );
    let unknown = attach(&bench, &["ping", "nobody"]);
    assert_eq!(kind_and_code(&unknown), ("not_found".to_owned(), Some(3)));
    assert!(!first(&unknown)["error"]["message"].to_string().contains("dead"));
}

#[test]
fn e8_a_word_that_names_nobody_is_answered_with_who_is_there() {
    let bench = Bench::new();
    let alive = |id: &str, name: &str, session: &str| json!({"peer_id": id, "name": name, "session_id": session, "pid": std::process::id(), "updated_at": now()});
    leave_record(&bench, &alive("ab12cd34", "proj-7f", "0123456789"));
    leave_record(&bench, &alive("ff12cd34", "other-80", "9876543210"));
    let nobody = first(&attach(&bench, &["ping", "nosuch"]));
    let message = "no session is called nosuch; there are ab12cd34 (proj-7f), ff12cd34 (other-80)";
    assert_eq!(nobody["error"]["message"], message);
    assert_eq!(nobody["error"]["hint"], "agentline attach list");
    // None of them lets anybody in, and so the right one is told to have been found.
    for (word, id) in
        [("proj", "ab12cd34"), ("PROJ-7F", "ab12cd34"), ("01234567", "ab12cd34"), ("ff", "ff12cd34")]
    {
        let found = first(&attach(&bench, &["ping", word]));
        let message = found["error"]["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("the session {id}")), "{word}: {message}");
    }
}

#[test]
fn e1_a_tilde_in_a_variable_is_the_home() {
    let bench = Bench::new();
    for (name, below) in [("AGENTICA_CACHE_DIR", "c"), ("AGENTICA_HOME", "a/cache")] {
        let live = bench.path("home").join(below).join("peers/live");
        fs::create_dir_all(&live).expect("a folder");
        fs::write(live.join("x.json"), r#"{"peer_id":"ab12cd34","name":"x"}"#).expect("a record");
        let value = format!("~/{}", below.split('/').next().expect("a folder"));
        let listed = done(bench.agentline(&["attach", "list", "--json"]).env(name, value)).objects();
        assert_eq!(listed[0]["peerId"], "ab12cd34", "{name}");
    }
}

fn now() -> f64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64()
}

#[test]
fn a_word_that_means_several_names_them() {
    let bench = Bench::new();
    for id in ["ab12cd34", "ab56cd34"] {
        let record = json!({"peer_id": id, "name": "x", "pid": std::process::id(), "updated_at": now()});
        leave_record(&bench, &record);
    }
    let several = attach(&bench, &["ping", "ab"]);
    assert_eq!(kind_and_code(&several), ("usage".to_owned(), Some(2)));
    assert_eq!(first(&several)["error"]["message"], "ab could be any of ab12cd34, ab56cd34");
    let silent = attach(&bench, &["ping", "ab12"]);
    assert_eq!(kind_and_code(&silent), ("unreachable".to_owned(), Some(4)));
}

#[test]
fn what_is_said_is_answered() {
    let bench = Bench::new();
    let (_chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let said = first(&attach(&bench, &["send", &id, "hi", "--session", "demo-1"]));
    assert!(said["elapsedMs"].is_number());
    let told = [&said["type"], &said["outcome"], &said["stopReason"], &said["answer"]];
    assert_eq!(told, ["result", "completed", "end_turn", "hi"]);
    let mut piped = bench.agentline(&["attach", "send", &id]);
    let words = bench.file("words", "out of a pipe\n");
    assert_eq!(done(piped.stdin(fs::File::open(words).expect("a file"))).out, "out of a pipe\n");
    let hello = done(&mut bench.agentline(&["attach", "send", &id, "hello"]));
    assert!(hello.out.starts_with("Hello! I am a scripted agent"), "{hello:?}");

    let other = attach(&bench, &["send", &id, "hi", "--session", "other"]);
    let problem = first(&other);
    assert_eq!((other.code, &problem["outcome"]), (Some(3), &json!("error")));
    assert_eq!(problem["error"]["message"], "this socket serves the session demo-1");
    assert_eq!(attach(&bench, &["send", &id, " "]).code, Some(2));
}

#[test]
fn a_turn_that_is_cancelled_and_one_that_is_not_waited_for_have_their_exit_codes() {
    let bench = Bench::new();
    let (mut chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let send = || Running::new(&mut bench.agentline(&["attach", "--json", "send", &id, "slow 1000"]));

    let mut one = send();
    chat.until("prompt");
    assert_eq!(first(&attach(&bench, &["cancel", &id]))["type"], "ok");
    let result = one.until("result");
    assert_eq!((&result["outcome"], &result["stopReason"]), (&json!("aborted"), &json!("cancelled")));
    assert_eq!(one.end().0.code(), Some(130));

    let mut one = send();
    chat.until("prompt");
    one.signal(Signal::INT);
    assert_eq!(one.until("result")["stopReason"], "cancelled");
    assert_eq!(one.end().0.code(), Some(130));

    let late = first(&attach(&bench, &["send", &id, "slow 1000", "--timeout", "100ms"]));
    let error = &late["error"];
    assert_eq!(
        (&error["kind"], &error["phase"], &error["promptSent"]),
        (&json!("timeout"), &json!("prompt"), &json!(true))
    );
    assert_eq!(
        (&error["retryable"], &error["hint"]),
        (&json!(false), &json!(format!("agentline attach cancel {id}")))
    );

    let one = send();
    chat.signal(Signal::TERM);
    // Whether it was taken yet, on its way or too late, it is not taken for an answer.
    let (status, out, _) = one.end();
    assert!(matches!(status.code(), Some(1 | 3 | 4)), "{status}: {out}");
    assert!(!out.contains("completed"), "{out}");
}

#[test]
fn g5_a_pipe_in_the_place_of_a_token_or_a_record_is_not_waited_for() {
    let bench = Bench::new();
    let (_chat, socket) = open(&bench, &[]);
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    fifo(&bench.path("home/.agentica/cache/peers/live/pipe.json"));
    let (id, _) = peer(&bench);
    assert_eq!(attach(&bench, &["ping", &id]).code, Some(0));
    let pipe = bench.path("pipe");
    fifo(&pipe);
    let long = bench.file("long", vec![b'x'; 5000]);
    fs::set_permissions(&long, fs::Permissions::from_mode(0o600)).expect("ours");
    for (file, why) in [
        (&*pipe, "is a pipe, not a file"),
        (&*long, "is longer than 4 KiB"),
        (Path::new("/dev/zero"), "is a device, not a file"),
        (Path::new("/nowhere"), "is not there"),
    ] {
        let ended = attach(&bench, &["ping", text(&socket), "--token-file", text(file)]);
        let said = first(&ended)["error"]["message"].to_string();
        assert!(said.contains(&format!("{} {why}", file.display())), "{said}");
        assert_eq!(ended.code, Some(4), "{said}");
    }
}

#[test]
fn a_token_is_neither_sent_where_others_listen_nor_read_where_others_wrote() {
    let bench = Bench::new();
    let (_chat, socket) = open(&bench, &[]);
    let socket_text = text(&socket);
    let token = socket.with_extension("token");
    let unreachable = |args: &[&str], why: &str| {
        let done = attach(&bench, args);
        let (_, code) = kind_and_code(&done);
        assert_eq!(code, Some(4));
        let message = first(&done)["error"]["message"].to_string();
        assert!(message.contains(why), "{message}");
    };
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    mode(&token, 0o644);
    unreachable(&["ping", socket_text], "the token file can be read by others");
    mode(&token, 0o600);
    mode(&socket, 0o666);
    unreachable(&["ping", socket_text], "is not private: other users may write to it (mode 666)");
    mode(&socket, 0o600);
    let wrong = bench.file("wrong", "no such token");
    mode(&wrong, 0o600);
    unreachable(&["ping", socket_text, "--token-file", text(&wrong)], "the token was refused");
    let empty = bench.file("empty", "\n");
    mode(&empty, 0o600);
    unreachable(&["ping", socket_text, "--token-file", text(&empty)], "the token file is empty");
    unreachable(&["ping", text(&bench.path("none.sock"))], "is not there");
    unreachable(&["ping", text(&token)], "is no socket");
    let link = bench.path("link.sock");
    symlink(&socket, &link).expect("a link");
    unreachable(&["ping", text(&link)], "is not private: it is a symbolic link");
    assert_eq!(attach(&bench, &["ping", socket_text]).code, Some(0));
}

#[test]
fn an_event_of_a_session_that_lets_nobody_in_says_so() {
    let bench = Bench::new();
    for (event, code) in [(r#"{"transport":{"ppid":1,"cwd":"/"}}"#, 3), ("{}", 2), ("", 2)] {
        let mut ping = bench.agentline(&["attach", "--json", "ping", "-"]);
        let mut ping = Running::new(ping.stdin(Stdio::piped()));
        let mut stdin = ping.child().stdin.take().expect("a pipe");
        stdin.write_all(event.as_bytes()).expect("a reader");
        drop(stdin);
        assert_eq!(ping.end().0.code(), Some(code), "{event}");
    }
}

#[test]
fn c12_a_turn_that_did_not_end_well_is_no_success() {
    let bench = Bench::new();
    let (_chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let failed = attach(&bench, &["send", &id, "fail"]);
    let result = first(&failed);
    assert_eq!((failed.code, &result["outcome"]), (Some(1), &json!("error")));
    assert_eq!(result["answer"], "This will not end well.\n", "what was answered before is carried along");
    delivered(&result["error"]);
    let text = done(&mut bench.agentline(&["attach", "send", &id, "fail"]));
    assert_eq!((text.code, &*text.out), (Some(1), "This will not end well.\n"));
    assert!(
        text.err.starts_with("✗ the turn failed: ") && text.err.contains("asked to fail"),
        "{}",
        text.err
    );

    let refused = attach(&bench, &["send", &id, "refuse"]);
    let result = first(&refused);
    assert_eq!(
        (refused.code, &result["outcome"], &result["stopReason"]),
        (Some(1), &json!("refusal"), &json!("refusal"))
    );

    let died = attach(&bench, &["send", &id, "crash 3"]);
    let result = first(&died);
    assert_eq!((died.code, &result["answer"]), (Some(1), &json!("Down I go.\n")));
    delivered(&result["error"]);
    let message = result["error"]["message"].to_string();
    assert!(message.contains("code 3"), "the first fact is the cause: {message}");
}

/// The words were heard: to say them again may do their work twice.
fn delivered(error: &Value) {
    let told = (&error["phase"], &error["retryable"], &error["promptSent"]);
    assert_eq!(told, (&json!("prompt"), &json!(false), &json!(true)), "{error}");
}

#[test]
fn c12_a_server_that_dies_in_a_turn_may_have_done_it() {
    let bench = Bench::new();
    let (mut chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let mut send = Running::new(&mut bench.agentline(&["attach", "--json", "send", &id, "slow 1000"]));
    chat.until("prompt");
    chat.signal(Signal::KILL);
    delivered(&send.until("result")["error"]);
}

#[test]
fn c12_sigterm_cancels_and_sighup_says_that_it_does_not() {
    let bench = Bench::new();
    let (mut chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let send = || Running::new(&mut bench.agentline(&["attach", "--json", "send", &id, "slow 1000"]));

    let mut one = send();
    chat.until("prompt");
    one.signal(Signal::TERM);
    assert_eq!(one.until("result")["stopReason"], "cancelled");
    assert_eq!(one.end().0.code(), Some(143));
    assert_eq!(chat.until("result")["outcome"], "aborted");

    let mut one = send();
    chat.until("prompt");
    one.signal(Signal::HUP);
    let result = one.until("result");
    assert_eq!((&result["outcome"], &result["error"]["promptSent"]), (&json!("aborted"), &json!(true)));
    assert_eq!(result["error"]["message"], "we left before the end of the turn, which goes on");
    assert_eq!(result["error"]["hint"], format!("agentline attach cancel {id}"));
    assert_eq!(one.end().0.code(), Some(129));
    assert_eq!(first(&attach(&bench, &["load", &id]))["busy"], true);
}

#[test]
fn g10_a_hang_up_that_is_ignored_stays_ignored() {
    let bench = Bench::new();
    let (mut chat, _) = open(&bench, &[]);
    let (id, _) = peer(&bench);
    let plain = bench.agentline(&[]);
    let script = "trap '' HUP; exec \"$0\" attach --json send \"$1\" 'slow 1000'";
    let mut nohup = Command::new("/bin/sh");
    nohup.args(["-c", script, AGENTLINE, &id]).env_clear().stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        nohup.env(name, value.expect("a value"));
    }
    let mut one = Running::new(&mut nohup);
    chat.until("prompt");
    one.signal(Signal::HUP);
    one.signal(Signal::INT);
    assert_eq!(one.until("result")["stopReason"], "cancelled", "it was still there to be interrupted");
    assert_eq!(one.end().0.code(), Some(130));
}
