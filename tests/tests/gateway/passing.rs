//! What passes, and that it is the same on the other side.

use serde_json::json;

use super::rig::{ALL, Rig, config, question, text, update};

#[test]
fn each_side_is_offered_what_the_other_offers() {
    let mut rig = Rig::silent(config());
    rig.says(r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}},"terminal":true,"auth":{"terminal":true},"_meta":{"m" : 1}},"clientInfo":{"name":"ed","version":"1"}}}"#);
    assert_eq!(rig.read(), [""; 0], "it waits for the agent");
    rig.starts(ALL);
    let asked = rig.agent_line();
    let mut offered = asked["params"]["clientCapabilities"].clone();
    offered.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    assert_eq!(offered["elicitation"], json!({"form": {}}));
    assert_eq!((&offered["terminal"], &offered["_meta"]), (&json!(true), &json!({"m": 1})));
    assert!(offered["auth"].is_null(), "a login in a terminal would be our command: {offered}");
    assert_eq!(asked["params"]["clientInfo"]["name"], "ed");
    let answer = rig.line();
    assert_eq!((&answer["id"], &answer["result"]["agentInfo"]["name"]), (&json!(9), &json!("ag")));
    let offers = &answer["result"]["agentCapabilities"];
    assert_eq!((&offers["loadSession"], &offers["_meta"]), (&json!(true), &json!({"x": 1})));
    assert_eq!(offers["sessionCapabilities"], json!({"list": {}, "close": {}, "resume": {}}));
    assert_eq!(answer["result"]["authMethods"].as_array().map(Vec::len), Some(1), "{answer}");
    // Until anything else is asked the latest introduction counts, and it is answered as well.
    rig.says(r#"{"jsonrpc":"2.0","id":10,"method":"initialize","params":{"protocolVersion":1}}"#);
    assert_eq!(rig.line()["id"], 10);
}

#[test]
fn an_update_arrives_as_it_was_written() {
    let mut rig = Rig::running(config());
    for written in [
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t","annotations":{"priority":1},"_meta":{"a" : 1}},"messageId":"m"}"#,
        r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go","_meta":{}}}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}"#,
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"x","later":{"n" : 1.50}}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"é"}}]}"#,
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending","x":1}]}"#,
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"n","description":"d","_meta":{"a":1}}]}"#,
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"m"}"#,
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"o","name":"O","type":"later","currentValue":1}]}"#,
        r#"{"sessionUpdate":"session_info_update","title":null}"#,
        r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.10,"currency":"USD"}}"#,
        r#"{"sessionUpdate":"of_the_future","a":[1 ,2]}"#,
    ] {
        let line = update(written);
        rig.agent_says(&line);
        assert_eq!(rig.read(), [line]);
    }
}

#[test]
fn a_plain_text_is_the_same_line() {
    let mut rig = Rig::running(config());
    for written in [
        text("hello \\\" 🎉"),
        update(
            r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"x"},"messageId":"m1"}"#,
        ),
        update(r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go"}}"#),
    ] {
        rig.agent_says(&written);
        assert_eq!(rig.read(), [written]);
    }
}

#[test]
fn the_end_of_a_turn_is_the_agents_own() {
    for (end, same) in [
        (r#""result":{"stopReason":"end_turn","usage":{"totalTokens":3},"_meta":{"a":1}}"#, true),
        (r#""result":{"stopReason":"max_turn_requests"}"#, true),
        (r#""result":{"stopReason":"tired"}"#, true),
        (r#""error":{"code":-32000,"message":"log in","data":{"d":1}}"#, true),
        (r#""result":{"stopReason":7}"#, false),
    ] {
        let mut rig = Rig::running(config());
        rig.agent_says(&format!(r#"{{"jsonrpc":"2.0","id":2,{end}}}"#));
        let line = rig.line();
        assert_eq!(line["id"], "p");
        if same {
            let mut sent: serde_json::Value = serde_json::from_str(&format!("{{{end}}}")).expect("JSON");
            sent["jsonrpc"] = json!("2.0");
            sent["id"] = json!("p");
            assert_eq!(line, sent);
        } else {
            assert_eq!(line["error"]["code"], -32603, "{line}");
        }
    }
}

#[test]
fn a_permission_and_its_answer() {
    let mut rig = Rig::running(config());
    rig.agent_says(&question(7, "s"));
    let asked = rig.line();
    assert_eq!(asked["params"]["toolCall"]["rawInput"], json!({"command": "rm -r x"}));
    assert_eq!(asked["params"]["_meta"], json!({"k": 2}));
    let id = &asked["id"];
    rig.says(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"selected","optionId":"n"}}}}}}"#
    ));
    let answer = rig.agent_line();
    assert_eq!((&answer["id"], &answer["result"]["outcome"]["optionId"]), (&json!(7), &json!("n")));
    assert_eq!(rig.read(), [""; 0]);
}

#[test]
fn a_question_that_is_over_is_taken_back_and_its_late_answer_is_nobodys() {
    let mut rig = Rig::running(config());
    rig.agent_says(&question(7, "s"));
    let id = rig.line()["id"].clone();
    rig.agent_says(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#);
    let taken = rig.line();
    assert_eq!((&taken["method"], &taken["params"]["requestId"]), (&json!("$/cancel_request"), &id));
    rig.agent_read();
    rig.says(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"selected","optionId":"y"}}}}}}"#
    ));
    assert_eq!(rig.agent_read(), [""; 0]);
}

#[test]
fn a_cancel_answers_what_is_asked_and_ends_as_the_agent_says() {
    let mut rig = Rig::running(config());
    rig.agent_says(&question(7, "s"));
    rig.read();
    rig.cancels();
    let said = rig.agent_read();
    assert!(said[0].contains(r#""outcome":"cancelled""#) && said[1].contains("session/cancel"), "{said:?}");
    rig.agent_says(&text("late"));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
    let seen = rig.read();
    let (last, rest) = seen.split_last().expect("the end");
    assert!(last.contains(r#""id":"p","result":{"stopReason":"cancelled"}"#), "{seen:#?}");
    assert!(rest.iter().any(|line| line.contains("late")), "{seen:#?}");
}

#[test]
fn a_form_a_page_and_the_end_of_it() {
    let mut rig = Rig::running(config());
    rig.agent_says(r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"who","requestedSchema":{"type" : "object"}}}"#);
    let asked = rig.line();
    assert_eq!(
        (&asked["method"], &asked["params"]["requestedSchema"]),
        (&json!("elicitation/create"), &json!({"type": "object"}))
    );
    rig.says(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"n":1}}}}}}"#,
        asked["id"]
    ));
    assert_eq!(rig.agent_line()["result"], json!({"action": "accept", "content": {"n": 1}}));
    rig.agent_says(r#"{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{"sessionId":"s","mode":"url","message":"go","elicitationId":"e","url":"https://a.b"}}"#);
    let asked = rig.line();
    assert_eq!(asked["params"]["url"], "https://a.b");
    rig.says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#, asked["id"]));
    assert_eq!(rig.agent_line()["result"], json!({"action": "accept"}));
    rig.agent_says(r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}"#);
    let done = rig.line();
    assert_eq!(
        (&done["method"], &done["params"]["elicitationId"]),
        (&json!("elicitation/complete"), &json!("e"))
    );
}

#[test]
fn files_are_the_clients() {
    let mut rig = Rig::running(config());
    let read = r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/a","line":3}}"#;
    rig.agent_says(read);
    let asked = rig.line();
    assert_eq!(asked["params"], json!({"sessionId": "s", "path": "/w/a", "line": 3}));
    rig.says(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":"text","_meta":{{"a" : 1}}}}}}"#,
        asked["id"]
    ));
    let answer = rig.agent_read();
    assert!(answer[0].ends_with(r#""id":7,"result":{"content":"text","_meta":{"a" : 1}}}"#), "{answer:?}");
    // What the client does not offer is not even asked of it.
    rig.agent_says(r#"{"jsonrpc":"2.0","id":8,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/a","content":""}}"#);
    assert_eq!(rig.agent_line()["error"]["code"], -32601);
    assert_eq!(rig.read(), [""; 0]);
}

#[test]
fn what_the_agent_cannot_is_refused_before_anything_is_sent() {
    let mut rig = Rig::up(config(), "{}");
    rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#);
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
    rig.forget();
    let image = r#"{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"image","data":"","mimeType":"image/png"}]}}"#;
    for (line, code) in [
        (image, -32602),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":"t","cwd":"/w","mcpServers":[]}}"#,
            -32601,
        ),
        (r#"{"jsonrpc":"2.0","id":4,"method":"session/list","params":{}}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":5,"method":"_x","params":{}}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":6,"method":"session/prompt","params":{"sessionId":"t","prompt":[]}}"#,
            -32002,
        ),
    ] {
        rig.says(line);
        assert_eq!(rig.line()["error"]["code"], code, "{line}");
        assert_eq!(rig.agent_read(), [""; 0], "{line}");
    }
}

#[test]
fn requests_pass_with_their_answers_and_errors() {
    let mut rig = Rig::open(config());
    for (line, answer, result) in [
        (
            r#"{"jsonrpc":"2.0","id":"q","method":"session/list","params":{"cwd":"/w"}}"#,
            r#""result":{"sessions":[{"sessionId":"old","cwd":"/w","title":"t"}],"nextCursor":"2"}"#,
            json!({"sessions": [{"sessionId": "old", "cwd": "/w", "title": "t"}], "nextCursor": "2"}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"q","method":"session/set_mode","params":{"sessionId":"s","modeId":"m"}}"#,
            r#""result":{}"#,
            json!({}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"q","method":"authenticate","params":{"methodId":"key"}}"#,
            r#""error":{"code":-5,"message":"wrong","data":[1]}"#,
            json!({"code": -5, "message": "wrong", "data": [1]}),
        ),
    ] {
        rig.says(line);
        let asked = rig.agent_read();
        assert_eq!(asked.len(), 1, "{line}: {:?}", rig.read());
        let id = serde_json::from_str::<serde_json::Value>(&asked[0]).expect("JSON")["id"].clone();
        rig.agent_says(&format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
        let seen = rig.line();
        let got = if seen["error"].is_null() { &seen["result"] } else { &seen["error"] };
        assert_eq!((&seen["id"], got), (&json!("q"), &result), "{line}");
    }
}

#[test]
fn what_is_said_before_a_session_has_a_name_comes_behind_it() {
    let mut rig = Rig::up(config(), ALL);
    rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#);
    rig.forget();
    let commands = update(r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#);
    rig.agent_says(&commands);
    assert_eq!(rig.read(), [""; 0]);
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]},"_meta":{"a":1}}}"#);
    let seen = rig.read();
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(
        seen[0].contains(r#""sessionId":"s""#) && seen[0].contains(r#""currentModeId":"a""#),
        "{}",
        seen[0]
    );
    assert_eq!(seen[1], commands);
}

#[test]
fn a_history_is_told_before_the_session_is_open() {
    let mut rig = Rig::up(config(), ALL);
    rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}"#);
    rig.forget();
    let history =
        [update(r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"}}"#), text("b")];
    for line in &history {
        rig.agent_says(line);
    }
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let seen = rig.read();
    assert_eq!(seen[..2], history);
    assert!(seen[2].contains(r#""id":1,"result""#), "{seen:#?}");
}

#[test]
fn a_session_that_nobody_waits_for_any_more_is_closed_again() {
    let mut rig = Rig::up(config(), ALL);
    rig.says(r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#);
    rig.says(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    rig.forget();
    rig.agent_says(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
    let close = rig.agent_line();
    assert_eq!((&close["method"], &close["params"]["sessionId"]), (&json!("session/close"), &json!("s")));
}

#[test]
fn a_session_is_closed_with_its_turn() {
    let mut rig = Rig::running(config());
    rig.says(r#"{"jsonrpc":"2.0","id":"q","method":"session/close","params":{"sessionId":"s"}}"#);
    let said = rig.agent_read();
    assert!(said[0].contains("session/cancel") && said[1].contains("session/close"), "{said:#?}");
    let close: serde_json::Value = serde_json::from_str(&said[1]).expect("JSON");
    rig.agent_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, close["id"]));
    let seen = rig.read();
    assert!(seen[0].contains(r#""id":"p","result":{"stopReason":"cancelled"}"#), "{seen:#?}");
    assert!(seen[1].contains(r#""id":"q","result":{}"#), "{seen:#?}");
    rig.prompts("r");
    assert_eq!(rig.line()["error"]["code"], -32002);
}

/// A question of a session that the client does not know belongs to the one turn that runs.
#[test]
fn what_a_subagent_asks_is_asked_in_its_turn() {
    let mut rig = Rig::running(config());
    rig.agent_says(&question(7, "child"));
    assert_eq!(rig.line()["params"]["sessionId"], "s");
    rig.agent_says(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    rig.forget();
    rig.agent_says(&question(8, "child"));
    assert_eq!(rig.agent_line()["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(rig.read(), [""; 0]);
}
