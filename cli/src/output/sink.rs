//! Stdout and stderr, written by threads of their own: a reader who does not read holds up nothing but what is said
//! to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Which of our streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// What whoever produces the words has to know. Told while the sink is locked: it may command a machine, and say
/// nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum News {
    /// More is not wanted for now.
    Full,
    /// It is wanted again.
    Room,
    /// Stdout takes nothing any more: its reader is gone, or the disk is full.
    Gone,
}

/// How [`Sink::settle`] ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Settled {
    Written,
    /// The time was over.
    Expired,
    /// The reader took nothing while we were in a hurry.
    Abandoned,
}

/// Both streams. Writing waits for nobody.
#[derive(Clone)]
pub(crate) struct Sink(Arc<Shared>);

struct Shared {
    streams: [Box<dyn AsFd + Send + Sync>; 2],
    /// Both are the same terminal, pipe or file: what is said there keeps its order.
    one: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lanes: [Lane; 2],
    failed: [Option<Errno>; 2],
    patience: Patience,
    /// Whoever produces the words was told to stop.
    held: bool,
    /// A cancelled turn is waited for: its end must be heard, whoever reads.
    pressed: bool,
    /// Those who produce the words, until they want to hear no more.
    news: Vec<Box<dyn FnMut(News) -> bool + Send>>,
}

/// What one thread writes.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<(Stream, Vec<u8>)>,
    /// Bytes that were not taken yet, with those that are being written.
    bytes: usize,
    /// Writes that were taken.
    taken: u64,
    runs: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Patience {
    /// A reader may take its time.
    #[default]
    Endless,
    /// While it takes something.
    Short,
    None,
}

impl Sink {
    /// That of this process.
    pub(crate) fn ours() -> &'static Self {
        static OURS: OnceLock<Sink> = OnceLock::new();
        OURS.get_or_init(|| Self::new(io::stdout(), io::stderr()))
    }

    fn new(out: impl AsFd + Send + Sync + 'static, err: impl AsFd + Send + Sync + 'static) -> Self {
        let place = |of: BorrowedFd<'_>| rustix::fs::fstat(of).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let one = place(out.as_fd()).is_some_and(|out| Some(out) == place(err.as_fd()));
        let streams: [Box<dyn AsFd + Send + Sync>; 2] = [Box::new(out), Box::new(err)];
        Self(Arc::new(Shared { streams, one, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Says it, unless far too much waits already: then nobody reads, and nobody could be told to stop.
    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.0.lock();
        if state.lanes[self.0.lane(stream)].bytes < LOST {
            self.push(&mut state, stream, bytes);
        }
    }

    /// Says it however much waits: the last words.
    pub(crate) fn write_surely(&self, stream: Stream, bytes: &[u8]) {
        self.push(&mut self.0.lock(), stream, bytes);
    }

    fn push(&self, state: &mut State, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() || state.failed[stream as usize].is_some() {
            return;
        }
        let at = self.0.lane(stream);
        let lane = &mut state.lanes[at];
        lane.bytes += bytes.len();
        match lane.waiting.back_mut() {
            Some((of, last)) if *of == stream && last.len() < CHUNK => last.extend_from_slice(bytes),
            Some(_) | None => lane.waiting.push_back((stream, bytes.to_vec())),
        }
        if !std::mem::replace(&mut lane.runs, true) {
            let shared = Arc::clone(&self.0);
            let started =
                thread::Builder::new().name("agentline-output".into()).spawn(move || shared.serve(at));
            if started.is_err() {
                // There is no thread to be had: rather wait than be silent.
                state.lanes[at].runs = false;
                self.0.write_waiting(state, at);
            }
        }
        self.0.changed.notify_all();
    }

    /// Whether everything that was said there was taken.
    pub(crate) fn is_idle(&self, stream: Stream) -> bool {
        self.0.lock().lanes[self.0.lane(stream)].bytes == 0
    }

    /// Why a stream takes nothing any more.
    pub(crate) fn failure(&self, stream: Stream) -> Option<io::Error> {
        self.0.lock().failed[stream as usize].map(Into::into)
    }

    /// Who is told as well from here on, as long as that is `true`.
    pub(crate) fn watch(&self, mut news: impl FnMut(News) -> bool + Send + 'static) {
        let mut state = self.0.lock();
        // Whoever comes when there is no room is to wait like the others.
        if !state.held || news(News::Full) {
            state.news.push(Box::new(news));
        }
    }

    /// Whether whoever produces the words has to stop: asked for after each batch of them.
    pub(crate) fn balance(&self) {
        let mut state = self.0.lock();
        if !state.held && !state.pressed && state.lanes.iter().any(|lane| lane.bytes >= FULL) {
            state.held = true;
            state.tell(News::Full);
        }
    }

    /// While a cancelled turn is waited for, nobody is told to stop.
    pub(crate) fn press(&self, on: bool) {
        let mut state = self.0.lock();
        state.pressed = on;
        if on && std::mem::take(&mut state.held) {
            state.tell(News::Room);
        }
    }

    /// From here on a reader has to take something now and then.
    pub(crate) fn hurry(&self) {
        self.press(true);
        self.lose_patience(Patience::Short);
    }

    /// From here on nothing is waited for. Whether there was something to wait for.
    pub(crate) fn abandon(&self) -> bool {
        self.press(true);
        self.lose_patience(Patience::None);
        self.0.lock().lanes.iter().any(|lane| lane.bytes > 0)
    }

    fn lose_patience(&self, patience: Patience) {
        let mut state = self.0.lock();
        if state.patience != Patience::None {
            state.patience = patience;
        }
        self.0.changed.notify_all();
    }

    /// Waits until all is taken, or failed, or the time is over.
    pub(crate) fn settle(&self, until: Option<Instant>) -> Settled {
        let mut state = self.0.lock();
        let mut last = (state.taken(), Instant::now());
        loop {
            let now = Instant::now();
            if state.taken() != last.0 {
                last = (state.taken(), now);
            }
            let end = match state.patience {
                _ if state.lanes.iter().all(|lane| lane.bytes == 0) => return Settled::Written,
                Patience::None => return Settled::Abandoned,
                Patience::Short if now >= last.1 + SHORT => return Settled::Abandoned,
                Patience::Short => Some(last.1 + SHORT),
                Patience::Endless => None,
            };
            if until.is_some_and(|until| now >= until) {
                return Settled::Expired;
            }
            let changed = &self.0.changed;
            state = match end.into_iter().chain(until).min() {
                Some(end) => {
                    let left = end.saturating_duration_since(now);
                    changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self, stream: Stream) -> usize {
        if self.one { 0 } else { stream as usize }
    }

    /// Writes what there is, again and again. The only place that waits for a reader, with nothing locked.
    fn serve(&self, at: usize) {
        let mut state = self.lock();
        loop {
            let Some((stream, bytes)) = state.lanes[at].waiting.pop_front() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            for chunk in bytes.chunks(CHUNK) {
                if state.failed[stream as usize].is_none() {
                    drop(state);
                    let done = write_all(self.streams[stream as usize].as_fd(), chunk);
                    state = self.lock();
                    state.wrote(stream, done);
                }
                state.lanes[at].taken(chunk.len());
                self.changed.notify_all();
            }
            state.make_room();
        }
    }

    /// The same on the spot.
    fn write_waiting(&self, state: &mut State, at: usize) {
        while let Some((stream, bytes)) = state.lanes[at].waiting.pop_front() {
            let done = write_all(self.streams[stream as usize].as_fd(), &bytes);
            state.wrote(stream, done);
            state.lanes[at].taken(bytes.len());
        }
    }
}

impl Lane {
    fn taken(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.taken += 1;
    }
}

impl State {
    fn taken(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.taken).sum()
    }

    fn wrote(&mut self, stream: Stream, done: Result<(), Errno>) {
        let Err(errno) = done else { return };
        self.failed[stream as usize] = Some(errno);
        if stream == Stream::Out {
            self.tell(News::Gone);
        }
    }

    fn make_room(&mut self) {
        if self.held && self.lanes.iter().all(|lane| lane.bytes <= ROOM) {
            self.held = false;
            self.tell(News::Room);
        }
    }

    fn tell(&mut self, news: News) {
        self.news.retain_mut(|on| on(news));
    }
}

/// Waits for a slow reader, whether or not somebody made the stream non-blocking.
fn write_all(to: BorrowedFd<'_>, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = rustix::event::poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bytes of one write: a reader who takes so much is still there.
const CHUNK: usize = 16 << 10;
/// Bytes that wait until whoever produces them has to stop: an answer of 200 kB holds up no clock.
const FULL: usize = 256 << 10;
/// Bytes that may still wait when it goes on.
const ROOM: usize = 64 << 10;
/// Bytes that wait although nobody could be told to stop: what a child says while it is ended. More is lost.
const LOST: usize = 8 << 20;
/// How long a reader may take nothing once a signal or a clock has ended us.
const SHORT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A sink into two pipes, and what it tells.
    fn sink() -> (Sink, [io::PipeReader; 2], Receiver<News>) {
        let (out, to_out) = io::pipe().unwrap();
        let (err, to_err) = io::pipe().unwrap();
        let sink = Sink::new(to_out, to_err);
        let (tell, told) = channel();
        sink.watch(move |news| tell.send(news).is_ok());
        (sink, [out, err], told)
    }

    #[test]
    fn g1_a_reader_who_does_not_read_is_waited_for_by_nobody_who_speaks() {
        let (sink, [mut out, _err], told) = sink();
        for _ in 0..16 {
            sink.write(Stream::Out, &[b'x'; 64 << 10]);
            sink.balance();
        }
        assert_eq!(told.recv(), Ok(News::Full));
        assert!(!sink.is_idle(Stream::Out) && sink.is_idle(Stream::Err));
        let mut all = vec![0; 1 << 20];
        out.read_exact(&mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == b'x'));
        assert_eq!(told.recv(), Ok(News::Room));
        assert_eq!(sink.settle(None), Settled::Written);
    }

    #[test]
    fn everybody_who_speaks_is_told_until_they_want_no_more() {
        let (sink, [mut out, _err], told) = sink();
        let (tell, other) = channel();
        sink.watch(move |news| tell.send(news).is_ok());
        sink.write(Stream::Out, &[b'x'; 1 << 20]);
        sink.balance();
        assert_eq!((told.recv(), other.recv()), (Ok(News::Full), Ok(News::Full)));
        let (tell, late) = channel();
        sink.watch(move |news| tell.send(news).is_ok());
        assert_eq!(late.recv(), Ok(News::Full));
        drop(other);
        out.read_exact(&mut vec![0; 1 << 20]).unwrap();
        assert_eq!((told.recv(), late.recv()), (Ok(News::Room), Ok(News::Room)));
        assert_eq!(sink.settle(None), Settled::Written);
        assert_eq!(sink.0.lock().news.len(), 2);
    }

    #[test]
    fn g1_one_stream_does_not_wait_for_the_other() {
        let (sink, [_out, mut err], _told) = sink();
        sink.write(Stream::Out, &[0; 1 << 20]);
        sink.write(Stream::Err, b"still here");
        let mut said = [0; 10];
        err.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"still here");
    }

    #[test]
    fn g1_who_is_in_a_hurry_waits_for_nobody() {
        let (sink, _readers, told) = sink();
        sink.write(Stream::Out, &[0; 1 << 20]);
        sink.balance();
        assert_eq!(sink.settle(Some(Instant::now())), Settled::Expired);
        sink.hurry();
        assert_eq!(sink.settle(None), Settled::Abandoned);
        assert!(sink.abandon());
        assert_eq!(sink.settle(None), Settled::Abandoned);
        assert_eq!((told.recv(), told.recv()), (Ok(News::Full), Ok(News::Room)));
    }

    #[test]
    fn g1_what_nobody_reads_is_bounded_and_the_last_words_are_kept() {
        let (sink, [out, _err], _told) = sink();
        for _ in 0..1000 {
            sink.write(Stream::Out, &[b'.'; 64 << 10]);
        }
        assert!(sink.0.lock().lanes[0].bytes <= LOST + (64 << 10));
        sink.write_surely(Stream::Out, b"the end");
        let reader = thread::spawn(move || {
            let (mut out, mut all) = (out, Vec::new());
            while !all.ends_with(b"the end") {
                let mut some = vec![0; 1 << 20];
                let read = out.read(&mut some).unwrap();
                all.extend_from_slice(&some[..read]);
            }
        });
        assert_eq!(sink.settle(None), Settled::Written);
        reader.join().unwrap();
    }

    #[test]
    fn a_reader_that_is_gone_is_told_once_and_holds_up_nothing() {
        let (sink, [out, _err], told) = sink();
        drop(out);
        sink.write(Stream::Out, &[0; 1 << 20]);
        assert_eq!(sink.settle(None), Settled::Written);
        assert_eq!(told.recv(), Ok(News::Gone));
        assert_eq!(sink.failure(Stream::Out).map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
        sink.write(Stream::Out, b"more");
        assert!(sink.is_idle(Stream::Out) && told.try_recv().is_err());
    }

    #[test]
    fn what_goes_to_one_place_keeps_its_order() {
        let (mut both, to) = io::pipe().unwrap();
        let sink = Sink::new(to.try_clone().unwrap(), to);
        for at in 0..1000 {
            sink.write(if at % 3 == 0 { Stream::Err } else { Stream::Out }, format!("{at}\n").as_bytes());
        }
        assert_eq!(sink.settle(None), Settled::Written);
        drop(sink);
        let mut all = vec![0; (0..1000).map(|at| at.to_string().len() + 1).sum()];
        both.read_exact(&mut all).unwrap();
        let lines: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
        assert_eq!(String::from_utf8(all).unwrap().lines().collect::<Vec<_>>(), lines);
    }
}
