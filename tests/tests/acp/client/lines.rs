//! Single lines of an agent: odd ones, one by one, and what is made of each.

use super::*;

/// A line of the agent, what the client writes because of it, and what it tells.
type Vector = (&'static str, &'static str, &'static [&'static str]);

/// With session `s` open and prompt 2 (tag 7) running.
const VECTORS: [Vector; 40] = [
    ("", "", &[]),
    ("   \t ", "", &[]),
    ("\r", "", &[]),
    ("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}\r", "", &["notified _x"]),
    ("[]", "", &["bad line: batches are not supported"]),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, "", &["bad line: batches are not supported"]),
    ("42", "", &["bad line: not an object"]),
    ("npm warn deprecated", "", &["bad line: not JSON"]),
    (
        r#"{"jsonrpc":"2.0","id":null,"method":"a/b"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found: a/b"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":"1","method":"_x/y"}"#,
        r#"{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"method not found: _x/y"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"_x"}"#,
        r#"{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32601,"message":"method not found: _x"}}"#,
        &[],
    ),
    // What was not offered is not there.
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/f"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: fs/read_text_file"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{"sessionId":"s","command":"ls"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: terminal/create"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"?"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: elicitation/create"}}"#,
        &[],
    ),
    // A direction is a direction.
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: initialize"}}"#,
        &[],
    ),
    // Ids that are none.
    (
        r#"{"jsonrpc":"2.0","id":1.5,"method":"_x"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"error":{"code":-32601,"message":"method not found: _x"}}"#,
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":true,"method":"_x"}"#,
        "",
        &["bad line: id is neither null, a number nor a string of up to 1 KiB"],
    ),
    (r#"{"jsonrpc":"2.0","id":true,"result":{}}"#, "", &["bad line: a result for no request"]),
    // Notifications are never answered.
    (r#"{"jsonrpc":"2.0","method":"_x/note","params":{"a":1}}"#, "", &["notified _x/note"]),
    (
        r#"{"jsonrpc":"2.0","method":"qwen/notify/session/mode-update"}"#,
        "",
        &["notified qwen/notify/session/mode-update"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}"#,
        "",
        &["notified elicitation/complete"],
    ),
    (r#"{"jsonrpc":"2.0","method":"$/anything","params":[1]}"#, "", &["notified $/anything"]),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"future_update","x":1}}}"#,
        "",
        &["updated future_update"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"video","url":"u"}}}}"#,
        "",
        &["updated agent_message_chunk"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
        "",
        &["bad params: session/update"],
    ),
    (r#"{"jsonrpc":"2.0","method":"session/update"}"#, "", &["bad params: session/update"]),
    // Parameters by position: no such thing here, though the decoder could read them.
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":["s",{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}]}"#,
        "",
        &["bad params: session/update"],
    ),
    (
        r#"["2.0","session/update",["s",["agent_message_chunk",["text","t"]]]]"#,
        "",
        &["bad line: batches are not supported"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":["agent_message_chunk",{"type":"text","text":"t"}]}}"#,
        "",
        &["bad params: session/update"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":4,"method":"session/request_permission","params":["s",["c"],[]]}"#,
        r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"expected an object at line 1 column 0"}}"#,
        &["bad params: session/request_permission"],
    ),
    (
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"plan","entries":[]}}}"#,
        "",
        &["unknown session other"],
    ),
    // Answers to nothing.
    (r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, "", &["orphan 99"]),
    (r#"{"jsonrpc":"2.0","id":"2","result":{"stopReason":"end_turn"}}"#, "", &["orphan \"2\""]),
    (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, "", &["complaint -32700"]),
    (r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"}}"#, "", &["complaint -32601"]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":77}}"#, "", &[]),
    // The end of the turn.
    (r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"paused"}}"#, "", &["ended 7 paused"]),
    (
        r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"},"error":null}"#,
        "",
        &["ended 7 end_turn"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":2,"result":null}"#,
        "",
        &[r#"ended 7 Unreadable("invalid type: null, expected an object at line 1 column 4")"#],
    ),
    (
        r#"{"jsonrpc":"2.0","id":2}"#,
        "",
        &[r#"ended 7 Unreadable("neither method nor result")"#, "bad line: neither method nor result"],
    ),
];

#[test]
fn strict_decode_of_optional_part_and_unadvertised_fs_terminal_each_line_has_its_answer_and_its_event() {
    for (line, written, told) in VECTORS {
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        rig.written();
        rig.hear(line);
        let expected: Vec<&str> = if written.is_empty() { vec![] } else { vec![written] };
        assert_eq!(rig.written(), expected, "{line}");
        assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), told, "{line}");
        // Whatever it was, the next line is read as ever.
        rig.hear(&text("s", "next"));
        assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["text next"], "{line}");
    }
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let limits = Limits { line: 1000, ..Limits::default() };
    let mut rig = Rig::<Client>::with_sessions(Config { limits, ..given() }, &[]);
    rig.hear(&format!("{{\"x\":\"{}\"}}", "y".repeat(1000)));
    let told = rig.told();
    assert_eq!(word(&told[0]), "bad line: a line over the limit");
    assert!(matches!(&told[1], Event::Closed(closed) if closed.fault() == Some(&Fault::LineTooLong)));
}

#[test]
fn bytes_that_are_no_text_are_one_bad_line() {
    let mut rig = one_session();
    rig.link(Heard::Bytes(b"{\"a\":\"\xff\"}\n"));
    assert_eq!(word(&rig.event()), "bad line: not UTF-8");
    assert_eq!(rig.written(), [""; 0]);
}

#[test]
fn lists_are_read_as_far_as_they_can_be() {
    let mut rig = one_session();
    let update = |update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    };
    let mut seen = |line: &str| {
        rig.hear(&update(line));
        let event = rig.event();
        let Event::Updated(updated) = event else { panic!("{line}: {event:?}") };
        updated.update
    };
    let plan = seen(
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"},{"content":"b","priority":"urgent","status":"pending"},5]}"#,
    );
    assert!(matches!(plan, Update::Plan(plan) if plan.entries.len() == 1));
    let call = seen(
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"dream","status":"napping","content":[{"type":"text","text":"bare"},{"type":"content","content":{"type":"text","text":"t"}},{"type":"diff","path":"/f","newText":"","oldText":null},{"type":"session","sessionId":"x"}],"locations":[{"path":"/f","line":null},{"path":5},{"path":"/g","line":-1}],"rawInput":null,"_meta":{}}"#,
    );
    let Update::ToolCall(call) = call else { panic!("{call:?}") };
    assert_eq!((call.content.len(), call.locations.len()), (3, 2));
    assert_eq!((call.kind.as_str(), call.status.as_str()), ("other", "pending"));
    let patch = seen(
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","kind":null,"status":"napping","content":null,"locations":"x"}"#,
    );
    let Update::ToolCallUpdate(patch) = patch else { panic!("{patch:?}") };
    assert_eq!((patch.kind, patch.status, patch.content, patch.locations), (None, None, None, None));
    let commands = seen(
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"d","input":null},{"name":"b"}]}"#,
    );
    assert!(matches!(commands, Update::AvailableCommands(list) if list.available_commands.len() == 1));
    let options = seen(
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","name":"A","type":"select","currentValue":"x","category":"_mine","options":[]},{"id":"b","name":"B","type":"slider","currentValue":3}]}"#,
    );
    assert!(matches!(options, Update::ConfigOptions(list) if list.config_options.len() == 1));
    let mode = seen(r#"{"sessionUpdate":"current_mode_update","modeId":"m"}"#);
    assert!(matches!(mode, Update::CurrentMode(mode) if mode.current_mode_id == "m"));
    let usage = seen(r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":"free"}"#);
    assert!(matches!(usage, Update::Usage(usage) if usage.cost.is_none()));
    for (line, title) in [
        ("", "Keep"),
        (r#","title":null"#, "Clear"),
        (r#","title":"T""#, r#"Set("T")"#),
        (r#","title":5"#, "Keep"),
    ] {
        let info = seen(&format!(r#"{{"sessionUpdate":"session_info_update"{line}}}"#));
        let Update::SessionInfo(info) = info else { panic!("{info:?}") };
        assert_eq!(format!("{:?}", info.title), title);
    }
}

#[test]
fn noise_glued_to_frame_raw_newline_in_json_string_and_nul_bytes_line_cost_no_other_line() {
    for (bad, lines) in [
        (format!("stitem parent list node{}", result(2, r#"{"stopReason":"end_turn"}"#)), 1),
        (text("s", "a\nb"), 2),
        ("\0".repeat(512), 1),
        ("\u{1b}[31mwarning\u{1b}[0m".to_owned(), 1),
    ] {
        let mut rig = one_session();
        rig.command(prompt(7)).unwrap();
        rig.hear(&bad);
        rig.hear(&text("s", "next"));
        let words: Vec<String> = rig.told().iter().map(word).collect();
        assert_eq!(words[..lines], vec!["bad line: not JSON"; lines], "{bad:?}");
        assert_eq!(words[lines..], ["text next"], "{bad:?}");
        // The answer that was lost with its line is still waited for.
        rig.hear(&result(2, r#"{"stopReason":"end_turn"}"#));
        assert_eq!(ends(&rig.told()).len(), 1);
    }
}

#[test]
fn line_over_64k_is_a_line_like_any_other_for_the_limit_is_per_line_not_buffer() {
    let frame = text("s", "").len();
    for length in [65_535, 65_536, 65_537, 1 << 20] {
        let mut rig = one_session();
        let long = text("s", &"x".repeat(length - frame));
        assert_eq!(long.len(), length);
        rig.link(Heard::Bytes(format!("{long}\n{}\n", text("s", "next")).as_bytes()));
        let words: Vec<String> = rig.told().iter().map(word).collect();
        assert_eq!((words.len(), &*words[1]), (2, "text next"));
    }
}
