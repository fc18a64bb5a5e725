//! Full leaves pass entries on or are split under transactions that have read in them: the ranges
//! that were read stay protected, and nothing else is.

use crate::arena::{Arena, Local, Ref};
use crate::index::split::room_beside;
use crate::index::{Step, new_node};
use crate::node::{Entry, LEAF_CAP, Node, Sought};
use crate::{Cause, Conflict, Contention, Memstore, Options, Refused, Scope, Txn, Worker};
use base::TableId;
use fastrand::Rng;
use std::collections::BTreeSet;
use txn::{Direction, Flow, Inserted, Range};

const T: TableId = TableId(1);
/// Keys are two bytes below this.
const KEYS: u16 = 200;

/// Two workers, the keys of the present rows, and the range between two keys.
struct Begun {
    workers: [Worker; 2],
    keys: BTreeSet<u16>,
    range: std::ops::Range<u16>,
    random: Rng,
}

fn begin(contention: Contention, seed: u64) -> Begun {
    let (pages, conflict) = (world::PageSize::Normal, Conflict::Abort);
    let options = Options { pages, conflict, contention, ..Options::new(1 << 20, 2) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).expect("a table");
    let workers = [0, 1].map(|n| store.worker(n).expect("a worker"));
    let (keys, range, random) = (BTreeSet::new(), 0..0, Rng::with_seed(seed));
    let mut begun = Begun { workers, keys, range, random };
    let mut t = begun.workers[0].begin();
    for _ in 0..begun.random.usize(1..40) {
        let key = begun.new_key(0..KEYS);
        begun.insert(0, &mut t, key).expect("room");
    }
    begun.workers[0].commit(t).map_err(|(why, _)| why).expect("alone");
    let ends = [0, 1].map(|_| begun.random.u16(..KEYS));
    begun.range = ends[0].min(ends[1])..ends[0].max(ends[1]) + 1;
    begun
}

impl Begun {
    /// A key that no row has.
    fn new_key(&mut self, within: std::ops::Range<u16>) -> u16 {
        loop {
            let key = self.random.u16(within.clone());
            if !self.keys.contains(&key) {
                return key;
            }
        }
    }

    fn insert(&mut self, worker: usize, t: &mut Txn, key: u16) -> Result<(), Refused> {
        let inserted = self.workers[worker].insert(t, T, &key.to_be_bytes(), &[7])?;
        assert_eq!(inserted, Inserted::Done);
        self.keys.insert(key);
        Ok(())
    }

    /// A transaction of worker 0 that has read the range.
    fn looked(&mut self) -> Box<Txn> {
        let mut t = self.workers[0].begin();
        let [low, high] = [self.range.start, self.range.end].map(u16::to_be_bytes);
        let range = Range { low: Some(&low[..]), high: Some(&high[..]) };
        let direction = if self.random.bool() { Direction::Forward } else { Direction::Backward };
        self.workers[0].scan(&mut t, T, range, direction, |_, _| Flow::More).expect("rows to look at");
        t
    }
}

#[test]
fn what_a_transaction_has_seen_stays_watched_wherever_its_own_inserts_move_it() {
    for (contention, seed) in
        [Contention::Optimistic, Contention::Queues].into_iter().flat_map(|c| (0..400).map(move |s| (c, s)))
    {
        let mut begun = begin(contention, seed);
        let mut t = begun.looked();
        for _ in 0..begun.random.usize(1..20) {
            let key = begun.new_key(0..KEYS);
            begun.insert(0, &mut t, key).expect("nobody else is there");
        }
        let is_disturbed = begun.random.bool() && begun.range.len() > 100;
        if is_disturbed {
            let key = begun.new_key(begun.range.clone());
            let mut other = begun.workers[1].begin();
            begun.insert(1, &mut other, key).expect("nobody forbids it");
            begun.workers[1].commit(other).map_err(|(why, _)| why).expect("it has read nothing");
        }
        let expected = match is_disturbed {
            true => Err(Refused::Conflict(Cause::Phantom)),
            false => Ok(()),
        };
        let committed = begun.workers[0].commit(t).map(drop).map_err(|(why, _)| why);
        assert_eq!(committed, expected, "seed {seed}, {contention:?}");
    }
}

#[test]
fn what_a_prepared_transaction_has_seen_goes_to_no_leaf_where_others_may_insert() {
    let (mut allowed, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut begun = begin(Contention::Queues, seed);
        let mut t = begun.looked();
        begun.workers[0].pre_commit(&mut t, Scope::Distributed).expect("alone");
        for _ in 0..60 {
            let key = begun.new_key(0..KEYS);
            let mut other = begun.workers[1].begin();
            match begun.insert(1, &mut other, key) {
                Ok(()) => {
                    assert!(
                        !begun.range.contains(&key),
                        "seed {seed}: a row at {key} came into what was seen"
                    );
                    begun.workers[1].commit(other).map_err(|(why, _)| why).expect("it has read nothing");
                    allowed += 1;
                }
                Err(_) => {
                    begun.workers[1].abort(other);
                    refused += 1;
                }
            }
        }
        begun.workers[0].post_commit(t);
        let key = begun.new_key(0..KEYS);
        let mut other = begun.workers[1].begin();
        begun.insert(1, &mut other, key).expect("it is over");
        begun.workers[1].commit(other).map_err(|(why, _)| why).expect("alone");
    }
    assert!(allowed > 1000 && refused > 1000, "{allowed} allowed, {refused} refused");
}

/// A scan may find an empty leaf until it has left the tree.
#[test]
fn the_neighbour_with_more_room_is_chosen_and_a_full_one_never() {
    let arena = Arena::new(1 << 20, world::PageSize::Normal).unwrap();
    let mut local = Local::new();
    let mut leaf = |count: usize| -> Node<'_> {
        let leaf = new_node(&arena, &mut local, 0, Ref::NONE).unwrap();
        let entry = |n| Entry { key: vec![n as u8], target: Ref(8), separator: Ref::NONE };
        leaf.fill(0, &(0..count).map(entry).collect::<Vec<_>>());
        leaf
    };
    let full = LEAF_CAP;
    for (lower, upper, expected) in [
        (0, full, Some(0)),
        (full, 0, Some(2)),
        (0, 0, Some(0)),
        (full - 1, full - 2, Some(2)),
        (full - 2, full - 1, Some(0)),
        (full, full, None),
    ] {
        let [below, node, above] = [lower, full, upper].map(&mut leaf);
        let parent = new_node(&arena, &mut Local::new(), 1, below.at).unwrap();
        parent.insert_entry(&arena, 0, &Sought::new(b"a"), node.at, Ref::NONE);
        parent.insert_entry(&arena, 1, &Sought::new(b"b"), above.at, Ref::NONE);
        let step = Step { node: parent, sight: parent.sight().unwrap(), child: 1 };
        let found = |i| room_beside(&arena, &step, node, i).unwrap().map(|beside| beside.child);
        assert_eq!(found(1), expected, "beside {lower} and {upper} entries");
        assert_eq!(found(full), None, "keys that come in order leave full leaves behind");
    }
}
