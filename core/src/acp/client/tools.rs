//! What a tool call was announced with. A permission request may name the call by its id alone, and whoever decides
//! has to see what is decided.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::acp::SessionId;
use crate::acp::update::{Location, ToolCallUpdate, ToolKind, ToolStatus, Update};
use crate::rpc::{Json, cut};

/// The tool calls of the turns that run, the newest of them, within a budget.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    sessions: BTreeMap<SessionId, BTreeMap<Arc<str>, Call>>,
    /// Oldest first. What is named here and not there was forgotten with its session.
    order: VecDeque<(SessionId, Arc<str>)>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Call {
    title: Option<String>,
    name: Option<String>,
    kind: Option<ToolKind>,
    locations: Option<Vec<Location>>,
    input: Option<Json>,
}

/// What an update says of a call.
#[derive(Clone, Copy)]
struct News<'a> {
    title: Option<&'a str>,
    name: Option<&'a str>,
    kind: Option<ToolKind>,
    locations: Option<&'a [Location]>,
    input: Option<&'a Json>,
}

impl Tools {
    /// Keeps what an update says of a call.
    pub(crate) fn note(&mut self, session: &SessionId, update: &Update) {
        if let Update::ToolCall(call) = update {
            let news = News {
                title: Some(&call.title),
                name: call.name.as_deref(),
                kind: Some(call.kind),
                locations: Some(&call.locations),
                input: call.raw_input.as_ref(),
            };
            self.keep(session, &call.tool_call_id, news);
        } else if let Update::ToolCallUpdate(call) = update
            // Whoever is done asks for nothing any more.
            && !call.status.is_some_and(ToolStatus::is_final)
        {
            let news = News {
                title: call.title.as_deref(),
                name: call.name.as_deref(),
                kind: call.kind,
                locations: call.locations.as_deref(),
                input: call.raw_input.as_ref(),
            };
            if !news.is_empty() {
                self.keep(session, &call.tool_call_id, news);
            }
        }
    }

    /// Fills in what a permission request leaves out.
    pub(crate) fn complete(&self, session: &SessionId, about: &mut ToolCallUpdate) {
        let Some(call) = self.sessions.get(session).and_then(|calls| calls.get(&*about.tool_call_id)) else {
            return;
        };
        about.title = about.title.take().or_else(|| call.title.clone());
        about.kind = about.kind.or(call.kind);
        about.name = about.name.take().or_else(|| call.name.clone());
        about.locations = about.locations.take().or_else(|| call.locations.clone());
        about.raw_input = about.raw_input.take().or_else(|| call.input.clone());
    }

    /// A turn is over, and its calls with it.
    pub(crate) fn forget(&mut self, session: &SessionId) {
        let calls = self.sessions.remove(session).unwrap_or_default();
        self.bytes -= calls.iter().map(|(id, call)| call.size(id)).sum::<usize>();
        if self.sessions.is_empty() {
            *self = Self::default();
        }
    }

    fn keep(&mut self, session: &SessionId, id: &str, news: News<'_>) {
        let News { title, name, kind, locations, input } = news;
        if id.len() > TEXT {
            return;
        }
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.clone(), BTreeMap::new());
        }
        let Some(calls) = self.sessions.get_mut(session) else { return };
        let known = calls.get_key_value(id).map(|(id, _)| id.clone());
        let id = known.unwrap_or_else(|| {
            let id: Arc<str> = id.into();
            self.order.push_back((session.clone(), id.clone()));
            self.bytes += ENTRY + id.len();
            id
        });
        let call = calls.entry(id.clone()).or_default();
        self.bytes -= call.size(&id) - ENTRY - id.len();
        call.title = title.map(|title| cut(title, TEXT).to_owned()).or(call.title.take());
        call.name = name.map(|name| cut(name, TEXT).to_owned()).or(call.name.take());
        call.kind = kind.or(call.kind);
        if let Some(locations) = locations {
            call.locations = Some(locations).filter(|them| weight(them) <= INPUT).map(<[Location]>::to_vec);
        }
        if let Some(input) = input {
            call.input = Some(input).filter(|input| input.get().len() <= INPUT).cloned();
        }
        self.bytes += call.size(&id) - ENTRY - id.len();
        while self.bytes > BYTES || self.order.len() > CALLS {
            let Some((session, id)) = self.order.pop_front() else { break };
            let calls = self.sessions.get_mut(&session);
            self.bytes -= calls.and_then(|calls| calls.remove(&id)).map_or(0, |call| call.size(&id));
        }
    }
}

impl Call {
    fn size(&self, id: &str) -> usize {
        let input = self.input.as_ref().map_or(0, |input| input.get().len());
        let texts = [&self.title, &self.name].into_iter().flatten().map(String::len).sum::<usize>();
        let locations = self.locations.as_deref().map_or(0, weight);
        ENTRY + id.len() + texts + locations + input
    }
}

impl News<'_> {
    const fn is_empty(self) -> bool {
        let Self { title, name, kind, locations, input } = self;
        title.is_none() && name.is_none() && kind.is_none() && locations.is_none() && input.is_none()
    }
}

fn weight(locations: &[Location]) -> usize {
    locations.iter().map(|location| size_of::<Location>() + location.path.len()).sum()
}

/// Calls that are kept: far more than any turn has open.
const CALLS: usize = 256;
/// Bytes of all of them.
const BYTES: usize = 256 << 10;
/// Bytes of an id or a title. What is longer is cut; a call with a longer id is not kept.
const TEXT: usize = 4 << 10;
/// Bytes of an input, and of the paths of a call. Longer ones are not kept: whoever asks for a permission can send it along.
const INPUT: usize = 64 << 10;
/// What a call costs beside its texts.
const ENTRY: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::update::ToolCall;

    fn call(id: &str, title: &str, input: usize) -> Update {
        Update::ToolCall(ToolCall {
            tool_call_id: id.to_owned(),
            title: title.to_owned(),
            kind: ToolKind::Execute,
            raw_input: (input > 0).then(|| Json::new(&"x".repeat(input))),
            ..ToolCall::default()
        })
    }

    fn completed(tools: &Tools, session: &str, id: &str) -> ToolCallUpdate {
        let mut about = ToolCallUpdate { tool_call_id: id.to_owned(), ..ToolCallUpdate::default() };
        tools.complete(&session.into(), &mut about);
        about
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_newest() {
        let mut tools = Tools::default();
        let session = SessionId::from("s");
        for n in 0..10_000 {
            tools.note(&session, &call(&format!("{n}"), &"t".repeat(n % 9000), n % 70_000));
            assert!(tools.bytes <= BYTES && tools.order.len() <= CALLS);
            let counted: usize = tools.sessions[&session].iter().map(|(id, call)| call.size(id)).sum();
            assert_eq!(counted, tools.bytes);
        }
        assert_eq!(completed(&tools, "s", "9999").title.map(|title| title.len()), Some(999));
        assert_eq!(completed(&tools, "s", "0").title, None);
        tools.note(&session, &call(&"i".repeat(TEXT + 1), "t", 1));
        assert_eq!(completed(&tools, "s", &"i".repeat(TEXT + 1)).title, None);
        tools.forget(&session);
        assert_eq!((tools.bytes, tools.order.len(), tools.order.capacity()), (0, 0, 0));
    }

    #[test]
    fn each_session_has_calls_of_its_own() {
        let mut tools = Tools::default();
        tools.note(&"a".into(), &call("1", "of a", 1));
        tools.note(&"b".into(), &call("1", "of b", 0));
        assert_eq!(completed(&tools, "b", "1").title.as_deref(), Some("of b"));
        tools.forget(&"b".into());
        let about = completed(&tools, "a", "1");
        assert_eq!((about.title.as_deref(), about.kind), (Some("of a"), Some(ToolKind::Execute)));
        assert!(about.raw_input.is_some());
        assert_eq!(completed(&tools, "b", "1").title, None);
    }
}
