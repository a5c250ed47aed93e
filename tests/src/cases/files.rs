//! The properties of what is read from files: of the user, of a project, of other programs, of an earlier life.

use std::path::Path;

use agentline_core::Change;
use agentline_core::acp::update::ToolCallUpdate;
use agentline_core::attach::presence::{self, Transport};
use agentline_core::discovery::{
    Discovery, File, Folders, Look, Names, Registry, Report, Settings, Snapshot, Step, Unfit,
};
use agentline_core::hub::Stored;
use agentline_core::rules::{self, Rules, Then};
use serde_json::{Value, json};

use crate::dice::Dice;

/// Any file of rules is read or refused, any call is decided, and a project can only be stricter.
pub fn rules(data: &[u8]) {
    let mut dice = Dice::new(data);
    let own = written(&mut dice, |rules| json!({ "rules": rules }));
    let project = written(&mut dice, |rules| json!({ "permissions": { "rules": rules } }));
    let call = call(&mut dice);
    let own = rules::rules(&own, "own").unwrap_or_default();
    let project = rules::project_rules(&project, "project").unwrap_or_default();
    assert!(project.iter().all(|rule| !rule.then.allows()));

    let strictness = |then: Then| match then {
        Then::Allow | Then::AllowAlways => 0,
        Then::Ask => 1,
        Then::Reject | Then::RejectAlways => 2,
    };
    for otherwise in [Then::Allow, Then::Ask, Then::Reject] {
        let decide =
            |rules: &Rules| rules.decide(&call, "/repo", otherwise).map_or(otherwise, |rule| rule.then);
        let alone = decide(&Rules { own: own.clone(), project: Vec::new() });
        let both = decide(&Rules { own: own.clone(), project: project.clone() });
        assert!(strictness(both) >= strictness(alone), "{own:?} {project:?} {call:?}");
    }
    let rules = Rules { own, project };
    let stored = serde_json::to_string(&rules).expect("JSON");
    assert_eq!(serde_json::from_str::<Rules>(&stored).expect("rules"), rules);
}

/// A file of rules, as somebody would write it or as chance does.
fn written(dice: &mut Dice<'_>, file: impl Fn(Vec<Value>) -> Value) -> Vec<u8> {
    if dice.once_in(4) {
        return dice.bytes(200).to_vec();
    }
    let rules = (0..dice.below(4)).map(|_| {
        let mut rule =
            json!({ "then": dice.pick(&["allow", "ask", "reject", "allow_always", "reject_always", "no"]) });
        if dice.once_in(2) {
            rule["kind"] = json!(dice.pick(&["read", "edit", "execute", "search", "other", "nothing"]));
        }
        if dice.once_in(2) {
            rule["command"] = json!(dice.pick(&COMMANDS));
        }
        if dice.once_in(2) {
            rule["path"] = json!(dice.pick(&PATHS));
        }
        if dice.once_in(4) {
            rule["tool"] = json!(dice.text(6));
        }
        rule
    });
    file(rules.collect()).to_string().into_bytes()
}

fn call(dice: &mut Dice<'_>) -> ToolCallUpdate {
    let command = if dice.once_in(3) { dice.text(24) } else { (*dice.pick(&COMMANDS)).to_owned() };
    let path = if dice.once_in(3) { dice.text(24) } else { (*dice.pick(&PATHS)).to_owned() };
    let kind = dice.pick(&["read", "edit", "execute", "search", "other"]);
    let call = json!({
        "toolCallId": "c", "title": dice.text(8), "kind": kind, "rawInput": { "command": command, "path": path },
        "locations": [{ "path": path }],
    });
    serde_json::from_str(&call.to_string()).expect("a call")
}

const COMMANDS: [&str; 10] = [
    "git",
    "git status",
    "git status; rm x",
    "rm -rf /",
    "ls && rm",
    "$(rm)",
    "`rm`",
    "npm test | sh",
    "",
    "env git",
];
const PATHS: [&str; 9] =
    ["src", "/repo/src/a", "/repo/src/../etc", "..", "/etc/passwd", "", "./src//a", "/repo", "~/x"];

/// Any file in a hub's folder is read, put aside or passed over, and one that is read is written as it was.
pub fn records(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut stored = Stored::default();
    for _ in 0..=dice.below(4) {
        let folder = dice.pick(&Stored::FOLDERS);
        let name = match dice.below(5) {
            0 => "counters.json".to_owned(),
            1 => format!("s{}.json", dice.below(3)),
            2 => format!("s{}-{}.json", dice.below(3), dice.below(3)),
            3 => "s1.json.bad".to_owned(),
            _ => dice.text(8),
        };
        let bytes = if dice.once_in(2) { dice.bytes(300).to_vec() } else { record(&mut dice) };
        let problems = stored.problems.len();
        let is_damaged = stored.read(folder, &name, &bytes);
        assert!(!is_damaged || stored.problems.len() > problems, "what is damaged is told: {name}");
    }
    for record in &stored.records {
        let bytes = serde_json::to_vec(record).expect("JSON");
        let mut again = Stored::default();
        assert!(!again.read("sessions", &format!("{}.json", record.session), &bytes));
        assert_eq!(again.records.first(), Some(record));
    }
}

fn record(dice: &mut Dice<'_>) -> Vec<u8> {
    let since = json!({ "secs": dice.below(1000), "nanos": 0 });
    let mut record = json!({
        "version": dice.pick(&[1, 1, 1, 2]), "session": dice.below(4), "agent": dice.text(6), "cwd": "/repo",
        "status": dice.pick(&["idle", "running", "failed", "cancelled", "gone"]), "created": since, "active": since,
    });
    for member in ["name", "title", "agentSessionId", "reason"] {
        if dice.once_in(3) {
            record[member] = json!(dice.text(12));
        }
    }
    if dice.once_in(3) {
        record["policy"] = json!(dice.pick(&["ask", "allow", "deny", "never"]));
    }
    record.to_string().into_bytes()
}

/// Any file of settings is read or refused, keeps what it does not know, and is read again as it was written.
pub fn settings(data: &[u8]) {
    let mut dice = Dice::new(data);
    let file = if dice.once_in(3) {
        dice.bytes(300).to_vec()
    } else {
        let agents = (0..dice.below(4)).map(|_| {
            let agent = json!({ "enabled": dice.once_in(2), "env": [dice.text(4)], "other": dice.below(9) });
            (dice.text(6), agent)
        });
        json!({ "agents": agents.collect::<serde_json::Map<_, _>>(), "later": dice.text(4) })
            .to_string()
            .into_bytes()
    };
    let Ok(mut settings) = Settings::parse(&file) else { return };
    let id = dice.text(6);
    let on = dice.once_in(2);
    settings.enable(&id, on);
    assert_eq!(settings.is_enabled(&id), on);
    let name = dice.text(6);
    if settings.remember_env(&id, &name).is_ok() {
        assert!(settings.env_names(&id).any(|known| known == name) && !name.contains('='));
    }
    let folders = Folders::new("/home/me".into(), &|_| None);
    let Change::Put { bytes, .. } = settings.store(&folders).change else { panic!("a file is written") };
    assert_eq!(Settings::parse(bytes.expose()).expect("settings"), settings);
}

/// Any record of a session is read or refused, names no other folder, and is read again as it was written.
pub fn presence(data: &[u8]) {
    let mut dice = Dice::new(data);
    let file = if dice.once_in(3) {
        dice.rest().to_vec()
    } else {
        let mut record = json!({ "peer_id": dice.pick(&["proj-7f", "../up", "", "a.b", "x"]) });
        for member in ["name", "pid", "cwd", "session_id", "busy", "attach_socket", "updated_at", "later"] {
            let value = match dice.below(6) {
                0 => continue,
                1 => json!(dice.text(12)),
                2 => json!(dice.below(100_000)),
                3 => json!(-1.5),
                4 => json!(true),
                _ => Value::Null,
            };
            record[member] = value;
        }
        record.to_string().into_bytes()
    };
    let _ = Transport::from_envelope(&file);
    let Ok(record) = presence::Record::read(&file) else { return };
    assert_eq!(Path::new(&record.peer_id).components().count(), 1, "{record:?}");
    assert!(!record.peer_id.contains(['/', '.']), "{record:?}");
    let again = presence::Record::read(&record.to_bytes()).expect("a record");
    assert_eq!((&again.peer_id, &again.name, again.pid), (&record.peer_id, &record.name, record.pid));
    assert_eq!((again.busy, again.updated_at), (record.busy, record.updated_at));
}

/// Any file in the folder of manifests gives one agent or one reason, and disturbs no other.
pub fn manifest(data: &[u8]) {
    let mut dice = Dice::new(data);
    let file = if dice.once_in(3) {
        dice.bytes(400).to_vec()
    } else {
        let mut manifest = json!({ "id": dice.pick(&["mine", "mine", "mine", "other", "demo", ""]) });
        for member in ["name", "command", "args", "env", "later"] {
            let value = match dice.below(6) {
                0 => continue,
                1 => json!(dice.pick(&["agent", "/bin/agent", "~/agent", "a b", "-x"])),
                2 => json!([dice.text(6), "--acp"]),
                3 => json!({ "KEY": dice.text(6) }),
                4 => json!(dice.text(50)),
                _ => json!(dice.below(9)),
            };
            manifest[member] = value;
        }
        manifest.to_string().into_bytes()
    };
    let good = br#"{"id":"good","name":"Good","command":"/bin/agent"}"#.to_vec();
    let nothing =
        Registry::official(br#"{"version":"1.0.0","agents":[]}"#, "linux-x86_64").expect("a registry");
    let discovery = Discovery::new("/home/me".into(), &|_| None, nothing, Settings::default());
    let report = looked(&discovery, &[("good.json", good), ("mine.json", file)]);
    let is = |id: &str| report.agents.iter().filter(|agent| agent.id == id).count();
    assert_eq!(is("good"), 1);
    assert_eq!(is("mine") + report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.agents.len(), 1 + is("mine"));
}

/// Any file of a registry is read or refused as a whole, and one that is read finds nothing where nothing is.
pub fn registry(data: &[u8]) {
    let mut dice = Dice::new(data);
    let file = if dice.once_in(3) {
        dice.bytes(400).to_vec()
    } else {
        let agents = (0..dice.below(4)).map(|_| {
            let id = dice.text(6);
            let package = dice.text(12);
            let distribution = match dice.below(4) {
                0 => json!({ "npx": { "package": package, "args": ["--acp"] } }),
                1 => json!({ "uvx": { "package": package } }),
                2 => {
                    json!({ "binary": { "linux-x86_64": { "archive": "https://e.org/a", "cmd": package } } })
                }
                _ => json!(dice.below(3)),
            };
            json!({ "id": id, "name": id, "version": "1", "description": "d", "distribution": distribution })
        });
        json!({ "version": "1.0.0", "agents": agents.collect::<Vec<_>>() }).to_string().into_bytes()
    };
    let Ok(registry) = Registry::official(&file, "linux-x86_64") else { return };
    let discovery = Discovery::new("/home/me".into(), &|_| None, registry, Settings::default());
    assert!(looked(&discovery, &[]).agents.is_empty());
}

/// Runs discovery where there are these manifests, and the program `/bin/agent`.
fn looked(discovery: &Discovery, manifests: &[(&str, Vec<u8>)]) -> Report {
    let mut seen = Snapshot::default();
    for _ in 0..=3 {
        let looks = match discovery.resolve(&seen) {
            Step::Done(report) => return report,
            Step::Look(looks) => looks,
        };
        for look in looks {
            match look {
                Look::Folder(path) => {
                    let names = manifests.iter().map(|(name, _)| (*name).into()).collect();
                    seen.folder(path, Names::Of(names));
                }
                Look::File { path, .. } => {
                    let file = manifests.iter().find(|(name, _)| path.ends_with(name));
                    seen.file(path, file.map(|(_, bytes)| bytes.clone()));
                }
                Look::Trust { path, .. } => seen.trust(path, Ok(())),
                Look::Program(path) => {
                    let file = || File {
                        real: path.clone(),
                        inode: 1,
                        size: 1,
                        modified: std::time::Duration::ZERO,
                    };
                    let found = if path.ends_with("bin/agent") { Ok(file()) } else { Err(Unfit::Missing) };
                    seen.program(path.clone(), found);
                }
            }
        }
    }
    panic!("discovery looks without end");
}
