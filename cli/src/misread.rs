//! A command line that makes no sense: what is wrong with it, and one that does.
//!
//! The parser's own advice is for programs where plain words follow `--`. Here an agent's command does, so that advice
//! would send a prompt to nobody.

use std::error::Error as _;
use std::ffi::OsString;

use crate::words::Problem;
use crate::words::command_line;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error, Parser};

use crate::args::{Cli, Verb};
use crate::nearest;
use crate::prompt::usage;

/// Reads a command line. A prompt may begin with a dash where it cannot be an option.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, Error> {
    let error = match Cli::try_parse_from(words) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let is_prompt = |word: &OsString| word.to_str().is_some_and(is_prompt);
    let Some(at) = words[..end].iter().position(is_prompt) else { return Err(error) };
    let mut shielded = words.to_vec();
    shielded[at] = OsString::from(" ");
    shielded[at].push(&words[at]);
    let Ok(mut cli) = Cli::try_parse_from(shielded) else { return Err(error) };
    let Verb::Run(run) = &mut cli.verb else { return Err(error) };
    run.prompt = run.prompt.take().map(|prompt| prompt.trim_start_matches(' ').to_owned());
    Ok(cli)
}

/// Whether a word with a dash in front is a sentence: `- fix it`, `--help is broken`.
fn is_prompt(word: &str) -> bool {
    word.starts_with('-')
        && word.split_once(char::is_whitespace).is_some_and(|(first, _)| !first.contains('='))
}

/// What is wrong with a command line, and a command that helps. `words`: without the program.
pub(crate) fn problem(error: &Error, words: &[String]) -> Problem {
    let misread = Misread::new(error, words);
    let (message, hint) = misread.explain();
    usage(message).hint(hint)
}

struct Misread<'a> {
    error: &'a Error,
    words: Vec<&'a str>,
    /// Where the agent's command begins with its `--`, or the end.
    end: usize,
    /// The verbs that were understood, and how many words they end after.
    verbs: Vec<&'a str>,
    after: usize,
    /// The command that is meant, for what is advised.
    command: Command,
}

type Told = (String, String);

impl<'a> Misread<'a> {
    fn new(error: &'a Error, words: &'a [String]) -> Self {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let (mut command, mut verbs, mut after) = (Cli::command(), Vec::new(), 0);
        for (at, word) in words[..end].iter().enumerate() {
            let is_value = at > 0 && matches!(words[at - 1], "--format" | "--color");
            if let Some(verb) = command.find_subcommand(word) {
                command = verb.clone();
                verbs.push(*word);
                after = at + 1;
            } else if !word.starts_with('-') && !is_value {
                break;
            }
        }
        Self { error, words, end, verbs, after, command }
    }

    fn explain(&self) -> Told {
        let kind = self.error.kind();
        let arg = self.said(ContextKind::InvalidArg).join(" and ");
        if kind == ErrorKind::UnknownArgument && arg.starts_with('-') {
            self.unknown_option(&arg)
        } else if kind == ErrorKind::UnknownArgument {
            self.extra_word(&arg)
        } else if kind == ErrorKind::InvalidSubcommand {
            self.unknown_verb(&self.said(ContextKind::InvalidSubcommand).concat())
        } else if kind == ErrorKind::InvalidValue || kind == ErrorKind::ValueValidation {
            self.wrong_value(name_of(&arg), &arg)
        } else if kind == ErrorKind::MissingRequiredArgument {
            self.missing(&arg)
        } else if kind == ErrorKind::ArgumentConflict {
            self.conflict(&arg)
        } else if kind == ErrorKind::InvalidUtf8 {
            ("the command line is not UTF-8".into(), self.help())
        } else if self.command.has_subcommands() {
            let names = self.names();
            (format!("{} needs a command: {}", self.called(), names.join(", ")), self.help())
        } else {
            let text = self.error.to_string();
            let line = text.lines().next().unwrap_or_default();
            (line.trim_start_matches("error: ").to_owned(), self.help())
        }
    }

    fn unknown_option(&self, arg: &str) -> Told {
        let message = format!("{} has no option {arg}", self.called());
        let is_theirs = matches!(arg, "--acp" | "--stdio" | "--experimental-acp");
        if let Some(like) = self.said(ContextKind::SuggestedArg).first().filter(|_| !is_theirs) {
            return (message, self.replaced(arg, name_of(like)));
        }
        let takes_command = self.command.get_positionals().any(clap::Arg::is_last_set);
        if !takes_command || self.end < self.words.len() {
            return (message, self.help());
        }
        let program =
            self.words[self.after..].iter().position(|word| word.contains('/') && !word.contains(' '));
        let line = match program {
            Some(at) => self.with_dashes(self.after + at),
            None => {
                let ours = self.words.iter().copied().filter(|word| *word != arg);
                line(ours.chain(["--", "CMD", arg]))
            }
        };
        (format!("{message}; an agent's own options follow its command, after --"), line)
    }

    /// A plain word where none belongs.
    fn extra_word(&self, arg: &str) -> Told {
        let Some(at) = self.words.iter().position(|word| *word == arg) else {
            return (format!("{arg} is one word too many"), self.help());
        };
        let plain =
            |from: usize| self.words[from..self.end].iter().take_while(|word| !word.starts_with('-')).count();
        let command =
            || (format!("{arg} is one word too many: an agent's command follows --"), self.with_dashes(at));
        let quoted = |from: usize| {
            let to = from + plain(from);
            let text = self.words[from..to].join(" ");
            let words = self.words[..from].iter().copied().chain([&*text]);
            (
                format!("{arg} is one word too many: quote the prompt"),
                line(words.chain(self.words[to..].iter().copied())),
            )
        };
        match &self.verbs[..] {
            ["run"] => {
                let before = self.words[self.after..at].iter().rposition(|word| !word.starts_with('-'));
                let from = before.map_or(at, |before| self.after + before);
                if arg.contains('/') || self.words[from].contains(' ') { command() } else { quoted(from) }
            }
            ["attach", "send"] => quoted(self.after + 1),
            ["agent", "add" | "check"] => command(),
            ["chat"] if arg.contains(' ') => {
                ("chat takes no prompt on its command line".into(), line(["run", arg]))
            }
            ["chat"] if arg.contains('/') => command(),
            ["chat"] => (format!("{arg} is one word too many: an agent is named by --agent"), {
                let words = self.words[..at].iter().chain(&["--agent"]).chain(&self.words[at..]);
                line(words.copied())
            }),
            ["agent", "list"] => {
                (format!("agent list takes no {arg}: it shows all of them"), line(["agent", "show", arg]))
            }
            _ => (format!("{arg} is one word too many"), self.help()),
        }
    }

    fn unknown_verb(&self, word: &str) -> Told {
        let message = format!("{} has no command {word}", self.called());
        let near = nearest::of(word, self.names());
        let near = near.filter(|_| !self.verbs.is_empty() || alias(word).is_none());
        match (&self.verbs[..], near) {
            (_, Some(near)) => (message, self.replaced(word, near)),
            (["agent"], None) => (message, line(["agent", "show", word])),
            (["attach"], None) if is_handle(word) => {
                (format!("{word} is a session of the hub"), line(["session", "attach", word]))
            }
            (["attach"], None) => (message, line(["attach", "send", word, "hello"])),
            (["hub"], None) => (message, line(["hub", "call", word])),
            ([], None) => (message, self.meant(word)),
            _ => (message, self.help()),
        }
    }

    /// The command that somebody means who begins with a word of their own.
    fn meant(&self, word: &str) -> String {
        let at = self.words.iter().position(|said| *said == word).unwrap_or(0);
        let rest = &self.words[at + 1..];
        if let Some(verbs) = alias(word) {
            return line(verbs.iter().copied().chain(rest.iter().copied()));
        }
        let other = self.command.get_subcommands().find(|verb| verb.find_subcommand(word).is_some());
        match word {
            _ if word.contains(' ') => line(["run", word]),
            _ if other.is_some() => {
                let other = other.map_or("agent", Command::get_name);
                line([other, word].into_iter().chain(rest.iter().copied()))
            }
            _ if word.contains('/') => {
                line(["run", "hello", "--", word].into_iter().chain(rest.iter().copied()))
            }
            _ => {
                let words =
                    self.words[at..self.end].iter().copied().take_while(|word| !word.starts_with('-'));
                let text = words.collect::<Vec<_>>().join(" ");
                let rest = self.words[at..].iter().copied().skip_while(|word| !word.starts_with('-'));
                line(["run", &*text].into_iter().chain(rest))
            }
        }
    }

    fn wrong_value(&self, name: &str, arg: &str) -> Told {
        let value = self.said(ContextKind::InvalidValue).concat();
        let known = self.said(ContextKind::ValidValue);
        let why = self.error.source().map(ToString::to_string);
        let example = example_of(arg);
        if value.is_empty() {
            let choice = if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) };
            let first = known.first().map_or(example, String::as_str);
            // The option itself, by either of its names, stands last or before an empty word.
            let at =
                self.words[..self.end].iter().rposition(|word| word.starts_with('-')).unwrap_or(self.end);
            let given = self.words[..at].iter().chain(&self.words[(at + 1).min(self.end)..]);
            let given = given.filter(|word| !word.is_empty());
            return match name.starts_with('-') {
                true => (format!("{name} needs a value{choice}"), line(given.copied().chain([name, first]))),
                false => (format!("{name} is empty"), self.example()),
            };
        }
        if !known.is_empty() {
            let like = self.said(ContextKind::SuggestedValue);
            let near = like.first().map(String::as_str);
            let near = near.or_else(|| nearest::of(&value, known.iter().map(String::as_str)));
            let near = near.or(known.first().map(String::as_str));
            let message = format!("{name} takes one of {}, not {value}", known.join(", "));
            return (message, self.replaced(&value, near.unwrap_or(example)));
        }
        (
            format!("{name} {value}: {}", why.unwrap_or_else(|| "no such value".into())),
            self.replaced(&value, example),
        )
    }

    fn missing(&self, arg: &str) -> Told {
        let message = format!("{} needs {arg}", self.called());
        let hint = match arg.split_once(' ') {
            Some((option, _)) if option.starts_with('-') => {
                line(self.words.iter().copied().chain([option, example_of(arg)]))
            }
            Some(_) | None => self.example(),
        };
        (message, hint)
    }

    fn conflict(&self, arg: &str) -> Told {
        let (name, prior) = (name_of(arg), self.said(ContextKind::PriorArg));
        let Some(prior) = prior.first().map(|prior| name_of(prior)).filter(|prior| *prior != name) else {
            return (format!("{name} is given more than once"), self.help());
        };
        let message = format!("{name} and {prior} do not go together");
        if [name, prior].iter().any(|name| name.contains("CMD")) {
            return (message, line(self.words[..self.end].iter().copied()));
        }
        (message, self.help())
    }

    /// What the parser says of one thing.
    fn said(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            Some(_) | None => Vec::new(),
        }
    }

    /// The commands that may come next.
    fn names(&self) -> Vec<&str> {
        let shown = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
        shown.map(Command::get_name).filter(|name| *name != "help").collect()
    }

    /// The command that was understood.
    fn called(&self) -> String {
        if self.verbs.is_empty() { "agentline".into() } else { self.verbs.join(" ") }
    }

    fn help(&self) -> String {
        line(self.verbs.iter().copied().chain(["--help"]))
    }

    /// The first example of its help.
    fn example(&self) -> String {
        let help = self.command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut lines = help.lines().map(|line| line.trim_start_matches("Example:").trim());
        let example = lines.find(|line| line.contains("agentline "));
        let example = example.and_then(|example| example.split("  ").next()).map(str::to_owned);
        example.unwrap_or_else(|| self.help())
    }

    /// The command line again, with another word in the place of one.
    fn replaced(&self, old: &str, new: &str) -> String {
        let value = format!("={old}");
        let words = self.words.iter().map(|word| match word.strip_suffix(&*value) {
            _ if *word == old => new.to_owned(),
            Some(option) => format!("{option}={new}"),
            None => match word.strip_prefix(old) {
                Some(value) if value.starts_with('=') => format!("{new}{value}"),
                Some(_) | None => (*word).to_owned(),
            },
        });
        let words: Vec<String> = words.collect();
        line(words.iter().map(String::as_str))
    }

    /// The command line again, with the agent's command behind `--`.
    fn with_dashes(&self, at: usize) -> String {
        let words = self.words[..at].iter().chain(&["--"]).chain(&self.words[at..]);
        line(words.copied().filter(|word| *word != "--" || self.end == self.words.len()))
    }
}

/// Whether it is what the hub calls a session: `s12`.
fn is_handle(word: &str) -> bool {
    let number = word.split('@').next().and_then(|id| id.strip_prefix('s')).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// What other programs call a command of ours.
fn alias(word: &str) -> Option<&'static [&'static str]> {
    Some(match word {
        "list" | "ls" | "agents" => &["agent", "list"],
        "ps" => &["session", "list"],
        "peers" => &["attach", "list"],
        "logs" => &["session", "show"],
        "kill" | "cancel" => &["session", "cancel"],
        "watch" => &["session", "watch"],
        "exec" | "ask" | "prompt" | "start" => &["run"],
        "test" | "doctor" | "verify" | "login" => &["agent", "check"],
        "install" => &["agent", "list", "-v"],
        _ => return None,
    })
}

/// An option without its value: `--agent <ID>` is `--agent`.
fn name_of(arg: &str) -> &str {
    arg.split(' ').next().unwrap_or(arg)
}

/// A value for whatever takes one.
fn example_of(arg: &str) -> &'static str {
    let examples = [
        ("<N>", "20"),
        ("<N|all>", "all"),
        ("STATUS", "running"),
        ("TIME", "10s"),
        ("OPTION=VALUE", "model=large"),
        ("NAME=", "API_KEY"),
        ("JSON", "{}"),
        ("DIR", "."),
        ("FILE", "FILE"),
        ("PATH", "PATH"),
        ("NAME", "API_KEY"),
        ("TEXT", "hello"),
    ];
    examples.iter().find(|(kind, _)| arg.contains(kind)).map_or("ID", |(_, example)| example)
}

/// A line to paste.
fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = ["agentline"].into_iter().chain(words).map(str::to_owned).collect();
    command_line(&words)
}
