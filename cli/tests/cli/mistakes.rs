//! Command lines as people mistype them: each is told what is wrong, and given a command that helps.

use crate::rig::{AGENTLINE, Bench, done};

/// What is typed, the exit code, a word of the reason, and the command that helps.
type Row = (&'static [&'static str], i32, &'static str, &'static str);

const MISTAKES: &[Row] = &[
    // A verb that is missing or wrong.
    (&["fix it"], 2, "no command fix it", "agentline run 'fix it'"),
    (&["fix", "the", "bug"], 2, "no command fix", "agentline run 'fix the bug'"),
    (&["fix", "it", "-q"], 2, "no command fix", "agentline run 'fix it' -q"),
    (&["rnu", "hello"], 2, "no command rnu", "agentline run hello"),
    (&["chta"], 2, "no command chta", "agentline chat"),
    (&["agnet", "list"], 2, "no command agnet", "agentline agent list"),
    (&["list"], 2, "no command list", "agentline agent list"),
    (&["ls"], 2, "no command ls", "agentline agent list"),
    (&["ps"], 2, "no command ps", "agentline session list"),
    (&["session", "list", "--status", "bogus"], 2, "none of idle", "agentline session list --status running"),
    (&["session", "watch", "--tail", "x"], 2, "--tail x", "agentline session watch --tail 20"),
    (&["session", "queue", "s1", "--drop", "x"], 2, "the number of a prompt", "agentline session queue last"),
    (&["agents"], 2, "no command agents", "agentline agent list"),
    (&["exec", "fix it"], 2, "no command exec", "agentline run 'fix it'"),
    (&["ask", "fix it"], 2, "no command ask", "agentline run 'fix it'"),
    (&["doctor", "gemini"], 2, "no command doctor", "agentline agent check gemini"),
    (&["check", "gemini"], 2, "no command check", "agentline agent check gemini"),
    (&["add", "mine", "--", "x"], 2, "no command add", "agentline agent add mine -- x"),
    (&["send", "p", "hi"], 2, "no command send", "agentline attach send p hi"),
    (&["./my-agent", "--acp"], 2, "no command ./my-agent", "agentline run hello -- ./my-agent --acp"),
    (&["agent", "lst"], 2, "no command lst", "agentline agent list"),
    (&["agent", "gemini"], 2, "no command gemini", "agentline agent show gemini"),
    (&["attach", "s3"], 2, "s3 is a session of the hub", "agentline session attach s3"),
    (&["logs", "s3"], 2, "no command logs", "agentline session show s3"),
    (&["kill", "s3"], 2, "no command kill", "agentline session cancel s3"),
    (&["attach", "proj-7f"], 2, "no command proj-7f", "agentline attach send proj-7f hello"),
    (&["hub", "ping"], 2, "no command ping", "agentline hub call ping"),
    // A prompt that is not one word.
    (&["run", "fix", "the", "bug"], 2, "quote the prompt", "agentline run 'fix the bug'"),
    (&["run", "-q", "fix", "it"], 2, "quote the prompt", "agentline run -q 'fix it'"),
    (&["run", "fix", "it", "-q"], 2, "quote the prompt", "agentline run 'fix it' -q"),
    (&["attach", "send", "p", "fix", "it"], 2, "quote the prompt", "agentline attach send p 'fix it'"),
    (&["run"], 2, "the prompt is empty", "agentline run \"hello\""),
    (&["run", " "], 2, "the prompt is empty", "agentline run \"hello\""),
    (&["run", ""], 2, "the prompt is empty", "agentline run \"hello\""),
    (&["chat", "fix the bug"], 2, "takes no prompt", "agentline run 'fix the bug'"),
    // A command that is not behind `--`.
    (&["run", "fix it", "./a", "--acp"], 2, "follows --", "agentline run 'fix it' -- ./a --acp"),
    (&["run", "fix it", "gemini"], 2, "follows --", "agentline run 'fix it' -- gemini"),
    (&["run", "hello", "/opt/a"], 2, "follows --", "agentline run hello -- /opt/a"),
    (&["chat", "./a"], 2, "follows --", "agentline chat -- ./a"),
    (&["chat", "gemini"], 2, "named by --agent", "agentline chat --agent gemini"),
    (&["agent", "add", "mine", "my-acp"], 2, "follows --", "agentline agent add mine -- my-acp"),
    (&["agent", "check", "a", "b"], 2, "follows --", "agentline agent check a -- b"),
    (&["agent", "check", "./a", "--acp"], 2, "after --", "agentline agent check -- ./a --acp"),
    (&["agent", "list", "gemini"], 2, "shows all of them", "agentline agent show gemini"),
    (&["agent", "show", "a", "b"], 2, "one word too many", "agentline agent show --help"),
    // An option that is none.
    (&["run", "--acp", "hello"], 2, "no option --acp", "agentline run hello -- CMD --acp"),
    (&["run", "--agnt", "demo", "hello"], 2, "no option --agnt", "agentline run --agent demo hello"),
    (&["run", "--agnt=demo", "hello"], 2, "no option --agnt", "agentline run --agent=demo hello"),
    (&["run", "--timout", "3s", "hello"], 2, "no option --timout", "agentline run --timeout 3s hello"),
    (&["run", "-x", "hello"], 2, "no option -x", "agentline run hello -- CMD -x"),
    (&["chat", "--zzz"], 2, "no option --zzz", "agentline chat -- CMD --zzz"),
    (&["agent", "list", "--zzz"], 2, "no option --zzz", "agentline agent list --help"),
    (&["attach", "list", "--zzz"], 2, "no option --zzz", "agentline attach list --help"),
    (&["--zzz"], 2, "no option --zzz", "agentline --help"),
    // A value that is missing or wrong.
    (&["run", "-p", "maybe", "hello"], 2, "ask, allow, reject", "agentline run -p ask hello"),
    (&["run", "-p", "alow", "hello"], 2, "not alow", "agentline run -p allow hello"),
    (&["run", "--permission=alow", "hello"], 2, "not alow", "agentline run --permission=allow hello"),
    (&["run", "--format", "yaml", "hello"], 2, "text, json", "agentline run --format text hello"),
    (&["run", "--color", "alwais", "hello"], 2, "not alwais", "agentline run --color always hello"),
    (&["completions", "bsh"], 2, "not bsh", "agentline completions bash"),
    (&["demo-agent", "--fault", "jnk"], 2, "not jnk", "agentline demo-agent --fault junk"),
    (&["agent", "list", "--lang", "de"], 2, "en, zh", "agentline agent list --lang en"),
    (&["run", "hello", "--agent"], 2, "--agent needs a value", "agentline run hello --agent ID"),
    (&["run", "hello", "--timeout"], 2, "--timeout needs a value", "agentline run hello --timeout 10s"),
    (&["run", "hello", "-p"], 2, "needs a value: ask", "agentline run hello --permission ask"),
    (&["run", "hello", "--agent", ""], 2, "--agent needs a value", "agentline run hello --agent ID"),
    (&["agent", "disable", ""], 2, "is empty", "agentline agent disable gemini"),
    (&["agent", "show", ""], 2, "is empty", "agentline agent show gemini"),
    (&["agent", "check", ""], 2, "is empty", "agentline agent check gemini"),
    (&["run", "--timeout", "0", "hello"], 2, "longer than nothing", "agentline run --timeout 10s hello"),
    (&["run", "--timeout", "soon", "hello"], 2, "500ms", "agentline run --timeout 10s hello"),
    (&["run", "--timeout", "-3", "hello"], 2, "--timeout", "agentline run"),
    (&["run", "--set", "novalue", "hello"], 2, "OPTION=VALUE", "agentline run --set model=large hello"),
    (&["run", "--set", "=x", "hello"], 2, "OPTION=VALUE", "agentline run --set model=large hello"),
    (&["hub", "call", "ping", "{"], 2, "EOF", "agentline hub call ping '{}'"),
    (&["run", "-e", "=x", "hello"], 2, "NAME=VALUE", "agentline run -e API_KEY"),
    (&["run", "-e", "A B=x", "hello"], 2, "NAME=VALUE", "agentline run -e API_KEY"),
    // Something that is missing or too much.
    (&["agent", "show"], 2, "needs <ID>", "agentline agent show gemini"),
    (&["agent", "enable"], 2, "needs <ID>", "agentline agent enable gemini"),
    (&["agent", "remove"], 2, "needs <ID>", "agentline agent remove claude-code"),
    (&["agent", "add", "mine"], 2, "needs <CMD>", "agentline agent add claude-code --name"),
    (&["agent", "add"], 2, "needs <ID>", "agentline agent add claude-code --name"),
    (&["agent", "check"], 2, "needs", "agentline agent check gemini"),
    (&["agent", "set", "gemini"], 2, "needs <--env", "agentline agent set gemini --env GEMINI_API_KEY"),
    (&["attach", "send"], 2, "needs <PEER>", "agentline attach send proj-7f"),
    (&["attach", "cancel"], 2, "needs <PEER>", "agentline attach cancel proj-7f"),
    (&["hub", "call"], 2, "needs <COMMAND>", "agentline hub call"),
    (&["completions"], 2, "needs", "agentline completions bash"),
    (&["run", "hello", "--force"], 2, "needs --trace", "agentline run hello --force --trace FILE"),
    (&["run", "--agent", "demo", "hi", "--", "x"], 2, "do not go together", "agentline run --agent demo hi"),
    (&["run", "--prompt-file", "f", "hi"], 2, "do not go together", "agentline run --help"),
    (&["run", "--agent", "a", "--agent", "b", "hi"], 2, "more than once", "agentline run --help"),
    // A file or a folder that cannot be used.
    (&["run", "--env-file", "/no/file", "hi"], 2, "--env-file: /no/file is not there", ""),
    (&["run", "--mcp", "/no/file", "hi"], 2, "--mcp: /no/file is not there", ""),
    (&["run", "--image", "/no/file", "hi"], 2, "--image: /no/file is not there", ""),
    (&["run", "--resource", "/no/file", "hi"], 2, "--resource: /no/file is not there", ""),
    (&["run", "--prompt-file", "/no/file"], 2, "--prompt-file: /no/file is not there", ""),
    (
        &["run", "--trace", "/no/folder/file", "hi"],
        2,
        "--trace: /no/folder/file is not there",
        "--trace NEW-FILE",
    ),
    (&["agent", "list", "--registry", "/no/file"], 2, "--registry: /no/file is not there", ""),
    (&["run", "-C", "/no/folder", "hi"], 2, "/no/folder", "agentline run -C"),
    (&["run", "-C", "", "hi"], 2, "", "agentline run"),
    // An agent that is not here.
    (&["run", "--agent", "nope", "hi"], 3, "no agent nope is installed", "agentline agent list"),
    (&["run", "--agent", "dmo", "hi"], 3, "demo is", "--agent demo"),
    (&["run", "--agent", "geminy", "hi"], 3, "gemini is", "npm install -g @google/gemini-cli"),
    (
        &["run", "--agent", "gemini", "hi"],
        3,
        "no agent gemini is installed",
        "npm install -g @google/gemini-cli",
    ),
    (
        &["run", "--agent", "claude", "hi"],
        3,
        "adapter",
        "@agentclientprotocol/claude-agent-acp && agentline agent add claude-code",
    ),
    (
        &["chat", "--agent", "codex"],
        3,
        "adapter",
        "@agentclientprotocol/codex-acp && agentline agent add codex-cli",
    ),
    (&["agent", "default", "geminy"], 3, "gemini is", "npm install"),
    (&["agent", "remove", "nope"], 3, "there is no", ""),
    (&["attach", "ping", "nope"], 3, "nope", "agentline chat --attachable"),
    // Commands of the hub, of gateways, and of traces.
    (&["gateway", "apc"], 2, "gateway has no command apc", "agentline gateway acp"),
    (&["gateway", "acp", "--agent", "nosuch"], 3, "no agent nosuch", "agentline agent list"),
    (&["trace", "shwo", "x"], 2, "trace has no command shwo", "agentline trace show x"),
    (&["trace", "show"], 2, "needs <TRACE>", "agentline run --trace run.trace \"fix it\""),
    (&["trace", "replay", "/no/file"], 2, "trace: /no/file is not there", ""),
    (&["trace", "import"], 2, "needs --output <FILE> and <CAPTURE>", "agentline trace import --output FILE"),
    (&["session", "wat", "s1"], 2, "session has no command wat", "agentline session wait s1"),
    (&["session", "send"], 2, "needs <ID>", "agentline session send s3 \"and now the docs\""),
    (&["session", "set", "s1"], 2, "needs <--model <ID>", "agentline session set s3 --model big"),
    (&["session", "fork"], 2, "needs --fresh", "agentline session fork --fresh"),
    (&["approval", "lst"], 2, "approval has no command lst", "agentline approval list"),
    (&["hub", "strt"], 2, "hub has no command strt", "agentline hub start"),
    (&["hub", "notify"], 2, "needs --test", "agentline hub notify --test"),
    (&["chat", "--announce", "--as"], 2, "--as needs a value", "agentline chat --announce --as ID"),
    (&["host", "ad"], 2, "host has no command ad", "agentline host"),
];

#[test]
fn each_mistake_is_told_with_a_command_that_helps() {
    assert!(MISTAKES.len() >= 80, "{}", MISTAKES.len());
    let bench = Bench::new();
    let mut wrong = Vec::new();
    for (typed, code, reason, helps) in MISTAKES {
        let ended = done(&mut bench.agentline(typed));
        let is_told = ended.err.contains(reason) && ended.err.contains(helps) && ended.err.contains("✗ ");
        let has_hint = helps.is_empty() || ended.err.contains("\n  try: ");
        // The parser's own advice would send a prompt to nobody.
        let is_ours = !ended.err.contains("tip:") && !ended.err.contains("Usage:");
        if ended.code != Some(*code) || !is_told || !has_hint || !is_ours || !ended.out.is_empty() {
            wrong.push(format!("{typed:?}: {ended:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), MISTAKES.len(), wrong.join("\n"));
}

#[test]
fn a_prompt_may_begin_with_a_dash() {
    let bench = Bench::new();
    for prompt in ["- fix it", "-x is broken", "--help is wrong", "--agent=x is no option"] {
        let ended = done(&mut bench.agentline(&["run", "-q", prompt, "--", AGENTLINE, "demo-agent"]));
        if prompt.contains('=') {
            assert_eq!(ended.code, Some(2), "{ended:?}");
        } else {
            assert_eq!((ended.code, &*ended.out), (Some(0), &*format!("{prompt}\n")), "{ended:?}");
        }
    }
}

#[test]
fn ambiguous_ids_have_one_exit_code() {
    let bench = Bench::new();
    for id in ["mine-a", "mine-b"] {
        assert_eq!(done(&mut bench.agentline(&["agent", "add", id, "--", AGENTLINE])).code, Some(0));
    }
    for typed in [
        &["run", "--agent", "mine", "hi"][..],
        &["chat", "--agent", "mine"],
        &["agent", "check", "mine"],
        &["agent", "show", "mine"],
        &["agent", "default", "mine"],
        &["agent", "enable", "mine"],
        &["agent", "set", "mine", "--env", "KEY"],
    ] {
        let ended = done(&mut bench.agentline(typed));
        assert!(ended.code == Some(2) && ended.err.contains("mine-a, mine-b"), "{typed:?}: {ended:?}");
    }
}
