//! An ACP client in a world, who opens one session and says one thing after the other in it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use agentline_core::acp::client::{self, Answer, Client, Event as E, Which};
use agentline_core::acp::{ContentBlock, PermissionOutcome, SessionId, SessionSetup};
use agentline_core::{Machine, Now, Open, Tag};
use agentline_tests::world::Stream;
use agentline_tests::{Checked, Checks, Handle, Node, World};

/// What was seen, in words.
pub(crate) type Seen = Rc<RefCell<Vec<String>>>;

/// What the client does.
#[derive(Clone, Default)]
pub(crate) struct Editor {
    /// Said in turn, each when the one before is over.
    pub(crate) prompts: VecDeque<&'static str>,
    /// The option that is chosen whenever a tool is asked about.
    pub(crate) option: &'static str,
    /// A text at which the turn is cancelled.
    pub(crate) cancels_at: Option<&'static str>,
    /// Asked for when the session is open.
    pub(crate) asks: Vec<client::Command>,
}

impl Editor {
    pub(crate) fn says(prompts: &[&'static str]) -> Self {
        Self { prompts: prompts.iter().copied().collect(), option: "allow_once", ..Self::default() }
    }

    /// Sits down at that end of a connection.
    pub(crate) fn sit(self, world: &mut World<'_>, end: Stream) -> (Handle<Client>, Seen) {
        let seen = Seen::default();
        let mut app = App { editor: self, seen: Rc::clone(&seen), session: None, tags: 10 };
        let machine: Checked<Client> =
            Checked::new(Now::default(), (Checks::default(), client::Config::new(Open::Given(0))));
        let node = Node::new(machine, move |_, event, commands| app.hear(event, commands));
        (world.add_with_given(node, end), seen)
    }
}

struct App {
    editor: Editor,
    seen: Seen,
    session: Option<SessionId>,
    tags: u64,
}

impl App {
    fn hear(&mut self, event: E, commands: &mut Vec<client::Command>) {
        match event {
            E::Ready(_) => {
                let setup = SessionSetup::in_directory("/w");
                commands.push(client::Command::OpenSession { tag: Tag(1), which: Which::New, setup });
            }
            E::Answered(_, answer) => {
                if let Answer::SessionOpened { session, state, .. } = &*answer {
                    let modes = state.modes.iter().flat_map(|modes| &modes.available_modes);
                    let modes: Vec<&str> = modes.map(|mode| &*mode.id).collect();
                    let options = state.config_options.iter().flatten().map(|option| &*option.id);
                    let choices: Vec<&str> = modes.into_iter().chain(options).collect();
                    self.say(format!("open {}", choices.join(" ")).trim());
                    self.session = Some(session.clone());
                    commands.append(&mut self.editor.asks);
                    self.next(commands);
                } else {
                    self.say("done");
                }
            }
            E::Failed(_, failure) => self.say(&format!("failed: {failure}")),
            E::Text(text) => {
                self.say(&format!("{:?}: {}", text.speaker, text.text.trim()));
                if let (Some(at), Some(session)) = (self.editor.cancels_at, &self.session)
                    && text.text.contains(at)
                {
                    commands.push(client::Command::Cancel { session: session.clone() });
                }
            }
            E::Updated(updated) => self.say(updated.update.tag()),
            E::PermissionAsked(asked) => {
                let request = asked.request;
                let asked = asked.asked;
                let options: Vec<&str> = asked.options.iter().map(|option| &*option.option_id).collect();
                let title = asked.tool_call.title.as_deref().unwrap_or_default();
                self.say(&format!("{title}? {}", options.join(" ")));
                let outcome = PermissionOutcome::Selected { option_id: self.editor.option.into() };
                commands.push(client::Command::Answer { request, outcome });
            }
            E::TurnEnded(ended) => {
                match &ended.end {
                    Ok(stopped) => self.say(stopped.reason.as_str()),
                    Err(failure) => self.say(&format!("failed: {failure}")),
                }
                self.next(commands);
            }
            E::Closed(_) => self.say("closed"),
            _ => {}
        }
    }

    fn next(&mut self, commands: &mut Vec<client::Command>) {
        let (Some(session), Some(text)) = (self.session.clone(), self.editor.prompts.pop_front()) else {
            return;
        };
        self.tags += 1;
        let (tag, prompt) = (Tag(self.tags), vec![ContentBlock::text(text)]);
        commands.push(client::Command::Prompt { tag, session, prompt });
    }

    fn say(&self, text: &str) {
        self.seen.borrow_mut().push(text.to_owned());
    }
}
