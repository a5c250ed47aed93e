use agentline_core::discovery::{Discovery, Failure, Handshake, Standing, Verification};

use crate::disk::Disk;
use crate::{discovery, manifests};

const FAILURES: [Failure; 4] =
    [Failure::CannotStart, Failure::Exited, Failure::NotAcp, Failure::WrongVersion];
const SILENT: [Handshake; 3] = [Handshake::TimedOut, Handshake::NeedsLogin, Handshake::BrokenOff];

struct World {
    disk: Disk,
    discovery: Discovery,
    verification: Verification,
}

impl World {
    /// Goose is installed and was found.
    fn new() -> Self {
        let mut world = Self {
            disk: Disk::default(),
            discovery: discovery("/usr/bin"),
            verification: Verification::default(),
        };
        world.disk.program("/usr/bin/goose");
        world.sync();
        world
    }

    /// Goose is hidden.
    fn hidden() -> Self {
        let mut world = Self::new();
        world.verification.handshake("goose", Handshake::Failed(Failure::Exited));
        assert_eq!(world.standing(), Some(Standing::Hidden(Failure::Exited)));
        world
    }

    fn sync(&mut self) {
        self.verification.sync(&self.disk.report(&self.discovery));
    }

    fn standing(&self) -> Option<Standing> {
        self.verification.standing("goose")
    }

    fn rename(&mut self) {
        let goose = self.discovery.registry.entries.iter_mut().find(|entry| entry.id == "goose");
        goose.expect("is in the registry").name = "Goose!".into();
    }
}

#[test]
fn registry_agent_fails_first_handshake_a_first_handshake_that_fails_hides_the_agent() {
    for failure in FAILURES {
        let mut world = World::new();
        world.verification.handshake("goose", Handshake::Failed(failure));
        assert_eq!(world.standing(), Some(Standing::Hidden(failure)));
        assert!(world.verification.is_hidden("goose"));
        world.sync();
        assert!(world.verification.is_hidden("goose"), "the same report changes nothing");
    }
}

#[test]
fn a_timeout_or_a_login_never_hides() {
    for silent in SILENT {
        let mut world = World::new();
        world.verification.handshake("goose", silent);
        assert_eq!(world.standing(), Some(Standing::Untried), "{silent:?}");
    }
}

#[test]
fn a_verified_agent_is_never_hidden() {
    let mut world = World::new();
    world.verification.handshake("goose", Handshake::Succeeded);
    for failure in FAILURES {
        world.verification.handshake("goose", Handshake::Failed(failure));
        assert_eq!(world.standing(), Some(Standing::Verified));
    }
    world.rename();
    world.sync();
    assert_eq!(world.standing(), Some(Standing::Verified), "a new name is no new program");
}

#[test]
fn a_reinstall_gives_another_chance() {
    let mut world = World::hidden();
    world.disk.program("/usr/bin/goose");
    world.sync();
    assert_eq!(world.standing(), Some(Standing::Untried), "another inode");

    let mut world = World::hidden();
    world.disk.program("/opt/goose").link("/usr/bin/goose", "/opt/goose");
    world.sync();
    assert_eq!(world.standing(), Some(Standing::Untried), "another real path");

    let mut world = World::hidden();
    world.disk.remove("/usr/bin/goose");
    world.sync();
    assert_eq!(world.standing(), None);
    world.disk.program("/usr/bin/goose");
    world.sync();
    assert_eq!(world.standing(), Some(Standing::Untried), "gone and back");
}

#[test]
fn a_changed_spec_gives_another_chance() {
    let mut world = World::hidden();
    world.rename();
    world.sync();
    assert_eq!(world.standing(), Some(Standing::Untried));

    for verified in [false, true] {
        let mut world = if verified { World::new() } else { World::hidden() };
        if verified {
            world.verification.handshake("goose", Handshake::Succeeded);
        }
        for entry in &mut world.discovery.registry.entries {
            entry.ways[0].args.push("--new".into());
        }
        world.sync();
        assert_eq!(world.standing(), Some(Standing::Untried), "verified: {verified}");
    }
}

#[test]
fn switching_it_on_and_off_reveals_nothing() {
    let mut world = World::hidden();
    for on in [false, true] {
        world.discovery.settings.enable("goose", on);
        world.sync();
        assert!(world.verification.is_hidden("goose"));
    }
}

#[test]
fn a_hello_verifies_a_hidden_agent() {
    let mut world = World::hidden();
    world.verification.hello("goose");
    assert_eq!(world.standing(), Some(Standing::Verified));
}

#[test]
fn a_manifests_agent_is_never_hidden() {
    let mut world = World::new();
    world.disk = manifests(&[("goose.json", r#"{"id":"goose","name":"g","command":"/bin/g"}"#)]);
    world.disk.program("/bin/g");
    world.sync();
    world.verification.handshake("goose", Handshake::Failed(Failure::Exited));
    assert!(!world.verification.is_hidden("goose"));
    assert_eq!(world.standing(), None);
}
