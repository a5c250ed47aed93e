//! What is read from files, whatever is in them.

use agentline_tests::cases;
use agentline_tests::dice::noise;

#[test]
fn rules_are_read_or_refused_and_a_project_is_only_stricter() {
    many(cases::rules);
}

#[test]
fn records_of_a_hub_are_read_or_put_aside() {
    many(cases::records);
}

#[test]
fn settings_are_read_as_they_were_written() {
    many(cases::settings);
}

#[test]
fn records_of_sessions_name_no_other_folder() {
    many(cases::presence);
}

#[test]
fn a_manifest_disturbs_no_other() {
    many(cases::manifest);
}

#[test]
fn a_registry_finds_nothing_where_nothing_is() {
    many(cases::registry);
}

fn many(property: fn(&[u8])) {
    (0..1000).for_each(|seed| property(&noise(seed, 600)));
}
