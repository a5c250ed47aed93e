//! From `initialize` to its answer.

use super::*;

#[test]
fn initialize_is_written_in_full() {
    let mut rig = Rig::<Client>::client(given());
    assert_eq!(
        rig.line(),
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#
    );
}

#[test]
fn d4_what_an_agent_answers_to_initialize_decides() {
    let table: [(&str, Option<&str>); 12] = [
        (r#""result":{"protocolVersion":1}"#, None),
        (r#""result":{"protocolVersion":"1"}"#, Some(r#"WrongVersion("\"1\"")"#)),
        (r#""result":{"protocolVersion":1,"agentCapabilities":7,"authMethods":"x","agentInfo":[]}"#, None),
        (r#""result":{"protocolVersion":0}"#, Some(r#"WrongVersion("0")"#)),
        (r#""result":{"protocolVersion":2}"#, Some(r#"WrongVersion("2")"#)),
        (r#""result":{"protocolVersion":"2025-01-01"}"#, Some("WrongVersion")),
        (r#""result":{"protocolVersion":1.5}"#, Some(r#"WrongVersion("1.5")"#)),
        (r#""result":{}"#, Some("Unreadable")),
        (r#""result":[1]"#, Some("Unreadable")),
        (r#""result":null"#, Some("Unreadable")),
        (r#""error":{"code":-32602,"message":"m"}"#, Some("Refused")),
        (r#""result":{"protocolVersion":1},"error":{"code":1,"message":"m"}"#, Some("Unreadable")),
    ];
    for (outcome, fault) in table {
        let mut rig = Rig::<Client>::client(given());
        rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,{outcome}}}"#));
        let told = rig.told();
        match fault {
            None => assert!(matches!(&told[..], [Event::Ready(_)]), "{outcome}: {told:?}"),
            Some(fault) => {
                let Some(Event::Closed(closed)) = told.last() else { panic!("{outcome}: {told:?}") };
                assert!(format!("{:?}", closed.fault()).contains(fault), "{outcome}: {closed:?}");
            }
        }
    }
}

#[test]
fn slow_initialize_an_agent_that_never_answers_initialize_times_out() {
    let mut rig = Rig::<Client>::client(given());
    rig.wait(Duration::from_secs(59));
    assert_eq!(rig.told(), []);
    rig.wait(Duration::from_secs(1));
    assert!(
        matches!(rig.event(), Event::Closed(closed) if matches!(closed.fault(), Some(Fault::TimedOut { .. })))
    );
}

#[test]
fn before_the_handshake_an_agent_can_ask_nothing() {
    let mut rig = Rig::<Client>::client(given());
    rig.written();
    rig.hear(&ask("1"));
    assert!(rig.line().contains(r#""id":1,"error":{"code":-32600"#));
    assert_eq!(rig.told(), []);
}

#[test]
fn before_the_handshake_nothing_can_be_asked_of_the_agent() {
    let mut rig = Rig::<Client>::client(given());
    assert_eq!(rig.command(open(1, Which::New)), Err(Refused::NotReady));
    assert_eq!(rig.command(Command::Notify { method: "_x".into(), params: empty() }), Err(Refused::NotReady));
    assert_eq!(rig.command(Command::Shutdown), Ok(()));
    assert_eq!(rig.command(Command::Shutdown), Err(Refused::Closed));
}

#[test]
fn header_framing_is_another_protocol() {
    let mut rig = Rig::<Client>::client(given());
    rig.hear("Content-Length: 52\r");
    let told = rig.told();
    assert!(
        matches!(&told[..], [Event::Noticed(_), Event::Closed(closed)] if matches!(closed.fault(), Some(Fault::NotAcp(_))))
    );
}

#[test]
fn d5_one_odd_part_of_the_handshake_does_not_cost_the_rest() {
    let mut rig = Rig::<Client>::client(given());
    rig.hear(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":"yes","promptCapabilities":{"image":true,"audio":{}},"mcpCapabilities":null,"sessionCapabilities":{"list":{},"resume":null,"close":true,"delete":{"x":1}},"nes":{}},"authMethods":[{"id":"a","name":"A"},{"type":"env_var"},{"id":"b","name":"B","type":"env_var","vars":[]}],"agentInfo":{"name":"n"}}}"#);
    let Event::Ready(ready) = rig.event() else { panic!("not ready") };
    let may = ready.capabilities;
    assert!(!may.load_session && may.prompt_capabilities.image && may.prompt_capabilities.audio);
    let sessions = may.session_capabilities;
    assert_eq!((sessions.list, sessions.resume, sessions.close, sessions.delete), (true, false, true, true));
    assert_eq!(ready.auth_methods.iter().map(|method| &*method.id).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(ready.agent_info.map(|info| info.name).as_deref(), Some("n"));
}
