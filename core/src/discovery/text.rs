//! A report as people and programs read it. The Chinese words are those that BotBus prints, byte for
//! byte.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use super::look::Unfit;
use super::manifest::Reason;
use super::registry::Refusal;
use super::report::{Agent, Origin, Problem, Report, Skip, Skipped};
use crate::trust::{Untrusted, Why};

/// The language of a text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese, as BotBus itself writes it.
    Chinese,
}

/// One line of `agent list --json`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// An agent.
    #[serde(rename_all = "camelCase")]
    Agent {
        /// Its id.
        id: String,
        /// Its display name.
        name: String,
        /// `manifest` or `registry`.
        origin: &'static str,
        /// Whether the user left it on.
        enabled: bool,
        /// Program and arguments; null when it has to connect by itself.
        command: Option<Vec<String>>,
        /// There when it is past the number of agents that a hub takes.
        #[serde(skip_serializing_if = "Option::is_none")]
        over_cap: Option<bool>,
    },
    /// A manifest that does not count.
    Problem {
        /// The file.
        file: String,
        /// Why, for people.
        reason: String,
        /// Why, for programs.
        code: &'static str,
    },
}

impl Report {
    /// The agents for a pipe: a line for each, its cells between tabs.
    #[must_use]
    pub fn rows(&self, language: Language) -> String {
        self.agents.iter().map(|agent| agent.cells(language).join("\t") + "\n").collect()
    }

    /// The whole list as one text: the rows, then a line for each problem.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        let mut text = self.rows(language);
        if self.agents.is_empty() {
            text += &self.nothing_found(language);
            text.push('\n');
        }
        for problem in &self.problems {
            text += &problem.text(language);
            text.push('\n');
        }
        text
    }

    /// The list as objects, one a line.
    pub fn lines(&self, language: Language) -> impl Iterator<Item = Line> {
        let agents = self.agents.iter().map(|agent| Line::Agent {
            id: agent.id.clone(),
            name: agent.name.clone(),
            origin: agent.origin.word(Language::English),
            enabled: agent.enabled,
            command: agent.launch.as_ref().map(super::Launch::argv),
            over_cap: agent.over_cap.then_some(true),
        });
        agents.chain(self.problems.iter().map(move |problem| Line::Problem {
            file: problem.file.to_string_lossy().into_owned(),
            reason: problem.reason.text(language),
            code: problem.reason.code(),
        }))
    }

    /// What stands in for an empty list: the folder that was read, and the variable that chose it.
    #[must_use]
    pub fn nothing_found(&self, language: Language) -> String {
        let (folder, variable) = (show(&self.manifests.path), self.manifests.chosen_by);
        match language {
            Language::English => {
                format!(
                    "no ACP agents found; put manifests in {folder}/<id>.json (folder chosen by {variable})"
                )
            }
            Language::Chinese => {
                format!("没有找到 ACP agent；清单放进 {folder}/<id>.json（文件夹由 {variable} 决定）")
            }
        }
    }

    /// Where was looked and what was passed over, a line each, for whoever misses an agent.
    #[must_use]
    pub fn explain(&self, language: Language) -> Vec<String> {
        let words = Words::of(language);
        let mut lines = vec![
            format!(
                "{}{}{} ({})",
                words.manifests,
                words.colon,
                show(&self.manifests.path),
                self.manifests.chosen_by
            ),
            format!("{}{}{}", words.searched, words.colon, list(self.searched.iter().map(|dir| show(dir)))),
        ];
        let over = self.agents.iter().filter(|agent| agent.over_cap).map(|agent| agent.id.clone());
        let absent = self.skipped.iter().filter(|skipped| skipped.why == Skip::NotInstalled(None));
        let absent = absent.map(|skipped| skipped.id.clone());
        for (word, ids) in [(words.over_cap, list(over)), (words.not_installed, list(absent))] {
            if !ids.is_empty() {
                lines.push(format!("{word}{}{ids}", words.colon));
            }
        }
        let single = self.skipped.iter().filter(|skipped| skipped.why != Skip::NotInstalled(None));
        lines.extend(single.map(|skipped| skipped.text(language)));
        lines
    }
}

impl Agent {
    /// Id, name, origin, state and command. None of them has a tab or a line end.
    #[must_use]
    pub fn cells(&self, language: Language) -> [String; 5] {
        let state = match (language, self.enabled) {
            (Language::English, true) => "enabled",
            (Language::English, false) => "disabled",
            (Language::Chinese, true) => "已启用",
            (Language::Chinese, false) => "已停用",
        };
        let command = self
            .launch
            .as_ref()
            .map_or_else(|| Words::of(language).no_command.to_owned(), |launch| command_line(&launch.argv()));
        [self.id.clone(), plain(&self.name), self.origin.word(language).into(), state.into(), command]
    }
}

impl Origin {
    /// The origin in a word.
    #[must_use]
    pub const fn word(self, language: Language) -> &'static str {
        match (language, self) {
            (Language::English, Self::Manifest) => "manifest",
            (Language::English, Self::Registry) => "registry",
            (Language::Chinese, Self::Manifest) => "清单",
            (Language::Chinese, Self::Registry) => "注册表",
        }
    }
}

impl Problem {
    /// The file and the reason, in one line.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        format!("✗ {}{}{}", show(&self.file), Words::of(language).colon, plain(&self.reason.text(language)))
    }
}

impl Skipped {
    /// What was passed over and why, in one line.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        let words = Words::of(language);
        let why = match &self.why {
            Skip::File { path, why } => format!("{} {}", show(path), why.text(language)),
            Skip::NotInstalled(None) => words.not_installed.into(),
            Skip::NotInstalled(Some(fetch)) => format!("{} ({})", words.not_installed, command_line(fetch)),
            Skip::Overridden => words.overridden.into(),
            Skip::Refused(refusal) => refusal.text(language).into(),
            Skip::TooMany => words.too_many.into(),
        };
        format!("{}{}{why}", plain(&self.id), words.colon)
    }
}

impl Reason {
    /// The reason in a sentence.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        match language {
            Language::English => self.english(),
            Language::Chinese => self.chinese(),
        }
    }

    fn english(&self) -> String {
        match self {
            Self::Untrusted(Untrusted { path, why }) => {
                format!("not trusted: {} {why}", show(path))
            }
            Self::Unreadable => "cannot read this file".into(),
            Self::InvalidJson(position) => {
                format!("not a valid manifest JSON, needs at least id and name ({position})")
            }
            Self::BadId => "id may only use lower-case letters, digits and -, at most 32 characters".into(),
            Self::WrongFileName { id } => format!("file name must be {id}.json"),
            Self::EmptyName => "name must not be empty".into(),
            Self::Command { path, why } => {
                format!("command does not point to a program: {} {}", show(path), why.text(Language::English))
            }
            Self::CommandNotFound { command } => format!("command not found: {command}"),
            Self::ReservedId { id } => {
                format!("id {id} is taken by an agent built into BotBus, choose another")
            }
        }
    }

    fn chinese(&self) -> String {
        match self {
            Self::Untrusted(Untrusted { path, why: Why::Owner(user) }) => {
                format!("不可信：{} 属于用户 {user}", show(path))
            }
            Self::Untrusted(Untrusted { path, why: Why::Writable(mode) }) => {
                format!("不可信：其他用户可以写 {}（权限 {mode:03o}）", show(path))
            }
            Self::Untrusted(Untrusted { path, why: Why::Nowhere }) => {
                format!("不可信：{} 无处可去", show(path))
            }
            Self::Unreadable => "无法读取这个文件".into(),
            Self::InvalidJson(_) => "不是有效的清单 JSON（至少要有 id 和 name）".into(),
            Self::BadId => "id 只能用小写字母、数字和 -，最多 32 个字符".into(),
            Self::WrongFileName { id } => format!("文件名必须是 {id}.json"),
            Self::EmptyName => "name 不能为空".into(),
            Self::Command { path, .. } => format!("command 指向的文件不存在或不能执行：{}", show(path)),
            Self::CommandNotFound { command } => format!("找不到命令：{command}"),
            Self::ReservedId { id } => format!("id {id} 已被 BotBus 内置的 agent 占用，请换一个"),
        }
    }
}

impl Unfit {
    /// What is wrong with a file, to be read after its path.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        let (english, chinese) = match self {
            Self::Missing => ("is not there", "不存在"),
            Self::Dangling => ("is a symlink that leads nowhere", "是无效的符号链接"),
            Self::Denied => ("cannot be looked at", "无法访问"),
            Self::NotAFile => ("is not a file", "不是文件"),
            Self::NotExecutable => ("is not executable", "不能执行"),
            Self::Empty => ("is empty", "是空文件"),
            Self::OutsidePackage(package) => {
                return match language {
                    Language::English => format!("is not of the npm package {package}"),
                    Language::Chinese => format!("不属于 npm 包 {package}"),
                };
            }
        };
        language.pick(english, chinese).into()
    }
}

impl Refusal {
    /// Why an entry of a registry cannot be used.
    #[must_use]
    pub const fn text(self, language: Language) -> &'static str {
        let (english, chinese) = match self {
            Self::Malformed => ("the registry's entry cannot be read", "注册表条目无法读取"),
            Self::BadId => ("the registry's id is not valid", "注册表里的 id 无效"),
            Self::Reserved => {
                ("the id is taken by an agent built into BotBus", "id 已被 BotBus 内置的 agent 占用")
            }
            Self::Repeated => ("the registry has the id twice", "注册表里 id 重复"),
            Self::NoBuild => ("there is no build for this platform", "没有适合本平台的版本"),
        };
        language.pick(english, chinese)
    }
}

impl Language {
    const fn pick<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

struct Words {
    colon: &'static str,
    manifests: &'static str,
    searched: &'static str,
    no_command: &'static str,
    over_cap: &'static str,
    not_installed: &'static str,
    overridden: &'static str,
    too_many: &'static str,
}

impl Words {
    const fn of(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}

const ENGLISH: Words = Words {
    colon: ": ",
    manifests: "manifests",
    searched: "searched",
    no_command: "(no command: it can only connect by itself)",
    over_cap: "too many at once, left out by a hub",
    not_installed: "not installed",
    overridden: "the manifest of this id counts, not the registry",
    too_many: "too many manifests, not read",
};

const CHINESE: Words = Words {
    colon: "：",
    manifests: "清单文件夹",
    searched: "查找目录",
    no_command: "（没有启动命令，只能经反向扩展接入）",
    over_cap: "超出数量上限",
    not_installed: "没有安装",
    overridden: "清单优先于注册表",
    too_many: "清单太多，没有读取",
};

/// A command line that a shell would split into these words again.
#[must_use]
pub fn command_line(argv: &[String]) -> String {
    let words: Vec<_> = argv.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> String {
    let safe = |letter: char| letter.is_alphanumeric() || "-_./:=@%+,~".contains(letter);
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(safe) {
        return word.into();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for letter in word.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "'"
}

fn show(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// Text that stays on its line and in its cell: a terminal obeys control characters.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        for (word, shown) in [
            ("--acp", "--acp"),
            ("/opt/My Agents/a b", "'/opt/My Agents/a b'"),
            ("", "''"),
            ("'", r"''\'''"),
            ("~/x", "'~/x'"),
            ("$HOME", "'$HOME'"),
            ("工具", "工具"),
            ("a\tb\u{1b}[2J'\\", r"$'a\tb\u001b[2J\'\\'"),
        ] {
            assert_eq!(shell_word(word), shown);
        }
    }
}
