//! What the fuzzers have found worth keeping, held against the properties again.

use std::fs;
use std::path::Path;

use agentline_tests::cases;

type Property = fn(&[u8]);

/// The fuzz targets, by the name of their corpus.
const TARGETS: [(&str, Property); 28] = [
    ("hub_book", cases::hub_book),
    ("hub_control", cases::hub_control),
    ("hub_world", cases::hub_world),
    ("lines", cases::lines),
    ("rpc", cases::rpc),
    ("one_pass", cases::one_pass),
    ("acp_client", cases::acp_client),
    ("acp_agent", cases::acp_agent),
    ("acp_pair", cases::acp_pair),
    ("attach_caller", cases::attach_caller),
    ("attach_server", cases::attach_server),
    ("chat", cases::chat),
    ("control_client", cases::control_client),
    ("control_server", cases::control_server),
    ("control_world", cases::control_world),
    ("galley_bridge", cases::galley_bridge),
    ("galley_desktop", cases::galley_desktop),
    ("galley_pair", cases::galley_pair),
    ("reverse_acceptor", cases::reverse_acceptor),
    ("reverse_agent", cases::reverse_agent),
    ("reverse_pair", cases::reverse_pair),
    ("trace", cases::trace),
    ("manifest", cases::manifest),
    ("presence", cases::presence),
    ("records", cases::records),
    ("registry", cases::registry),
    ("rules", cases::rules),
    ("settings", cases::settings),
];

#[test]
fn every_corpus_holds() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, property) in TARGETS {
        let mut files = 0;
        for entry in fs::read_dir(corpora.join(target)).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            let held = std::panic::catch_unwind(|| property(&data));
            assert!(held.is_ok(), "{}", path.display());
            files += 1;
        }
        assert!(files > 0, "nothing to replay for {target}");
    }
}

#[test]
fn every_corpus_belongs_to_a_target_and_every_target_has_one() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let names = |folder: &str| {
        let names = fs::read_dir(fuzz.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> =
            names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let mut targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    targets.sort_unstable();
    assert_eq!(names("corpus"), targets);
    assert_eq!(names("fuzz_targets"), targets);
}
