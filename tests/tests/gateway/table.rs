//! The table of the page of gateways, from what fronts have words for and what sources say that they can.

use agentline_core::acp::{agent, client};
use agentline_core::galley::{bridge, desktop};
use agentline_core::gateway::{AttachConfig, FrontConfig, GalleyConfig};
use agentline_core::session::{AttachedConfig, Can, Source, SourceConfig, Told, galley};
use agentline_core::{Heard, Open, Peer, SpawnSpec};
use agentline_tests::attach;
use agentline_tests::desk::Desk;

fn fronts() -> [(&'static str, Can); 3] {
    let setup = Default::default;
    let acp = FrontConfig::Acp(Box::new(agent::Config::on_stdio()));
    let attach = FrontConfig::Attach(Box::new(AttachConfig { server: attach::config(), setup: setup() }));
    let bridge = bridge::Config::on_stdio("s", Default::default());
    let galley = GalleyConfig { bridge, setup: setup(), llm: None, llm_name: None };
    let galley = FrontConfig::Galley(Box::new(galley));
    [("ACP", acp.words()), ("attach", attach.words()), ("Galley", galley.words())]
}

/// What a source that is started so, and hears that, says that it can.
fn can(config: SourceConfig, lines: &[&str]) -> Can {
    let mut desk = Desk::<Source>::new(config);
    let link = desk.connecting.pop_front().expect("it opens a link");
    desk.heard(link, Heard::Opened(Peer::default()));
    for line in lines {
        desk.send(link, format!("{line}\n").as_bytes());
    }
    let up = desk.events.into_iter().find_map(|told| match told {
        Told::Up(up) => Some(up.can),
        _ => None,
    });
    up.expect("it is up")
}

fn sources() -> [(&'static str, Can); 3] {
    let spawn = || Open::spawn(SpawnSpec::default());
    let agent = SourceConfig::Acp(Box::new(client::Config::new(spawn())));
    let runner = galley::Config { desktop: desktop::Config::new(spawn()), session: "s".into() };
    let terminal = AttachedConfig { target: attach::target(), name: "t".into() };
    let offers = r#"{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"sessionCapabilities":{"list":{},"close":{},"resume":{},"delete":{}},"auth":{"logout":{}}}"#;
    let greeting = format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{offers}}}}}"#
    );
    let ready = r#"{"sessionId":"s","protocolVersion":"0.1","gaCommit":"u","gaCommitDate":"u","gaPath":"/g","llmName":"m","cwd":"/","pid":1,"availableLLMs":[],"timestamp":"2026-07-22T00:00:00+00:00","kind":"ready"}"#;
    let attached = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"agenticaAttach":true},"agentInfo":{"name":"a","version":"1"}}}"#;
    let loaded = r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"x","cwd":"/w","busy":false}}"#;
    [
        ("agent", can(agent, &[&greeting])),
        ("runner", can(SourceConfig::Runner(Box::new(runner)), &[ready])),
        ("terminal", can(SourceConfig::Attached(Box::new(terminal)), &[attached, loaded])),
    ]
}

/// A row: whether a client asks for it, or a source tells it.
type Row = (&'static str, bool, fn(&Can) -> bool);

const ROWS: [Row; 16] = [
    ("prompts", true, |can| can.prompt),
    ("pictures", true, |can| can.images),
    ("sound", true, |can| can.audio),
    ("whole resources", true, |can| can.embed),
    ("a cancel", true, |can| can.cancel),
    ("modes, models, options", true, |can| can.set),
    ("side questions", true, |can| can.aside),
    ("rules of approval", true, |can| can.rules),
    ("old sessions, with their history", true, |can| can.load),
    ("old sessions, without it", true, |can| can.resume),
    ("a list of sessions", true, |can| can.list),
    ("closing a session", true, |can| can.close),
    ("deleting a session", true, |can| can.delete),
    ("a logout", true, |can| can.logout),
    ("text as it comes", false, |can| can.streams),
    ("its questions", false, |can| can.asks),
];

#[test]
fn the_page_says_what_passes_in_each_pair() {
    let (fronts, sources) = (fronts(), sources());
    let pairs = || fronts.iter().flat_map(|front| sources.iter().map(move |source| (front, source)));
    let line = |cells: Vec<String>| format!("//! | {} |", cells.join(" | "));
    let titles = pairs().map(|((front, _), (source, _))| format!("{front} ← {source}"));
    let mut table = vec![format!("//! | | {} |", titles.collect::<Vec<_>>().join(" | "))];
    table.push(format!("//! |---|{}", "---|".repeat(pairs().count())));
    for (name, is_asked, has) in ROWS {
        let cells = pairs().map(|((_, words), (_, can))| match (has(words), has(can)) {
            (true, true) => "carried",
            (false, true) => "lost",
            (true, false) if is_asked => "refused",
            (true | false, false) => "–",
        });
        table.push(line([name].into_iter().chain(cells).map(str::to_owned).collect()));
    }
    let table = table.join("\n");
    let page = include_str!("../../../core/src/gateway/mod.rs");
    assert!(page.contains(&table), "it should say:\n{table}");
}
