//! Children, well-behaved and not, and a machine that talks to them in lines.
//!
//! A grace that is to be waited out is short, and the child has said that it is deaf to what comes before; all
//! others are long. So nothing depends on how fast anybody is.

use std::path::Path;
use std::time::Duration;

use agentline_core::{Graces, Limits};
use agentline_tests::puppet::FLOOD;
use agentline_tests::scenario::{Cast, Role, Scenario};
use agentline_tests::toy::{Say, Start, Talk};

use super::{PUPPET, child};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a polite child answers, sees the end of its input and exits",
        cast: |dir| talk(LONG, dir, &["say up; hear 1; say answer; eof; exit 3"], ASK_AND_LEAVE),
        shows: &["answer", r#""exit":{"code":3}"#, r#""rung":"eof""#, "told \"end\"", "wrote question"],
    },
    Scenario {
        name: "last words are read to the last byte",
        cast: |dir| talk(LONG, dir, &["say last; say words; flood 4; exit 0"], &[]),
        shows: &["last", "words", "xxx", "ended", r#""exit":{"code":0}"#],
    },
    Scenario {
        name: "last words after the end of input are read",
        cast: |dir| talk(LONG, dir, &["say up; eof; say farewell; err 9; exit 0"], LEAVE),
        shows: &[r#""rung":"eof""#, "eeeeeeeee", "read up\nfarewell\n"],
    },
    Scenario {
        name: "a child exits at once",
        cast: |dir| talk(LONG, dir, &["exit 7"], &[]),
        shows: &["opened", "ended", r#""exit":{"code":7}"#],
    },
    Scenario {
        name: "a slow child is waited for",
        cast: |dir| {
            talk(LONG, dir, &["say up; hear 1; sleep 40; say answer; eof; sleep 40; exit 0"], ASK_AND_LEAVE)
        },
        shows: &["answer", r#""exit":{"code":0}"#, r#""rung":"eof""#],
    },
    Scenario {
        name: "a child that never reads is terminated",
        cast: |dir| talk(SHORT_EOF, dir, &["deaf; say up; hang"], LEAVE),
        shows: &[r#""exit":{"signal":15}"#, r#""rung":"term""#],
    },
    Scenario {
        name: "what a deaf child does not take is given up",
        cast: |dir| talk(SHORT_EOF, dir, &["deaf; say up; hang"], FLOOD_AND_LEAVE),
        shows: &[r#""rung":"term""#, "CloseWrite", "Signal(Term)", "Close"],
    },
    Scenario {
        name: "a child that ignores the end of its input is terminated",
        cast: |dir| talk(SHORT_EOF, dir, &["say up; hang"], LEAVE),
        shows: &[r#""exit":{"signal":15}"#, r#""rung":"term""#, "CloseWrite", "Signal(Term)", "Close"],
    },
    Scenario {
        name: "a child that ignores SIGTERM is killed",
        cast: |dir| talk(SHORT_TERM, dir, &["--trap-term", "say up; hang"], LEAVE),
        shows: &[r#""exit":{"signal":9}"#, r#""rung":"kill""#, "Signal(Term)", "Signal(Kill)", "Close"],
    },
    Scenario {
        name: "a grandchild that keeps the pipe is terminated",
        cast: |dir| talk(SHORT_EOF, dir, &["--grandchild", "say up; exit 5"], &[]),
        shows: &["ended", r#""exit":{"code":5},"group":"gone","rung":"term""#],
    },
    Scenario {
        name: "a grandchild that ignores SIGTERM is killed",
        cast: |dir| talk(SHORT_TERM, dir, &["--trap-term", "--grandchild", "say up; exit 0"], &[]),
        shows: &[r#""exit":{"code":0},"group":"gone","rung":"kill""#],
    },
    Scenario {
        name: "a child that closes its stdout and lives on is asked to leave",
        cast: |dir| talk(LONG, dir, &["say up; shut; eof; exit 4"], &[]),
        shows: &["up", "ended", r#""exit":{"code":4}"#],
    },
    Scenario {
        name: "a child that closes its stdout and stays is terminated",
        cast: |dir| talk(SHORT_EOF, dir, &["say up; shut; hang"], &[]),
        shows: &["up", "ended", r#""exit":{"signal":15}"#],
    },
    Scenario {
        name: "a write to a child that has gone harms nobody",
        cast: |dir| talk(LONG, dir, &["deaf; say up; say more; exit 0"], FLOODED),
        shows: &[r#""exit":{"code":0}"#],
    },
    Scenario {
        name: "a child that closed its stdin and lives is found out by the first write",
        cast: |dir| talk(SHORT_EOF, dir, &["--no-stdin", "say up; hang"], ASK),
        shows: &[r#""exit":{"signal":15}"#, "wrote question", "CloseWrite", "Signal(Term)"],
    },
    Scenario {
        name: "a chatty child is heard on both pipes",
        cast: |dir| {
            talk(
                LONG,
                dir,
                &["err 99999; flood 9; err 99999; flood 9; err 99999; say up; eof; exit 0"],
                LEAVE,
            )
        },
        shows: &["xxx", "up", r#""exit":{"code":0}"#, "stderr eee"],
    },
    Scenario {
        name: "a megabyte of standard error before the first answer blocks nobody",
        cast: |dir| talk(LONG, dir, &["err 1048576; say up; eof; exit 0"], LEAVE),
        shows: &["up", r#""exit":{"code":0}"#, "1048576 bytes"],
    },
    Scenario {
        name: "a flood is held and released and none of it is lost",
        cast: |dir| {
            let role = role(LONG, dir, &["flood 48; say up; eof; exit 0"], LEAVE);
            Cast::alone(role.busy())
        },
        shows: &["xxx", "up", r#""exit":{"code":0}"#],
    },
    Scenario {
        name: "ten megabytes go to a child and ten come back at once",
        cast: |dir| talk(LONG, dir, &["say go; flood 160; hear 161; say up; eof; exit 0"], TEN_MEGABYTES),
        shows: &["xxx", "up", r#""exit":{"code":0}"#],
    },
    Scenario {
        name: "a program that is not there cannot be talked to",
        cast: |dir| {
            let how = child("not/there", dir, &[]);
            Cast::alone(Role::<Talk>::new(start(LONG, how)))
        },
        shows: &["not_found", "closed"],
    },
];

/// What is said when a line has that text.
type Says = &'static [(&'static str, fn() -> Vec<Say>)];

const LEAVE: Says = &[("up", || vec![Say::Leave])];
const ASK: Says = &[("up", || vec![Say::Line("question".into())])];
const ASK_AND_LEAVE: Says = &[ASK[0], ("answer", || vec![Say::Leave])];
const FLOODED: Says = &[("up", flood)];
const FLOOD_AND_LEAVE: Says = &[("up", || [flood(), vec![Say::Leave]].concat())];
const TEN_MEGABYTES: Says = &[("go", || [flood(), vec![Say::Line("last".into())]].concat()), LEAVE[0]];

/// Ten megabytes.
pub(super) fn flood() -> Vec<Say> {
    vec![Say::Lines(vec!["y".repeat(FLOOD); 160])]
}

fn talk(graces: Graces, dir: &Path, args: &[&str], says: Says) -> Cast {
    Cast::alone(role(graces, dir, args, says))
}

fn role(graces: Graces, dir: &Path, args: &[&str], says: Says) -> Role<Talk> {
    let role = Role::new(start(graces, child(PUPPET, dir, args))).writes_text();
    says.iter().fold(role, |role, (event, says)| role.at(event, says()))
}

pub(super) fn start(graces: Graces, how: agentline_core::Open) -> Start {
    Start { how: Some(how), limits: Limits::default(), graces }
}

/// Nobody is expected to use them up.
pub(super) const LONG: Graces = {
    let long = Duration::from_secs(20);
    Graces { open: long, read: long, flush: long, eof: long, term: long, reap: long, drain: long }
};
pub(super) const SHORT: Duration = Duration::from_millis(30);
pub(super) const SHORT_EOF: Graces = Graces { flush: SHORT, eof: SHORT, drain: SHORT, ..LONG };
const SHORT_TERM: Graces = Graces { term: SHORT, ..SHORT_EOF };
