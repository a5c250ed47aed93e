//! An agent that dialled in as a source of sessions: one machine around [`Acceptor`], so its link keeps its name.
//!
//! | the acceptor's | in the middle |
//! |---|---|
//! | `Hello`, `Accepted` | `Hello`, `Up` |
//! | `Announced` | `Announced`, and `Began` if a turn runs; it can be prompted without being opened |
//! | `TurnStarted` | `Began`, of ours at the write |
//! | `Updated` | news, with the update as it was written |
//! | `PermissionAsked`, `Settled` | `Asked`, also outside of turns; `Settled` |
//! | `TurnEnded` | `Ended` |
//! | `SessionOpened`, `Failed` | `Done`, and `Opened` of a session |
//! | `Notified` | `Other` |
//! | `Noticed` | `Noted` |
//! | `Closed` | `Down` |

use std::collections::BTreeSet;

use super::acp::{down, how, item, trouble};
use super::{
    AskId, Asked, By, Can, Done, Ended, Item, Moment, Name, News, Noted, Open, Question, Reply, Settled,
    Told, TurnId, Up, Wish,
};
use crate::acp::client::{PermissionAsked, Updated};
use crate::acp::content::TextContent;
use crate::acp::session::Implementation;
use crate::acp::update::Chunk;
use crate::acp::{ContentBlock, Json, PermissionOutcome, RequestKey, Update};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::reverse::acceptor::{self, Acceptor, Announced, Command, Config, Event, TurnEnded};
use crate::reverse::{Capabilities, Hello};

/// An agent that dialled in as a source of sessions: an [`Acceptor`], told in the words of [the vocabulary](super).
#[derive(Debug)]
pub struct Reverse {
    acceptor: Acceptor,
    /// Sessions on which a turn runs.
    running: BTreeSet<Name>,
    out: Outputs<Told>,
}

impl Machine for Reverse {
    type Config = Config;
    type Command = (Tag, Wish);
    type Event = Told;

    fn new(now: Now, config: Config) -> Self {
        let acceptor = Acceptor::new(now, config);
        let mut this = Self { acceptor, running: BTreeSet::new(), out: Outputs::default() };
        this.settle();
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.acceptor.handle(now, input);
        self.settle();
    }

    fn command(&mut self, now: Now, (tag, wish): (Tag, Wish)) -> Result<(), Refused> {
        let done = command(tag, wish).and_then(|command| self.acceptor.command(now, command));
        self.settle();
        done
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.acceptor.deadline()
    }
}

fn command(tag: Tag, wish: Wish) -> Result<Command, Refused> {
    Ok(match wish {
        Wish::Serve { .. } | Wish::FileDone { .. } => return Err(Refused::NotOffered("files and terminals")),
        Wish::Accept => Command::Accept,
        Wish::Refuse(reason) => Command::Refuse(reason),
        Wish::Open(Open::New, setup) => Command::NewSession { tag, setup },
        Wish::Prompt { session, turn, words } => {
            Command::Prompt { tag: Tag(turn.0), session, text: text(&words)? }
        }
        Wish::Cancel { session } => Command::Cancel { session },
        Wish::Answer { ask, reply } => {
            let request = RequestKey(ask.0);
            match reply {
                Reply::Choose(option) => {
                    Command::Answer { request, outcome: PermissionOutcome::selected(option) }
                }
                Reply::NotMe => Command::NoAnswer { request },
                Reply::Accept(_) | Reply::Decline | Reply::Cancel => {
                    Command::Answer { request, outcome: PermissionOutcome::Cancelled }
                }
            }
        }
        Wish::Leave => Command::Leave,
        Wish::Open(Open::Fork(_), _) => return Err(Refused::NotOffered("forking sessions")),
        Wish::Open(Open::Load(_), _) => return Err(Refused::NotOffered("loading sessions")),
        Wish::Open(Open::Resume(_), _) => return Err(Refused::NotOffered("resuming sessions")),
        Wish::List { .. } => return Err(Refused::NotOffered("a list of sessions")),
        Wish::Set { .. } => return Err(Refused::NotOffered("settings")),
        Wish::Aside { .. } => return Err(Refused::NotOffered("side questions")),
        Wish::Rules(_) => return Err(Refused::NotOffered("rules of approval")),
        Wish::OfRunner(_) => return Err(Refused::NotOffered("what runners have")),
        Wish::Close { .. } => return Err(Refused::NotOffered("closing sessions")),
        Wish::Delete { .. } => return Err(Refused::NotOffered("deleting sessions")),
        Wish::Login { .. } | Wish::Logout => return Err(Refused::NotOffered("logins")),
        Wish::Seen(_) => return Err(Refused::NotOffered("presence records")),
    })
}

/// The words of a prompt as the one text that the extension has. A link to a resource is its address.
pub(super) fn text(words: &[ContentBlock]) -> Result<String, Refused> {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => Ok(text.text.clone()),
        ContentBlock::ResourceLink(link) => Ok(link.uri.clone()),
        ContentBlock::Image(_)
        | ContentBlock::Audio(_)
        | ContentBlock::Resource(_)
        | ContentBlock::Unknown(_) => Err(Refused::NotOffered("anything but text")),
    };
    let texts: Vec<String> = words.iter().map(text).collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

impl Reverse {
    fn settle(&mut self) {
        while let Some(output) = self.acceptor.poll() {
            if let Some(event) = self.out.pass(output) {
                self.told(event);
            }
        }
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::Hello(hello) => self.out.tell(Told::Hello(Box::new(up(*hello)))),
            Event::Accepted(hello) => self.out.tell(Told::Up(Box::new(up(*hello)))),
            Event::Announced(announced) => {
                let Announced { session, cwd, title } = *announced;
                let news = News::Announced(Box::new(super::Announced { cwd, title }));
                self.news(session.clone(), news);
                // Whoever had no ear for its beginning has one now.
                if self.running.contains(&session) {
                    self.news(session, News::Began(By::There));
                }
            }
            Event::TurnStarted(session, tag) => {
                self.running.insert(session.clone());
                self.news(session, News::Began(tag.map_or(By::There, |tag| By::Us(TurnId(tag.0)))));
            }
            Event::Updated(updated) => self.out.tell(Told::News(updated_item(*updated))),
            Event::PermissionAsked(asked) => self.asked(*asked),
            Event::Settled { request, session, why } => {
                let how = match why {
                    acceptor::Settled::InTerminal => Settled::Elsewhere,
                    acceptor::Settled::Overtaken | acceptor::Settled::Cancelled => Settled::Withdrawn,
                    acceptor::Settled::TurnOver => Settled::TurnOver,
                    acceptor::Settled::Lost => Settled::Lost,
                };
                self.news(session, News::Settled(AskId(request.0), how));
            }
            Event::TurnEnded(ended) => {
                let TurnEnded { session, tag, end } = *ended;
                let ended = Ended { turn: tag.map(|tag| TurnId(tag.0)), ..how(end) };
                self.news(session.clone(), News::Ended(Box::new(ended)));
                self.running.remove(&session);
            }
            Event::SessionOpened(tag, session) => {
                // The name comes before what is said of it.
                self.done(tag, Ok(Done::Opened(session.clone(), Box::default())));
                self.news(session, News::Opened);
            }
            Event::Failed(tag, failure) => self.done(tag, Err(trouble(*failure))),
            Event::Notified(notified) => {
                self.out.tell(Told::Other(Box::new((notified.method, notified.params))));
            }
            Event::Noticed(notice) => self.out.tell(Told::Noted(Box::new(Noted::Odd(Json::new(&*notice))))),
            Event::Closed(closed) => self.out.tell(down(*closed)),
        }
    }

    fn asked(&mut self, PermissionAsked { request, asked }: PermissionAsked) {
        let question = Question::Permission {
            call: asked.tool_call,
            options: asked.options,
            why: None,
            meta: asked.meta,
        };
        let ask = Asked { ask: AskId(request.0), question, of: None, expires: None };
        self.news(asked.session_id, News::Asked(Box::new(ask)));
    }

    fn done(&mut self, tag: Tag, done: Result<Done, super::Trouble>) {
        self.out.tell(Told::Done(tag, Box::new(done)));
    }

    fn news(&mut self, session: Name, news: News) {
        let moment = if self.running.contains(&session) { Moment::Turn } else { Moment::Between };
        self.out.tell(Told::News(Item { session, moment, news, raw: None }));
    }
}

fn up(Hello { id, capabilities, .. }: Hello) -> Up {
    let Capabilities { prompt, cancel, new_session } = capabilities;
    let can = Can { prompt, cancel, new: new_session, streams: true, asks: true, ..Can::default() };
    Up { who: Some(Implementation { name: id, ..Implementation::default() }), can, ..Up::default() }
}

/// A bare text is told as one.
fn updated_item(updated: Updated) -> Item {
    match updated {
        Updated {
            session,
            moment,
            update:
                Update::Message(
                    speaker,
                    Chunk {
                        content: ContentBlock::Text(TextContent { text, annotations: None, meta: None }),
                        message_id,
                        meta: None,
                    },
                ),
            ..
        } => {
            let message = message_id.map(Into::into);
            Item { session, moment, news: News::Text { speaker, message, text }, raw: None }
        }
        updated => item(updated),
    }
}
