//! Links that nothing happens on cost a request nothing, on either runtime.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentline_blocking::Given;
use agentline_core::{
    Action, Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Outputs, Refused, Time,
};
use agentline_tests::runtimes::{Blocking, Runtime, Smol};

/// Tells each line of its first link, and answers it there. All other links are idle.
struct Counted {
    /// Inputs, and actions that an input led to.
    steps: Arc<AtomicUsize>,
    out: Outputs<()>,
}

impl Machine for Counted {
    type Config = (usize, Arc<AtomicUsize>);
    type Command = &'static str;
    type Event = ();

    fn new(_: Now, (links, steps): Self::Config) -> Self {
        let mut out = Outputs::default();
        for number in (0..links).filter_map(|number| u32::try_from(number).ok()) {
            out.act(LinkId::from_number(number), Action::Open(Open::Given(number)));
        }
        Self { steps, out }
    }

    fn handle(&mut self, _: Now, input: Input<'_>) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        match input {
            Input::Link(LinkId::FIRST, Heard::Bytes(_)) => self.out.tell(()),
            Input::Link(LinkId::FIRST, Heard::Eof) => self.out.end(),
            Input::Link(..) | Input::Tick | Input::Hold(_) | Input::StoreFailed(..) => {}
        }
    }

    fn command(&mut self, _: Now, answer: &'static str) -> Result<(), Refused> {
        self.out.act(LinkId::FIRST, Action::Write(answer.into()));
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<()>> {
        let output = self.out.pop();
        self.steps.fetch_add(usize::from(output.is_some()), Ordering::Relaxed);
        output
    }

    fn deadline(&self) -> Option<Deadline> {
        // Far away, and there: a machine with clocks.
        Some((Time::ZERO + Duration::from_secs(3600), "never"))
    }
}

/// How many inputs and outputs a hundred requests take beside so many idle links.
fn steps_of_requests<R: Runtime>(idle: usize) -> usize {
    let pairs = || UnixStream::pair().expect("descriptors are left");
    let (ours, mut theirs) = pairs();
    let idle: Vec<_> = (0..idle).map(|_| pairs()).collect();
    let sockets = [&ours].into_iter().chain(idle.iter().map(|(ours, _)| ours));
    let given: Vec<Given> = sockets
        .map(|ours| {
            Given::socket(ours.try_clone().expect("descriptors are left")).expect("descriptors are left")
        })
        .collect();
    drop(ours);
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let peer = std::thread::spawn(move || {
        let mut lines = BufReader::new(theirs.try_clone().expect("a descriptor"));
        let mut ask = |line: &mut String| {
            theirs.write_all(b"request\n").expect("it reads");
            lines.read_line(line).expect("it answers");
        };
        // By then all links are open.
        ask(&mut String::new());
        let before = counted.load(Ordering::SeqCst);
        (0..100).for_each(|_| ask(&mut String::new()));
        counted.load(Ordering::SeqCst) - before
    });
    R::run_with_given::<Counted>((given.len(), steps), given, Vec::new(), |(), say| say.push("answer\n"));
    peer.join().expect("the peer")
}

fn idle_links_cost_nothing<R: Runtime>() {
    let alone = steps_of_requests::<R>(0);
    let beside = steps_of_requests::<R>(300);
    // A request is read, told, answered and acknowledged. The last acknowledgement may be counted or not.
    assert!((395..=410).contains(&alone) && alone.abs_diff(beside) <= 8, "{alone} {beside}");
}

#[test]
fn blocking_idle_links_cost_a_request_nothing() {
    idle_links_cost_nothing::<Blocking>();
}

#[test]
fn smol_idle_links_cost_a_request_nothing() {
    idle_links_cost_nothing::<Smol>();
}
