//! A report as people and programs read it. The Chinese words are those of BotBus, byte for byte.

use std::path::Path;

use agentline_core::discovery::{
    Agent, Launch, Origin, Problem, Reason, Refusal, Report, Skip, Skipped, Unfit,
};
use agentline_core::trust::{Untrusted, Why};
use serde::Serialize;

use super::Language;
use super::shell::command_line;
use crate::output::plain;

/// One line of the list as JSON.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
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

/// What was found.
impl Language {
    /// The agents for a pipe: a line for each, its cells between tabs.
    pub(crate) fn rows(self, report: &Report) -> String {
        report.agents.iter().map(|agent| self.cells(agent).join("\t") + "\n").collect()
    }

    /// The list as objects, one a line.
    pub(crate) fn lines(self, report: &Report) -> impl Iterator<Item = Line> {
        let agents = report.agents.iter().map(|agent| Line::Agent {
            id: agent.id.clone(),
            name: agent.name.clone(),
            origin: Self::English.origin(&agent.origin),
            enabled: agent.enabled,
            command: agent.launch.as_ref().map(Launch::argv),
            over_cap: agent.over_cap.then_some(true),
        });
        agents.chain(report.problems.iter().map(move |problem| Line::Problem {
            file: problem.file.to_string_lossy().into_owned(),
            reason: self.reason(&problem.reason),
            code: problem.reason.code(),
        }))
    }

    /// What stands in for an empty list: the folder that was read, and the variable that chose it.
    pub(crate) fn nothing_found(self, report: &Report) -> String {
        let (folder, variable) = (show(&report.manifests.path), report.manifests.chosen_by);
        match self {
            Self::English => {
                format!(
                    "no ACP agents found; put manifests in {folder}/<id>.json (folder chosen by {variable})"
                )
            }
            Self::Chinese => {
                format!("没有找到 ACP agent；清单放进 {folder}/<id>.json（文件夹由 {variable} 决定）")
            }
        }
    }

    /// Where was looked and what was passed over, a line each, for whoever misses an agent.
    pub(crate) fn explain(self, report: &Report) -> Vec<String> {
        let words = Words::of(self);
        let mut lines = vec![
            format!(
                "{}{}{} ({})",
                words.manifests,
                words.colon,
                show(&report.manifests.path),
                report.manifests.chosen_by
            ),
            format!("{}{}{}", words.searched, words.colon, list(report.searched.iter().map(|dir| show(dir)))),
        ];
        let over = report.agents.iter().filter(|agent| agent.over_cap).map(|agent| agent.id.clone());
        let absent = report.skipped.iter().filter(|skipped| skipped.why == Skip::NotInstalled(None));
        let absent = absent.map(|skipped| skipped.id.clone());
        for (word, ids) in [(words.over_cap, list(over)), (words.not_installed, list(absent))] {
            if !ids.is_empty() {
                lines.push(format!("{word}{}{ids}", words.colon));
            }
        }
        let single = report.skipped.iter().filter(|skipped| skipped.why != Skip::NotInstalled(None));
        lines.extend(single.map(|skipped| self.skipped(skipped)));
        lines
    }

    /// Id, name, origin, state and command. None of them has a tab or a line end.
    pub(crate) fn cells(self, agent: &Agent) -> [String; 5] {
        let state = match agent.enabled {
            true => self.pick("enabled", "已启用"),
            false => self.pick("disabled", "已停用"),
        };
        let command = agent.launch.as_ref().map(|launch| command_line(&launch.argv()));
        let command = command.unwrap_or_else(|| Words::of(self).no_command.to_owned());
        let name = plain(&agent.name).into_owned();
        [agent.id.clone(), name, self.origin(&agent.origin).into(), state.into(), command]
    }

    /// The origin in a word.
    pub(crate) const fn origin(self, origin: &Origin) -> &'static str {
        match origin {
            Origin::Manifest => self.pick("manifest", "清单"),
            Origin::Registry => self.pick("registry", "注册表"),
            Origin::Runner(_) => self.pick("runner", "Galley"),
        }
    }

    /// The file and the reason, in one line.
    pub(crate) fn problem(self, problem: &Problem) -> String {
        let colon = Words::of(self).colon;
        format!("{}{colon}{}", show(&problem.file), plain(&self.reason(&problem.reason)))
    }

    /// What was passed over and why, in one line.
    fn skipped(self, skipped: &Skipped) -> String {
        let words = Words::of(self);
        let why = match &skipped.why {
            Skip::File { path, why } => format!("{} {}", show(path), self.unfit(why)),
            Skip::NotInstalled(None) => words.not_installed.into(),
            Skip::NotInstalled(Some(fetch)) => format!("{} ({})", words.not_installed, command_line(fetch)),
            Skip::Overridden => words.overridden.into(),
            Skip::Refused(refusal) => self.refusal(*refusal).into(),
            Skip::TooMany => words.too_many.into(),
        };
        format!("{}{}{why}", plain(&skipped.id), words.colon)
    }

    /// Why a manifest does not count, in a sentence.
    pub(crate) fn reason(self, reason: &Reason) -> String {
        match self {
            Self::English => english(reason),
            Self::Chinese => chinese(reason),
        }
    }

    /// What is wrong with a file, to be read after its path.
    pub(crate) fn unfit(self, unfit: &Unfit) -> String {
        let (english, chinese) = match unfit {
            Unfit::Missing => ("is not there", "不存在"),
            Unfit::Dangling => ("is a symlink that leads nowhere", "是无效的符号链接"),
            Unfit::Denied => ("cannot be looked at", "无法访问"),
            Unfit::NotAFile => ("is not a file", "不是文件"),
            Unfit::NotExecutable => ("is not executable", "不能执行"),
            Unfit::Empty => ("is empty", "是空文件"),
            Unfit::OutsidePackage(package) => {
                return match self {
                    Self::English => format!("is not of the npm package {package}"),
                    Self::Chinese => format!("不属于 npm 包 {package}"),
                };
            }
        };
        self.pick(english, chinese).into()
    }

    /// Why an entry of a registry cannot be used.
    const fn refusal(self, refusal: Refusal) -> &'static str {
        match refusal {
            Refusal::Malformed => self.pick("the registry's entry cannot be read", "注册表条目无法读取"),
            Refusal::BadId => self.pick("the registry's id is not valid", "注册表里的 id 无效"),
            Refusal::Reserved => {
                self.pick("the id is taken by an agent built into BotBus", "id 已被 BotBus 内置的 agent 占用")
            }
            Refusal::Repeated => self.pick("the registry has the id twice", "注册表里 id 重复"),
            Refusal::NoBuild => self.pick("there is no build for this platform", "没有适合本平台的版本"),
        }
    }
}

fn english(reason: &Reason) -> String {
    match reason {
        Reason::Untrusted(Untrusted { path, why }) => format!("not trusted: {} {why}", show(path)),
        Reason::Unreadable => "cannot read this file".into(),
        Reason::InvalidJson(position) => {
            format!("not a valid manifest JSON, needs at least id and name ({position})")
        }
        Reason::BadId => "id may only use lower-case letters, digits and -, at most 32 characters".into(),
        Reason::WrongFileName { id } => format!("file name must be {id}.json"),
        Reason::EmptyName => "name must not be empty".into(),
        Reason::Command { path, why } => {
            let why = Language::English.unfit(why);
            format!("command does not point to a program: {} {why}", show(path))
        }
        Reason::CommandNotFound { command } => format!("command not found: {command}"),
        Reason::ReservedId { id } => {
            format!("id {id} is taken by an agent built into BotBus, choose another")
        }
        Reason::InvalidRunner(why) => format!("not a valid runner, needs at least command ({why})"),
        Reason::TakenId { id } => format!("id {id} is taken by another agent, choose another"),
        Reason::OfRunner { id, why } => format!("runners.{id}: {}", english(why)),
    }
}

fn chinese(reason: &Reason) -> String {
    match reason {
        Reason::Untrusted(Untrusted { path, why: Why::Owner(user) }) => {
            format!("不可信：{} 属于用户 {user}", show(path))
        }
        Reason::Untrusted(Untrusted { path, why: Why::Writable(mode) }) => {
            format!("不可信：其他用户可以写 {}（权限 {mode:03o}）", show(path))
        }
        Reason::Untrusted(Untrusted { path, why: Why::Nowhere }) => {
            format!("不可信：{} 无处可去", show(path))
        }
        Reason::Unreadable => "无法读取这个文件".into(),
        Reason::InvalidJson(_) => "不是有效的清单 JSON（至少要有 id 和 name）".into(),
        Reason::BadId => "id 只能用小写字母、数字和 -，最多 32 个字符".into(),
        Reason::WrongFileName { id } => format!("文件名必须是 {id}.json"),
        Reason::EmptyName => "name 不能为空".into(),
        Reason::Command { path, .. } => format!("command 指向的文件不存在或不能执行：{}", show(path)),
        Reason::CommandNotFound { command } => format!("找不到命令：{command}"),
        Reason::ReservedId { id } => format!("id {id} 已被 BotBus 内置的 agent 占用，请换一个"),
        Reason::InvalidRunner(why) => format!("不是有效的 runner（至少要有 command）：{why}"),
        Reason::TakenId { id } => format!("id {id} 已被另一个 agent 占用，请换一个"),
        Reason::OfRunner { id, why } => format!("runners.{id}：{}", chinese(why)),
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
    over_cap: "more than BotBus takes",
    not_installed: "not installed",
    overridden: "the manifest of this id counts, not the registry",
    too_many: "too many manifests, not read",
};

const CHINESE: Words = Words {
    colon: "：",
    manifests: "清单文件夹",
    searched: "查找目录",
    no_command: "（没有启动命令，只能经反向扩展接入）",
    over_cap: "超出 BotBus 的数量上限",
    not_installed: "没有安装",
    overridden: "清单优先于注册表",
    too_many: "清单太多，没有读取",
};

fn show(path: &Path) -> String {
    plain(&path.to_string_lossy()).into_owned()
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use agentline_core::discovery::{File, Folder, Found};
    use agentline_core::rpc::to_json;

    use super::*;

    fn agent(id: &str, name: &str, origin: Origin, program: Option<&str>) -> Agent {
        let file = File { real: "/x".into(), inode: 1, size: 1, modified: Duration::ZERO };
        let launch = program.map(|program| Launch {
            found: Found { program: program.into(), file },
            args: vec!["--acp".into()],
            env: Default::default(),
        });
        Agent { id: id.into(), name: name.into(), origin, launch, enabled: true, over_cap: false }
    }

    /// Everything that is printed of a report.
    fn list(language: Language, report: &Report) -> String {
        let problems = report.problems.iter().map(|problem| format!("✗ {}\n", language.problem(problem)));
        language.rows(report) + &problems.collect::<String>()
    }

    fn report() -> Report {
        let daemon = agent("my-daemon", "My Daemon", Origin::Manifest, None);
        let skipped = |id: &str, why| Skipped { id: id.into(), why };
        Report {
            manifests: Folder { path: "/b/agents".into(), chosen_by: "AGENTLINE_BOTBUS_DIR" },
            searched: vec!["/usr/bin".into(), "/home/me/.local/bin".into()],
            agents: vec![
                agent("gemini", "Gemini CLI", Origin::Registry, Some("/opt/homebrew/bin/gemini")),
                agent("my-agent", "My Agent", Origin::Manifest, Some("/usr/local/bin/my-agent")),
                Agent { enabled: false, over_cap: true, ..daemon },
            ],
            problems: vec![Problem {
                file: "/b/agents/bad.json".into(),
                reason: Reason::WrongFileName { id: "my-bad".into() },
            }],
            skipped: vec![
                skipped("kimi", Skip::Overridden),
                skipped("cline", Skip::NotInstalled(None)),
                skipped("goose", Skip::File { path: "/usr/bin/goose".into(), why: Unfit::NotExecutable }),
            ],
        }
    }

    #[test]
    fn the_chinese_list_is_that_of_botbus_byte_for_byte() {
        assert_eq!(
            list(Language::Chinese, &report()),
            "gemini\tGemini CLI\t注册表\t已启用\t/opt/homebrew/bin/gemini --acp\n\
             my-agent\tMy Agent\t清单\t已启用\t/usr/local/bin/my-agent --acp\n\
             my-daemon\tMy Daemon\t清单\t已停用\t（没有启动命令，只能经反向扩展接入）\n\
             ✗ /b/agents/bad.json：文件名必须是 my-bad.json\n"
        );
    }

    #[test]
    fn the_english_list_says_the_same() {
        assert_eq!(
            list(Language::English, &report()),
            "gemini\tGemini CLI\tregistry\tenabled\t/opt/homebrew/bin/gemini --acp\n\
             my-agent\tMy Agent\tmanifest\tenabled\t/usr/local/bin/my-agent --acp\n\
             my-daemon\tMy Daemon\tmanifest\tdisabled\t(no command: it can only connect by itself)\n\
             ✗ /b/agents/bad.json: file name must be my-bad.json\n"
        );
    }

    #[test]
    fn the_list_for_programs_has_one_object_a_line() {
        let lines: Vec<_> = Language::English.lines(&report()).skip(1).map(|line| to_json(&line)).collect();
        assert_eq!(
            lines,
            [
                r#"{"type":"agent","id":"my-agent","name":"My Agent","origin":"manifest","enabled":true,"command":["/usr/local/bin/my-agent","--acp"]}"#,
                r#"{"type":"agent","id":"my-daemon","name":"My Daemon","origin":"manifest","enabled":false,"command":null,"overCap":true}"#,
                r#"{"type":"problem","file":"/b/agents/bad.json","reason":"file name must be my-bad.json","code":"wrong_file_name"}"#,
            ]
        );
    }

    #[test]
    fn nothing_found_names_the_folder_and_the_variable() {
        let report = Report { agents: Vec::new(), problems: Vec::new(), ..report() };
        assert_eq!(
            Language::English.nothing_found(&report),
            "no ACP agents found; put manifests in /b/agents/<id>.json (folder chosen by AGENTLINE_BOTBUS_DIR)"
        );
        let text = Language::Chinese.nothing_found(&report);
        assert!(text.contains("/b/agents/<id>.json") && text.contains("AGENTLINE_BOTBUS_DIR"), "{text}");
    }

    #[test]
    fn whoever_misses_an_agent_is_told_where_it_was_sought() {
        assert_eq!(
            Language::English.explain(&report()),
            [
                "manifests: /b/agents (AGENTLINE_BOTBUS_DIR)",
                "searched: /usr/bin, /home/me/.local/bin",
                "more than BotBus takes: my-daemon",
                "not installed: cline",
                "kimi: the manifest of this id counts, not the registry",
                "goose: /usr/bin/goose is not executable",
            ]
        );
        for line in Language::Chinese.explain(&report()) {
            assert!(line.contains('：'), "{line}");
        }
    }

    #[test]
    fn no_file_can_write_over_the_terminal() {
        let evil = "a\tb\n\u{1b}[2J";
        let problem = |file: &str, reason| Problem { file: PathBuf::from(file), reason };
        let report = Report {
            agents: vec![agent("a", evil, Origin::Manifest, Some(evil))],
            problems: vec![
                problem(evil, Reason::EmptyName),
                problem("/c", Reason::CommandNotFound { command: evil.into() }),
            ],
            ..report()
        };
        let text = list(Language::English, &report);
        assert_eq!((text.lines().count(), text.matches('\t').count()), (3, 4), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
