use agentline_core::discovery::{
    Discovery, Origin, RESERVED, Refusal, Registry, Settings, Skip, Unfit, Unfound,
};

use crate::disk::Disk;
use crate::{discovery, ids, manifests, program};

const OFFICIAL: &str = include_str!("../../fixtures/registry.json");
const GEMINI: &str = "/opt/lib/node_modules/@google/gemini-cli/bundle/gemini.js";

#[test]
fn the_bundled_registry_is_sound() {
    let registry = Registry::bundled();
    assert_eq!(registry.refused, []);
    assert_eq!(registry.entries.len(), 36);
    for entry in &registry.entries {
        assert!(!RESERVED.contains(&entry.id.as_str()), "{}", entry.id);
        for way in &entry.ways {
            assert!(!way.binaries.is_empty() && way.npm_package.as_deref() != Some(""), "{}", entry.id);
        }
    }
    let gemini = registry.entries.iter().find(|entry| entry.id == "gemini").unwrap();
    assert_eq!(gemini.ways[0].npm_package.as_deref(), Some("@google/gemini-cli"));
}

#[test]
fn only_what_is_installed_appears() {
    let mut disk = Disk::default();
    disk.program("/usr/bin/goose").program("/usr/bin/codex-acp").program("/usr/bin/kimi");
    let report = disk.report(&discovery("/usr/bin"));
    assert_eq!(ids(&report), ["goose", "kimi"]);
    assert!(report.agents.iter().all(|agent| agent.origin == Origin::Registry && agent.enabled));
    assert_eq!(report.agents[0].launch.as_ref().unwrap().argv(), ["/usr/bin/goose", "acp"]);
    assert_eq!(report.problems, []);
}

#[test]
fn symlink_entrypoint_an_npm_agent_counts_only_inside_its_package() {
    for (target, counts) in [
        (GEMINI, true),
        ("../../../opt/lib/node_modules/@google/gemini-cli/bundle/gemini.js", true),
        ("/store/.pnpm/@google+gemini-cli@1/node_modules/@google/gemini-cli/x.js", true),
        ("/opt/lib/node_modules/gemini-cli/x.js", false),
        ("/opt/lib/node_modules/@google/gemini-cli-extra/x.js", false),
        ("/usr/games/gemini", false),
    ] {
        let mut disk = Disk::default();
        let real = if target.starts_with('.') { GEMINI } else { target };
        disk.program(real).link("/usr/local/bin/gemini", target);
        let report = disk.report(&discovery(""));
        assert_eq!(ids(&report), if counts { vec!["gemini"] } else { vec![] }, "{target}");
        if counts {
            let found = &report.agents[0].launch.as_ref().unwrap().found;
            assert_eq!(
                found.program.to_str(),
                Some("/usr/local/bin/gemini"),
                "the link is started, not its target"
            );
            assert_eq!(found.file.real.to_str(), Some(real));
        }
    }
}

#[test]
fn every_file_of_a_name_is_tried() {
    let mut disk = Disk::default();
    disk.program("/usr/bin/gemini").program(GEMINI).link("/home/me/.npm-global/bin/gemini", GEMINI);
    let report = disk.report(&discovery("/usr/bin"));
    assert_eq!(program(&report, "gemini"), "/home/me/.npm-global/bin/gemini");
    let why = Skip::File {
        path: "/usr/bin/gemini".into(),
        why: Unfit::OutsidePackage("@google/gemini-cli".into()),
    };
    assert!(report.skipped.iter().any(|skipped| skipped.id == "gemini" && skipped.why == why));
}

#[test]
fn a_second_name_is_tried_after_the_first() {
    let mut disk = Disk::default();
    disk.program("/usr/bin/codebuddy-code");
    disk.program("/x/node_modules/@tencent-ai/codebuddy-code/cli.js");
    disk.link("/usr/bin/cbc", "/x/node_modules/@tencent-ai/codebuddy-code/cli.js");
    assert_eq!(program(&disk.report(&discovery("/usr/bin")), "codebuddy-code"), "/usr/bin/cbc");
}

#[test]
fn broken_shim_shadows_good_binary_what_is_no_program_shadows_nothing() {
    let mut disk = Disk::default();
    disk.link("/1/kimi", "/gone").link("/2/kimi", "kimi").file("/3/kimi", "x").empty_program("/4/kimi");
    disk.file("/5/kimi/in", "").closed("/6/kimi").program("/8/kimi").program("/9/kimi");
    let report = disk.report(&discovery("/1:/2:/3:/4:/5:/6:/7:/8:/9"));
    assert_eq!(program(&report, "kimi"), "/8/kimi");
    let passed: Vec<_> = report
        .skipped
        .iter()
        .filter_map(|skipped| match &skipped.why {
            Skip::File { path, why } => Some((path.to_str().unwrap(), why.clone())),
            Skip::NotInstalled(_) | Skip::Overridden | Skip::Refused(_) | Skip::TooMany => None,
        })
        .collect();
    assert_eq!(
        passed,
        [
            ("/1/kimi", Unfit::Dangling),
            ("/2/kimi", Unfit::Dangling),
            ("/3/kimi", Unfit::NotExecutable),
            ("/4/kimi", Unfit::Empty),
            ("/5/kimi", Unfit::NotAFile),
            ("/6/kimi", Unfit::Denied),
        ]
    );
}

#[test]
fn the_path_comes_first_then_the_usual_folders() {
    let order = [
        "/my/path",
        "/home/me/.local/bin",
        "/opt/homebrew/bin",
        "/usr/local/bin",
        "/home/linuxbrew/.linuxbrew/bin",
        "/home/me/.npm-global/bin",
        "/home/me/.bun/bin",
        "/home/me/.volta/bin",
        "/home/me/Library/pnpm",
        "/home/me/.local/share/pnpm",
        "/home/me/.cargo/bin",
        "/usr/bin",
        "/from/npmrc/bin",
        "/home/me/.nvm/versions/node/v22.3.0/bin",
        "/home/me/.nvm/versions/node/v20.19.1/bin",
        "/home/me/.nvm/versions/node/v20.9.0/bin",
        "/home/me/.nvm/versions/node/v8.17.0/bin",
    ];
    let discovery = discovery(":rel/ative:/my/path:.:/usr/local/bin/../bin");
    let mut disk = Disk::default();
    disk.file("/home/me/.npmrc", "prefix=/from/npmrc");
    for folder in order {
        disk.program(&format!("{folder}/kimi"));
    }
    disk.program("rel/ative/kimi");
    for folder in order {
        let first = format!("{folder}/kimi");
        assert_eq!(program(&disk.report(&discovery), "kimi"), first);
        disk.remove(&first);
    }
    assert_eq!(disk.report(&discovery).agents, []);
}

#[test]
fn variables_move_the_usual_folders() {
    for (name, value, folder) in [
        ("PNPM_HOME", "/v/pnpm", "/v/pnpm"),
        ("VOLTA_HOME", "/v/volta", "/v/volta/bin"),
        ("BUN_INSTALL", "/v/bun", "/v/bun/bin"),
        ("CARGO_HOME", "/v/cargo", "/v/cargo/bin"),
        ("NPM_CONFIG_PREFIX", "/v/npm", "/v/npm/bin"),
        ("HOMEBREW_PREFIX", "/v/brew", "/v/brew/bin"),
        ("UV_TOOL_BIN_DIR", "/v/uv", "/v/uv"),
        ("PIPX_BIN_DIR", "/v/pipx", "/v/pipx"),
        ("NVM_DIR", "/v/nvm", "/v/nvm/versions/node/v1.0.0/bin"),
    ] {
        let env = |asked: &str| (asked == name).then(|| value.into());
        let discovery = Discovery::new("/home/me".into(), &env, Registry::bundled(), Settings::default());
        let mut disk = Disk::default();
        disk.program(&format!("{folder}/kimi"));
        assert_eq!(program(&disk.report(&discovery), "kimi"), format!("{folder}/kimi"), "{name}");
    }
}

#[test]
fn a_manifest_wins_over_the_registry_but_a_broken_one_shadows_nothing() {
    let good = r#"{"id":"goose","name":"My goose","command":"/opt/goose"}"#;
    for (text, name, origin) in [(good, "My goose", Origin::Manifest), ("{}", "goose", Origin::Registry)] {
        let mut disk = manifests(&[("goose.json", text)]);
        disk.program("/usr/bin/goose").program("/opt/goose");
        let report = disk.report(&discovery("/usr/bin"));
        assert_eq!(ids(&report), ["goose"]);
        assert_eq!((report.agents[0].name.as_str(), report.agents[0].origin.clone()), (name, origin.clone()));
        let overridden = report.skipped.iter().any(|skipped| skipped.why == Skip::Overridden);
        assert_eq!(overridden, origin == Origin::Manifest);
        assert_eq!(report.problems.len(), usize::from(origin == Origin::Registry));
    }
}

#[test]
fn agents_past_the_eleventh_name_are_over_the_cap() {
    let files: Vec<_> = (0..13)
        .map(|n| (format!("a{}.json", 12 - n), format!(r#"{{"id":"a{}","name":"Agent {n}"}}"#, 12 - n)))
        .collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut discovery = discovery("");
    discovery.settings.enable("a12", false);
    let report = manifests(&files).report(&discovery);
    let names: Vec<_> = report.agents.iter().map(|agent| agent.name.clone()).collect();
    assert_eq!(names, (0..13).map(|n| format!("Agent {n}")).collect::<Vec<_>>(), "10 comes after 9");
    let over: Vec<_> =
        report.agents.iter().filter(|agent| agent.over_cap).map(|agent| agent.id.as_str()).collect();
    assert_eq!(over, ["a1", "a0"], "a disabled agent has its place");

    let published: Vec<_> = report.published(11, |id| id == "a12").map(|agent| agent.id.as_str()).collect();
    assert_eq!(published.len(), 11);
    assert_eq!((published[0], published[10]), ("a11", "a1"), "a hidden one has none");
}

#[test]
fn switches_are_kept_while_an_agent_is_absent() {
    let mut discovery = discovery("/usr/bin");
    assert!(discovery.settings.enable("goose", false));
    let mut disk = Disk::default();
    assert!(disk.report(&discovery).agents.is_empty());
    disk.program("/usr/bin/goose");
    assert!(!disk.report(&discovery).agents[0].enabled);
    assert!(discovery.settings.enable("goose", true));
    assert!(disk.report(&discovery).agents[0].enabled);
}

#[test]
fn ids_may_be_shortened_while_they_name_one() {
    let disk = manifests(&["a", "ab", "abc", "b-x"].map(|id| (id, "")));
    assert!(disk.report(&discovery("")).agents.is_empty());
    let files =
        ["ab", "abc", "b-x"].map(|id| (format!("{id}.json"), format!(r#"{{"id":"{id}","name":"{id}"}}"#)));
    let disk = manifests(&files.each_ref().map(|(name, text)| (name.as_str(), text.as_str())));
    let report = disk.report(&discovery(""));
    assert_eq!(report.find("ab").unwrap().id, "ab", "the whole id is never ambiguous");
    assert_eq!(report.find("b").unwrap().id, "b-x");
    assert_eq!(report.find("c"), Err(Unfound::Unknown));
    assert_eq!(report.find("a"), Err(Unfound::Ambiguous(vec!["ab".into(), "abc".into()])));
}

#[test]
fn an_official_registry_knows_three_ways_of_installing() {
    let registry = Registry::official(OFFICIAL.as_bytes(), "linux-x86_64").unwrap();
    let mut discovery = discovery("/usr/bin");
    discovery.registry = registry;
    let mut disk = Disk::default();
    disk.program("/usr/bin/opencode").program("/usr/bin/fast-agent-acp").program("/usr/bin/droid");
    disk.program("/opt/node_modules/@qwen-code/qwen-code/cli.js");
    disk.link("/usr/bin/qwen", "/opt/node_modules/@qwen-code/qwen-code/cli.js");
    disk.program("/opt/node_modules/@augmentcode/auggie/cli.js");
    disk.link("/usr/bin/auggie", "/opt/node_modules/@augmentcode/auggie/cli.js");
    let report = disk.report(&discovery);
    assert_eq!(ids(&report), ["auggie", "factory-droid", "fast-agent", "opencode", "qwen-code"]);
    let launch = |id| report.find(id).unwrap().launch.clone().unwrap();
    assert_eq!(launch("opencode").argv(), ["/usr/bin/opencode", "acp"]);
    assert_eq!(launch("qwen-code").argv(), ["/usr/bin/qwen", "--acp", "--experimental-skills"]);
    assert_eq!(launch("fast-agent").argv(), ["/usr/bin/fast-agent-acp", "-x"]);
    assert_eq!(launch("auggie").env["AUGMENT_DISABLE_AUTO_UPDATE"].expose(), "1");
    assert_eq!(launch("factory-droid").args, ["exec", "--output-format", "acp"]);

    let gemini = report.skipped.iter().find(|skipped| skipped.id == "gemini").unwrap();
    let fetch = ["npx", "--yes", "@google/gemini-cli@0.27.3", "--experimental-acp"].map(String::from);
    assert_eq!(gemini.why, Skip::NotInstalled(Some(fetch.to_vec())));
}

#[test]
fn a_bad_entry_is_refused_alone() {
    let refused = |platform| Registry::official(OFFICIAL.as_bytes(), platform).unwrap().refused;
    let always = [
        ("codex-acp".to_owned(), Refusal::Reserved),
        ("Bad Id".to_owned(), Refusal::BadId),
        ("numeric-arg".to_owned(), Refusal::Malformed),
        ("?".to_owned(), Refusal::Malformed),
        ("gemini".to_owned(), Refusal::Repeated),
        ("interpreted".to_owned(), Refusal::NoBuild),
    ];
    assert_eq!(refused("linux-x86_64"), always);
    let elsewhere = refused("plan9-mips");
    assert!(elsewhere.contains(&("opencode".to_owned(), Refusal::NoBuild)));
    assert!(!elsewhere.contains(&("gemini".to_owned(), Refusal::NoBuild)), "packages run everywhere");
}

#[test]
fn what_is_no_registry_is_said_to_be_none() {
    for bad in ["", "[]", "{}", "{\"agents\":{}}", "{\"agents\":[", "\u{0}"] {
        assert!(Registry::official(bad.as_bytes(), "linux-x86_64").is_err(), "{bad}");
    }
    let empty = Registry::official(b"\xEF\xBB\xBF{\"version\":\"1.0.0\",\"agents\":[]}", "x").unwrap();
    assert_eq!((empty.entries, empty.refused), (vec![], vec![]));
}
