//! The reverse extension: a hub's side of a link and an agent that dials in, each alone, each against a model, and the two
//! against each other in faulty worlds.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for the few events that it is about")]

mod acceptor;
mod agent;
mod chat;
mod cuts;
mod model;
mod source;
mod worlds;

use std::time::Duration;

use agentline_core::reverse::acceptor::{Acceptor, Command, Config, Event};
use agentline_core::{Machine, Tag};
use agentline_tests::desk::Desk;

/// A link that nothing was said on.
fn taken() -> Desk<Acceptor> {
    Desk::new(Config::taken())
}

/// A link of an agent that was let in and offers everything, with a session `s`.
fn link() -> Desk<Acceptor> {
    let mut desk = taken();
    desk.hear(&[&hello("my-agent", r#"{"prompt":true,"cancel":true,"newSession":true}"#)]);
    desk.run([Command::Accept]);
    desk.hear(&[&announce("s")]);
    desk.said();
    desk.events.clear();
    desk
}

fn hello(id: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"h","method":"_botbus/hello","params":{{"id":"{id}","version":1,"capabilities":{capabilities}}}}}"#
    )
}

fn note(method: &str, session: &str, rest: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"sessionId":"{session}"{rest}}}}}"#)
}

fn announce(session: &str) -> String {
    note("_botbus/session", session, r#","cwd":"/w","title":"t""#)
}

fn turn(session: &str, state: &str) -> String {
    note("_botbus/turn", session, &format!(r#","state":"{state}""#))
}

fn chunk(session: &str, kind: &str, text: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{text}"}}}}"#);
    note("session/update", session, &format!(r#","update":{update}"#))
}

fn question(id: u32, session: &str, call: &str) -> String {
    let options = r#"[{"optionId":"y","name":"yes","kind":"allow_once"},{"optionId":"n","name":"no","kind":"reject_once"}]"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"{call}"}},"options":{options}}}}}"#
    )
}

fn resolved(session: &str, call: &str) -> String {
    note("_botbus/permission_resolved", session, &format!(r#","toolCallId":"{call}""#))
}

fn prompt(tag: u64) -> Command {
    Command::Prompt { tag: Tag(tag), session: "s".into(), text: "go".into() }
}

/// What a line of the hub's is about, in a few words.
fn brief(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let id = &line["id"];
    if let Some(method) = line["method"].as_str() {
        let of = line["params"]["sessionId"].as_str().unwrap_or_default();
        return if id.is_null() { format!("{method} {of}") } else { format!("{id} {method} {of}") };
    }
    match (&line["error"]["code"], &line["result"]["outcome"]) {
        (code, _) if !code.is_null() => format!("{id} error {code}"),
        (_, outcome) if !outcome.is_null() => {
            format!("{id} {}", outcome["optionId"].as_str().unwrap_or("cancelled"))
        }
        _ => format!("{id} {}", line["result"]),
    }
}

/// What a hub is told, in a few words.
fn word(event: &Event) -> String {
    use agentline_core::acp::Update;
    match event {
        Event::Hello(hello) => format!("hello {}", hello.id),
        Event::Accepted(_) => "accepted".to_owned(),
        Event::Announced(session) => format!("announced {}", session.session),
        Event::TurnStarted(_, tag) => format!("started {}", by(*tag)),
        Event::Updated(updated) => {
            let text = match &updated.update {
                Update::Message(_, chunk) => chunk.content.as_text().unwrap_or_default().to_owned(),
                update => update.tag().to_owned(),
            };
            format!("{:?} {text}", updated.moment).to_lowercase()
        }
        Event::PermissionAsked(asked) => format!("asked {}", asked.asked.tool_call.tool_call_id),
        Event::Settled { why, .. } => format!("settled {why:?}"),
        Event::TurnEnded(ended) => {
            let end = ended
                .end
                .as_ref()
                .map_or_else(|why| format!("{why:?}"), |end| end.reason.as_str().to_owned());
            format!("ended {} {end}", by(ended.tag))
        }
        Event::SessionOpened(tag, session) => format!("opened {} {session}", tag.0),
        Event::Failed(tag, why) => format!("failed {} {why:?}", tag.0),
        Event::Notified(notified) => format!("notified {}", notified.method),
        Event::Noticed(notice) => format!("noticed {}", notice.kind()),
        Event::Closed(closed) => format!("closed {:?}", closed.cause),
        _ => "new".to_owned(),
    }
}

fn by(tag: Option<Tag>) -> String {
    tag.map_or_else(|| "there".to_owned(), |tag| tag.0.to_string())
}

/// What was told and written since the last look, in a few words.
trait Looking {
    fn told(&mut self) -> Vec<String>;
    fn wrote(&mut self) -> Vec<String>;
}

impl Looking for Desk<Acceptor> {
    fn told(&mut self) -> Vec<String> {
        self.events.drain(..).map(|event| word(&event)).collect()
    }

    fn wrote(&mut self) -> Vec<String> {
        self.said().iter().map(|line| brief(line)).collect()
    }
}

/// The key of the question that was asked last.
fn key<M: Machine<Event = Event>>(desk: &Desk<M>) -> agentline_core::acp::RequestKey {
    let asked = desk.events.iter().rev().find_map(|event| match event {
        Event::PermissionAsked(asked) => Some(asked.request),
        _ => None,
    });
    asked.expect("a question")
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
