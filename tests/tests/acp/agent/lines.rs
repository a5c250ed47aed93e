//! Single lines of a client: odd ones, one by one, and what each is answered with.

use super::*;

/// A line of the client, the error code and id that it is answered with, and what is told.
type Vector = (&'static str, Option<(i64, &'static str)>, &'static [&'static str]);

const NULL_PARSE: Option<(i64, &str)> = Some((-32700, "null"));
const NULL_INVALID: Option<(i64, &str)> = Some((-32600, "null"));

/// With session `s` open and idle.
const VECTORS: [Vector; 62] = [
    ("", None, &[]),
    (" \t", None, &[]),
    ("\r", None, &[]),
    ("hello", NULL_PARSE, &["bad line: not JSON"]),
    (r#"{"jsonrpc":"2.0","id":6,"method":"#, NULL_PARSE, &["bad line: not JSON"]),
    ("{\"a\":\u{0}}", NULL_PARSE, &["bad line: not JSON"]),
    ("[]", NULL_INVALID, &["bad line: batches are not supported"]),
    (
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#,
        NULL_INVALID,
        &["bad line: batches are not supported"],
    ),
    ("42", NULL_INVALID, &["bad line: not an object"]),
    ("null", NULL_INVALID, &["bad line: not an object"]),
    ("{}", NULL_INVALID, &["bad line: neither method nor id"]),
    // Never answered: what may be a broken response.
    (r#"{"id":5}"#, None, &["bad line: neither method nor result"]),
    (
        r#"{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":"m"}}"#,
        None,
        &["bad line: result and error at once"],
    ),
    (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, None, &["complaint -32700"]),
    (r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"}}"#, None, &["complaint -32601"]),
    (r#"{"jsonrpc":"2.0","id":999,"result":{}}"#, None, &["orphan 999"]),
    // Ids of all forms, and what is none.
    (r#"{"jsonrpc":"2.0","id":null,"method":"no/such"}"#, Some((-32601, "null")), &[]),
    (r#"{"jsonrpc":"2.0","id":"1","method":"no/such"}"#, Some((-32601, "\"1\"")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":-1,"method":"no/such"}"#, Some((-32601, "-1")), &[]),
    (r#"{"jsonrpc":"2.0","id":"","method":"no/such"}"#, Some((-32601, "\"\"")), &[]),
    (r#"{"jsonrpc":"2.0","id":"\u00e9","method":"no/such"}"#, Some((-32601, r#""\u00e9""#)), &[]),
    (
        r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"no/such"}"#,
        Some((-32601, "9007199254740993")),
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"no/such"}"#,
        Some((-32601, "18446744073709551615")),
        &[],
    ),
    (r#"{"jsonrpc":"2.0","id":1.0,"method":"no/such"}"#, Some((-32601, "1.0")), &[]),
    (r#"{"jsonrpc":"2.0","id":1.5,"method":"no/such"}"#, Some((-32601, "1.5")), &[]),
    (
        r#"{"jsonrpc":"2.0","id":true,"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, a number nor a string of up to 1 KiB"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":[1],"method":"no/such"}"#,
        NULL_INVALID,
        &["bad line: id is neither null, a number nor a string of up to 1 KiB"],
    ),
    // Envelopes.
    (
        r#"{"jsonrpc":"1.0","id":1,"method":"no/such"}"#,
        Some((-32600, "1")),
        &["bad line: jsonrpc is not \"2.0\""],
    ),
    (r#"{"id":1,"method":"no/such"}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, Some((-32600, "1")), &["bad line: method is not a string"]),
    (
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"session/prompt"}"#,
        NULL_INVALID,
        &["bad line: a member is there twice"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/cancel","\u006dethod":"session/new"}"#,
        NULL_INVALID,
        &["bad line: a member is there twice"],
    ),
    ("  \t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}\r", Some((-32601, "1")), &[]),
    // Unknown and unstable methods; a direction is a direction.
    (r#"{"jsonrpc":"2.0","id":1,"method":"_x/unknown","params":{}}"#, Some((-32601, "1")), &[]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/fork","params":{"sessionId":"s"}}"#,
        Some((-32601, "1")),
        &[],
    ),
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/set_model","params":{}}"#, Some((-32601, "1")), &[]),
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/update","params":{}}"#, Some((-32601, "1")), &[]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/cancel","params":{"sessionId":"s"}}"#,
        Some((-32601, "1")),
        &[],
    ),
    // Notifications are never answered.
    (r#"{"jsonrpc":"2.0","method":"_x/note","params":{}}"#, None, &["notified _x/note"]),
    (r#"{"jsonrpc":"2.0","method":"foo/note"}"#, None, &["notified foo/note"]),
    (r#"{"jsonrpc":"2.0","method":"session/prompt","params":{}}"#, None, &["notified session/prompt"]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel","params":["s"]}"#, None, &["bad params: session/cancel"]),
    (r#"{"jsonrpc":"2.0","method":"session/cancel"}"#, None, &["bad params: session/cancel"]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":4242}}"#, None, &[]),
    (r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"open 1"}}"#, None, &[]),
    (
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":true}}"#,
        None,
        &["bad params: $/cancel_request"],
    ),
    // Parameters.
    (r#"{"jsonrpc":"2.0","id":1,"method":"session/new"}"#, Some((-32602, "1")), &["bad params: session/new"]),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":["/w",[]]}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"rel/dir","mcpServers":[]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":5,"mcpServers":[]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"type":"carrier pigeon","name":"n"}]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[["n","/c"]]}}"#,
        Some((-32602, "1")),
        &["bad params: session/new"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"nope","prompt":[]}}"#,
        Some((-32002, "1")),
        &[],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#,
        Some((-32602, "1")),
        &["bad params: session/prompt"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"future"}]}}"#,
        Some((-32602, "1")),
        &["bad params: session/prompt"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"\udc00"}]}}"#,
        None,
        &["prompted s"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cursor":5}}"#,
        Some((-32602, "1")),
        &["bad params: session/list"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"no such"}}"#,
        Some((-32602, "1")),
        &["bad params: authenticate"],
    ),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"tty"}}"#,
        Some((-32602, "1")),
        &["bad params: authenticate"],
    ),
];

#[test]
fn nothing_malformed_known_hidden_as_unknown_each_line_of_a_client_has_its_answer() {
    for (line, answer, told) in VECTORS {
        let mut rig = one_session();
        rig.hear(line);
        let written = rig.written();
        match answer {
            None => assert_eq!(written, [""; 0], "{line}"),
            Some((code, id)) => {
                let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#);
                assert!(matches!(&written[..], [one] if one.starts_with(&start)), "{line}: {written:?}");
            }
        }
        assert_eq!(words(&mut rig), told, "{line}");
        // Whatever it was, the next line is read as ever.
        rig.hear(r#"{"jsonrpc":"2.0","method":"_x/alive"}"#);
        assert_eq!(words(&mut rig), ["notified _x/alive"], "{line}");
    }
}

#[test]
fn bytes_that_are_no_text_are_one_parse_error() {
    let mut rig = one_session();
    rig.link(Heard::Bytes(b"{\"a\":\"\xff\"}\n"));
    assert!(rig.line().starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#));
    assert_eq!(words(&mut rig), ["bad line: not UTF-8"]);
}

#[test]
fn a_line_over_the_limit_ends_the_connection() {
    let limits = Limits { line: 1000, ..Limits::default() };
    let mut rig = Rig::<Agent>::agent(Config { limits, ..plain() });
    rig.hear(&"x".repeat(1001));
    assert_eq!(words(&mut rig), ["bad line: a line over the limit", "closed Some(LineTooLong)"]);
}
