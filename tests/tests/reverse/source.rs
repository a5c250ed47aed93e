//! A link as a source of sessions: the words both ways.

use agentline_core::acp::client::Moment;
use agentline_core::acp::{ContentBlock, SessionSetup};
use agentline_core::reverse::acceptor::Config;
use agentline_core::session::{
    AskId, By, Can, Done, Item, News, Open, Outcome, Reply, Reverse, Told, TurnId, Wish, may,
};
use agentline_core::{Cause, Heard, LinkId, Refused, Tag};
use agentline_tests::desk::Desk;

use super::{announce, brief, chunk, hello, note, question, resolved, turn};

struct Link(Desk<Reverse>);

impl Link {
    fn up() -> Self {
        let mut link = Self(Desk::new(Config::taken()));
        link.hears(&hello("amp", r#"{"prompt":true,"cancel":true,"newSession":true}"#), &["hello amp"]);
        link.wishes(Wish::Accept, &["up amp", r#"> "h" {"accepted":true}"#]);
        link.hears(&announce("s"), &["s: between announced /w t"]);
        link
    }

    /// What was told and then what was written.
    fn seen(&mut self) -> Vec<String> {
        let told: Vec<String> = self.0.events.drain(..).map(|told| words(&told)).collect();
        let wrote: Vec<String> = self.0.said().iter().map(|line| format!("> {}", brief(line))).collect();
        told.into_iter().chain(wrote).collect()
    }

    #[track_caller]
    fn hears(&mut self, line: &str, seen: &[&str]) {
        self.0.hear(&[line]);
        assert_eq!(self.seen(), seen, "{line}");
    }

    #[track_caller]
    fn wishes(&mut self, wish: Wish, seen: &[&str]) {
        self.0.run([(Tag(7), wish)]);
        assert_eq!(self.seen(), seen);
    }

    #[track_caller]
    fn refuses(&mut self, wish: Wish, why: Refused) {
        assert_eq!(self.0.command((Tag(8), wish)), Err(why));
        assert_eq!(self.seen(), [""; 0]);
    }
}

fn prompt(turn: u64) -> Wish {
    Wish::Prompt { session: "s".into(), turn: TurnId(turn), words: vec![ContentBlock::text("hi")] }
}

fn words(told: &Told) -> String {
    match told {
        Told::Hello(up) => format!("hello {}", up.who.as_ref().expect("a name").name),
        Told::Up(up) => format!("up {}", up.who.as_ref().expect("a name").name),
        Told::News(Item { session, moment, news, .. }) => {
            let moment = if *moment == Moment::Turn { "turn" } else { "between" };
            format!("{session}: {moment} {}", news_in_words(news))
        }
        Told::Done(tag, done) => match &**done {
            Ok(Done::Opened(name, _)) => format!("done {} {name}", tag.0),
            Ok(other) => format!("done {} {other:?}", tag.0),
            Err(trouble) => format!("done {} {}", tag.0, trouble.code),
        },
        Told::Wanted(..) | Told::File(_) => "wanted".to_owned(),
        Told::Noted(_) => "noted".to_owned(),
        Told::Other(other) => format!("other {}", other.0),
        Told::Down(closed) => format!("down {:?}", closed.cause),
    }
}

fn news_in_words(news: &News) -> String {
    match news {
        News::Announced(there) => {
            format!("announced {} {}", there.cwd, there.title.as_deref().unwrap_or("-"))
        }
        News::Began(By::Us(turn)) => format!("began {}", turn.0),
        News::Began(By::There) => "began there".to_owned(),
        News::Text { text, .. } => format!("text {text}"),
        News::Asked(asked) => format!("asked {}", asked.ask.0),
        News::Settled(ask, how) => format!("settled {} {how:?}", ask.0),
        News::Ended(ended) => match ended.turn {
            Some(turn) => format!("ended {} {:?}", turn.0, ended.how),
            None => format!("ended there {:?}", ended.how),
        },
        news => format!("{news:?}"),
    }
}

#[test]
fn who_it_is_and_what_it_can_is_known_before_it_is_let_in() {
    let mut link = Link(Desk::new(Config::taken()));
    link.0.hear(&[&announce("s"), &hello("amp", r#"{"prompt":true}"#)]);
    let Some(Told::Hello(up)) = link.0.events.front() else { panic!("{:?}", link.0.events) };
    let can = Can { prompt: true, streams: true, asks: true, ..Can::default() };
    assert_eq!(up.can, can);
    assert_eq!(
        may(up.can, &Wish::Cancel { session: "s".into() }, true),
        Err(Refused::NotOffered("cancelling"))
    );
    link.seen();
    link.wishes(Wish::Accept, &["up amp", "s: between announced /w t", r#"> "h" {"accepted":true}"#]);
    link.refuses(Wish::Accept, Refused::Unknown);

    let mut link = Link(Desk::new(Config::taken()));
    link.hears(&hello("amp", "{}"), &["hello amp"]);
    link.wishes(Wish::Refuse("disabled".into()), &[r#"> "h" {"accepted":false,"reason":"disabled"}"#]);
    link.0.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(link.seen(), ["down Left"]);
}

#[test]
fn turns_of_both_ends() {
    let mut link = Link::up();
    link.hears(&turn("s", "started"), &["s: turn began there"]);
    link.hears(&chunk("s", "agent_message_chunk", "a"), &["s: turn text a"]);
    link.refuses(prompt(1), Refused::Busy);
    link.hears(&turn("s", "ended"), &["s: turn ended there Completed"]);
    link.hears(&chunk("s", "agent_message_chunk", "b"), &["s: between text b"]);
    link.wishes(prompt(1), &["s: turn began 1", "> 0 session/prompt s"]);
    link.hears(r#"{"id":0,"result":{"stopReason":"max_tokens"}}"#, &["s: turn ended 1 MaxTokens"]);
    link.wishes(prompt(2), &["s: turn began 2", "> 1 session/prompt s"]);
    link.hears(r#"{"id":1,"error":{"code":-5,"message":"no"}}"#, &["s: turn ended 2 Failed"]);
}

#[test]
fn an_unknown_word_is_a_failure_and_a_missing_one_an_ordinary_end() {
    let mut link = Link::up();
    link.wishes(prompt(1), &["s: turn began 1", "> 0 session/prompt s"]);
    link.hears(r#"{"id":0,"result":{"stopReason":"tired"}}"#, &["s: turn ended 1 Failed"]);
    link.wishes(prompt(2), &["s: turn began 2", "> 1 session/prompt s"]);
    link.hears(r#"{"id":1,"result":null}"#, &["s: turn ended 2 Completed"]);
}

/// Nothing on the wire tells them apart: ours is over early, and what is still said is seen all the same.
#[test]
fn a_turn_of_theirs_that_crossed_our_prompt_ends_ours() {
    let mut link = Link::up();
    link.wishes(prompt(1), &["s: turn began 1", "> 0 session/prompt s"]);
    link.hears(&turn("s", "started"), &[]);
    link.hears(&turn("s", "ended"), &["s: turn ended 1 Completed"]);
    link.hears(&chunk("s", "agent_message_chunk", "x"), &["s: between text x"]);
    link.hears(r#"{"id":0,"result":{"stopReason":"end_turn"}}"#, &[]);
}

#[test]
fn a_late_end_names_no_turn_and_ends_none() {
    let mut link = Link::up();
    link.wishes(prompt(1), &["s: turn began 1", "> 0 session/prompt s"]);
    link.hears(r#"{"id":0,"result":{}}"#, &["s: turn ended 1 Completed"]);
    link.wishes(prompt(2), &["s: turn began 2", "> 1 session/prompt s"]);
    link.hears(&turn("s", "ended"), &[]);
    link.hears(r#"{"id":1,"result":{}}"#, &["s: turn ended 2 Completed"]);
}

#[test]
fn a_question_and_its_answers() {
    let mut link = Link::up();
    let answer = |ask, reply| Wish::Answer { ask: AskId(ask), reply };
    link.hears(&question(10, "s", "c"), &["s: between asked 0"]);
    link.wishes(answer(0, Reply::Choose("y".into())), &["> 10 y"]);
    link.refuses(answer(0, Reply::Cancel), Refused::Unknown);
    link.hears(&question(11, "s", "c"), &["s: between asked 1"]);
    link.wishes(answer(1, Reply::NotMe), &["> 11 error -32001"]);
    link.hears(&question(12, "s", "c"), &["s: between asked 2"]);
    link.hears(
        &question(13, "s", "d"),
        &["s: between settled 2 Withdrawn", "s: between asked 3", "> 12 error -32001"],
    );
    link.hears(&resolved("s", "d"), &["s: between settled 3 Elsewhere", "> 13 error -32001"]);
    link.hears(&question(14, "s", "e"), &["s: between asked 4"]);
    link.wishes(
        Wish::Cancel { session: "s".into() },
        &["s: between settled 4 Withdrawn", "> 14 cancelled", "> session/cancel s"],
    );
}

/// Agents count their calls anew in each turn.
#[test]
fn a_decision_of_the_terminals_dies_with_its_turn() {
    let mut link = Link::up();
    link.hears(&turn("s", "started"), &["s: turn began there"]);
    link.hears(&resolved("s", "c"), &[]);
    link.hears(&turn("s", "ended"), &["s: turn ended there Completed"]);
    link.hears(&question(1, "s", "c"), &["s: between asked 0"]);
}

#[test]
fn a_prompt_is_one_text() {
    let mut link = Link::up();
    let link_to =
        serde_json::from_str(r#"{"type":"resource_link","uri":"file:///w/a","name":"a"}"#).expect("a block");
    let words = vec![ContentBlock::text("look at"), link_to];
    link.0.run([(Tag(7), Wish::Prompt { session: "s".into(), turn: TurnId(1), words })]);
    assert!(link.0.said()[0].contains(r#""prompt":[{"type":"text","text":"look at\nfile:///w/a"}]"#));
    let image =
        serde_json::from_str(r#"{"type":"image","data":"","mimeType":"image/png"}"#).expect("a block");
    let words = vec![image];
    link.seen();
    link.refuses(
        Wish::Prompt { session: "s".into(), turn: TurnId(2), words },
        Refused::NotOffered("anything but text"),
    );
}

#[test]
fn a_new_session_has_a_name_before_anything_is_said_of_it() {
    let mut link = Link::up();
    let open = |open| Wish::Open(open, Box::new(SessionSetup::in_directory("/n")));
    link.wishes(open(Open::New), &["> 0 session/new "]);
    link.hears(r#"{"id":0,"result":{"sessionId":"n"}}"#, &["done 7 n", "n: between Opened"]);
    link.refuses(open(Open::Load("n".into())), Refused::NotOffered("loading sessions"));
    link.wishes(open(Open::New), &["> 1 session/new "]);
    link.hears(r#"{"id":1,"error":{"code":-32000,"message":"log in"}}"#, &["done 7 -32000"]);
}

#[test]
fn what_runs_and_what_is_asked_is_over_before_the_link_is() {
    let mut link = Link::up();
    link.wishes(prompt(5), &["s: turn began 5", "> 0 session/prompt s"]);
    link.hears(&question(1, "s", "c"), &["s: turn asked 0"]);
    link.wishes(Wish::Open(Open::New, Box::default()), &["> 1 session/new "]);
    link.0.heard(LinkId::FIRST, Heard::Eof);
    assert_eq!(
        link.seen(),
        ["s: turn settled 0 Lost", "s: turn ended 5 Lost", "done 7 -32603", "down Gone", "> 1 error -32001",]
    );
}

#[test]
fn other_words_go_along() {
    let mut link = Link::up();
    link.hears(r#"{"method":"_amp/x"}"#, &["other _amp/x"]);
    link.hears("no", &["noted"]);
    link.0.hear(&[&note("session/update", "s", r#","update":{"sessionUpdate":"new_kind","x" : 1}"#)]);
    let Some(Told::News(Item { raw: Some(raw), .. })) = link.0.events.back() else {
        panic!("{:?}", link.0.events)
    };
    assert_eq!(raw.get(), r#"{"sessionUpdate":"new_kind","x" : 1}"#);
    link.seen();
    link.wishes(Wish::Leave, &[]);
    link.0.heard(LinkId::FIRST, Heard::Eof);
    assert!(matches!(link.0.events.back(), Some(Told::Down(closed)) if closed.cause == Cause::Left));
}

#[test]
fn outcomes_are_those_of_the_vocabulary() {
    let mut link = Link::up();
    for (word, how) in [("cancelled", Outcome::Cancelled), ("max_turn_requests", Outcome::Failed)] {
        link.0.hear(&[
            &turn("s", "started"),
            &note("_botbus/turn", "s", &format!(r#","state":"ended","stopReason":"{word}""#)),
        ]);
        let ended = link.0.events.iter().rev().find_map(|told| match told {
            Told::News(Item { news: News::Ended(ended), .. }) => Some((ended.how, ended.word.clone())),
            _ => None,
        });
        assert_eq!(ended, Some((how, Some(word.to_owned()))));
    }
}
