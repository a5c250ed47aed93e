//! Who hears of a hold, of a failed store, and of a key that is taken.

use agentline_core::nest::Nest;
use agentline_core::{
    Action, Change, Deadline, Ids, Input, LinkId, Machine, Now, Open, Output, Outputs, Refused, Store,
    StoreId,
};
use agentline_tests::weigh;

/// Counts what it hears. It keeps as many files as it was told to.
#[derive(Debug)]
struct Ear {
    holds: Vec<bool>,
    failed: Vec<(StoreId, i32)>,
    out: Outputs<()>,
}

impl Machine for Ear {
    type Config = u32;
    type Command = Action;
    type Event = ();

    fn new(_: Now, files: u32) -> Self {
        let mut out = Outputs::default();
        for file in 0..files {
            let change = Change::Put { bytes: Vec::new().into(), mode: 0o600 };
            // A file that changes keeps its id.
            for change in [change, Change::Remove] {
                out.store(StoreId::from_number(file), Store { path: file.to_string().into(), change });
            }
        }
        out.act(LinkId::FIRST, Action::Open(Open::Given(0)));
        Self { holds: Vec::new(), failed: Vec::new(), out }
    }

    fn handle(&mut self, _: Now, input: Input<'_>) {
        match input {
            Input::Hold(hold) => {
                self.holds.push(hold);
                self.out.act(LinkId::FIRST, Action::Read(!hold));
            }
            Input::StoreFailed(id, errno) => self.failed.push((id, errno)),
            Input::Tick | Input::Link(..) => {}
        }
    }

    fn command(&mut self, _: Now, action: Action) -> Result<(), Refused> {
        self.out.act(LinkId::FIRST, action);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<()>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

struct Rig {
    nest: Nest<u32, Ear>,
    ids: Ids,
    out: Outputs<()>,
}

const NOW: Now = Now { mono: agentline_core::Time::ZERO, unix: std::time::Duration::ZERO };

impl Rig {
    fn of(children: u32) -> Self {
        let mut rig = Self { nest: Nest::default(), ids: Ids::default(), out: Outputs::default() };
        for key in 0..children {
            assert!(rig.nest.insert(NOW, key, Ear::new(NOW, 0)).is_ok());
        }
        rig.settle();
        rig
    }

    /// What the nest wants done.
    fn settle(&mut self) -> Vec<Output<()>> {
        while self.nest.next(&mut self.ids, &mut self.out).is_some() {}
        std::iter::from_fn(|| self.out.pop()).collect()
    }

    fn holds(&self, key: u32) -> &[bool] {
        &self.nest.get(&key).expect("a child").holds
    }
}

#[test]
fn ten_thousand_children_are_held_at_the_cost_of_one_action_each() {
    const MANY: u32 = 10_000;
    let mut rig = Rig::of(MANY);
    for hold in [true, false] {
        let ((), weight) = weigh(|| {
            rig.nest.hold_all(NOW, hold);
            rig.nest.hold_all(NOW, hold);
        });
        // One growth of the log and of the outputs of each child.
        assert!(weight.allocations <= 2 * u64::from(MANY) + 20, "{weight:?}");
        let did = rig.settle();
        assert_eq!(did.len(), MANY as usize);
        assert!(did.iter().all(|did| matches!(did, Output::Do(_, Action::Read(read)) if *read != hold)));
    }
    assert!((0..MANY).all(|key| rig.holds(key) == [true, false]));
}

#[test]
fn a_child_that_comes_while_all_are_held_is_held_from_the_start() {
    let mut rig = Rig::of(1);
    rig.nest.hold_all(NOW, true);
    assert!(rig.nest.insert(NOW, 1, Ear::new(NOW, 0)).is_ok());
    assert!(rig.nest.adopt(NOW, 2, Ear::new(NOW, 0), LinkId::from_number(90)).is_ok());
    assert_eq!([1, 2].map(|key| rig.holds(key)), [[true]; 2]);
    rig.nest.hold_all(NOW, false);
    assert!(rig.nest.insert(NOW, 3, Ear::new(NOW, 0)).is_ok());
    assert_eq!([0, 1, 2].map(|key| rig.holds(key)), [[true, false]; 3]);
    assert!(rig.holds(3).is_empty());
}

#[test]
fn who_is_held_for_two_reasons_goes_on_when_both_are_over() {
    let mut rig = Rig::of(2);
    rig.nest.hold(NOW, &0, true);
    rig.nest.hold_all(NOW, true);
    rig.nest.hold_all(NOW, false);
    assert_eq!((rig.holds(0), rig.holds(1)), (&[true][..], &[true, false][..]));
    rig.nest.hold_all(NOW, true);
    rig.nest.hold(NOW, &0, false);
    assert_eq!(rig.holds(0), [true]);
    rig.nest.hold_all(NOW, false);
    assert_eq!(rig.holds(0), [true, false]);
}

#[test]
fn a_failed_store_reaches_its_owner_alone_by_the_owners_own_id() {
    let mut rig = Rig::of(0);
    for key in 0..3 {
        assert!(rig.nest.insert(NOW, key, Ear::new(NOW, key)).is_ok());
    }
    let stored = rig.settle();
    let mut ids: Vec<StoreId> = stored
        .iter()
        .filter_map(|did| if let Output::Store(id, _) = did { Some(*id) } else { None })
        .collect();
    ids.dedup();
    assert_eq!(ids, [0, 1, 2].map(StoreId::from_number), "each file has one id, whatever becomes of it");
    assert!(ids.iter().zip(1..).all(|(id, errno)| rig.nest.store_failed(NOW, *id, errno)));
    assert!(!rig.nest.store_failed(NOW, StoreId::from_number(3), 9), "nobody's");
    let failed = |key| rig.nest.get(&key).expect("a child").failed.clone();
    let [first, second] = [0, 1].map(StoreId::from_number);
    assert_eq!([failed(0), failed(1), failed(2)], [vec![], vec![(first, 1)], vec![(first, 2), (second, 3)]]);
}

#[test]
fn a_taken_key_is_refused_and_the_machine_comes_back() {
    let mut rig = Rig::of(1);
    let refused = rig.nest.insert(NOW, 0, Ear::new(NOW, 1)).expect_err("the key is taken");
    assert!(refused.holds.is_empty());
    let link = LinkId::from_number(90);
    assert!(rig.nest.adopt(NOW, 0, refused, link).is_err());
    assert!(!rig.nest.handle(NOW, link, agentline_core::Heard::Eof), "a refused link is none of ours");
    assert_eq!((rig.nest.len(), rig.settle()), (1, vec![]));
    assert_eq!(rig.nest.command(NOW, &0, Action::Close), Ok(()));
    assert!(rig.nest.next(&mut rig.ids, &mut rig.out).is_none());
}
