//! `agentline chat`: talk to an agent, and let others speak into it.

mod announce;
mod desk;
mod editor;
mod history;
pub(crate) mod host;
mod keyboard;
mod keys;
mod modes;
mod orders;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::words::{Kind, Phase, Problem, Verb};
use agentline_blocking::Handle;
use agentline_core::acp::RequestKey;
use agentline_core::acp::client::Timeouts;
use agentline_core::acp::session::{AuthMethod, McpServer};
use agentline_core::attach::server::Why;
use agentline_core::chat::{Chat, Command, Config, Event, Limits, Source};
use agentline_core::conversation;
use agentline_core::rules::Rules;
use agentline_core::subagent::{self, Finished};
use agentline_core::trace::{Masks, Tap};
use agentline_core::{Open, Secret};
use agentline_os::workspace;

use crate::args::{Child, Consent, Format, Global, Permission, Session, duration};
use crate::ask::{Asked, Known};
use crate::consent;
use crate::failure::{Advice, Whose};
use crate::find;
use crate::guard;
use crate::login;
use crate::mcp;
use crate::output::{EXPIRED, In, Json, News, Notes, Screen, Sink, Start, Text, is_clever, unwritten};
use crate::plan::{self, Spawn};
use crate::prompt;
use crate::signals::{Calls, Signals};
use crate::trace::{Record, Recorded, Trace};
use announce::Announced;
pub(crate) use desk::{Desk, Typed};
use history::History;
pub(crate) use keyboard::Keyboard;
use orders::Orders;

/// Talks to an agent. Without a terminal each line of stdin is a prompt, and is read when the one before is answered.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentline chat                               the default agent
  agentline chat --attachable --agent gemini   others can speak into it: agentline attach send …
  agentline chat --resume last                 goes on with the last session of this folder
  printf 'hello\\nask\\n' | agentline chat -q    one answer after the other

Keys: Enter sends, Alt-Enter begins a new line, the arrows call back what was typed before. Ctrl-C cancels the
turn and gives back what waits for its end, once more it ends the agent; Ctrl-D leaves, Ctrl-Z stops.
Commands: /help, /list-agents, /announce, /quit. Any other is the agent's.
What is typed is kept for the next time, unless it begins with a blank.")]
pub(crate) struct Args {
    #[command(flatten)]
    child: Child,
    /// Let others speak into the session [default: if AGENTICA_ATTACH_ENABLED is 1]
    #[arg(long)]
    attachable: bool,
    /// Show the conversation to a hub that runs, which may speak into it and answer its questions
    #[arg(long)]
    announce: bool,
    /// With --announce: as the agent of that id [default: the agent's own]
    #[arg(long = "as", value_name = "ID", requires = "announce")]
    as_agent: Option<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    session: Session,
    /// MCP servers for the session: a JSON array as in ACP, or the object of servers of an .mcp.json
    #[arg(long, value_name = "FILE")]
    mcp: Option<PathBuf>,
    /// For the whole conversation, such as 10s, 5m; a bare number is seconds [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// For the handshake
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    init_timeout: Duration,
    /// For silence during a turn, while our output is read [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_timeout: Option<Duration>,
    /// For the agent's answer to a cancel
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    cancel_grace: Duration,
    #[command(flatten)]
    record: Record,
}

pub(crate) fn run(args: &Args, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    if args.consent.permits.permission == Some(Permission::Hub) {
        let message = "a chat shows itself to the hub, which then answers as well as you do";
        return Err(prompt::usage(message).hint("agentline chat --announce"));
    }
    let variables = prompt::variables(&args.child.environment)?;
    let mcp_servers = args.mcp.as_deref().map(mcp::servers).transpose()?.unwrap_or_default();
    let setup = args.session.setup()?;
    let (own, questions) = (args.consent.permits.rules.read()?, args.consent.questions()?);
    let trace = args.record.file()?;
    if !global.quiet {
        variables.warn(notes);
    }
    let mut start = Start::unknown(&args.child);
    let known = Masks::new(&variables.secrets().collect::<Vec<_>>());
    let Spawn { spec, whose, mut secrets, spellings } =
        plan::spawn(&args.child, variables, &mut start).map_err(|problem| problem.masked(&known))?;
    let pairs = mcp_servers.iter().flat_map(McpServer::pairs);
    secrets.extend(pairs.map(|pair| pair.value.expose().as_bytes().to_vec().into()));
    let masks = Rc::new(Masks::new(&secrets));
    start.mask(&masks);

    let rules = Rules { own, project: consent::of_project(&spec.cwd)? };
    if !rules.is_empty() {
        start.permissions = args.consent.permits.table(&rules);
    }

    let attach = host::attach(args.attachable, &start.cwd)?;
    let announced = Arc::new(Announced::new(args.as_agent.as_deref(), &start));
    let timeouts = Timeouts {
        initialize: Some(args.init_timeout),
        silence: args.idle_timeout,
        cancel: Some(args.cancel_grace),
        ..Timeouts::default()
    };
    let client = plan::client(spec, timeouts, args.child.leave_grace);
    let conversation = conversation::Config {
        session: args.session.choice(spellings),
        transcript: global.format() == Format::Json,
        login: args.session.login.clone(),
        settings: args.session.settings(),
        policy: plan::policy(args.consent.permits.permission),
        rules,
        questions,
        budget: args.session.spending.budget(),
        host: args.session.host(&start),
        retries: args.session.retry,
        ..conversation::Config::new(client, setup.within(start.cwd.clone(), mcp_servers))
    };
    let config = Config {
        conversation,
        attach,
        announce: args.announce.then(|| announced.config()).transpose()?,
        limits: Limits::default(),
    };
    let advice = Rc::new(Advice {
        whose: if let Whose::Fallback(_) = whose { Whose::Demo } else { whose },
        verb: Verb::Chat,
        start: start.clone(),
        policy: plan::about(args.consent.permits.permission),
        by_default: args.consent.permits.permission.is_none(),
        guards: plan::guards(args.consent.permits.permission),
        verbose: args.child.verbose,
        last: false,
        schema: None,
        masks,
        words: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    });
    // A trace is of one child, and a clock of one conversation.
    let offers = trace.is_none() && args.timeout.is_none() && edits(global);
    let again = offers.then(|| config.clone());
    let attempt = Attempt { args, global, notes, advice, start, secrets, announced };
    let (code, End { logins, calls }) = attempt.make(config, trace)?;
    if let Some(mut config) = again
        && let Open::Spawn(spec) = &config.conversation.client.open
        && let Some(login) = login::offer(spec, &attempt.start, &logins, notes)
    {
        calls.end();
        config.conversation.login = login.or(config.conversation.login.take());
        return Ok(attempt.make(config, None)?.0);
    }
    Ok(code)
}

/// One child that is talked to.
struct Attempt<'a> {
    args: &'a Args,
    global: Global,
    notes: &'a Notes,
    advice: Rc<Advice>,
    start: Start,
    secrets: Vec<Secret<Vec<u8>>>,
    announced: Arc<Announced>,
}

/// How a conversation ended.
struct End {
    /// The ways to log in, if that is what was missing.
    logins: Vec<AuthMethod>,
    /// Who obeys signals.
    calls: Calls,
}

impl Attempt<'_> {
    fn make(&self, config: Config, trace: Option<Trace>) -> Result<(ExitCode, End), Problem> {
        let Self { args, global, notes, advice, start, secrets, announced } = self;
        guard::arm(notes);
        // Before a terminal is changed and a child is there: from here on a signal is a wish, and not our end.
        let signals = Signals::catch().map_err(|error| internal(&error))?;
        let calls = signals.calls();
        let mut driver = Recorded::<Chat>::new(config, ("acp", "chat"), secrets.clone(), trace, notes)
            .map_err(|error| internal(&error))?;

        let edits = edits(*global);
        let keys = edits.then(|| Keyboard::keys(notes, kept(&start.withheld, secrets.clone())));
        let (keyboard, notes) = match keys {
            Some(Ok(both)) => both,
            Some(Err(_)) | None => (Keyboard::lines(notes), (*notes).clone()),
        };
        driver.note_to(&notes);
        let ends = Arc::new(AtomicU8::new(OPEN));
        let talk = Talk {
            screen: match global.format() {
                Format::Json => Box::new(Json::new(notes.clone(), global.quiet, advice)),
                Format::Text => Box::new(Text::new(notes.clone(), global.quiet, Rc::clone(advice))),
            },
            advice: Rc::clone(advice),
            notes: notes.clone(),
            desk: Arc::clone(&keyboard.desk),
            known: Known::default(),
            keys: match (is_terminal(), edits) {
                _ if global.quiet || global.format() == Format::Json => None,
                (true, true) => Some(KEYS),
                (true, false) => Some(LINES),
                (false, _) => None,
            },
            patient: is_terminal(),
            announced: Arc::clone(announced),
            quiet: global.quiet,
            start: Some(start.clone()),
            began: Instant::now(),
            code: 0,
            logins: Vec::new(),
            gone: None,
        };
        talk.listen(signals, &driver, &keyboard, &ends, args.timeout).map_err(|error| internal(&error))?;
        let (code, logins) = talk.drive(driver, keyboard, &ends);
        Ok((code, End { logins, calls }))
    }
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Whether it is read key by key.
fn edits(global: Global) -> bool {
    is_terminal() && is_clever() && global.format() == Format::Text
}

/// What was typed before, where that is known.
fn kept(withheld: &[String], mut secrets: Vec<Secret<Vec<u8>>>) -> Option<(History, Vec<String>)> {
    let values = withheld.iter().filter_map(std::env::var_os);
    secrets.extend(values.map(|value| value.into_encoded_bytes().into()));
    let file = find::folders().ok()?.state.path.join("history");
    Some(History::open(file, secrets))
}

/// A conversation as it is shown.
struct Talk {
    screen: Box<dyn Screen>,
    advice: Rc<Advice>,
    notes: Notes,
    desk: Arc<Desk>,
    /// What the agent said of its calls so far.
    known: Known,
    /// The keys, until they are told.
    keys: Option<&'static str>,
    /// A person has seen what went wrong; a script wants to know of any.
    patient: bool,
    /// As whom a hub is to show it.
    announced: Arc<Announced>,
    quiet: bool,
    /// Until it is shown.
    start: Option<Start>,
    /// When the turn began, or everything.
    began: Instant,
    /// The exit code of what went wrong last.
    code: u8,
    /// The ways to log in, if that was missing last.
    logins: Vec<AuthMethod>,
    /// Why nobody reads any more.
    gone: Option<io::Error>,
}

type Conversation = Handle<Tap<Chat>>;

impl Talk {
    /// Everything that comes from elsewhere: keys, signals, a clock, and how far the reader of our output is.
    fn listen(
        &self,
        signals: Signals,
        driver: &Recorded<Chat>,
        keyboard: &Keyboard,
        ends: &Arc<AtomicU8>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        orders::obey_signals(signals, driver.handle(), Arc::clone(ends))?;
        let chat = driver.handle();
        Sink::ours().watch(move |news| {
            match news {
                News::Full => chat.hold(true),
                News::Room => chat.hold(false),
                News::Gone => {
                    let _ = chat.command(Command::Shutdown);
                }
            }
            true
        });
        if let Some(timeout) = timeout {
            let (chat, ends, notes) = (driver.handle(), Arc::clone(ends), self.notes.clone());
            let expire = move || {
                thread::sleep(timeout);
                notes.last_line("✗ the conversation took longer than --timeout");
                orders::end(&chat, &ends, EXPIRED, Command::Shutdown);
            };
            thread::Builder::new().name("agentline-timeout".into()).spawn(expire)?;
        }
        let orders = Orders {
            chat: driver.handle(),
            notes: self.notes.clone(),
            desk: Arc::clone(&keyboard.desk),
            announced: Arc::clone(&self.announced),
            ends: Arc::clone(ends),
        };
        keyboard.read(move |typed| orders.obey(typed))
    }

    fn drive(
        mut self,
        mut driver: Recorded<Chat>,
        keyboard: Keyboard,
        ends: &AtomicU8,
    ) -> (ExitCode, Vec<AuthMethod>) {
        while let Some(event) = driver.next() {
            self.told(event, &driver);
            if self.screen.is_full() || !driver.is_ready() {
                self.flush();
            }
        }
        self.flush();
        drop(keyboard);
        // Whatever ends us while we wait makes it short.
        Sink::ours().settle(None);
        self.flush();
        match (self.gone, ends.load(Ordering::Relaxed)) {
            (Some(error), ended) => {
                let code = unwritten(&error, if ended == OPEN { 0 } else { ended }, &self.notes);
                (code, Vec::new())
            }
            (None, OPEN) => (ExitCode::from(self.code), self.logins),
            (None, ended) => (ExitCode::from(ended), Vec::new()),
        }
    }

    fn flush(&mut self) {
        let error = self.screen.flush().err();
        self.gone = self.gone.take().or(error);
    }

    fn told(&mut self, event: Event, chat: &Recorded<Chat>) {
        match event {
            Event::Said(said) => self.said(said, chat),
            Event::Begun(line) => {
                self.began = Instant::now();
                Sink::ours().press(false);
                self.desk.begun(line.from == Source::Keyboard);
                self.screen.begun(&line);
            }
            Event::Cancelling { from_outside } => {
                // Its end must be heard, whoever reads.
                Sink::ours().press(true);
                self.screen.cancelling(from_outside);
            }
            Event::Recalled(lines) => self.desk.take_back(lines),
            Event::Listening(at) => self.screen.listening(&at),
            Event::Detached(Why::Stopped) => {}
            Event::Detached(why) => self.notes.line(&format!("! nobody can attach: {}", cause(why))),
            Event::PresenceFailed { errno } => {
                let error = io::Error::from_raw_os_error(errno);
                self.notes.line(&format!("! others may not find this session: {error}"));
            }
            Event::Shown => self.of_hub(|announced| Some(announced.shown())),
            Event::Hidden(closed) => self.of_hub(|announced| announced.hidden(&closed)),
        }
    }

    fn of_hub(&self, says: impl FnOnce(&Announced) -> Option<String>) {
        let said = says(&self.announced).filter(|_| !self.quiet);
        said.iter().flat_map(|said| said.lines()).for_each(|line| self.notes.line(line));
    }

    fn said(&mut self, event: subagent::Event, chat: &Recorded<Chat>) {
        use subagent::Event as Said;
        if let Said::Updated(updated) = &event {
            self.known.hear(updated);
        }
        if let Said::PermissionDecided(decision) = &event {
            self.desk.decided(&decision.request);
        }
        if let Said::QuestionDecided(decision) = &event {
            self.desk.decided(&decision.request);
        }
        match event {
            Said::Started(peer) => self.started(peer.pid),
            Said::Finished(finished) => self.finished(*finished),
            Said::PermissionAsked(asked) => self.ask(self.known.permission(*asked), chat),
            Said::QuestionAsked(asked) => self.ask(Asked::form(*asked), chat),
            Said::FileWanted(wanted) => {
                let (request, done) = (wanted.request, workspace::carry_out(&wanted));
                // Refused when nobody waits for it any more.
                let _ = chat.command(Command::FileDone { request, done });
            }
            Said::SessionOpened(_) => {
                self.screen.told(event);
                self.screen.at_rest();
                self.desk.rest();
                if let Some(keys) = self.keys.take() {
                    self.notes.line(&In(self.notes.paint().dim, keys).to_string());
                }
            }
            Said::Ready(_)
            | Said::Line(_)
            | Said::Text(_)
            | Said::Updated(_)
            | Said::PermissionDecided(_)
            | Said::QuestionDecided(_)
            | Said::PageDone(_)
            | Said::Hosted(_)
            | Said::Retrying(_)
            | Said::Answered(_)
            | Said::Listed(_)
            | Said::Stderr(_)
            | Said::Noticed(_)
            | Said::Closed(_) => self.screen.told(event),
        }
    }

    fn ask(&mut self, asked: Asked<RequestKey>, chat: &Recorded<Chat>) {
        self.screen.before_question();
        let request = asked.key;
        // Refused when the question is moot by now.
        let _ = self.desk.ask(asked).map(|answer| chat.command(answer.of_chat(request)));
    }

    fn started(&mut self, pid: Option<u32>) {
        if let Some(start) = self.start.take() {
            self.screen.started(&start, pid);
        }
    }

    fn finished(&mut self, finished: Finished) {
        // There is no result without a start.
        self.started(None);
        self.logins = finished.logins().to_vec();
        let ended = self.advice.ended(finished);
        if self.patient || self.code == 0 {
            self.code = ended.exit_code();
        }
        self.screen.finished(&ended, self.began.elapsed());
        self.desk.rest();
    }
}

fn cause(why: Why) -> String {
    match why {
        Why::Stopped => "the session is over".to_owned(),
        Why::ListenFailed(error) => error.to_string(),
        Why::TokenFailed { errno } => io::Error::from_raw_os_error(errno).to_string(),
    }
}

fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Spawn, Kind::Internal, error.to_string())
}

/// Told once, when the session is open.
const KEYS: &str = "◦ Enter sends · Alt-Enter: new line · Ctrl-C cancels · Ctrl-D leaves · /help";
/// The same of a terminal that sends lines and not keys.
const LINES: &str = "◦ Enter sends · Ctrl-C cancels · Ctrl-D leaves · /help";
/// Nobody has ended the conversation from our side.
const OPEN: u8 = u8::MAX;
