//! A conversation in a terminal that shows itself to a hub.

use std::cell::RefCell;
use std::rc::Rc;

use agentline_core::Tag;
use agentline_core::acp::PermissionOutcome;
use agentline_core::chat::Source;
use agentline_core::reverse::acceptor::{Acceptor, Command, Event};
use agentline_core::subagent::Policy;
use agentline_tests::room::{Room, faulty_and_shown};
use agentline_tests::world::Handle;
use agentline_tests::{Dice, Faults, dice};

use super::word;

/// A terminal and a hub that shows it.
struct Both<'d> {
    room: Room<'d>,
    hub: Handle<Acceptor>,
    told: Rc<RefCell<Vec<Event>>>,
}

impl Both<'_> {
    fn new() -> Self {
        let told = Rc::new(RefCell::new(Vec::new()));
        let hears = Rc::clone(&told);
        let (mut room, hub) = Room::shown(Dice::new(&[]), Faults::NONE, Policy::Ask, move |_, event, say| {
            if let Event::Hello(_) = event {
                say.push(Command::Accept);
            }
            hears.borrow_mut().push(event);
        });
        room.settle();
        Self { room, hub, told }
    }

    /// One in which both are there and idle.
    fn quiet() -> Self {
        let mut both = Self::new();
        assert!(both.room.news().contains(&"shown".to_owned()));
        assert_eq!(both.seen(), ["hello my-agent", "accepted", "announced s-1"]);
        both
    }

    /// What the hub was told since the last look.
    fn seen(&mut self) -> Vec<String> {
        self.told.borrow_mut().drain(..).map(|event| word(&event)).collect()
    }

    fn wishes(&mut self, command: Command) {
        assert_eq!(self.room.world.command(self.hub, command), Ok(()));
        self.room.settle();
    }

    fn prompts(&mut self, text: &str) {
        self.wishes(Command::Prompt { tag: Tag(1), session: "s-1".into(), text: text.into() });
    }

    fn question(&self) -> agentline_core::acp::RequestKey {
        let told = self.told.borrow();
        let asked = told.iter().find_map(|event| match event {
            Event::PermissionAsked(asked) => Some(asked.request),
            _ => None,
        });
        asked.expect("a question")
    }
}

#[test]
fn what_is_typed_and_answered_is_seen_live() {
    let mut both = Both::quiet();
    both.room.types("tool so");
    assert_eq!(
        both.seen(),
        [
            "started there",
            "turn tool so",
            "turn looking",
            "turn tool_call",
            "turn so",
            "ended there end_turn"
        ]
    );
    both.room.types("fail");
    assert_eq!(both.seen(), ["started there", "turn fail", "ended there error"]);
}

#[test]
fn what_the_hub_says_is_shown_in_the_terminal_and_answered_there() {
    let mut both = Both::quiet();
    both.prompts("say PONG");
    assert_eq!(both.room.news(), ["» say PONG", "PONG", "Completed"]);
    assert!(matches!(&both.room.begun()[0].1, Source::Hub(_)));
    assert_eq!(both.seen(), ["started 1", "turn pong", "ended 1 end_turn"]);
    both.prompts("fail");
    let seen = both.seen();
    assert!(seen[0] == "started 1" && seen[1].starts_with("ended 1 Rpc"), "{seen:?}");
}

#[test]
fn the_terminal_or_the_hub_answers_and_the_other_is_told() {
    let mut both = Both::quiet();
    both.room.types("ask first");
    let request = both.question();
    both.room.decides("no");
    assert_eq!(
        both.seen(),
        [
            "started there",
            "turn ask first",
            "asked t",
            "settled InTerminal",
            "turn no",
            "ended there end_turn"
        ]
    );
    let outcome = PermissionOutcome::selected("yes");
    let late = Command::Answer { request, outcome: outcome.clone() };
    assert!(both.room.world.command(both.hub, late).is_err());

    both.room.news();
    both.room.types("ask second");
    both.wishes(Command::Answer { request: both.question(), outcome });
    assert_eq!(both.room.news(), ["› ask second", "? second", "Allowed by User", "yes", "Completed"]);
}

#[test]
fn a_question_that_the_hub_leaves_stays_in_the_terminal() {
    let mut both = Both::quiet();
    both.room.types("ask me");
    both.wishes(Command::NoAnswer { request: both.question() });
    assert_eq!(both.room.news(), ["› ask me", "? me"]);
    both.room.decides("yes");
    assert_eq!(both.room.news(), ["Allowed by User", "yes", "Completed"]);
}

#[test]
fn the_hub_cancels_whatever_runs() {
    let mut both = Both::quiet();
    both.room.types("hang");
    both.room.types("say later");
    both.wishes(Command::Cancel { session: "s-1".into() });
    assert_eq!(
        both.room.news(),
        ["› hang", "cancelling (from outside)", "Aborted", "› say later (waited)", "later", "Completed"]
    );
    assert_eq!(both.seen()[2], "ended there cancelled");
}

#[test]
fn a_line_that_is_typed_in_a_turn_of_the_hubs_waits_for_its_end() {
    let mut both = Both::quiet();
    both.prompts("ask first");
    both.room.types("say second");
    both.room.decides("yes");
    assert_eq!(
        both.seen(),
        [
            "started 1",
            "asked t",
            "settled InTerminal",
            "turn yes",
            "ended 1 end_turn",
            "started there",
            "turn say second",
            "turn second",
            "ended there end_turn"
        ]
    );
}

#[test]
fn a_hub_that_goes_takes_nothing_along() {
    let mut both = Both::quiet();
    both.prompts("ask first");
    both.wishes(Command::Leave);
    both.room.decides("yes");
    both.room.types("say second");
    let news = both.room.news();
    assert_eq!(
        news[2..],
        [
            "hidden: the other side closed the connection",
            "Allowed by User",
            "yes",
            "Completed",
            "› say second",
            "second",
            "Completed"
        ]
    );
}

#[test]
fn who_leaves_ends_the_turn_of_the_hub_first() {
    let mut both = Both::quiet();
    both.prompts("hang");
    both.room.command(agentline_core::chat::Command::Shutdown);
    both.room.world.run();
    assert_eq!(both.seen(), ["started 1", "ended 1 cancelled", "closed Gone"]);
    assert!(both.room.world.is_over(both.hub) && both.room.world.is_over(both.room.chat));
}

#[test]
fn whatever_goes_wrong_each_line_has_one_end_and_nobody_is_left_behind() {
    for seed in 0..1500 {
        faulty_and_shown(&dice::noise(seed, 400));
    }
}
