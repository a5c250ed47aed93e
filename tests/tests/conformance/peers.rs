//! Two machines with a socket between them.

use agentline_core::Open;
use agentline_tests::scenario::{Cast, Role, Scenario};
use agentline_tests::toy::{Say, Talk};

use super::children::{LONG, flood, start};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "one asks, the other answers, and who asked leaves",
        cast: |_| {
            let asks = peer().at("opened", [line("question")]).at("answer", [Say::Leave]);
            Cast::pair(asks, peer().at("question", [line("answer")]))
        },
        shows: &["answer", "closed", "question", "ended", "closed"],
    },
    Scenario {
        name: "ten megabytes go both ways at once",
        cast: |_| Cast::pair(floods().at("last", [Say::Leave]), floods()),
        shows: &["yyy", "last", "closed", "yyy", "last", "ended", "closed"],
    },
    Scenario {
        name: "ten megabytes go both ways at once between two who are busy",
        cast: |_| Cast::pair(floods().at("last", [Say::Leave]).busy(), floods().busy()),
        shows: &["yyy", "last", "closed", "yyy", "last", "ended", "closed"],
    },
];

fn peer() -> Role<Talk> {
    Role::new(start(LONG, Open::Given(0))).writes_text()
}

fn floods() -> Role<Talk> {
    peer().at("opened", flood().into_iter().chain([line("last")]))
}

fn line(text: &str) -> Say {
    Say::Line(text.into())
}
