//! The same for the poller of Linux and for that of all others, which works on Linux as well.

use std::time::Duration;

use super::*;

fn poller<S: System>() -> Arc<S> {
    Arc::new(S::new().unwrap())
}

/// What is ready now.
fn ready<S: System>(poller: &S) -> Vec<(Token, Way)> {
    let mut ready = VecDeque::new();
    poller.wait(&mut ready, Some(Instant::now())).unwrap();
    ready.into()
}

fn a_descriptor_is_registered_while_wanted_and_gone_when_dropped<S: System>() {
    let poller = poller::<S>();
    let (ours, theirs) = io::pipe().unwrap();
    let raw = ours.as_fd().try_clone_to_owned().unwrap();
    let token = Token::from_key(7);
    let mut polled = Polled::new(&poller, ours.into(), token);
    drop(theirs);
    assert_eq!(ready(&*poller), [], "nobody asked");
    polled.want(true, false).unwrap();
    for _ in 0..2 {
        assert!(ready(&*poller).contains(&(token, Way::Read)), "told until it is not wanted any more");
    }
    polled.want(false, false).unwrap();
    assert_eq!(ready(&*poller), [], "not even the hang-up");
    polled.want(true, false).unwrap();
    drop(polled);
    // A copy of the descriptor is open, so only the deletion can have ended the registration.
    assert_eq!(ready(&*poller), []);
    drop(raw);
}

fn what_is_wanted_is_told_and_nothing_else<S: System>() {
    let poller = poller::<S>();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let token = Token::from_key(4);
    let mut polled = Polled::new(&poller, ours.into(), token);
    polled.want(true, true).unwrap();
    assert_eq!(ready(&*poller), [(token, Way::Write)]);
    rustix::io::write(&theirs, b"x").unwrap();
    polled.want(true, false).unwrap();
    assert_eq!(ready(&*poller), [(token, Way::Read)]);
    polled.want(false, true).unwrap();
    assert_eq!(ready(&*poller), [(token, Way::Write)]);
}

fn a_notice_ends_one_wait<S: System>() {
    let poller = poller::<S>();
    // Two in a row, or one before the wait, are one.
    poller.notify();
    poller.notify();
    let mut found = VecDeque::new();
    poller.wait(&mut found, None).unwrap();
    assert_eq!(found, []);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| poller.wait(&mut VecDeque::new(), None));
        poller.notify();
        waits.join().unwrap().unwrap();
    });
}

fn a_wait_ends_by_itself<S: System>() {
    let poller = poller::<S>();
    let until = Instant::now() + Duration::from_micros(1500);
    while Instant::now() < until {
        let mut found = VecDeque::new();
        poller.wait(&mut found, Some(until)).unwrap();
        assert_eq!(found, []);
    }
}

macro_rules! on_both {
    ($($name:ident)*) => {
        #[cfg(target_os = "linux")]
        mod on_epoll {
            $(#[test] fn $name() { super::$name::<super::epoll::Epoll>(); })*
        }
        mod on_portable {
            $(#[test] fn $name() { super::$name::<super::portable::Portable>(); })*
        }
    };
}

on_both! {
    a_descriptor_is_registered_while_wanted_and_gone_when_dropped
    what_is_wanted_is_told_and_nothing_else
    a_notice_ends_one_wait
    a_wait_ends_by_itself
}
