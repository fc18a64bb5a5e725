//! Keys that change owners, driven by hand on one thread. A transaction inside goes on, a new one
//! waits, and steps sent to the old owner are sent back.

use crate::owners::{Bench, DONE, T, once};
use base::WorkerId;
use exec::{Carried, DesignKind, Engine, KeyOwners, LocalTxn, Refusal, RepartitionRequest};
use partition::RangeChange;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use txn::{Abort, Access, Route};

type Done = Receiver<Result<Carried, Refusal>>;

/// Asks the first worker to give the sites from `at` on, of ten keys each, to the second.
fn ask(b: &Bench, at: u64) -> Done {
    let (done, carried) = channel();
    let made_for = b.engine.ranges().version();
    let changes = vec![RangeChange::Split { at, lower: WorkerId(0), upper: WorkerId(1) }];
    b.engine.repartition(
        &b.contexts[0],
        RepartitionRequest { made_for, changes, gives: true, progress: Arc::default(), done },
    );
    carried
}

fn turn(b: &Bench, worker: usize) {
    latch::act_for(latch::OwnerId::new(worker));
    Engine::turn(&b.engine, &b.contexts[worker]);
    latch::act_for(None);
}

fn owner(b: &Bench, id: u64) -> usize {
    b.engine.site_owner(Route { table: T, key: id }).expect("a table").worker
}

fn end(b: &Bench, worker: usize, txn: &mut LocalTxn) {
    Engine::rollback(&*b.engine, &b.contexts[worker], txn).unwrap();
}

#[test]
fn keys_go_to_another_owner_at_once_when_nothing_is_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let done = ask(&b, 1);
    assert!(done.try_recv().is_err());
    turn(&b, 0);
    let carried = done.try_recv().unwrap().unwrap();
    assert_eq!((carried.changes, carried.held, carried.trees), (1, 0, 0));
    assert_eq!([9, 10, 49, 50].map(|id| owner(&b, id)), [0, 1, 1, 1]);
    let mut txn = b.begin(1);
    assert_eq!(b.write(1, &mut txn, 10, 7), DONE);
    b.commit(1, &mut txn);
    let mut txn = b.begin(1);
    assert_eq!(b.read(1, &mut txn, 10), Some(Ok(Some(7))));
    end(&b, 1, &mut txn);
}

/// The old border holds until the last transaction inside has ended; steps that came meanwhile go
/// back to their home.
#[test]
fn what_is_under_way_ends_first_and_what_comes_waits() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut first, mut late, mut own) = (b.begin(0), b.begin(1), b.begin(0));
    assert_eq!(b.write(0, &mut first, 10, 1), DONE);
    let done = ask(&b, 1);
    turn(&b, 0);
    // A message that comes while the gate is shut, and a transaction of the giver's own.
    let meeting = b.engine.meeting(&b.contexts[1]);
    b.engine.send(&b.contexts[1], &mut late, meeting, (0, b.engine.map_version()), vec![7]);
    assert!(b.engine.receive(&b.contexts[0]).is_none(), "the door is shut");
    assert!(!b.engine.admit(&mut own));
    let entered = b.access(0, &mut own).enter(Route { table: T, key: 10 });
    assert_eq!(entered, Err(Abort::NotHere(0)), "not now");
    // A transaction inside goes on.
    assert!(b.engine.admit(&mut first));
    assert_eq!(b.write(0, &mut first, 10, 2), DONE);
    turn(&b, 0);
    assert!(done.try_recv().is_err() && owner(&b, 10) == 0, "not before the last one has left");
    b.commit(0, &mut first);
    turn(&b, 0);
    assert_eq!(done.try_recv().unwrap().unwrap().held, 1);
    assert_eq!(owner(&b, 10), 1);
    assert!(b.engine.admit(&mut own), "the door is open again");
    // The message waited, and its map version is out of date.
    assert!(b.engine.receive(&b.contexts[0]).is_none());
    assert!(b.engine.receive(&b.contexts[1]).is_none());
    let answers = once(b.engine.rendezvous(&b.contexts[1], &mut late, meeting)).unwrap();
    assert_eq!(answers[0].outcome, Err(Abort::NotHere(0)));
    assert_eq!(b.read(1, &mut late, 10), Some(Ok(Some(2))));
    end(&b, 1, &mut late);
    end(&b, 0, &mut own);
}

/// T1 is inside at the first owner and wants a lock of T2 at the second; T2 comes to the first
/// owner's gate.
#[test]
fn a_circle_through_a_shut_door_is_found_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(b.write(0, &mut one, 10, 1), DONE);
    assert_eq!(b.write(1, &mut two, 60, 2), DONE);
    let done = ask(&b, 1);
    turn(&b, 0);
    let mut one_there = b.arrive(0, &mut one, 1);
    assert_eq!(b.write(1, &mut one_there.1.txn, 60, 1), None, "the first waits for the second");
    let meeting = b.engine.meeting(&b.contexts[1]);
    b.engine.send(&b.contexts[1], &mut two, meeting, (0, b.engine.map_version()), vec![7]);
    assert!(b.engine.receive(&b.contexts[0]).is_none());
    assert!(b.engine.receive(&b.contexts[1]).is_none());
    let answers = once(b.engine.rendezvous(&b.contexts[1], &mut two, meeting)).expect("answered, not held");
    assert_eq!(answers[0].outcome, Err(Abort::Deadlock));
    end(&b, 1, &mut two);
    b.finish(0, &mut one, one_there, |_| ());
    b.commit(0, &mut one);
    b.mail();
    turn(&b, 0);
    assert_eq!(done.try_recv().unwrap().map(|carried| carried.changes), Ok(1));
}

/// The same when T2 is held at the gate first, and T1 begins to wait for it only then.
#[test]
fn a_circle_that_closes_behind_one_who_is_held_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let (mut one, mut two) = (b.begin(0), b.begin(1));
    assert_eq!(b.write(0, &mut one, 10, 1), DONE);
    assert_eq!(b.write(1, &mut two, 60, 2), DONE);
    let done = ask(&b, 1);
    turn(&b, 0);
    let meeting = b.engine.meeting(&b.contexts[1]);
    b.engine.send(&b.contexts[1], &mut two, meeting, (0, b.engine.map_version()), vec![7]);
    assert!(b.engine.receive(&b.contexts[0]).is_none());
    let mut one_there = b.arrive(0, &mut one, 1);
    assert_eq!(b.write(1, &mut one_there.1.txn, 60, 1), Some(Err(Abort::Deadlock)));
    b.finish(0, &mut one, one_there, |_| ());
    end(&b, 0, &mut one);
    b.mail();
    turn(&b, 0);
    assert_eq!(done.try_recv().unwrap().map(|carried| carried.held), Ok(1));
    assert!(b.engine.receive(&b.contexts[0]).is_none(), "gone, so it is sent back");
    b.mail();
    let answers = once(b.engine.rendezvous(&b.contexts[1], &mut two, meeting)).unwrap();
    assert_eq!(answers[0].outcome, Err(Abort::NotHere(0)));
    end(&b, 1, &mut two);
}

#[test]
fn an_owner_that_is_never_idle_keeps_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let mut txn = b.begin(0);
    assert_eq!(b.write(0, &mut txn, 10, 1), DONE);
    let done = ask(&b, 1);
    turn(&b, 0);
    std::thread::sleep(std::time::Duration::from_millis(60));
    turn(&b, 0);
    assert_eq!(done.try_recv().unwrap(), Err(Refusal::Busy { worker: 0 }));
    let mut other = b.begin(0);
    assert!(b.engine.admit(&mut other) && owner(&b, 10) == 0);
    end(&b, 0, &mut other);
    end(&b, 0, &mut txn);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new(dir.path());
    let refused = |worker: usize, gives: bool, made_for: u64, change: RangeChange| {
        let (done, carried) = channel();
        b.engine.repartition(
            &b.contexts[worker],
            RepartitionRequest { made_for, changes: vec![change], gives, progress: Arc::default(), done },
        );
        turn(&b, worker);
        carried.try_recv().unwrap().unwrap_err().to_string()
    };
    let split = |at, upper| RangeChange::Split { at, lower: WorkerId(0), upper: WorkerId(upper) };
    assert!(refused(0, true, 7, split(1, 1)).contains("plan again"));
    assert!(refused(0, true, 1, split(5, 1)).contains("begins there already"));
    assert!(refused(1, true, 1, split(1, 1)).contains("worker 1 does not own"));
    assert!(refused(0, false, 1, split(1, 1)).contains("worker 0 does not own"), "who gives drains first");
    let merge = RangeChange::Merge { at: 3, owner: WorkerId(0) };
    assert!(refused(0, true, 1, merge).contains("no partition begins at 3"));
    assert_eq!(b.engine.ranges().version(), 1);
}

/// Pages go with their keys: cut, disowned by one worker, owned by the other; and back again.
#[test]
fn pages_go_with_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let b = Bench::new_as(DesignKind::PlpRegular, dir.path());
    for id in (1..50).filter(|id| *id != 10) {
        let mut txn = b.begin(0);
        let put = once(b.access(0, &mut txn).insert(T, &crate::owners::key(id), &crate::owners::row(id, 0)));
        assert!(matches!(put, Some(Ok(_))), "{put:?}");
        b.commit(0, &mut txn);
    }
    let owned = || {
        // More ids than there are pages: some below the last one are free.
        let pages = (1..64).map(base::PageId);
        let owners = pages.filter_map(|page| b.engine.store().pool().owner_of(page));
        owners.fold([0; 2], |mut owned, owner| {
            owned[owner.number()] += 1;
            owned
        })
    };
    b.contexts.iter().for_each(|ctx| b.engine.take_over(ctx));
    (0..2).for_each(|worker| turn(&b, worker));
    assert_eq!(owned(), [1, 1]);
    let done = ask(&b, 1);
    turn(&b, 0);
    let carried = done.try_recv().unwrap().unwrap();
    assert_eq!((carried.trees, carried.moved.leaf_entries), (1, 40), "{carried:?}");
    assert_eq!(owned(), [1, 1], "what is given is nobody's until the other has looked around");
    turn(&b, 1);
    assert_eq!(owned(), [1, 2]);
    latch::act_for(latch::OwnerId::new(1));
    let mut txn = b.begin(1);
    assert_eq!(b.write(1, &mut txn, 10, 5), DONE);
    b.commit(1, &mut txn);
    let (done, carried) = channel();
    let changes = vec![RangeChange::Merge { at: 5, owner: WorkerId(1) }];
    b.engine.repartition(
        &b.contexts[1],
        RepartitionRequest { made_for: 2, changes, gives: false, progress: Arc::default(), done },
    );
    turn(&b, 1);
    assert_eq!(carried.try_recv().unwrap().map(|carried| carried.trees), Ok(1));
    assert_eq!(owned(), [1, 1]);
    assert_eq!(b.engine.store().partitions(T).len(), 2);
    for worker in 0..2 {
        latch::act_for(latch::OwnerId::new(worker));
        b.engine.give_back(&b.contexts[worker]);
    }
    latch::act_for(None);
    assert_eq!(owned(), [0, 0]);
    let mut txn = b.begin(1);
    assert_eq!(b.read(1, &mut txn, 10), Some(Ok(Some(5))));
    end(&b, 1, &mut txn);
    let report = b.engine.store().check().unwrap();
    assert_eq!(report.lost_pages, 0);
}

/// Rows of keys that are given away do not share pages with those that stay. A row that a
/// transaction has changed is divided only after that has ended, since the transaction may be
/// undone.
#[test]
fn rows_go_with_their_keys() {
    for (design, ends) in [
        (DesignKind::PlpPartition, "commit"),
        (DesignKind::PlpPartition, "rollback"),
        (DesignKind::PlpLeaf, "commit"),
        (DesignKind::PlpLeaf, "rollback"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let b = Bench::new_as(design, dir.path());
        for id in (1..50).map(|n| n * 7 % 50).filter(|id| *id != 10) {
            let mut txn = b.begin(0);
            let row = crate::owners::row(id, 0);
            let put = once(b.access(0, &mut txn).insert(T, &crate::owners::key(id), &row));
            assert!(matches!(put, Some(Ok(_))), "{put:?}");
            b.commit(0, &mut txn);
        }
        b.contexts.iter().for_each(|ctx| b.engine.take_over(ctx));
        (0..2).for_each(|worker| turn(&b, worker));
        latch::act_for(latch::OwnerId::new(0));
        let mut txn = b.begin(0);
        for id in [5, 15] {
            assert_eq!(b.write(0, &mut txn, id, 1), DONE);
        }
        let done = ask(&b, 1);
        // One turn for the rows that can be divided at once, one to shut the gate.
        (0..4).for_each(|_| turn(&b, 0));
        assert!(done.try_recv().is_err() && !b.engine.admit(&mut b.begin(0)), "the door is shut");
        latch::act_for(latch::OwnerId::new(0));
        let expected = if ends == "commit" { 1 } else { 0 };
        if ends == "commit" {
            b.commit(0, &mut txn)
        } else {
            end(&b, 0, &mut txn)
        }
        turn(&b, 0);
        let carried = done.try_recv().unwrap().unwrap();
        assert_eq!((carried.changes, carried.trees), (1, 1));
        // They were in one page; the nine below the border are fewer, so they moved.
        assert_eq!((carried.rows.rows, carried.rows.primary, carried.rows.later), (9, 9, 1), "{carried:?}");
        turn(&b, 1);
        for (worker, id) in [(0, 5), (1, 15)] {
            latch::act_for(latch::OwnerId::new(worker));
            let mut txn = b.begin(worker);
            assert_eq!(b.read(worker, &mut txn, id), Some(Ok(Some(expected))), "{design} {ends}");
            assert_eq!(b.write(worker, &mut txn, id, 7), DONE);
            b.commit(worker, &mut txn);
        }
        for worker in 0..2 {
            latch::act_for(latch::OwnerId::new(worker));
            b.engine.give_back(&b.contexts[worker]);
        }
        latch::act_for(None);
        let report = b.engine.store().check().unwrap_or_else(|fault| panic!("{design} {ends}: {fault}"));
        assert_eq!((report.tables[0].rows(), report.tables[0].undivided), (50, 0));
    }
}
