//! What an agent is offered, for people.

use agentline_core::acp::session::ClientCapabilities;

/// What it may ask for and send beyond the baseline.
pub(crate) fn offers(offers: &ClientCapabilities) -> Vec<&'static str> {
    let session = offers.session;
    named([
        (offers.auth.terminal, "logins in a terminal"),
        (offers.elicitation.form, "forms"),
        (offers.elicitation.url, "pages"),
        (session.config_options.boolean, "options that are on or off"),
        (offers.subagents, "subagents"),
        (session.notices, "notices"),
        (session.compaction, "compaction"),
        (offers.plan, "plans by id"),
    ])
}

/// What is done for it here.
pub(crate) fn hosts(offers: &ClientCapabilities) -> Vec<&'static str> {
    let files = offers.fs.read_text_file && offers.fs.write_text_file;
    named([(offers.terminal, "commands"), (files, "files of the workspace")])
}

fn named<const N: usize>(names: [(bool, &'static str); N]) -> Vec<&'static str> {
    names.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
}
