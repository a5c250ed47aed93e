//! What of our environment an agent gets: nothing that looks like a credential, unless it is given by name
//! (the Agent Note *ACP subagent backend*, on the environment).

use std::ffi::{OsStr, OsString};

use crate::secret::Secret;

/// An environment for a child.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scrubbed {
    /// Everything it gets, each name once.
    pub env: Vec<(OsString, Secret<OsString>)>,
    /// The names of what it does not get.
    pub withheld: Vec<OsString>,
}

/// Leaves out of `ours` what looks like a credential and what is meant for us, then lays `given` over it.
///
/// Withheld is each name with KEY, PASSWORD, SECRET or TOKEN anywhere in it, or with DSH_ or AGENTLINE_ in
/// front, in any case. So MONKEY and KEYBOARD are withheld too: a rule that a person can remember. And what
/// [marks](is_marker) the programs of a surrounding agent.
#[must_use]
pub fn scrub(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    given: impl IntoIterator<Item = (OsString, OsString)>,
) -> Scrubbed {
    let given: Vec<(OsString, OsString)> = given.into_iter().collect();
    let is_given = |name: &OsStr| given.iter().any(|(over, _)| over == name);
    let mut scrubbed = Scrubbed::default();
    for (name, value) in ours {
        if is_given(&name) {
            continue;
        }
        if is_withheld(&name) {
            scrubbed.withheld.push(name);
        } else {
            scrubbed.env.push((name, Secret::new(value)));
        }
    }
    for (at, (name, value)) in given.iter().enumerate() {
        // Of two values for one name, the later one counts.
        if !given.iter().skip(at + 1).any(|(later, _)| later == name) {
            scrubbed.env.push((name.clone(), Secret::new(value.clone())));
        }
    }
    scrubbed.withheld.sort();
    scrubbed
}

/// Whether a variable says that we run inside another agent. Some agents refuse to start then, and others change
/// their ways.
#[must_use]
pub fn is_marker(name: &OsStr) -> bool {
    MARKERS.iter().any(|marker| name == *marker)
}

/// Whether a variable of that name stays with us.
#[must_use]
pub fn is_withheld(name: &OsStr) -> bool {
    if is_marker(name) {
        return true;
    }
    let name = name.as_encoded_bytes().to_ascii_uppercase();
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
    CREDENTIALS.iter().any(|word| has(word)) || OURS.iter().any(|front| name.starts_with(front))
}

const CREDENTIALS: [&[u8]; 4] = [b"KEY", b"PASSWORD", b"SECRET", b"TOKEN"];
const OURS: [&[u8]; 2] = [b"DSH_", b"AGENTLINE_"];
/// What agents set for the programs that they start. Not those of a sandbox, which is around us all the same.
const MARKERS: [&str; 9] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLINE_ACTIVE",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "GOOSE_TERMINAL",
    "OPENCODE",
    "QWEN_CODE",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(names: &[&str]) -> Vec<(OsString, OsString)> {
        names.iter().map(|name| (name.into(), "x".into())).collect()
    }

    #[test]
    fn credentials_stay_unless_they_are_given() {
        let ours = vars(&[
            "MONKEY",
            "KEYBOARD",
            "github_token",
            "my_password",
            "AWS_SECRET_ACCESS_KEY",
            "dsh_low",
            "AGENTLINE_HOME",
            "PASSPHRASE",
            "CREDENTIALS",
            "AUTHX",
            "CLAUDECODE",
            "PATH",
            "DEEPSEEK_API_KEY",
        ]);
        let given = vars(&["DEEPSEEK_API_KEY", "DSH_X", "AGENTLINE_SOCKET"]);
        let Scrubbed { env, withheld } = scrub(ours, given);
        let names: Vec<_> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(
            names,
            ["PASSPHRASE", "CREDENTIALS", "AUTHX", "PATH", "DEEPSEEK_API_KEY", "DSH_X", "AGENTLINE_SOCKET"]
        );
        assert_eq!(
            withheld,
            [
                "AGENTLINE_HOME",
                "AWS_SECRET_ACCESS_KEY",
                "CLAUDECODE",
                "KEYBOARD",
                "MONKEY",
                "dsh_low",
                "github_token",
                "my_password"
            ]
        );
    }

    #[test]
    fn the_later_of_two_given_values_counts() {
        let given = [("A".into(), "1".into()), ("B".into(), "".into()), ("A".into(), "2".into())];
        let Scrubbed { env, .. } = scrub(vars(&["A"]), given);
        let shown: Vec<_> =
            env.iter().map(|(name, value)| (name.to_str(), value.expose().to_str())).collect();
        assert_eq!(shown, [(Some("B"), Some("")), (Some("A"), Some("2"))]);
    }
}
