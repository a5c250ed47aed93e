//! What an agent says, on every way to a person or a program.

use agentline_tests::{Dice, dice};
use serde_json::{Value, json};

use crate::rig::{AGENTLINE, Bench, Running, done, messages, result, text, update};
use crate::terminal::Terminal;

/// untrusted-bytes-on-the-terminal: what a terminal would obey, each with a mark of its own so that it is not taken for
/// something of ours.
const EVIL: [&str; 18] = [
    "\u{1b}[77A",
    "\u{1b}[2;2H",
    "\u{1b}[3J",
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}]0;evil\u{1b}\\",
    "\u{1b}Pevil\u{1b}\\",
    "\u{1b}c",
    "\u{1b}[?1049h",
    "\u{9b}77A",
    "\u{9d}52;c;ZXZpbA==\u{9c}",
    "\u{8}\u{8}",
    "\u{7f}",
    "\revil",
    "\u{202e}",
    "\u{2067}",
    "\u{200b}",
    "\u{ad}",
    "\u{0}",
];

/// Asserts that nothing of it reached the terminal. Of escapes, those that we draw with are there.
fn nothing_is_obeyed(how: &str, terminal: &Terminal) {
    let written = String::from_utf8_lossy(terminal.written()).into_owned();
    for evil in EVIL {
        assert!(!written.contains(evil), "{how}: {evil:?} in {written:?}");
    }
    let mut rest = &*written;
    while let Some(at) = rest.find('\u{1b}') {
        let sequence = &rest[at + 1..];
        let end =
            sequence.find(|letter: char| letter.is_ascii_alphabetic()).map_or(sequence.len(), |end| end + 1);
        let is_ours = sequence.starts_with('[')
            && sequence[1..end - 1].bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b'?'))
            && matches!(&sequence[end - 1..end], "m" | "K" | "J" | "A" | "C" | "h" | "l");
        assert!(is_ours, "{how}: {:?} in {written:?}", &sequence[..end]);
        rest = &sequence[end..];
    }
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t' | '\u{1b}');
    assert!(!written.contains(is_control), "{how}: {written:?}");
}

/// A word with a few of them in it.
struct Words<'a>(Dice<'a>);

impl Words<'_> {
    fn evil(&mut self) -> String {
        let mut word = String::from("w");
        for _ in 0..4 {
            word += EVIL[self.0.below(EVIL.len())];
            word += "o";
        }
        word
    }

    /// The answers of an agent that says them wherever it can, up to the end of a turn with one question.
    fn turn(&mut self, end: Value) -> Vec<String> {
        let mut w = || self.evil();
        let option = |name: String, kind: &str| json!({"optionId": kind, "name": name, "kind": kind});
        let tool = json!({"toolCallId": w(), "title": w(), "kind": "execute", "rawInput": {"command": w()}, "content": [
            {"type": "diff", "path": w(), "oldText": w(), "newText": w()},
            {"type": "content", "content": {"type": "text", "text": w()}},
        ], "locations": [{"path": w()}]});
        let mut announced = tool.clone();
        announced["sessionUpdate"] = "tool_call".into();
        let mut failed = tool.clone();
        failed["sessionUpdate"] = "tool_call_update".into();
        failed["status"] = "failed".into();
        let say = |kind: &str, text: String| {
            update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}))
        };
        let info = json!({"name": w(), "title": w(), "version": w()});
        let logins = json!([{"id": w(), "name": w(), "description": w()}]);
        vec![
            messages(&[result(0, json!({"protocolVersion": 1, "agentInfo": info, "authMethods": logins}))])
                + &w()
                + "\n",
            messages(&[result(1, json!({"sessionId": "s"}))]),
            messages(&[
                update(
                    json!({"sessionUpdate": "plan", "entries": [{"content": w(), "priority": "high", "status": "pending"}]}),
                ),
                say("agent_thought_chunk", w()),
                say("agent_message_chunk", w() + "\n" + &w()),
                update(
                    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": w(), "text": w()}}),
                ),
                update(announced),
                json!({"jsonrpc": "2.0", "id": w(), "method": "session/request_permission", "params": {
                    "sessionId": "s", "toolCall": tool,
                    "options": [option(w(), "allow_once"), option(w(), "reject_once"), option(w(), &w())],
                }}),
            ]),
            messages(&[
                update(failed),
                update(json!({"sessionUpdate": "tool_call", "toolCallId": w(), "title": w()})),
                json!({"jsonrpc": "2.0", "id": w(), "result": w()}),
                end,
            ]),
        ]
    }

    /// Ends of the turn: well, unknown, and an error.
    fn end(&mut self, id: u64) -> Value {
        match self.0.below(3) {
            0 => result(id, json!({"stopReason": "end_turn"})),
            1 => result(id, json!({"stopReason": self.evil()})),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {
                "code": -32603, "message": self.evil(), "data": {"details": self.evil(), "errors": [self.evil()]}}}),
        }
    }
}

#[test]
fn c3_untrusted_bytes_on_the_terminal() {
    for seed in 0..8 {
        let bench = Bench::new();
        let noise = dice::noise(seed, 4000);
        let mut words = Words(Dice::new(&noise));
        let end = words.end(2);
        let mut turn = words.turn(end);
        // On standard error, too.
        let grumble = bench.file("grumble", words.evil() + "\n" + &words.evil());
        let agent = |answers: &[String]| {
            let mut command = bench.answering(answers);
            command[3] = format!("cat {} >&2; {}", text(&grumble), command[3]);
            command
        };
        let run = |before: &[&str], answers: &[String]| {
            let mut command = bench.agentline(before);
            command.args(agent(answers));
            command
        };
        let mut terminal = Terminal::new(&mut run(&["run", "-v", "hi"], &turn));
        terminal.until("then Enter ›");
        terminal.types("n\n");
        terminal.end();
        nothing_is_obeyed("run", &terminal);

        let mut terminal = Terminal::new(&mut run(&["chat", "-v"], &turn));
        terminal.until("/help");
        terminal.types("hi\r");
        terminal.until("then Enter\n?");
        terminal.types("n\r");
        terminal.until_seen("the end of the turn", |all| !all.contains("then Enter\n?"));
        terminal.types("\u{4}");
        terminal.end();
        nothing_is_obeyed("chat", &terminal);

        let mut terminal = Terminal::new(&mut run(&["agent", "check", "--prompt", "hi"], &turn));
        terminal.end();
        nothing_is_obeyed("agent check", &terminal);

        // One that wants a login.
        turn[1] = messages(&[
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": words.evil()}}),
        ]);
        for (how, asks) in [(&["run", "hi"][..], true), (&["chat"], true), (&["agent", "check"], false)] {
            let mut terminal = Terminal::new(&mut run(how, &turn[..2]));
            if asks {
                terminal.until("or n, then Enter");
                terminal.types("n\n");
            }
            terminal.end();
            nothing_is_obeyed("a login", &terminal);
        }
    }
}

#[test]
fn c14_what_was_rejected_since_nobody_could_be_asked_and_changed_the_end_is_exit_6() {
    let bench = Bench::new();
    let steps =
        |stop: &str| json!({"*": [{"ask": {"tool": {"title": "Deploy"}, "rejected": [{"stop": stop}]}}]});
    for (stop, args, code, outcome) in [
        ("cancelled", &[][..], 6, "rejected"),
        ("cancelled", &["-p", "reject"], 6, "rejected"),
        ("cancelled", &["-q"], 6, "rejected"),
        ("refusal", &[], 6, "refusal"),
        ("refusal", &["-p", "reject"], 1, "refusal"),
        ("end_turn", &[], 0, "completed"),
    ] {
        let script = bench.file("script.json", steps(stop).to_string());
        let agent = ["--", AGENTLINE, "demo-agent", "--script", text(&script)];
        let shown = done(bench.agentline(&["run", "go"]).args(args).args(agent));
        assert_eq!(shown.code, Some(code), "{stop} {args:?} {shown:?}");
        let is_named = shown.err.contains("✗ rejected: Deploy");
        assert!(is_named, "{stop} {args:?} {shown:?}");
        let told = done(bench.agentline(&["run", "--json", "go"]).args(args).args(agent));
        let ended = told.result();
        assert_eq!((told.code, &ended["outcome"]), (Some(code), &json!(outcome)), "{stop} {args:?}");
        assert_eq!(ended["permissionCounts"]["rejected"], 1, "{ended}");
    }
}

#[test]
fn c13_words_right_behind_the_end_of_the_turn_are_not_lost() {
    let bench = Bench::new();
    let say = |text: &str| {
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
    };
    let end = result(2, json!({"stopReason": "end_turn"}));
    let agent = bench.answering(&[
        messages(&[result(0, json!({"protocolVersion": 1}))]),
        messages(&[result(1, json!({"sessionId": "s"}))]),
        messages(&[say("early "), end, say("late.\n")]),
    ]);
    let shown = done(bench.agentline(&["run", "go"]).args(&agent));
    assert_eq!((shown.code, &*shown.out), (Some(0), "early late.\n"), "{shown:?}");
    let told = done(bench.agentline(&["run", "--json", "go"]).args(&agent));
    assert_eq!(told.result()["output"], "early late.\n");
    let checked = done(bench.agentline(&["agent", "check", "--prompt", "go"]).args(&agent));
    assert!(checked.out.contains("early late."), "{checked:?}");
}

#[test]
fn what_a_tool_said_is_told_whole_to_a_program_and_in_short_to_a_person() {
    let bench = Bench::new();
    let block = |block: Value| json!({"type": "content", "content": block});
    let content = json!([
        {"type": "diff", "path": "/w/new", "oldText": null, "newText": "a\n"},
        block(json!({"type": "text", "text": "said"})),
        block(json!({"type": "image", "data": "aGk=", "mimeType": "image/png"})),
        block(json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"})),
        block(json!({"type": "resource_link", "uri": "file:///w/x", "name": "x"})),
        {"type": "terminal", "terminalId": "t-1"},
        {"type": "hologram", "of": ["x"]},
    ]);
    let updates = [
        json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Look around", "status": "completed", "content": content}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "2", "title": "Build it", "status": "in_progress"}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "failed",
            "content": [block(json!({"type": "text", "text": "\nno such target\nat x"}))]}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "3", "title": "Wait for ever", "status": "in_progress"}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "4", "title": "Never begin"}),
        json!({"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}}),
        json!({"sessionUpdate": "usage_update", "used": "many"}),
    ];
    let mut said: Vec<Value> = updates.iter().cloned().map(update).collect();
    said.push(result(2, json!({"stopReason": "end_turn"})));
    let answers = [
        messages(&[result(0, json!({"protocolVersion": 1}))]),
        messages(&[result(1, json!({"sessionId": "s"}))]),
        messages(&said),
    ];
    let agent = bench.answering(&answers);
    let shown = done(bench.agentline(&["run", "go"]).args(&agent));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for line in
        ["✓ Look around", "✗ Build it", "    no such target\n", "  not ended: Wait for ever · Never begin\n"]
    {
        assert!(shown.err.contains(line), "{line} in {shown:?}");
    }
    let told = done(bench.agentline(&["run", "--json", "go"]).args(&agent)).objects();
    let of = |kind: &str, id: &str| {
        let is_meant = |object: &&Value| object["type"] == kind && object.to_string().contains(id);
        told.iter().find(is_meant).unwrap_or_else(|| panic!("no {kind} {id} in {told:?}")).to_string()
    };
    let first = of("tool", "Look around");
    for part in ["/w/new", "said", "image/png", "audio/wav", "file:///w/x", "t-1", "hologram"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert!(of("tool", "no such target").contains("failed"));
    assert!(of("usage", "USD").contains("0.5"));
}

#[test]
fn c3_what_a_peer_answers_is_not_obeyed_either() {
    let bench = Bench::new();
    let noise = dice::noise(7, 4000);
    let mut words = Words(Dice::new(&noise));
    let evil = words.evil();
    let agent = |answer: String| {
        let said = update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": answer}}),
        );
        bench.answering(&[
            messages(&[result(0, json!({"protocolVersion": 1}))]),
            messages(&[result(1, json!({"sessionId": "s"}))]),
            messages(&[said, result(2, json!({"stopReason": "end_turn"}))]),
        ])
    };
    let mut chat = crate::chat::chat(&bench, &["--json"]);
    let mut chat = Running::new(chat.args(agent(evil)).stdin(std::process::Stdio::piped()));
    let peer = chat.until("listening")["peerId"].as_str().expect("an id").to_owned();
    let mut send = bench.agentline(&["attach", "send", &peer, &words.evil()]);
    let mut terminal = Terminal::new(send.env("AGENTICA_ATTACH_DIR", bench.path("at")));
    assert_eq!(terminal.end().0.code(), Some(0));
    nothing_is_obeyed("attach send", &terminal);
    // The file by which the session is found is anybody's who runs as the same user.
    let live = bench.path("home").join(".agentica/cache/peers/live");
    let record =
        std::fs::read_dir(&live).expect("a folder").next().expect("a record").expect("a record").path();
    let mut shown: Value =
        serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("an object");
    for member in ["name", "cwd", "session_id"] {
        shown[member] = words.evil().into();
    }
    std::fs::write(&record, shown.to_string()).expect("a record");
    let mut terminal = Terminal::new(&mut bench.agentline(&["attach", "list"]));
    terminal.end();
    nothing_is_obeyed("attach list", &terminal);
}

#[test]
fn agents_of_the_agent_are_shown_below_it() {
    let bench = Bench::new();
    let of = |session: &str, update: Value| {
        let params = json!({"sessionId": session, "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    };
    let say = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let subagent = |patch: Value| {
        let mut news = json!({"sessionUpdate": "subagent_update", "sessionId": "child"});
        news.as_object_mut().expect("an object").append(&mut patch.as_object().expect("an object").clone());
        of("s", news)
    };
    let question = json!({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": {
        "sessionId": "child", "toolCall": {"toolCallId": "t", "title": "look there"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}});
    let call =
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look there", "kind": "read"});
    let done_call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
    let agent = bench.answering(&[
        messages(&[result(0, json!({"protocolVersion": 1}))]),
        messages(&[result(1, json!({"sessionId": "s"}))]),
        messages(&[
            of("s", say("I send my scout.\n")),
            subagent(json!({"title": "scout", "state": {"state": "running"}})),
            of("child", call),
            question,
        ]),
        messages(&[
            of("child", done_call),
            of("child", say("There are ")),
            of("child", say("three.\nNo more.")),
            subagent(json!({"state": {"state": "idle"}})),
            of("s", say("Three.\n")),
            result(2, json!({"stopReason": "end_turn"})),
        ]),
    ]);
    let shown = done(bench.agentline(&["run", "go", "-p", "allow"]).args(&agent));
    assert_eq!((shown.code, &*shown.out), (Some(0), "I send my scout.\nThree.\n"), "{shown:?}");
    let mut rest = &*shown.err;
    for line in [
        "  ┆ scout: begins\n",
        "allowed once: look there",
        "  ┆ scout: ✓ read look there\n",
        "  ┆ scout: There are three.\n",
        "  ┆ scout: No more.\n",
        "  ┆ scout: is done\n",
    ] {
        rest = rest.split_once(line).unwrap_or_else(|| panic!("no {line:?} in {rest}")).1;
    }
    let told = done(bench.agentline(&["run", "--json", "go", "-p", "allow"]).args(&agent));
    assert_eq!(told.result()["output"], "I send my scout.\nThree.\n");
    let theirs: Vec<Value> =
        told.objects().into_iter().filter(|object| object["type"] == "subagent").collect();
    assert!(
        theirs.len() == 4 && theirs.iter().all(|it| it["sessionId"] == "child" && it["of"] == "s"),
        "{told:?}"
    );
}
