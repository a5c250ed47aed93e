//! What lasts from one row of a trace to another: turns, calls of tools, questions, requests, holds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::said::{Role, Said};

/// What lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lasting {
    Turn,
    Tool,
    Permission,
    /// Any other request, until its answer.
    Call,
    Hold,
}

/// Something that lasts, by the rows of its beginning and its end.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) kind: Lasting,
    pub(super) first: usize,
    /// `None`: it lasts to the end of the file.
    pub(super) last: Option<usize>,
    pub(super) label: String,
    /// How it ended.
    pub(super) status: String,
    pub(super) is_bad: bool,
    /// Whether our side owes the end: the application, and not the peer.
    pub(super) is_ours: bool,
    pub(super) session: Option<String>,
    link: Option<u32>,
}

/// Who has said something on a link.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Side {
    Ours,
    Theirs,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Ours => Self::Theirs,
            Self::Theirs => Self::Ours,
        }
    }
}

/// All that lasts, and what of it goes on.
#[derive(Debug, Default)]
pub(super) struct Spans {
    pub(super) all: Vec<Span>,
    open: BTreeMap<Key, usize>,
    held: Option<usize>,
}

/// The link, who has begun it, and its name.
type Key = (Option<u32>, Side, String);

impl Spans {
    /// Takes what is said in a row; what it ends is returned.
    pub(super) fn take(&mut self, row: usize, link: Option<u32>, side: Side, said: &Said) -> Option<&Span> {
        match &said.role {
            Role::Nothing => None,
            Role::Begins(kind, name) => {
                self.begin(row, (link, side, name.clone()), *kind, said);
                None
            }
            Role::Ends(name) => {
                let key = (link, side, name.clone());
                // A call may be over in the line that tells of it first.
                if name.starts_with("tool ") && !self.open.contains_key(&key) {
                    self.begin(row, key.clone(), Lasting::Tool, said);
                }
                self.end(row, &key, said)
            }
            Role::Answers(name) => self.end(row, &(link, side.other(), name.clone()), said),
        }
    }

    fn begin(&mut self, row: usize, key: Key, kind: Lasting, said: &Said) {
        // What is said of it again is no second one.
        if self.open.contains_key(&key) {
            return;
        }
        let is_named = matches!(kind, Lasting::Call) || said.text.is_empty();
        let span = Span {
            kind,
            first: row,
            last: None,
            label: if is_named { said.title.clone() } else { said.text.clone() },
            status: String::new(),
            is_bad: false,
            is_ours: key.1 == Side::Theirs,
            session: said.session.clone(),
            link: key.0,
        };
        self.open.insert(key, self.all.len());
        self.all.push(span);
    }

    fn end(&mut self, row: usize, key: &Key, said: &Said) -> Option<&Span> {
        let at = self.open.remove(key)?;
        let (kind, first) = self.all.get(at).map(|span| (span.kind, span.first))?;
        if kind == Lasting::Turn {
            // A turn that is over has no calls that go on.
            self.cut(row, "left open", |span| {
                span.kind == Lasting::Tool && span.link == key.0 && span.first >= first
            });
        }
        let span = self.all.get_mut(at)?;
        span.last = Some(row);
        span.status = if kind == Lasting::Tool { status(&said.text) } else { said.text.clone() };
        span.is_bad = said.is_bad;
        Some(span)
    }

    /// The link is over, and so is whatever went on on it.
    pub(super) fn end_link(&mut self, row: usize, link: Option<u32>) {
        self.cut(row, "cut off", |span| span.link == link && span.kind != Lasting::Hold);
    }

    fn cut(&mut self, row: usize, status: &str, is_over: impl Fn(&Span) -> bool) {
        let all = &mut self.all;
        self.open.retain(|_, at| match all.get_mut(*at) {
            Some(span) if is_over(span) => {
                span.last = Some(row);
                status.clone_into(&mut span.status);
                span.is_bad = true;
                false
            }
            Some(_) | None => true,
        });
    }

    /// The application takes no events, or takes them again.
    pub(super) fn hold(&mut self, row: usize, holds: bool) {
        match (holds, self.held.take()) {
            (true, Some(at)) => self.held = Some(at),
            (true, None) => {
                self.held = Some(self.all.len());
                self.all.push(Span {
                    kind: Lasting::Hold,
                    first: row,
                    last: None,
                    label: "held".into(),
                    status: String::new(),
                    is_bad: false,
                    is_ours: true,
                    session: None,
                    link: None,
                });
            }
            (false, Some(at)) => {
                if let Some(span) = self.all.get_mut(at) {
                    span.last = Some(row);
                }
            }
            (false, None) => {}
        }
    }

    /// What is waited for, innermost first: a question before the turn that asks it.
    pub(super) fn waits(&self) -> Option<&Span> {
        let open = self.open.values().filter_map(|at| self.all.get(*at));
        open.max_by_key(|span| span.first)
    }
}

/// The status at the end of what a call of a tool is shown as.
fn status(text: &str) -> String {
    text.rsplit(" · ").next().unwrap_or_default().to_owned()
}
