use agentline_core::discovery::{
    Discovery, Folders, Manifest, Origin, Position, RESERVED, Reason, Report, Unfit,
};
use agentline_core::trust::{Untrusted, Why};
use agentline_core::{Change, Stderr, Store};

use crate::disk::Disk;
use crate::{discovery, ids, manifests, program};

fn report(disk: &Disk) -> Report {
    disk.report(&discovery("/usr/bin:/bin"))
}

/// The only problem of a folder with one file.
fn problem(name: &str, text: &str) -> Reason {
    let mut disk = manifests(&[(name, text)]);
    disk.program("/usr/bin/good").file("/usr/bin/plain", "x").program("/usr/lib/dir/x");
    disk.link("/usr/bin/nowhere", "gone").link("/usr/bin/circle", "circle").empty_program("/usr/bin/empty");
    let report = report(&disk);
    assert!(report.agents.is_empty(), "{name} {text}");
    let [problem] = &*report.problems else { panic!("one problem: {:?}", report.problems) };
    assert_eq!(problem.file.to_str(), Some(&*format!("/home/me/.botbus/agents/{name}")));
    problem.reason.clone()
}

#[test]
fn g9_what_others_can_change_is_not_read() {
    let manifest = |id: &str| format!(r#"{{"id":"{id}","name":"{id}","command":"/bin/x"}}"#);
    let (one, two) = (manifest("one"), manifest("two"));
    let mut disk = manifests(&[("one.json", &one), ("two.json", &two)]);
    disk.program("/bin/x");
    let folder = "/home/me/.botbus/agents";
    let file = format!("{folder}/one.json");
    disk.untrusted.insert(file.clone().into(), Why::Owner(7));
    let found = report(&disk);
    assert_eq!(ids(&found), ["two"]);
    let untrusted = |path: &str, why| Reason::Untrusted(Untrusted { path: path.into(), why });
    assert_eq!(found.problems[0].reason, untrusted(&file, Why::Owner(7)));
    assert_eq!(found.problems[0].reason.code(), "untrusted");

    disk.untrusted.insert(folder.into(), Why::Writable(0o777));
    let found = report(&disk);
    assert_eq!((found.agents.len(), found.problems.len()), (0, 1));
    assert_eq!(found.problems[0].file.to_str(), Some(folder));
    assert_eq!(found.problems[0].reason, untrusted(folder, Why::Writable(0o777)));

    let mut disk = Disk::default();
    disk.file("/home/me/.npmrc", "prefix=/theirs").program("/theirs/bin/gemini");
    disk.untrusted.insert("/home/me/.npmrc".into(), Why::Owner(7));
    assert!(!report(&disk).searched.contains(&"/theirs/bin".into()));
}

#[test]
fn a_manifest_gives_its_agent() {
    let mut disk = manifests(&[(
        "my-agent.json",
        r#"{"id":"my-agent","name":" My Agent ","command":"/opt/My Agents/a b","args":["--x=1 2","","'"],
            "env":{"KEY":"hunter2","EMPTY":""},"icon":"later.png","version":3}"#,
    )]);
    disk.program("/opt/My Agents/a b");
    let report = report(&disk);
    assert!(report.problems.is_empty());
    let agent = report.find("my-agent").unwrap();
    assert_eq!(
        (agent.name.as_str(), agent.origin.clone(), agent.enabled),
        ("My Agent", Origin::Manifest, true)
    );
    let launch = agent.launch.clone().unwrap();
    assert_eq!(launch.argv(), ["/opt/My Agents/a b", "--x=1 2", "", "'"]);
    let spec = launch.spawn(
        "/home/me".into(),
        [("HOME".into(), "/home/me".into())].map(secret).into(),
        Stderr::Pipe,
    );
    assert_eq!(spec.args, ["--x=1 2", "", "'"]);
    let names: Vec<_> = spec.env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["EMPTY", "HOME", "KEY", "PATH"]);
    assert!(!format!("{report:?}").contains("hunter2"));
}

fn secret<T>((name, value): (T, std::ffi::OsString)) -> (T, agentline_core::Secret<std::ffi::OsString>) {
    (name, value.into())
}

#[test]
fn commands_are_optional_trimmed_expanded_and_searched() {
    let mut disk = manifests(&[
        ("a.json", r#"{"id":"a","name":"a"}"#),
        ("b.json", r#"{"id":"b","name":"b","command":"  ","args":null,"env":null}"#),
        ("c.json", r#"{"id":"c","name":"c","command":null}"#),
        ("d.json", r#"{"id":"d","name":"d","command":" ~/tools/d "}"#),
        ("e.json", r#"{"id":"e","name":"e","command":"e"}"#),
    ]);
    disk.program("/home/me/tools/d").program("/home/me/.cargo/bin/e");
    let report = report(&disk);
    assert_eq!(ids(&report), ["a", "b", "c", "d", "e"]);
    assert!(report.agents.iter().take(3).all(|agent| agent.launch.is_none()));
    assert_eq!(program(&report, "d"), "/home/me/tools/d");
    assert_eq!(program(&report, "e"), "/home/me/.cargo/bin/e");
}

#[test]
fn each_row_of_the_table_has_its_reason() {
    for (name, text, reason) in [
        ("a.json", "", invalid(1, 0)),
        ("a.json", "[\"a\",\"a\",null,null,null]", invalid(1, 1)),
        ("a.json", r#"{"id":"a"}"#, invalid(1, 10)),
        ("a.json", r#"{"id":"a","name":"a","args":[1]}"#, invalid(1, 30)),
        ("a.json", "{\"id\":\"a\",\n\"name\":7}", invalid(2, 8)),
        ("a.json", r#"{"id":"A","name":"a"}"#, Reason::BadId),
        (".x.json", r#"{"id":".x","name":"a"}"#, Reason::BadId),
        ("a.json", r#"{"id":"","name":"a"}"#, Reason::BadId),
        ("a.json", r#"{"id":"123456789012345678901234567890123","name":"a"}"#, Reason::BadId),
        ("bad.json", r#"{"id":"my-bad","name":"a"}"#, Reason::WrongFileName { id: "my-bad".into() }),
        ("a.json", r#"{"id":"a","name":" \t"}"#, Reason::EmptyName),
        ("a.json", r#"{"id":"a","name":"a","command":"/no"}"#, command("/no", Unfit::Missing)),
        ("a.json", r#"{"id":"a","name":"a","command":"~/no"}"#, command("/home/me/no", Unfit::Missing)),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"/usr/bin/plain"}"#,
            command("/usr/bin/plain", Unfit::NotExecutable),
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"/usr/bin/nowhere"}"#,
            command("/usr/bin/nowhere", Unfit::Dangling),
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"/usr/bin/circle"}"#,
            command("/usr/bin/circle", Unfit::Dangling),
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"/usr/bin/empty"}"#,
            command("/usr/bin/empty", Unfit::Empty),
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"/usr/lib/dir"}"#,
            command("/usr/lib/dir", Unfit::NotAFile),
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"no"}"#,
            Reason::CommandNotFound { command: "no".into() },
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"./good"}"#,
            Reason::CommandNotFound { command: "./good".into() },
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"~you/good"}"#,
            Reason::CommandNotFound { command: "~you/good".into() },
        ),
        (
            "a.json",
            r#"{"id":"a","name":"a","command":"good --acp"}"#,
            Reason::CommandNotFound { command: "good --acp".into() },
        ),
        ("acp.json", r#"{"id":"acp","name":"a","command":"good"}"#, Reason::ReservedId { id: "acp".into() }),
    ] {
        assert_eq!(problem(name, text), reason, "{name} {text}");
    }
}

fn invalid(line: usize, column: usize) -> Reason {
    Reason::InvalidJson(Position { line, column })
}

fn command(path: &str, why: Unfit) -> Reason {
    Reason::Command { path: path.into(), why }
}

#[test]
fn the_first_reason_is_the_only_one() {
    // Each file is wrong in every later row too; one more thing is mended from row to row.
    for (name, text, code) in [
        ("pi.JSON.json", r#"{"id":"Pi","name":7,"command":"no"}"#, "invalid_json"),
        ("x.json", r#"{"id":"Pi","name":" ","command":"no"}"#, "bad_id"),
        ("x.json", r#"{"id":"pi","name":" ","command":"no"}"#, "wrong_file_name"),
        ("pi.json", r#"{"id":"pi","name":" ","command":"no"}"#, "empty_name"),
        ("pi.json", r#"{"id":"pi","name":"x","command":"no"}"#, "command_not_found"),
        ("pi.json", r#"{"id":"pi","name":"x","command":"/no"}"#, "command_missing"),
        ("pi.json", r#"{"id":"pi","name":"x","command":"/usr/bin/plain"}"#, "command_not_executable"),
        ("pi.json", r#"{"id":"pi","name":"x","command":"good"}"#, "reserved_id"),
    ] {
        assert_eq!(problem(name, text).code(), code, "{name} {text}");
    }
}

#[test]
fn what_cannot_be_read_is_a_problem() {
    let mut disk = manifests(&[]);
    disk.closed("/home/me/.botbus/agents/shut.json");
    disk.file("/home/me/.botbus/agents/folder.json/inside", "");
    disk.file("/home/me/.botbus/agents/long.json", &" ".repeat(1 << 20));
    let report = report(&disk);
    let codes: Vec<_> = report.problems.iter().map(|problem| problem.reason.code()).collect();
    assert_eq!(codes, ["unreadable"; 3]);
}

#[test]
fn every_reserved_id_is_refused() {
    assert_eq!(RESERVED.len(), 10);
    for id in RESERVED {
        let text = format!(r#"{{"id":"{id}","name":"x","command":"good"}}"#);
        assert_eq!(problem(&format!("{id}.json"), &text), Reason::ReservedId { id: id.into() });
    }
}

#[test]
fn ids_have_a_longest_and_a_shortest() {
    for id in ["a", "0", "-", "abcdefghijklmnopqrstuvwxyz-01234"] {
        let disk = manifests(&[(&format!("{id}.json"), &format!(r#"{{"id":"{id}","name":"x"}}"#))]);
        assert_eq!(ids(&report(&disk)), [id]);
    }
}

#[test]
fn only_files_named_json_are_manifests() {
    let good = r#"{"id":"a","name":"a"}"#;
    let names = ["a.json", "README.md", "a.JSON", "a.json~", ".json", "a.json.tmp", "json", "a.jsonc"];
    let disk = manifests(&names.map(|name| (name, if name == "a.json" { good } else { "{" })));
    let report = report(&disk);
    assert_eq!(ids(&report), ["a"]);
    assert!(report.problems.is_empty());
}

#[test]
fn a_byte_order_mark_is_no_error() {
    let disk = manifests(&[("a.json", "\u{feff}{\"id\":\"a\",\"name\":\"\u{feff}a\"}")]);
    assert_eq!(report(&disk).agents[0].name, "\u{feff}a");
}

#[test]
fn names_end_after_forty_characters() {
    let name = "名".repeat(41);
    let disk = manifests(&[("a.json", &format!(r#"{{"id":"a","name":"{name}"}}"#))]);
    assert_eq!(report(&disk).agents[0].name, "名".repeat(40));
}

#[test]
fn problems_come_in_the_order_of_file_names_whatever_the_folder_says() {
    let names = ["b.json", "a.json", "B.json", "ä.json", "10.json", "9.json"];
    let mut disk = manifests(&names.map(|name| (name, "{")));
    let forwards = report(&disk);
    disk.backwards = true;
    assert_eq!(report(&disk), forwards);
    let files: Vec<_> =
        forwards.problems.iter().filter_map(|problem| problem.file.file_name()?.to_str()).collect();
    assert_eq!(files, ["10.json", "9.json", "B.json", "a.json", "b.json", "ä.json"]);
}

#[test]
fn no_folder_is_no_problem_but_a_closed_one_is() {
    let mut disk = Disk::default();
    assert!(report(&disk).problems.is_empty());
    disk.closed("/home/me/.botbus/agents");
    let report = report(&disk);
    assert_eq!(report.problems[0].file.to_str(), Some("/home/me/.botbus/agents"));
    assert_eq!(report.problems[0].reason, Reason::Unreadable);
}

#[test]
fn manifests_past_the_limit_are_named_not_read() {
    let disk = manifests(&[("a.json", "{"), ("b.json", "{"), ("c.json", "{")]);
    let mut discovery: Discovery = discovery("");
    discovery.limits.manifests = 2;
    let report = disk.report(&discovery);
    assert_eq!(report.problems.len(), 2);
    let left: Vec<_> = report.skipped.iter().filter(|skipped| skipped.id == "c.json").collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn what_add_writes_is_found_and_what_remove_names_is_gone() {
    let folders = Folders::new("/home/me".into(), &|_| None);
    let manifest = Manifest {
        id: "claude-code".into(),
        name: " Claude Code ".into(),
        command: Some("npx".into()),
        args: vec!["--yes".into(), "@zed-industries/claude-code-acp".into()],
        env: [("KEY".to_owned(), "hunter2".to_owned().into())].into(),
    };
    let store = manifest.add(&folders).unwrap();
    assert!(!format!("{store:?}").contains("hunter2"));
    let Store { path, change: Change::Put { bytes, mode: 0o600 } } = store else { panic!("a private file") };
    let mut disk = Disk::default();
    disk.file(path.to_str().unwrap(), std::str::from_utf8(bytes.expose()).unwrap()).program("/usr/bin/npx");
    let found = report(&disk);
    let agent = found.find("claude-code").unwrap();
    let launch = agent.launch.clone().unwrap();
    assert_eq!((agent.name.as_str(), launch.args, launch.env), ("Claude Code", manifest.args, manifest.env));

    let store = Manifest::remove("claude-code", &folders).unwrap();
    assert_eq!(store, Store { path, change: Change::Remove });
}

#[test]
fn add_and_remove_touch_no_file_that_would_not_count() {
    let folders = Folders::new("/home/me".into(), &|_| None);
    let add = |id: &str, name: &str, command: &str| {
        let (id, name) = (id.into(), name.into());
        let command = Some(command.into());
        Manifest { id, name, command, args: Vec::new(), env: [].into() }
            .add(&folders)
            .map_err(|reason| reason.code())
    };
    assert_eq!(add("../x", "x", "x"), Err("bad_id"));
    assert_eq!(add("x", " ", "x"), Err("empty_name"));
    assert_eq!(add("claude", "x", "x"), Err("reserved_id"));
    assert_eq!(add("x", "x", "./x"), Err("command_not_found"));
    assert!(add("x", "x", "~/x").is_ok() && add("x", "x", "x").is_ok());
    assert_eq!(Manifest::remove("../x", &folders), Err(Reason::BadId));
}
