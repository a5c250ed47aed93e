//! Agents of the agent, which work in sessions of their own.

use super::*;

fn offering() -> Rig<Client> {
    let mut config = given();
    config.capabilities.subagents = true;
    let mut rig = Rig::<Client>::with_sessions(config, &["s", "t"]);
    rig.command(prompt(7)).expect("a command");
    rig
}

/// Tells of a subagent, in that session.
fn subagent(session: &str, child: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"subagent_update","sessionId":"{child}","title":"scout"}}}}}}"#
    )
}

/// Whose each update is, for whom, and when.
fn of(events: &[Event]) -> Vec<String> {
    let of = |event: &Event| {
        let Event::Updated(updated) = event else { return word(event) };
        let (whose, of) = (&updated.session, updated.of.as_ref().map_or("-", SessionId::as_str));
        format!("{whose} of {of} {:?} {}", updated.moment, updated.update.tag())
    };
    events.iter().map(of).collect()
}

#[test]
fn what_a_subagent_says_is_told_as_its_own_and_no_text_of_the_session() {
    let mut rig = offering();
    rig.hear(&subagent("s", "child"));
    rig.hear(&text("child", "there"));
    // With an escape it is decoded in another way.
    rig.hear(&text("child", "\\n"));
    rig.hear(&subagent("child", "grandchild"));
    rig.hear(&text("grandchild", "too"));
    rig.hear(&text("s", "here"));
    let (chunk, patch) = ("agent_message_chunk", "subagent_update");
    assert_eq!(
        of(&rig.told()),
        [
            format!("s of - Turn {patch}"),
            format!("child of s Turn {chunk}"),
            format!("child of s Turn {chunk}"),
            format!("child of s Turn {patch}"),
            format!("grandchild of s Turn {chunk}"),
            "text here".into(),
        ]
    );
    rig.hear(&result(3, r#"{"stopReason":"end_turn"}"#));
    rig.told();
    rig.hear(&text("child", "late"));
    assert_eq!(of(&rig.told()), [format!("child of s Between {chunk}")]);
}

#[test]
fn nobody_is_adopted_who_is_a_session_or_was_not_offered_and_all_go_with_their_session() {
    let mut rig = offering();
    rig.hear(&subagent("s", "t"));
    rig.hear(&text("t", "mine"));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>()[1..], ["text mine"]);

    rig.hear(&subagent("s", "child"));
    rig.command(Command::CloseSession { tag: Tag(8), session: "s".into() }).expect("a command");
    rig.hear(&result(4, "{}"));
    rig.told();
    rig.hear(&text("child", "lost"));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["unknown session child"]);

    let mut rig = one_session();
    rig.hear(&subagent("s", "child"));
    rig.told();
    rig.hear(&text("child", "lost"));
    assert_eq!(rig.told().iter().map(word).collect::<Vec<_>>(), ["unknown session child"]);
}

#[test]
fn subagents_are_bounded() {
    let mut rig = offering();
    (0..600).for_each(|at| rig.hear(&subagent("s", &format!("child-{at}"))));
    rig.told();
    rig.hear(&text("child-511", "told"));
    rig.hear(&text("child-512", "not"));
    assert_eq!(
        rig.told().iter().map(word).collect::<Vec<_>>(),
        ["updated agent_message_chunk", "unknown session child-512"]
    );
}
