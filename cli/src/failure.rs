//! What went wrong, in the words of this command line: the cause, and a line that can be pasted.

use std::fmt::Write;
use std::time::Duration;

use agentline_core::discovery::command_line;
use agentline_core::problem::{Kind, Phase, Problem};

use crate::output::{In, Paint, plain, span};

/// A problem of a command that runs no agent.
pub(crate) fn explain(problem: &Problem, paint: Paint) -> String {
    Advice::default().explain(problem, "the agent", None, false, paint)
}

/// What can be said about a run beyond what the core knows of it.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    pub(crate) whose: Whose,
    /// Names of variables that the agent did not get.
    pub(crate) withheld: Vec<String>,
    /// Who decides about permissions, when that is no person.
    pub(crate) policy: &'static str,
    /// Our own command line, after the program.
    pub(crate) words: Vec<String>,
}

/// Which agent runs.
#[derive(Clone, Debug, Default)]
pub(crate) enum Whose {
    #[default]
    Theirs,
    /// The demo agent, as it was asked for.
    Demo,
    /// The demo agent, since nobody said which. With the ids of those that are installed.
    Fallback(Vec<String>),
}

impl Advice {
    pub(crate) fn is_demo(&self) -> bool {
        matches!(self.whose, Whose::Demo | Whose::Fallback(_))
    }

    /// Puts the next step of this very command line into the problem.
    pub(crate) fn improve(&self, problem: &mut Problem) {
        let names = self.missed(problem);
        if !names.is_empty() {
            problem.hint = Some(self.again_with(&names));
        }
    }

    /// The problem for people. `stderr`: whether what the agent wrote there has not been seen yet.
    pub(crate) fn explain(
        &self,
        problem: &Problem,
        name: &str,
        took: Option<Duration>,
        stderr: bool,
        paint: Paint,
    ) -> String {
        let message = match problem.message.strip_prefix("the agent") {
            Some(rest) => format!("{name}{rest}"),
            None => problem.message.clone(),
        };
        let mut text = format!("{} {}", In(paint.bad, "✗"), plain(&message));
        if let (Kind::Exited | Kind::Signalled, Some(took)) = (problem.kind, took) {
            let _ = write!(text, " after {}", span(took));
        }
        if let Some(tail) = problem.stderr_tail.as_deref().filter(|_| stderr) {
            let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
            for (at, line) in lines.iter().skip(lines.len().saturating_sub(TAIL)).enumerate() {
                let head = if at == 0 { "stderr: " } else { "        " };
                let _ = write!(text, "\n  {head}{}", In(paint.dim, plain(line)));
            }
        }
        let names = self.missed(problem);
        if !names.is_empty() {
            let _ = write!(text, "\n  withheld from the agent, by name: {}", names.join(", "));
        }
        if let Some(hint) = &problem.hint {
            let _ = write!(text, "\n  try: {}", plain(hint));
        }
        text
    }

    /// How permissions are decided here, to be read after a decision.
    pub(crate) fn about_policy(&self) -> String {
        format!(" ({})", self.policy)
    }

    /// What a newcomer may want to do next.
    pub(crate) fn next_steps(&self) -> Option<[String; 2]> {
        let Whose::Fallback(installed) = &self.whose else { return None };
        let other = match installed.first() {
            Some(first) => {
                let (named, more) = installed.split_at(installed.len().min(NAMED));
                let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
                format!("agentline run --agent {first} \"…\" (installed: {}{more})", named.join(", "))
            }
            None => "agentline run \"…\" -- CMD (no agent is installed)".into(),
        };
        Some(["agentline run ask".into(), other])
    }

    /// The withheld variables that the agent may have missed: those it names, or for a login all of them.
    fn missed(&self, problem: &Problem) -> Vec<&str> {
        let before_the_turn =
            matches!(problem.phase, Phase::Initialize | Phase::Authenticate | Phase::Session);
        let login = problem.kind == Kind::NeedsLogin;
        if !login && !before_the_turn {
            return Vec::new();
        }
        let said = [Some(&problem.message), problem.stderr_tail.as_ref()];
        let names = |name: &&str| said.into_iter().flatten().any(|text| text.contains(*name));
        let all = || self.withheld.iter().map(String::as_str).filter(|name| !name.starts_with("AGENTLINE_"));
        let named: Vec<&str> = all().filter(names).collect();
        if named.is_empty() && login { all().collect() } else { named }
    }

    /// This command line again, passing these variables on.
    fn again_with(&self, names: &[&str]) -> String {
        let verb = self.words.iter().position(|word| word == "run" || word == "chat").map_or(0, |at| at + 1);
        let (before, after) = self.words.split_at(verb);
        let given = names.iter().flat_map(|name| ["-e", name]);
        let before = std::iter::once("agentline").chain(before.iter().map(String::as_str));
        let words = before.chain(given).chain(after.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// A word for a shell, in double quotes where that is enough.
fn quoted(word: &str) -> String {
    if word.len() > LONG {
        return "…".into();
    }
    let single = command_line(&[word.to_owned()]);
    let is_simple = !word.contains(['"', '\\', '$', '`', '!']) && !word.contains(char::is_control);
    if single != word && is_simple { format!("\"{word}\"") } else { single }
}

/// Agents that are named.
const NAMED: usize = 5;
/// Lines of standard error that are shown.
const TAIL: usize = 5;
/// Bytes of an argument that is worth repeating.
const LONG: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(withheld: &[&str]) -> Advice {
        Advice {
            withheld: withheld.iter().map(|name| (*name).to_owned()).collect(),
            words: ["run", "fix it", "--", "./my-agent", "--acp"].map(Into::into).into(),
            ..Advice::default()
        }
    }

    fn told(advice: &Advice, mut problem: Problem) -> String {
        advice.improve(&mut problem);
        advice.explain(&problem, "my-agent", Some(Duration::from_millis(200)), true, Paint::default())
    }

    #[test]
    fn a_missing_variable_is_named_with_a_line_to_paste() {
        let mut problem =
            Problem::new(Phase::Initialize, Kind::Exited, "the agent exited during initialize with code 3");
        problem.stderr_tail = Some("Error: GEMINI_API_KEY is not set\n".into());
        assert_eq!(
            told(&advice(&["GEMINI_API_KEY", "MONKEY"]), problem),
            "\
✗ my-agent exited during initialize with code 3 after 0.2 s
  stderr: Error: GEMINI_API_KEY is not set
  withheld from the agent, by name: GEMINI_API_KEY
  try: agentline run -e GEMINI_API_KEY \"fix it\" -- ./my-agent --acp"
        );
    }

    #[test]
    fn a_login_may_need_any_of_them_but_never_ours() {
        let login =
            || Problem::new(Phase::Session, Kind::NeedsLogin, "the agent wants a login: who are you?");
        let text = told(&advice(&["A_KEY", "AGENTLINE_X_TOKEN", "B_TOKEN"]), login());
        assert!(
            text.contains("by name: A_KEY, B_TOKEN\n  try: agentline run -e A_KEY -e B_TOKEN \"fix it\""),
            "{text}"
        );
        let text = told(&advice(&[]), login().hint("log in by hand"));
        assert!(text.ends_with("\n  try: log in by hand"), "{text}");
    }

    #[test]
    fn words_can_be_pasted() {
        for (word, shown) in
            [("plain", "plain"), ("a b", "\"a b\""), ("a $b", "'a $b'"), ("", "\"\""), ("it's", "\"it's\"")]
        {
            assert_eq!(quoted(word), shown);
        }
    }
}
