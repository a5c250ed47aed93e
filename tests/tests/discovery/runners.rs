//! Runners of the settings: what makes one, and what is told of one that makes no sense.

use agentline_core::discovery::{Discovery, Reason, Report, Settings};
use agentline_core::trust::{Untrusted, Why};

use crate::disk::Disk;
use crate::{discovery, ids, manifests};

const SETTINGS: &str = "/home/me/.config/agentline/settings.json";

fn report(disk: &Disk, runners: &str) -> Report {
    let settings = Settings::parse(format!("{{\"runners\":{runners}}}").as_bytes()).expect("settings");
    disk.report(&Discovery { settings, ..discovery("/usr/bin:/bin") })
}

fn disk() -> Disk {
    let mut disk = manifests(&[("mine.json", r#"{"id":"mine","name":"Mine","command":"/bin/x"}"#)]);
    disk.program("/bin/x").program("/usr/bin/python3").file(SETTINGS, "{}");
    disk
}

#[test]
fn a_runner_is_an_agent_whose_command_is_searched_like_any_other() {
    let runners = r#"{"galley":{"name":"Galley","command":"python3","args":["-m","runner.workbench_bridge"],
        "cwd":"~/galley","gaPath":"/opt/ga","llmName":"big","env":["KEY"]},"plain":{"command":"/bin/x"}}"#;
    let report = report(&disk(), runners);
    assert_eq!((ids(&report), &*report.problems), (vec!["galley", "mine", "plain"], &[][..]));
    let galley = report.find("galley").expect("a runner");
    let argv = galley.launch.as_ref().expect("a command").argv();
    assert_eq!(argv, ["/usr/bin/python3", "-m", "runner.workbench_bridge"]);
    let runner = galley.origin.runner().expect("it is one");
    assert_eq!(runner.cwd.as_deref(), Some("/home/me/galley".as_ref()));
    assert_eq!(runner.ga_path.as_deref(), Some("/opt/ga".as_ref()));
    let plain = report.find("plain").expect("a runner").origin.runner().expect("it is one");
    let home = Some("/home/me".as_ref());
    assert_eq!((plain.cwd.as_deref(), plain.ga_path.as_deref()), (home, home));
    // It is none of those that are started for a prompt of `run`, and takes no place among them.
    assert_eq!(report.published(11, |_| false).map(|agent| &*agent.id).collect::<Vec<_>>(), ["mine"]);
}

#[test]
fn one_that_makes_no_sense_is_named_and_the_others_count() {
    let of = |id: &str, entry: &str| {
        let report = report(&disk(), &format!("{{\"{id}\":{entry},\"good\":{{\"command\":\"/bin/x\"}}}}"));
        assert_eq!(ids(&report), ["good", "mine"], "{entry}");
        let [problem] = &*report.problems else { panic!("one problem: {:?}", report.problems) };
        assert_eq!(problem.file.to_str(), Some(SETTINGS));
        let Reason::OfRunner { id: named, why } = problem.reason.clone() else { panic!("of a runner") };
        assert_eq!(named, id);
        *why
    };
    let invalid = |entry: &str| {
        let Reason::InvalidRunner(why) = of("bad", entry) else { panic!("invalid: {entry}") };
        why
    };
    assert_eq!(invalid("{}"), "missing field `command`");
    assert!(invalid(r#"{"command":"/bin/x","arg":[]}"#).starts_with("unknown field `arg`"));
    assert_eq!(
        invalid(r#"{"command":"/bin/x","args":"hunter2"}"#),
        "a field is of another type: a sequence is expected"
    );
    assert_eq!(invalid(r#"{"command":"/bin/x","cwd":"here"}"#), "cwd is no absolute path");
    assert!(invalid(r#"{"command":"/bin/x","env":["KEY=hunter2"]}"#).contains("no `=`"));
    assert_eq!(of("Bad", r#"{"command":"/bin/x"}"#), Reason::BadId);
    assert_eq!(of("codex", r#"{"command":"/bin/x"}"#), Reason::ReservedId { id: "codex".into() });
    assert_eq!(of("mine", r#"{"command":"/bin/x"}"#), Reason::TakenId { id: "mine".into() });
    assert_eq!(of("bad", r#"{"command":"gone"}"#), Reason::CommandNotFound { command: "gone".into() });
    assert_eq!(of("bad", r#"{"command":"/gone"}"#).code(), "command_missing");
}

#[test]
fn commands_of_settings_that_others_can_write_are_not_run() {
    let mut disk = disk();
    disk.untrusted.insert(SETTINGS.into(), Why::Writable(0o666));
    let report = report(&disk, r#"{"galley":{"command":"/bin/x"}}"#);
    assert_eq!(ids(&report), ["mine"]);
    let why = Reason::Untrusted(Untrusted { path: SETTINGS.into(), why: Why::Writable(0o666) });
    assert_eq!(report.problems[0].reason, Reason::OfRunner { id: "galley".into(), why: Box::new(why) });
}

#[test]
fn the_variables_of_a_runner_are_names() {
    let settings = r#"{"runners":{"g":{"command":"x","env":["KEY"]}},"agents":{"g":{"env":["MORE"]}}}"#;
    let settings = Settings::parse(settings.as_bytes()).expect("settings");
    let mut names: Vec<&str> = settings.env_names("g").collect();
    names.sort_unstable();
    assert_eq!(names, ["KEY", "MORE"]);
}
