//! Rules of permission: on the command line, in a file, and those of a project.

use serde_json::json;

use crate::rig::{Bench, done, text};

/// How the one request of the demo agent was decided under these options.
fn decided(bench: &Bench, options: &[&str]) -> String {
    let words: Vec<&str> = ["run", "--json", "ask"].iter().chain(options).copied().collect();
    let result = done(&mut bench.agentline(&words)).result();
    let [decision] = &result["permissions"].as_array().expect("a list")[..] else { panic!("{result}") };
    let word = |name: &str| decision[name].as_str().unwrap_or("-").to_owned();
    [word("decision"), word("optionId"), word("by"), word("rule")].join(" ")
}

#[test]
fn what_decides_is_in_every_event() {
    let bench = Bench::new();
    let git = bench.file(
        "rules.json",
        r#"{"rules":[{"command":"rm -rf target","then":"allow"},{"then":"allow_always"}]}"#,
    );
    let always =
        bench.file("always.json", r#"{"rules":[{"kind":["read","execute"],"then":"allow_always"}]}"#);
    for (options, said) in [
        (&["--allow", "read,execute"][..], "allowed yes rule --allow execute".to_owned()),
        (&["--allow", "read"], "rejected no policy -".to_owned()),
        (&["--allow", "read", "-p", "allow"], "allowed yes policy -".to_owned()),
        (
            &["--allow", "execute", "--reject", "execute:cargo"],
            "rejected no rule --reject execute:cargo".to_owned(),
        ),
        (&["--allow", "execute", "--reject", "execute:git"], "allowed yes rule --allow execute".to_owned()),
        (&["-p", "allow", "--ask", "execute"], "rejected no rule --ask execute".to_owned()),
        // Another command hides behind what is allowed.
        (&["--permission-rules", text(&git)], format!("allowed always rule {} rules[1]", text(&git))),
        (&["--permission-rules", text(&always)], format!("allowed always rule {} rules[0]", text(&always))),
    ] {
        assert_eq!(decided(&bench, options), said, "{options:?}");
    }
    let shown = done(&mut bench.agentline(&["run", "--agent", "demo", "--allow", "execute", "ask"])).err;
    assert!(shown.contains("  ✓ allowed once: Clean the build folder (--allow execute)\n"), "{shown}");
}

#[test]
fn a_project_can_only_be_stricter() {
    let bench = Bench::new();
    let folder = bench.path("work/.agentline");
    std::fs::create_dir(&folder).expect("a folder");
    let settings = |text: &str| std::fs::write(folder.join("settings.json"), text).expect("a file");
    settings(r#"{"permissions":{"rules":[{"command":"cargo","then":"reject"}]},"theme":"dark"}"#);
    let by_project = "rejected no rule .agentline/settings.json rules[0]";
    assert_eq!(decided(&bench, &["-p", "allow"]), by_project);
    assert_eq!(decided(&bench, &["--allow", "execute"]), by_project);
    settings(r#"{"permissions":{"rules":[{"kind":"execute","then":"allow"}]}}"#);
    let refused = done(&mut bench.agentline(&["run", "ask"]));
    let why = ".agentline/settings.json is no settings file: rules[0]: a project may ask or reject, and allow nothing";
    assert!(refused.code == Some(2) && refused.err.contains(why), "{refused:?}");
}

#[test]
fn what_is_no_rule_is_refused_before_anything_starts() {
    let bench = Bench::new();
    let file = bench.file("rules.json", "{\"rules\":[\n{\"kinds\":\"read\",\"then\":\"allow\"}]}");
    for (options, why) in [
        (["--allow", "reed"], "✗ --allow: reed is no kind of tool; one of read, edit, delete,"),
        (["--reject", "execute:"], "✗ --reject: execute:: nothing after the colon"),
        (
            ["--permission-rules", text(&file)],
            "is no list of rules: unknown field `kinds`, expected one of `kind`, `tool`, `command`, `path`, `then` at line 2 column 8",
        ),
        (["--permission-rules", "nowhere.json"], "✗ --permission-rules: nowhere.json "),
    ] {
        for verb in ["run", "chat"] {
            let words: Vec<&str> = [verb].into_iter().chain(options).collect();
            let ended = done(&mut bench.agentline(&words));
            assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{ended:?}");
            let is_prompt = ended.err.contains("no prompt") || ended.err.contains("prompt is empty");
            assert!(is_prompt || ended.err.contains(why), "{ended:?}");
        }
        let words: Vec<&str> = ["run", "x"].into_iter().chain(options).collect();
        let ended = done(&mut bench.agentline(&words));
        assert!(ended.code == Some(2) && ended.err.contains(why), "{ended:?}");
    }
}

#[test]
fn a_dry_run_shows_the_table_that_holds() {
    let bench = Bench::new();
    let folder = bench.path("work/.agentline");
    std::fs::create_dir(&folder).expect("a folder");
    let project = r#"{"permissions":{"rules":[{"path":"secrets","then":"reject"}]}}"#;
    std::fs::write(folder.join("settings.json"), project).expect("a file");
    let options = ["run", "--dry-run", "--allow", "read,search", "--reject", "execute:rm", "x"];
    let shown = done(&mut bench.agentline(&options)).out;
    let table = "\
permits   reject  execute, command rm (--reject execute:rm)
          allow   read (--allow read)
          allow   search (--allow search)
          reject  any other call (by default)
          reject  path secrets (.agentline/settings.json rules[0], only if stricter)
";
    assert!(shown.ends_with(table), "{shown}");
    let words: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    let objects = done(&mut bench.agentline(&words)).objects();
    let last = json!({"then": "reject", "calls": "path secrets", "from": ".agentline/settings.json rules[0]", "project": true});
    assert_eq!(objects[0]["permissions"][4], last);
}
