//! The sessions that an agent itself knows.

use crate::rig::{AGENTLINE, Bench, Done, done, text};

fn with_agent(words: &[&str]) -> Bench {
    let bench = Bench::new();
    let add: Vec<&str> = ["agent", "add", "mine", "--"].iter().chain(words).copied().collect();
    let added = done(&mut bench.agentline(&add));
    assert_eq!(added.code, Some(0), "{added:?}");
    bench
}

fn session(bench: &Bench, words: &[&str]) -> Done {
    let words: Vec<&str> = ["session"].iter().chain(words).copied().collect();
    done(&mut bench.agentline(&words))
}

#[test]
fn they_are_listed_page_by_page_and_deleted_by_their_own_ids() {
    let bench = with_agent(&[AGENTLINE, "demo-agent", "--stored"]);
    let listed = session(&bench, &["list", "--fresh", "--agent", "mine"]);
    let rows = "old-1\t2026-11-30T10:00:00Z\t/w\tFix the login\nold-2\t2026-11-29T10:00:00Z\t/w\t-\n";
    assert_eq!((listed.code, &*listed.out), (Some(0), rows), "{listed:?}");
    let objects =
        session(&bench, &["list", "--json", "--fresh", "--agent", "mine", "--limit", "1"]).objects();
    let [stored] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!((&stored["type"], &stored["sessionId"]), (&"stored".into(), &"old-1".into()));
    let deleted = session(&bench, &["delete", "--fresh", "--agent", "mine", "old-1"]);
    assert_eq!((deleted.code, &*deleted.err), (Some(0), "◦ deleted: old-1\n"));
    let forked = session(&bench, &["fork", "--fresh", "--agent", "mine", "old-1"]);
    assert!(forked.code == Some(2) && forked.err.contains(" does not offer session/fork\n"), "{forked:?}");
}

#[test]
fn a_fork_has_an_id_of_its_own() {
    let home = Bench::new();
    let script = home.file("agent.sh", FORKS);
    let bench = with_agent(&["/bin/sh", text(&script)]);
    let forked = session(&bench, &["fork", "--fresh", "--agent", "mine", "old"]);
    assert_eq!((forked.code, &*forked.out), (Some(0), "forked-old\n"), "{forked:?}");
    let none = session(&bench, &["list", "--fresh", "--agent", "mine"]);
    assert!(none.code == Some(2) && none.err.contains("does not offer session/list"), "{none:?}");
    assert_eq!(session(&bench, &["list", "--fresh"]).code, Some(2));
    assert_eq!(session(&bench, &["list", "--fresh", "--agent", "nobody"]).code, Some(3));
}

/// An agent that forks.
const FORKS: &str = r#"read -r _
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"fork":{}}}}}'
read -r asked || exit 0
case $asked in
*'"method":"session/fork","params":{"sessionId":"old","cwd":'*) echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"forked-old"}}' ;;
*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}' ;;
esac
cat >/dev/null
"#;
