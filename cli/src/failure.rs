//! What went wrong, in the words of this command line: the cause, and a line that can be pasted.

use std::ffi::OsStr;
use std::fmt::Write;
use std::rc::Rc;

use agentline_core::problem::{Failed, RootCause};
use agentline_core::subagent::env::is_marker;
use agentline_core::subagent::{By, Decision, Finished, Outcome, Verdict};
use agentline_core::trace::Masks;

use crate::output::{In, Paint, Start, plain, span};
use crate::schema::Schema;
use crate::words::{Ended, Kind, Phase, Problem, Subject, Verb, command_line, problem};

/// A problem of a command that runs no agent.
pub(crate) fn explain(problem: &Problem, paint: Paint) -> String {
    Advice::default().explain(problem, false, paint)
}

/// What can be said about a run beyond what the core knows of it.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    pub(crate) whose: Whose,
    /// The command that runs the agent.
    pub(crate) verb: Verb,
    /// What it starts.
    pub(crate) start: Start,
    /// Who decides about permissions, when that is no person.
    pub(crate) policy: &'static str,
    /// Nobody chose that policy: there was nobody to ask.
    pub(crate) by_default: bool,
    /// Somebody chose to have things refused: what ran without asking is worth a word.
    pub(crate) guards: bool,
    /// All that the agent writes to standard error is wanted.
    pub(crate) verbose: bool,
    /// Of the answer, the last message is wanted, and no other.
    pub(crate) last: bool,
    /// What the last message must be.
    pub(crate) schema: Option<Rc<Schema>>,
    /// What nobody may be shown.
    pub(crate) masks: Rc<Masks>,
    /// Our own command line, after the program.
    pub(crate) words: Vec<String>,
}

/// Which agent runs, for what is said when it fails.
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

    /// The end of a run or a turn, with what is to be said about it.
    pub(crate) fn ended(&self, mut finished: Finished) -> Ended {
        let mut json = None;
        if finished.outcome == Outcome::Completed && self.schema.is_some() {
            // An agent that has gone before its answer was judged leaves it as it is.
            let message = finished.messages().last().unwrap_or_default();
            match self.judge(message, finished.output_truncated) {
                Ok(value) => json = Some(value.to_owned()),
                Err(why) => {
                    finished.outcome = Outcome::Error;
                    finished.error = Some(Failed::new(Phase::Prompt, RootCause::Unwanted { why }));
                }
            }
        }
        let problem = finished.error.as_ref().map(|failed| self.failed(failed));
        let refused = |asked: &Decision| asked.by == By::Policy && asked.decision != Verdict::Allowed;
        let unasked = self.by_default && finished.permissions.iter().any(refused);
        Ended { finished, problem, unasked, json }
    }

    /// The last message as what it must be, or what is wrong with it.
    pub(crate) fn judge<'a>(&self, message: &'a str, truncated: bool) -> Result<&'a str, String> {
        match &self.schema {
            _ if truncated => Err("the answer is too long".into()),
            Some(schema) => schema.judge(message),
            None => Ok(message),
        }
    }

    /// A failure, with what is to be said about it.
    pub(crate) fn failed(&self, failed: &Failed) -> Problem {
        self.improved(problem(failed, self.subject()))
    }

    fn subject(&self) -> Subject<'_> {
        let Start { name, agent, command, .. } = &self.start;
        Subject {
            name,
            id: agent.as_deref(),
            command: command.as_deref().unwrap_or_default(),
            verb: self.verb,
        }
    }

    /// With the next step of this very command line.
    pub(crate) fn improved(&self, problem: Problem) -> Problem {
        let names = self.missed(&problem);
        let problem = if names.is_empty() { problem } else { problem.hint(self.again_with(&names)) };
        problem.masked(&self.masks)
    }

    /// The problem for people. `stderr`: whether what the agent wrote there has not been seen yet.
    pub(crate) fn explain(&self, problem: &Problem, stderr: bool, paint: Paint) -> String {
        let mut text = format!("{} {}", In(paint.bad, "✗"), plain(&problem.message));
        if let (Kind::Exited | Kind::Signalled, Some(lived)) = (problem.kind, problem.lived) {
            let _ = write!(text, " after {}", span(lived));
        }
        if let (Phase::Spawn | Phase::Initialize, Some(command), Whose::Theirs) =
            (problem.phase, &self.start.command, &self.whose)
        {
            let _ = write!(text, "\n  command: {}", plain(&command_line(command)));
        }
        if let Some(tail) = problem.stderr_tail.as_deref().filter(|_| stderr) {
            let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
            for (at, line) in lines.iter().skip(lines.len().saturating_sub(TAIL)).enumerate() {
                let head = if at == 0 { "stderr: " } else { "        " };
                let _ = write!(text, "\n  {head}{}", In(paint.dim, plain(line)));
            }
        }
        for line in self.withheld(problem) {
            let _ = write!(text, "\n  {line}");
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

    /// What was withheld and may be the reason: what the agent may have missed, and for a login what marks the programs
    /// of an agent around us, of which none is needed.
    pub(crate) fn withheld(&self, problem: &Problem) -> Vec<String> {
        let marks = || self.start.withheld.iter().map(String::as_str).filter(|name| is_mark(name));
        let marks: Vec<&str> = if problem.kind == Kind::NeedsLogin { marks().collect() } else { Vec::new() };
        let lines = [
            ("withheld from the agent, by name", self.missed(problem)),
            ("withheld as marks of the agent that we run in", marks),
        ];
        let said = lines.into_iter().filter(|(_, names)| !names.is_empty());
        said.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect()
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
        let is_theirs = |name: &&str| !name.starts_with("AGENTLINE_") && !is_mark(name);
        let all = || self.start.withheld.iter().map(String::as_str).filter(is_theirs);
        let named: Vec<&str> = all().filter(names).collect();
        if named.is_empty() && login { all().collect() } else { named }
    }

    /// This command line again, passing these variables on.
    fn again_with(&self, names: &[&str]) -> String {
        let is_verb = |word: &String| matches!(&**word, "run" | "chat" | "check");
        let verb = self.words.iter().position(is_verb).map_or(0, |at| at + 1);
        let (before, after) = self.words.split_at(verb);
        let given = names.iter().flat_map(|name| ["-e", name]);
        let before = std::iter::once("agentline").chain(before.iter().map(String::as_str));
        let words = before.chain(given).chain(after.iter().map(String::as_str));
        // First masked, then quoted: quotes spell a secret in yet another way.
        words.map(|word| quoted(&self.masks.text(word))).collect::<Vec<_>>().join(" ")
    }
}

/// Whether a variable of that name marks the programs of an agent.
fn is_mark(name: &str) -> bool {
    is_marker(OsStr::new(name))
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
    use std::time::Duration;

    use super::*;

    fn advice(withheld: &[&str]) -> Advice {
        let start = Start {
            withheld: withheld.iter().map(|name| (*name).to_owned()).collect(),
            command: Some(["./my-agent", "--acp"].map(Into::into).into()),
            ..Start::default()
        };
        Advice {
            start,
            words: ["run", "fix it", "--", "./my-agent", "--acp"].map(Into::into).into(),
            ..Advice::default()
        }
    }

    fn told(advice: &Advice, problem: Problem) -> String {
        advice.explain(&advice.improved(problem), true, Paint::default())
    }

    #[test]
    fn a_missing_variable_is_named_with_a_line_to_paste() {
        let mut problem =
            Problem::new(Phase::Initialize, Kind::Exited, "my-agent exited during initialize with code 3");
        problem.lived = Some(Duration::from_millis(200));
        problem.stderr_tail = Some("Error: GEMINI_API_KEY is not set\n".into());
        assert_eq!(
            told(&advice(&["GEMINI_API_KEY", "MONKEY"]), problem),
            "\
✗ my-agent exited during initialize with code 3 after 0.2 s
  command: ./my-agent --acp
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
    fn d8_marks_of_an_agent_around_us_are_told_but_never_passed_on() {
        let login = Problem::new(Phase::Session, Kind::NeedsLogin, "the agent wants a login: who are you?");
        let text = told(&advice(&["A_KEY", "CLAUDECODE", "GEMINI_CLI"]), login);
        assert!(
            text.ends_with(
                "\n  withheld from the agent, by name: A_KEY\n  withheld as marks of the agent that we run in: \
                 CLAUDECODE, GEMINI_CLI\n  try: agentline run -e A_KEY \"fix it\" -- ./my-agent --acp"
            ),
            "{text}"
        );
    }

    #[test]
    fn g3_a_secret_is_not_in_the_line_to_paste() {
        let secret = "it's a $ecret";
        let mut advice = advice(&["A_KEY"]);
        advice.masks = Rc::new(Masks::new(&[secret.as_bytes().to_vec().into()]));
        advice.words.splice(1..1, ["-e".into(), format!("B_KEY={secret}")]);
        let mut login = Problem::new(Phase::Session, Kind::NeedsLogin, format!("no account for {secret}"));
        login.stderr_tail = Some(format!("B_KEY={secret}"));
        let text = told(&advice, login);
        assert!(!text.contains("ecret\"") && !text.contains("$ecret"), "{text}");
        assert!(text.contains("B_KEY=‹secret 1›"), "{text}");
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
