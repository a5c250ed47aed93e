//! `approval allow`, `deny` and `answer`.

use std::process::ExitCode;

use agentline_core::acp::OptionKind;
use agentline_core::hub::api::{ApprovalBrief, ApprovalRespond, Decision, Responded, SessionsList};
use agentline_core::subagent::Reply;
use serde::Serialize;
use serde_json::{Map, Value};

use super::question::{heading, question, respond};
use super::{Allow, Desk, Ids};
use crate::args::Format;
use crate::ask::{Answer, Entered};
use crate::hub::Link;
use crate::output::{self, In, Paint, line, lines, plain};
use crate::prompt::usage;
use crate::words::Problem;

impl Desk<'_> {
    pub(super) fn allow(&self, args: &Allow) -> Result<ExitCode, Problem> {
        self.each(&args.ids, |asked| {
            let respond =
                ApprovalRespond { approval_id: asked.approval_id.clone(), ..ApprovalRespond::default() };
            Ok(match (&args.option, args.always) {
                (Some(option), _) => ApprovalRespond { option_id: Some(option.clone()), ..respond },
                (None, true) => ApprovalRespond { option_id: Some(always(asked)?), ..respond },
                (None, false) => ApprovalRespond { decision: Some(Decision::Allow), ..respond },
            })
        })
    }

    pub(super) fn deny(&self, ids: &Ids) -> Result<ExitCode, Problem> {
        self.each(ids, |asked| {
            let approval_id = asked.approval_id.clone();
            Ok(ApprovalRespond { approval_id, decision: Some(Decision::Deny), ..ApprovalRespond::default() })
        })
    }

    pub(super) fn words(&self, id: &str, text: &str) -> Result<ExitCode, Problem> {
        let ids = Ids { id: vec![id.to_owned()] };
        self.each(&ids, |asked| {
            let mut question = question(asked, id);
            // Of a form it may be the object that programs write.
            let object = serde_json::from_str::<Map<String, Value>>(text).ok();
            let object = object.filter(|_| asked.schema.is_some() || asked.url.is_some());
            let answer = match (object, question.enter(text)) {
                (Some(content), _) => Some(Answer::Reply(Reply::Accept { content: Some(content) })),
                (None, Entered::Answer(answer)) => Some(answer),
                (None, Entered::Next | Entered::ShowAll | Entered::Nothing) => None,
            };
            answer.and_then(|answer| respond(asked, answer)).ok_or_else(|| {
                let takes = match asked.schema.is_some() {
                    true => "a JSON object with its fields".to_owned(),
                    false => question.call().replace(", then Enter", ""),
                };
                usage(format!("{} takes {takes}", plain(id)))
                    .hint(format!("agentline approval show {}", plain(id)))
            })
        })
    }

    /// Answers each. The first that cannot be answered is the end.
    fn each(
        &self,
        ids: &Ids,
        respond: impl Fn(&ApprovalBrief) -> Result<ApprovalRespond, Problem>,
    ) -> Result<ExitCode, Problem> {
        if ids.id.iter().any(|id| id == "all") {
            return Err(usage("each question is answered by itself").hint("agentline approval list --watch"));
        }
        let named: Vec<Option<&str>> = match &*ids.id {
            [] => vec![None],
            ids => ids.iter().map(|id| Some(&**id)).collect(),
        };
        for (at, id) in named.into_iter().enumerate() {
            let (mut link, asked) = self.find(id)?;
            let respond = respond(&asked)?;
            let responded = link.ask(&respond)?;
            let by_kind = respond.decision.is_some();
            self.answered(&mut link, &asked, &responded, by_kind, at == 0);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn answered(
        &self,
        link: &mut Link,
        asked: &ApprovalBrief,
        responded: &Responded,
        by_kind: bool,
        first: bool,
    ) {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(flatten)]
            responded: Named<'a>,
        }
        /// The kind of an option, beside the type of the row.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Named<'a> {
            approval_id: &'a str,
            title: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            option_id: Option<&'a str>,
            #[serde(rename = "kind", skip_serializing_if = "Option::is_none")]
            sort: Option<&'a str>,
            by: agentline_core::hub::api::By,
        }
        let Responded { approval_id, title, option_id, kind, by } = responded;
        if self.global.format() == Format::Json {
            let named =
                Named { approval_id, title, option_id: option_id.as_deref(), sort: kind.as_deref(), by: *by };
            // A reader that is gone does not take the answer back.
            let _ = output::print(&line(&Row { kind: "answer", responded: named }, first));
            return;
        }
        if self.global.quiet {
            return;
        }
        let session = asked.session_id.as_deref().map(|id| whose(link, id));
        let title = if asked.title.is_empty() { plain(title).into_owned() } else { heading(asked) };
        self.notes.line(&outcome(responded, &title, by_kind, session.as_deref(), self.notes.paint()));
    }
}

/// How it was answered: `✓ allowed once: run cargo test login (s3 try-claude-code)`. `title`: what was asked. `by_kind`:
/// the hub chose the option.
pub(crate) fn outcome(
    responded: &Responded,
    title: &str,
    by_kind: bool,
    session: Option<&str>,
    paint: Paint,
) -> String {
    let kind = responded.kind.as_deref();
    let what = match by_kind && kind == Some("allow_always") {
        true => In(paint.good, "✓ allowed ALWAYS (no 'once' was offered)").to_string(),
        false => lines::chosen(kind, paint),
    };
    let session = session.map_or_else(String::new, |session| format!(" ({session})"));
    format!("{what}: {title}{session}")
}

/// What people call a session.
fn whose(link: &mut Link, id: &str) -> String {
    let rows = link.ask(&SessionsList { all: true, ..SessionsList::default() }).unwrap_or_default();
    let row = rows.into_iter().find(|row| row.id == id);
    let host = link.route.host().map(str::to_owned);
    row.map_or_else(
        || plain(id).into_owned(),
        |row| crate::session::called(&agentline_core::hub::api::SessionBrief { host, ..row }),
    )
}

/// The option that allows for good, if there is one.
fn always(asked: &ApprovalBrief) -> Result<String, Problem> {
    let mut options = asked.options.iter().filter(|option| option.kind == OptionKind::AllowAlways);
    match (options.next(), options.next()) {
        (Some(option), None) => Ok(option.option_id.clone()),
        (Some(_), Some(_)) => {
            let ids: Vec<_> = asked
                .options
                .iter()
                .filter(|option| option.kind == OptionKind::AllowAlways)
                .map(|option| plain(&option.option_id))
                .collect();
            Err(usage(format!("there are several ways to allow it for good: {}", ids.join(", ")))
                .hint(format!("agentline approval allow {} --option ID", plain(&asked.approval_id))))
        }
        (None, _) => Err(usage(format!("{} cannot be allowed for good", plain(&asked.approval_id)))
            .hint(format!("agentline approval show {}", plain(&asked.approval_id)))),
    }
}
