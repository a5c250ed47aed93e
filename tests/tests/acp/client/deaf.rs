//! Agents that do not read what they are sent.

use super::*;

const LIMIT: usize = 4000;

/// A turn and a request are open, and so are a permission and a file to read.
fn busy() -> Rig<Client> {
    let limits = Limits { unsent_hard: LIMIT, ..Limits::default() };
    let mut config = Config { limits, ..given() };
    config.capabilities.fs.read_text_file = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s"]);
    rig.command(prompt(1)).expect("a session that is idle");
    rig.command(Command::ListSessions { tag: Tag(2), cwd: None, cursor: None })
        .expect("a session that is idle");
    rig.hear(&ask("\"p\""));
    rig.hear(&read("\"r\""));
    rig.told();
    rig.written();
    rig.done();
    rig.deafen();
    rig
}

fn read(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"fs/read_text_file","params":{{"sessionId":"s","path":"/w/a"}}}}"#
    )
}

fn unsent(rig: &Rig<Client>) -> usize {
    rig.machine().machine().unsent()
}

/// The events from the first one that says that the end is near.
fn last_words(rig: &mut Rig<Client>) -> Vec<String> {
    rig.wait(Duration::from_secs(10));
    assert_eq!(rig.done(), ["CloseWrite", "Close", "End"]);
    rig.told().iter().map(word).skip_while(|word| ["permission", "requested"].contains(&&**word)).collect()
}

const END: [&str; 5] =
    ["withdrawn", "withdrawn", "ended 1 Disconnected", "failed 2 Disconnected", "closed Some(NotReading)"];

#[test]
fn an_agent_that_only_talks_is_left_and_everything_ends_once() {
    let unknown = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such"}}"#);
    let lines: Vec<String> = (0..800).map(unknown).collect();
    for step in [1, lines.len()] {
        let mut rig = busy();
        for lines in lines.chunks(step) {
            rig.hear(&lines.join("\n"));
            // One answer is one too many, and the two questions that are open get theirs.
            assert!(unsent(&rig) < 2 * LIMIT + 500, "{}", unsent(&rig));
        }
        assert_eq!(last_words(&mut rig), END, "{step} lines a read");
    }
}

#[test]
fn an_agent_that_takes_no_answer_is_asked_no_more_whatever_it_wants() {
    type Reply = fn(RequestKey) -> Command;
    let allow: Reply = |request| {
        let outcome = PermissionOutcome::Selected { option_id: "y".into() };
        Command::Answer { request, outcome }
    };
    let serve: Reply =
        |request| Command::Reply { request, result: Json::new(&serde_json::json!({ "content": "a file" })) };
    let fail: Reply = |request| Command::Fail { request, error: RpcError::new(-1, "no such file") };
    for (wants, reply) in [(ask as fn(&str) -> String, allow), (read, serve), (read, fail)] {
        let mut rig = busy();
        let mut told = Vec::new();
        for id in 0..300 {
            rig.hear(&wants(&id.to_string()));
            let events = rig.told();
            for request in keys(&events) {
                // Where the content of a file has to wait, an error need not.
                let done = rig.command(reply(request)).or_else(|_| rig.command(fail(request)));
                assert_eq!(done, Ok(()));
            }
            told.extend(events);
            assert!(unsent(&rig) < 2 * LIMIT + 500, "{}", unsent(&rig));
        }
        let asked = keys(&told).len();
        assert!((60..300).contains(&asked), "{asked}");
        told.extend(rig.told());
        assert_eq!(last_words(&mut rig), ["closed Some(NotReading)"]);
        let words: Vec<String> = told.iter().map(word).skip(asked).collect();
        assert_eq!(words, END[..4]);
    }
}

#[test]
fn permissions_of_a_cancelled_turn_are_answered_within_the_limit_too() {
    let mut rig = busy();
    rig.command(cancel()).unwrap();
    let lines: Vec<String> = (0..800).map(|id: u32| ask(&id.to_string())).collect();
    rig.hear(&lines.join("\n"));
    assert!(unsent(&rig) < 2 * LIMIT + 500, "{}", unsent(&rig));
    assert_eq!(last_words(&mut rig), END);
}

#[test]
fn what_the_application_says_to_an_agent_that_does_not_read_has_an_end_too() {
    let mut rig = busy();
    let notify = || Command::Notify { method: "_x/news".into(), params: empty() };
    let said = (0..).take_while(|_| rig.command(notify()).is_ok()).count();
    assert!((50..100).contains(&said), "{said}");
    assert_eq!(rig.command(notify()), Err(Refused::Crowded));
    // That was us. It can take it later.
    rig.wait(Duration::from_secs(50));
    assert_eq!(rig.told(), []);
    rig.undeafen();
    assert_eq!(rig.command(notify()), Ok(()));
}

/// Several files that are asked for at once may be more than the limit together.
#[test]
fn answers_of_one_step_make_no_agent_deaf_unless_it_takes_nothing() {
    let mut rig = busy();
    let file = |request| {
        let content = "x".repeat(LIMIT - 1000);
        Command::Reply { request, result: Json::new(&serde_json::json!({ "content": content })) }
    };
    rig.hear(&["1", "2", "3"].map(read).join("\n"));
    let requests = keys(&rig.told());
    assert_eq!(rig.command(file(requests[0])), Ok(()));
    assert_eq!(rig.command(file(requests[1])), Ok(()));
    assert_eq!(rig.command(file(requests[2])), Err(Refused::Crowded));
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    rig.undeafen();
    rig.deafen();
    assert_eq!(rig.command(file(requests[2])), Ok(()));
    rig.hear(&read("4"));
    let last = keys(&rig.told())[0];
    assert_eq!(rig.command(file(last)), Ok(()));
    rig.wait(Duration::from_secs(9));
    assert_eq!(rig.told(), []);
    rig.wait(Duration::from_secs(1));
    assert_eq!(last_words(&mut rig), END);
}

#[test]
fn an_agent_that_reads_late_but_before_the_limit_is_kept() {
    let mut rig = busy();
    for round in 0..10 {
        for id in 0..20 {
            let id = round * 100 + id;
            rig.hear(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"no/such"}}"#));
        }
        rig.undeafen();
        assert_eq!(unsent(&rig), 0);
        rig.deafen();
    }
    rig.undeafen();
    assert_eq!(rig.written().len(), 200);
    assert_eq!(rig.told(), []);
}
