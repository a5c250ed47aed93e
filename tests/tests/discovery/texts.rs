use agentline_core::discovery::{Discovery, Language, Registry, Settings};
use agentline_core::rpc::to_json;

use crate::disk::Disk;
use crate::{discovery, manifests};

/// The machine whose list BotBus's page shows.
fn shown() -> (Disk, Discovery) {
    let mut disk = Disk::default();
    let agents = "/Users/me/.botbus/agents";
    disk.file(
        &format!("{agents}/my-agent.json"),
        r#"{"id":"my-agent","name":"My Agent","command":"/usr/local/bin/my-agent","args":["--acp"]}"#,
    );
    disk.file(&format!("{agents}/my-daemon.json"), r#"{"id":"my-daemon","name":"My Daemon"}"#);
    disk.file(&format!("{agents}/bad.json"), r#"{"id":"my-bad","name":"Bad"}"#);
    disk.program("/usr/local/bin/my-agent");
    disk.program("/opt/homebrew/lib/node_modules/@google/gemini-cli/dist/index.js");
    disk.link("/opt/homebrew/bin/gemini", "../lib/node_modules/@google/gemini-cli/dist/index.js");
    let mut discovery =
        Discovery::new("/Users/me".into(), &|_| None, Registry::bundled(), Settings::default());
    discovery.settings.enable("my-daemon", false);
    (disk, discovery)
}

#[test]
fn the_chinese_list_is_that_of_the_seed_byte_for_byte() {
    let (disk, discovery) = shown();
    assert_eq!(
        disk.report(&discovery).text(Language::Chinese),
        "gemini\tGemini CLI\t注册表\t已启用\t/opt/homebrew/bin/gemini --acp\n\
         my-agent\tMy Agent\t清单\t已启用\t/usr/local/bin/my-agent --acp\n\
         my-daemon\tMy Daemon\t清单\t已停用\t（没有启动命令，只能经反向扩展接入）\n\
         ✗ /Users/me/.botbus/agents/bad.json：文件名必须是 my-bad.json\n"
    );
}

#[test]
fn the_english_list_says_the_same() {
    let (disk, discovery) = shown();
    assert_eq!(
        disk.report(&discovery).text(Language::English),
        "gemini\tGemini CLI\tregistry\tenabled\t/opt/homebrew/bin/gemini --acp\n\
         my-agent\tMy Agent\tmanifest\tenabled\t/usr/local/bin/my-agent --acp\n\
         my-daemon\tMy Daemon\tmanifest\tdisabled\t(no command: it can only connect by itself)\n\
         ✗ /Users/me/.botbus/agents/bad.json: file name must be my-bad.json\n"
    );
}

#[test]
fn the_list_for_programs_has_one_object_a_line() {
    let (disk, mut discovery) = shown();
    discovery.limits.agents = 2;
    let lines: Vec<_> = disk.report(&discovery).lines(Language::English).map(|line| to_json(&line)).collect();
    assert_eq!(
        lines,
        [
            r#"{"type":"agent","id":"gemini","name":"Gemini CLI","origin":"registry","enabled":true,"command":["/opt/homebrew/bin/gemini","--acp"]}"#,
            r#"{"type":"agent","id":"my-agent","name":"My Agent","origin":"manifest","enabled":true,"command":["/usr/local/bin/my-agent","--acp"]}"#,
            r#"{"type":"agent","id":"my-daemon","name":"My Daemon","origin":"manifest","enabled":false,"command":null,"overCap":true}"#,
            r#"{"type":"problem","file":"/Users/me/.botbus/agents/bad.json","reason":"file name must be my-bad.json","code":"wrong_file_name"}"#,
        ]
    );
}

#[test]
fn nothing_found_names_the_folder_and_the_variable() {
    let report = Disk::default().report(&discovery(""));
    assert_eq!(
        report.text(Language::English),
        "no ACP agents found; put manifests in /home/me/.botbus/agents/<id>.json (folder chosen by HOME)\n"
    );
    let env = |name: &str| (name == "AGENTLINE_BOTBUS_DIR").then(|| "/b".into());
    let elsewhere = Discovery::new("/home/me".into(), &env, Registry::bundled(), Settings::default());
    let text = Disk::default().report(&elsewhere).text(Language::Chinese);
    assert!(text.contains("/b/agents/<id>.json") && text.contains("AGENTLINE_BOTBUS_DIR"), "{text}");
}

#[test]
fn whoever_misses_an_agent_is_told_where_it_was_sought() {
    let mut disk = manifests(&[("kimi.json", r#"{"id":"kimi","name":"k"}"#)]);
    disk.program("/usr/bin/gemini").file("/usr/bin/goose", "x");
    let mut discovery = discovery("/usr/bin");
    discovery.limits.agents = 0;
    let explained = disk.report(&discovery).explain(Language::English).join("\n");
    for part in [
        "manifests: /home/me/.botbus/agents (HOME)\nsearched: /usr/bin, /home/me/.local/bin, ",
        "\ntoo many at once, left out by a hub: kimi\nnot installed: agoragentic-acp, ",
        "\ngemini: /usr/bin/gemini is not of the npm package @google/gemini-cli\n",
        "\ngoose: /usr/bin/goose is not executable\nkimi: the manifest of this id counts, not the registry",
    ] {
        assert!(explained.contains(part), "{part:?} is not in\n{explained}");
    }
    for line in disk.report(&discovery).explain(Language::Chinese) {
        assert!(line.contains('：'), "{line}");
    }
}

#[test]
fn no_file_can_write_over_the_terminal() {
    let mut disk = manifests(&[
        ("a.json", r#"{"id":"a","name":"a\tb\n\u001b[2J","command":"/x","args":["\n"]}"#),
        ("\u{1b}[2J.json", r#"{"id":"b","name":"b"}"#),
        ("c.json", r#"{"id":"c","name":"c","command":"no\u001b[2J\n"}"#),
    ]);
    disk.program("/x");
    let text = disk.report(&discovery("")).text(Language::English);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(text.starts_with("a\ta\u{fffd}b\u{fffd}\u{fffd}[2J\tmanifest\tenabled\t/x $'\\n'\n"), "{text}");
}
