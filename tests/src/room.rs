//! A conversation in a world: somebody types, an agent answers, and callers speak in from outside.

mod script;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::update::Update;
use agentline_core::acp::{Agent, PermissionOutcome, RequestKey, agent, client};
use agentline_core::attach::{Answer, Caller, Failure, caller, client as visitor};
use agentline_core::chat::{Chat, Command, Config, Event, Limits, Source};
use agentline_core::conversation::{self, Choice, Finished, Policy, Setting};
use agentline_core::reverse::acceptor::{self, Acceptor};
use agentline_core::reverse::{self, Capabilities};
use agentline_core::{Address, Machine, Now, Open, Secret, SpawnSpec, Stderr, Tag};

use self::script::Script;
use crate::acp::with_key;
use crate::attach::{self, RECORD, TOKEN_FILE};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::world::{Faults, Handle, Node, Stream, World};

/// A world with one conversation in it.
pub struct Room<'d> {
    /// Where it is.
    pub world: World<'d>,
    /// Who holds it.
    pub chat: Handle<Chat>,
    told: Rc<RefCell<Told>>,
}

/// What the one who sits there was told.
#[derive(Debug, Default)]
struct Told {
    /// In words, since they were last taken.
    news: Vec<String>,
    begun: Vec<(String, Source)>,
    /// Typed lines that were taken back.
    pub recalled: Vec<String>,
    finished: Vec<Finished>,
    closed: usize,
    questions: Vec<RequestKey>,
}

/// What a caller was told of its one prompt.
#[derive(Debug, Default)]
pub struct Heard {
    /// Prompts that were not refused.
    pub asked: usize,
    /// The answers to them.
    pub answers: Vec<Result<Answer, Failure>>,
    /// Whether it is gone, and how often it said so.
    pub closed: usize,
}

impl<'d> Room<'d> {
    /// A conversation that begins. `open`: others can speak into it.
    #[must_use]
    pub fn new(dice: Dice<'d>, faults: Faults, policy: Policy, open: bool) -> Self {
        let secret = dice.clone().secret();
        Self::of(dice, faults, config(policy, open, &secret), secret)
    }

    /// A conversation in a world with a hub in it, who hears its link.
    #[must_use]
    pub fn shown(
        dice: Dice<'d>,
        faults: Faults,
        policy: Policy,
        hub: impl FnMut(Now, acceptor::Event, &mut Vec<acceptor::Command>) + 'static,
    ) -> (Self, Handle<Acceptor>) {
        let secret = dice.clone().secret();
        let mut world = World::new(dice, faults);
        let (here, there) = world.stream();
        let capabilities = Capabilities { prompt: true, cancel: true, new_session: false };
        let announce = reverse::agent::Config {
            open: Open::Given(0),
            capabilities,
            ..reverse::agent::Config::connect(Address("/".into()), "my-agent")
        };
        let door = acceptor::Config { open: Some(Open::Given(0)), ..acceptor::Config::taken() };
        let machine = Checked::around(Acceptor::new(world.now(), door), Checks::default());
        let machine = machine.and_secrets(vec![secret.clone()]);
        let hub = world.add_with_given(Node::new(machine, hub), there);
        let config = Config { announce: Some(announce), ..config(policy, true, &secret) };
        (Self::in_world(world, config, Some(here), secret), hub)
    }

    fn of(dice: Dice<'d>, faults: Faults, config: Config, secret: String) -> Self {
        Self::in_world(World::new(dice, faults), config, None, secret)
    }

    fn in_world(mut world: World<'d>, config: Config, given: Option<Stream>, secret: String) -> Self {
        let words = vec![secret];
        let theirs = words.clone();
        world.program("agent", move |now, _: &SpawnSpec| {
            let mut script = Script::default();
            let machine = Checked::around(Agent::new(now, script::agent()), Checks::default());
            let machine = machine.and_secrets(theirs.clone());
            Node::new(machine, move |_, event, say| script.hear(event, say))
                .on_term(|| agent::Command::Shutdown)
        });
        let told = Rc::new(RefCell::new(Told::default()));
        let hears = Rc::clone(&told);
        let machine = Checked::around(Chat::new(world.now(), config), Checks::default());
        let machine = machine.and_secrets(words);
        let node = Node::new(machine, move |_: Now, event, _: &mut Vec<Command>| {
            hears.borrow_mut().hear(event);
        });
        let chat = match given {
            Some(given) => world.add_with_given(node, given),
            None => world.add(node),
        };
        Self { world, chat, told }
    }

    /// A conversation in a world where nothing goes wrong, until its agent waits for the first line.
    #[must_use]
    pub fn quiet(policy: Policy, open: bool) -> Self {
        let mut room = Self::new(Dice::new(&[]), Faults::NONE, policy, open);
        room.settle();
        room.news();
        room
    }

    /// A conversation in that session, with that set in it, in a world where nothing goes wrong.
    #[must_use]
    pub fn opened(session: Choice, settings: Vec<Setting>) -> Self {
        let secret = Dice::new(&[]).secret();
        let mut config = config(Policy::Ask, true, &secret);
        (config.conversation.session, config.conversation.settings) = (session, settings);
        let mut room = Self::of(Dice::new(&[]), Faults::NONE, config, secret);
        room.settle();
        room
    }

    /// Types a line.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn types(&mut self, text: &str) {
        self.command(Command::Say(text.to_owned()));
    }

    /// Asks for something.
    ///
    /// # Panics
    ///
    /// It is refused.
    pub fn command(&mut self, command: Command) {
        assert_eq!(self.world.command(self.chat, command), Ok(()));
        self.settle();
    }

    /// Answers the oldest question by the option of that id.
    ///
    /// # Panics
    ///
    /// There is no question.
    pub fn decides(&mut self, option: &str) {
        let request = self.told.borrow_mut().questions.remove(0);
        self.command(Command::Answer { request, outcome: PermissionOutcome::selected(option) });
    }

    /// Somebody comes, says this, and leaves when it is answered.
    pub fn caller(&mut self, text: &str) -> (Handle<Caller>, Rc<RefCell<Heard>>) {
        let heard = Rc::new(RefCell::new(Heard::default()));
        let (hears, text) = (Rc::clone(&heard), text.to_owned());
        let machine = Checked::around(Caller::new(self.world.now(), attach::target()), Checks::default());
        let caller = self.world.add(Node::new(machine, move |_, event, say| {
            hears.borrow_mut().hear(event, &text, say);
        }));
        self.settle();
        (caller, heard)
    }

    /// Lets everything happen that needs no time.
    pub fn settle(&mut self) {
        let now = self.world.now().mono;
        self.world.run_until(now);
    }

    /// What was told since this was asked last.
    pub fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told.borrow_mut().news)
    }

    /// Typed lines that were taken back, in order.
    #[must_use]
    pub fn recalled(&self) -> Vec<String> {
        self.told.borrow().recalled.clone()
    }

    /// The lines that were said to the agent, in order.
    #[must_use]
    pub fn begun(&self) -> Vec<(String, Source)> {
        self.told.borrow().begun.clone()
    }

    /// The results, in order.
    #[must_use]
    pub fn finished(&self) -> Vec<Finished> {
        self.told.borrow().finished.clone()
    }

    /// How often it was told that everything is over.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.told.borrow().closed
    }

    /// Files of the conversation that are there.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let files = [PathBuf::from(TOKEN_FILE), PathBuf::from(RECORD)];
        files.into_iter().filter(|path| self.world.file(path).is_some()).collect()
    }
}

impl Told {
    fn hear(&mut self, event: Event) {
        let news = match event {
            Event::Said(said) => return self.said(said),
            Event::Begun(line) => {
                let mark = if line.from == Source::Keyboard { "›" } else { "»" };
                let waited = if line.waited { " (waited)" } else { "" };
                self.begun.push((line.text.clone(), line.from));
                format!("{mark} {}{waited}", line.text)
            }
            Event::Cancelling { from_outside } => {
                format!("cancelling{}", if from_outside { " (from outside)" } else { "" })
            }
            Event::Recalled(lines) => {
                self.recalled.extend_from_slice(&lines);
                format!("taken back: {}", lines.join(", "))
            }
            Event::Listening(attachment) => format!("listening at {}", attachment.attach_socket),
            Event::Detached(why) => format!("detached: {why:?}"),
            Event::PresenceFailed { .. } => "no presence".to_owned(),
            Event::Shown => "shown".to_owned(),
            Event::Hidden(closed) => format!("hidden: {}", closed.cause),
        };
        self.news.push(news);
    }

    fn said(&mut self, event: conversation::Event) {
        use conversation::Event as Said;
        let news = match event {
            Said::Text(text) => text.text,
            Said::PermissionAsked(asked) => {
                self.questions.push(asked.request);
                format!("? {}", asked.asked.tool_call.title.unwrap_or_default())
            }
            Said::PermissionDecided(decision) => {
                self.questions.retain(|question| *question != decision.request);
                format!("{:?} by {:?}", decision.decision, decision.by)
            }
            Said::Finished(finished) => {
                let error = finished.error.as_ref().map(|problem| format!(": {problem}"));
                let news = format!("{:?}{}", finished.outcome, error.unwrap_or_default());
                self.finished.push(*finished);
                news
            }
            Said::Closed(_) => {
                self.closed += 1;
                "closed".to_owned()
            }
            Said::Updated(updated) => {
                if let Update::ToolCall(call) = updated.update {
                    format!("tool {}", call.title)
                } else {
                    format!("{:?}", updated.update)
                }
            }
            Said::Started(_)
            | Said::Ready(_)
            | Said::SessionOpened(_)
            | Said::Listed(_)
            | Said::QuestionAsked(_)
            | Said::QuestionDecided(_)
            | Said::PageDone(_)
            | Said::FileWanted(_)
            | Said::Hosted(_)
            | Said::Retrying(_)
            | Said::Answered(_)
            | Said::Line(_)
            | Said::Stderr(_)
            | Said::Noticed(_) => return,
        };
        self.news.push(news);
    }
}

impl Heard {
    fn hear(&mut self, event: caller::Event, text: &str, say: &mut Vec<caller::Command>) {
        use visitor::{Command as Ask, Event as Said};
        match event {
            caller::Event::Said(Said::Ready(_)) => {
                self.asked += 1;
                let prompt = Ask::Prompt { session: None, text: text.to_owned() };
                say.push(caller::Command::Ask(prompt));
            }
            caller::Event::Said(Said::Answered(answer)) => {
                self.answers.push(answer);
                say.push(caller::Command::Ask(Ask::Shutdown));
            }
            caller::Event::Said(Said::Closed(_)) => self.closed += 1,
            caller::Event::Said(Said::Noticed(_)) | caller::Event::Cancelled(_) => {}
        }
    }
}

/// Anybody may speak at any time, the agent and the connections may break: each line has one end, each caller
/// one answer, and nobody is left behind.
///
/// # Panics
///
/// That does not hold.
pub fn faulty(data: &[u8]) {
    let mut dice = Dice::new(data);
    let policy = *dice.pick(&[Policy::Reject, Policy::Ask]);
    let moves = Moves::of(&mut dice);
    moves.play(Room::new(dice, Faults { jump: false, ..Faults::ALL }, policy, true));
}

/// The same with a hub, who prompts, cancels and answers as well.
///
/// # Panics
///
/// That does not hold.
#[expect(clippy::wildcard_enum_match_arm, reason = "an application looks for the few events that it acts on")]
pub fn faulty_and_shown(data: &[u8]) {
    let mut dice = Dice::new(data);
    let policy = *dice.pick(&[Policy::Reject, Policy::Ask]);
    let (cancels, answers) = (dice.once_in(3), dice.below(3));
    let mut prompts: Vec<String> =
        (0..dice.below(4)).map(|n| format!("{} hub {n}", dice.pick(&WORDS))).collect();
    let hub = move |_, event, say: &mut Vec<acceptor::Command>| {
        use acceptor::{Command, Event};
        let mut prompt = |session| {
            let text = prompts.pop();
            text.map(|text| Command::Prompt { tag: Tag(prompts.len() as u64), session, text })
        };
        match event {
            Event::Hello(_) => say.push(Command::Accept),
            Event::Announced(announced) => say.extend(prompt(announced.session)),
            Event::TurnStarted(session, _) if cancels => say.push(Command::Cancel { session }),
            Event::TurnEnded(ended) => say.extend(prompt(ended.session)),
            Event::PermissionAsked(asked) if answers > 0 => {
                let outcome = if answers == 1 {
                    PermissionOutcome::selected("yes")
                } else {
                    PermissionOutcome::Cancelled
                };
                say.push(Command::Answer { request: asked.request, outcome });
            }
            _ => {}
        }
    };
    let moves = Moves::of(&mut dice);
    let (mut room, hub) = Room::shown(dice, Faults { jump: false, ..Faults::ALL }, policy, hub);
    room.world.command_in(MINUTE * 61, hub, acceptor::Command::Leave);
    moves.play(room);
}

/// What happens in a faulty room.
struct Moves {
    typed: Vec<(Duration, String)>,
    said: Vec<String>,
    cancels: Vec<Duration>,
    end: Command,
}

impl Moves {
    fn of(dice: &mut Dice<'_>) -> Self {
        Self {
            typed: (0..dice.below(5)).map(|n| (dice.pause(), format!("{} {n}", dice.pick(&WORDS)))).collect(),
            said: (0..dice.below(4)).map(|n| format!("{} out {n}", dice.pick(&WORDS))).collect(),
            cancels: (0..dice.below(4)).map(|_| dice.pause() * 3).collect(),
            end: dice.pick(&[Command::Finish, Command::Shutdown]).clone(),
        }
    }

    fn play(self, mut room: Room<'_>) {
        let Self { typed, said, cancels, end } = self;
        for (at, text) in &typed {
            room.world.command_in(*at, room.chat, Command::Say(text.clone()));
        }
        for at in cancels {
            room.world.command_in(at, room.chat, Command::Cancel);
        }
        let callers: Vec<_> = said.iter().map(|text| room.caller(text)).collect();
        // What hangs is cancelled once in a while, so that a conversation that finishes comes to its end.
        for n in 1..40 {
            room.world.command_in(MINUTE * n, room.chat, Command::Cancel);
        }
        room.world.command_in(MINUTE * 30, room.chat, end);
        room.world.command_in(MINUTE * 60, room.chat, Command::Shutdown);
        room.world.run();

        assert!(room.world.is_over(room.chat), "the conversation is not over");
        assert_eq!((room.closed(), room.world.processes()), (1, 0), "somebody is left behind");
        let (begun, finished) = (room.begun(), room.finished().len());
        assert!(finished == begun.len() || finished == begun.len() + 1, "{begun:?}: {finished} ends");
        for (handle, heard) in &callers {
            assert!(room.world.is_over(*handle));
            let heard = heard.borrow();
            assert_eq!((heard.asked, heard.closed), (heard.answers.len(), 1), "{heard:?}");
        }
        let mut once: Vec<&String> = begun.iter().map(|(text, _)| text).collect();
        once.sort_unstable();
        assert!(once.windows(2).all(|two| two[0] != two[1]), "{once:?}");
    }
}

fn config(policy: Policy, open: bool, secret: &str) -> Config {
    let spec = SpawnSpec {
        program: "agent".into(),
        env: vec![("KEY".into(), Secret::new(secret.into()))],
        stderr: Stderr::Pipe,
        cwd: "/p".into(),
        ..SpawnSpec::default()
    };
    let setup = with_key("/p", Some(secret));
    Config {
        conversation: conversation::Config {
            policy,
            ..conversation::Config::new(client::Config::new(Open::spawn(spec)), setup)
        },
        attach: open.then(attach::config),
        announce: None,
        limits: Limits { lines: 3, ..Limits::default() },
    }
}

const WORDS: [&str; 8] = ["say so", "hang", "ask me", "tool so", "fail", "deaf", "break it", "stop refusal"];
const MINUTE: Duration = Duration::from_secs(60);
