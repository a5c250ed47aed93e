//! A question of a hub: what it is about, and what can be typed.

use agentline_core::acp::PermissionOption;
use agentline_core::hub::api::{ApprovalBrief, Class};

use crate::ask::{bounded, details, keyed, meant};
use crate::output::{In, Notes, plain};

/// The option that was typed, if that is an answer.
pub(crate) fn chosen<'a>(asked: &'a ApprovalBrief, typed: &str) -> Option<&'a PermissionOption> {
    let word = meant(typed);
    keyed(&asked.options).into_iter().find(|(key, _)| *key == word).map(|(_, option)| option)
}

/// A question on lines of its own: whose it is, what would happen, and what can be chosen.
pub(crate) fn choices(asked: &ApprovalBrief, notes: &Notes) -> Vec<String> {
    let paint = notes.paint();
    let id = plain(&asked.approval_id);
    let about = match (&asked.session_id, &asked.agent) {
        (Some(session), Some(agent)) => format!("{id} · {} · {}", plain(session), plain(agent)),
        (Some(session), None) => format!("{id} · {}", plain(session)),
        (None, Some(agent)) => format!("{id} · {}", plain(agent)),
        (None, None) => id.into_owned(),
    };
    let title = format!(
        "  {} {}  {}",
        In(paint.ask, "?"),
        In(paint.strong, plain(&asked.title)),
        In(paint.dim, about)
    );
    let mut lines = vec![title];
    lines.extend(body(asked, notes, DETAIL));
    lines.extend(keys(asked, notes));
    lines
}

/// What it is about: at most so many lines.
pub(crate) fn body(asked: &ApprovalBrief, notes: &Notes, most: usize) -> Vec<String> {
    let paint = notes.paint();
    let told = match (&asked.call, &asked.args) {
        (Some(call), _) => details(call),
        (None, Some(args)) => vec![plain(args.get()).into_owned()],
        (None, None) => Vec::new(),
    };
    let told = told.into_iter().chain(asked.url.iter().map(|url| plain(url).into_owned())).collect();
    let styled = |line: String| {
        let style = match line.as_bytes().first() {
            Some(b'+') => paint.good,
            Some(b'-') => paint.bad,
            _ => paint.dim,
        };
        format!("      {}", In(style, line))
    };
    bounded(told, most).into_iter().map(styled).collect()
}

fn keys(asked: &ApprovalBrief, notes: &Notes) -> Vec<String> {
    let paint = notes.paint();
    if asked.class == Class::Question {
        let candidates = asked.candidates.iter().map(|word| format!("      {}", plain(word)));
        let id = asked.session_id.as_deref().map_or_else(|| "ID".into(), plain);
        return candidates.chain([format!("  try: agentline session send {id} \"…\"")]).collect();
    }
    let keys = keyed(&asked.options);
    let widest = keys.iter().map(|(key, _)| key.len()).max().unwrap_or_default();
    let row = |(key, option): &(String, &PermissionOption)| {
        format!("      {}  {}", In(paint.strong, format!("{key:widest$}")), plain(option.name.trim()))
    };
    keys.iter().map(row).collect()
}

/// Lines of what it is about, in passing.
pub(super) const DETAIL: usize = 12;
