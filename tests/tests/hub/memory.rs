//! What was said with runners: written, given back, shown, bounded and forgotten.

use std::path::Path;
use std::time::Duration;

use agentline_core::hub::Stored;
use agentline_core::hub::api::Transcripts;
use serde_json::{Value, json};

use super::runners::Shop;

impl Shop {
    /// What was said in a session, as it is on disk.
    fn written(&self, session: &str) -> Option<Vec<(String, String)>> {
        let (text, mode) = self.hub.files.get(Path::new(&format!("/state/transcripts/{session}.ndjson")))?;
        assert_eq!(*mode, 0o600);
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let text = |name: &str| line[name].as_str().expect("text").to_owned();
            (text("role"), text("content"))
        };
        Some(text.lines().map(line).collect())
    }
}

fn said(role: &str, content: &str) -> (String, String) {
    (role.to_owned(), content.to_owned())
}

#[test]
fn what_was_said_is_given_back_to_the_next_process_and_by_the_next_hub() {
    let mut shop = Shop::new();
    let id = shop.begin("first");
    assert_eq!(shop.written(&id), None, "it is not known that it was taken");
    shop.answers(&id, "one");
    // The last words may come behind the end.
    shop.says(&id, &json!({ "kind": "turn_progress", "delta": " and a half", "source": "workbench" }));
    let all = [said("user", "first"), said("assistant", "one"), said("assistant", " and a half")];
    assert_eq!(shop.written(&id).as_deref(), Some(&all[..]));
    assert!(!shop.kinds(&id).contains(&"load_history".to_owned()), "it is new");

    shop.call("session.send", &json!({ "sessionId": id, "content": "second" }));
    shop.exits(&id, 1);
    shop.remembers = false;
    shop.call("session.retry", &json!({ "sessionId": id }));
    let given = |shop: &mut Shop| {
        let told = shop.told(&id);
        let kinds: Vec<String> =
            told.iter().map(|it| it["kind"].as_str().expect("a kind").to_owned()).collect();
        let history = told.into_iter().find(|line| line["kind"] == "load_history");
        let messages = history.map(|line| line["messages"].as_array().expect("messages").clone());
        let text = |message: Value| {
            let text = |name: &str| message[name].as_str().expect("text").to_owned();
            (text("role"), text("content"))
        };
        (kinds, messages.map(|all| all.into_iter().map(text).collect::<Vec<_>>()))
    };
    let (kinds, history) = given(&mut shop);
    assert!(!kinds.contains(&"user_message".to_owned()), "not before it knows what was said: {kinds:?}");
    let all = vec![said("user", "first"), said("assistant", "one and a half")];
    assert_eq!(history, Some(all.clone()));
    shop.says(&id, &json!({ "kind": "history_loaded", "messageCount": 3 }));
    assert_eq!(shop.kinds(&id), ["user_message"]);
    shop.answers(&id, "two");

    let mut shop = shop.again(Transcripts::Runners);
    let row = shop.row(&id);
    assert_eq!((&row["channel"], &row["status"]), (&json!("galley"), &json!("completed")), "{row}");
    let shown = shop.call("session.show", &json!({ "sessionId": id }));
    let roles: Vec<&str> =
        shown["result"].as_array().expect("messages").iter().filter_map(|it| it["role"].as_str()).collect();
    assert_eq!(roles, ["user", "agent", "user", "agent"], "{shown}");
    assert!(shop.runners.is_empty(), "nobody starts a runner to look");
    shop.ask("session.send", &json!({ "sessionId": id, "content": "third" }));
    let (kinds, history) = given(&mut shop);
    assert!(kinds.contains(&"user_message".to_owned()));
    let more = [said("user", "second"), said("assistant", "two")];
    assert_eq!(history, Some([&all[..], &more].concat()));
    assert_eq!(shop.kinds(&id), [] as [&str; 0]);

    shop.call("session.delete", &json!({ "sessionId": id }));
    assert_eq!(shop.written(&id), None);
}

#[test]
fn a_runner_that_takes_no_history_goes_on_without_and_that_is_told() {
    let mut shop = Shop::new();
    shop.remembers = false;
    let id = shop.begin("first");
    shop.answers(&id, "one");
    shop.exits(&id, 0);
    let watch = shop.ask("session.watch", &json!({ "sessionId": id }));
    shop.ask("session.send", &json!({ "sessionId": id, "content": "second" }));
    shop.says(
        &id,
        &json!({ "kind": "error", "message": "no", "category": "business", "context": "load_history" }),
    );
    assert!(shop.kinds(&id).contains(&"user_message".to_owned()));
    let frames = shop.lines(watch);
    let notes: Vec<&Value> =
        frames.iter().map(|frame| &frame["data"]).filter(|it| it["kind"] == "system_message").collect();
    assert_eq!(notes.len(), 1, "{frames:?}");
    assert!(notes[0]["content"].as_str().is_some_and(|text| text.contains("without what was said before")));
}

#[test]
fn with_transcripts_off_nothing_is_written_and_one_notice_says_what_that_means() {
    let mut shop = Shop::with(Stored::default(), Transcripts::None);
    let health = shop.call("health", &json!({}));
    assert_eq!(health["result"]["transcripts"], "none");
    let id = shop.begin("first");
    shop.answers(&id, "one");
    assert_eq!(shop.written(&id), None);
    shop.exits(&id, 0);
    let watch = shop.ask("session.watch", &json!({ "sessionId": id }));
    for task in ["second", "third"] {
        shop.call("session.send", &json!({ "sessionId": id, "content": task }));
        shop.answers(&id, "done");
    }
    assert!(!shop.kinds(&id).contains(&"load_history".to_owned()));
    let frames = shop.lines(watch);
    let notes = frames.iter().filter(|frame| frame["data"]["kind"] == "system_message");
    assert_eq!(notes.count(), 1, "{frames:?}");
}

#[test]
fn a_conversation_that_is_over_for_a_month_is_removed() {
    let mut shop = Shop::new();
    let (old, new) = (shop.begin("one"), shop.begin("two"));
    for id in [&old, &new] {
        shop.answers(id, "done");
    }
    shop.exits(&old, 0);
    shop.hub.pass(Duration::from_secs(29 * 24 * 3600));
    shop.call("session.send", &json!({ "sessionId": new, "content": "on" }));
    shop.answers(&new, "done");
    assert!(shop.written(&old).is_some());
    shop.hub.pass(Duration::from_secs(2 * 24 * 3600));
    shop.row(&old);
    assert_eq!((shop.written(&old).is_some(), shop.written(&new).is_some()), (false, true));
}

#[test]
fn of_a_conversation_without_end_so_much_is_kept_and_that_is_told() {
    let mut shop = Shop::new();
    let id = shop.begin("go on and on");
    let piece = json!({ "kind": "turn_progress", "delta": "x".repeat(1 << 20), "source": "workbench" });
    let size = |shop: &Shop| shop.hub.files[Path::new(&format!("/state/transcripts/{id}.ndjson"))].0.len();
    for _ in 0..63 {
        shop.says(&id, &piece);
    }
    assert_eq!(shop.call("health", &json!({}))["result"]["problems"], json!([]));
    for _ in 0..3 {
        shop.says(&id, &piece);
    }
    assert!((63 << 20..=64 << 20).contains(&size(&shop)), "{}", size(&shop));
    let problem = shop.call("health", &json!({}))["result"]["problems"][0].clone();
    assert_eq!(problem["id"], json!(format!("transcript:{id}")), "{problem}");
    shop.answers(&id, "the end");
    let deleted = shop.call("session.delete", &json!({ "sessionId": id }));
    assert_eq!(shop.call("health", &json!({}))["result"]["problems"], json!([]), "{deleted}");
}
