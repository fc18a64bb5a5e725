//! The cost of one operation by the protection of the page, to be counted by callgrind:
//!
//! `valgrind --tool=callgrind target/quick/examples/owning POLICY OP CALLS`
//!
//! POLICY is owned, by-page (pages owned by this thread), by-page-free (pages without owner),
//! optimistic, coupled, or multi (as by-page, in a tree of eight roots). OP is get, read, modify or
//! entry (a delete and an insert). The difference of two runs with another number of CALLS leaves
//! out the cost of the set-up; `scripts/count-owning` prints the table.

mod support;

use access::{BTree, Expect, Heap, HeapModify, InsertPages};
use base::{PageId, Rid, TableId};
use latch::{OwnerId, act_for};
use pages::{ByPage, Coupled, LatchPolicy, Optimistic, Owned};
use std::hint::black_box;
use std::ops::ControlFlow;
use support::{Counter, pool};

const ROWS: u64 = 20_000;
const TABLE: TableId = TableId(1);

fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS
}

#[derive(Clone, Copy, PartialEq)]
enum Pages {
    Nobodys,
    Mine,
}

fn run<L: LatchPolicy>(op: &str, calls: u64, roots: u64, whose: Pages) {
    let pool = pool(4_000);
    let (mut journal, hints) = (Counter(0), InsertPages::new());
    let first = pool.allocate().expect("a page");
    let map;
    let tree = if roots > 1 {
        BTree::create_multi_at::<L>(&pool, &mut journal, TABLE, first).expect("a tree");
        map = BTree::read_roots(&pool, first, TABLE).expect("its roots");
        BTree::open(&pool, first, TABLE).with_roots(&map)
    } else {
        BTree::create_at::<L>(&pool, &mut journal, TABLE, first).expect("a tree");
        BTree::open(&pool, first, TABLE)
    };
    for part in 1..roots {
        tree.split_partition::<L>(&mut journal, &(ROWS * part / roots).to_be_bytes()).expect("room");
    }
    let root = Heap::create::<L>(&pool, &mut journal, TABLE).expect("a heap");
    let heap = Heap::open(&pool, root, TABLE, &hints);
    let mut rids = Vec::new();
    for i in 0..ROWS {
        let rid = heap.insert::<L>(&mut journal, &[i as u8; 100]).expect("a row");
        tree.insert::<L>(&mut journal, &i.to_be_bytes(), &rid.encode(), Expect::Any).expect("an entry");
        rids.push(rid);
    }
    if whose == Pages::Mine {
        act_for(OwnerId::new(0));
        (1..pool.allocator().next.0).for_each(|page| pool.own(PageId(page)).expect("nobody's"));
    }
    let mut buffer = Vec::new();
    for i in 0..calls {
        let (key, rid) = (key(i).to_be_bytes(), rids[key(i) as usize]);
        match op {
            "get" => _ = black_box(tree.get::<L, _>(&key, Rid::decode).expect("at hand")),
            "read" => _ = black_box(heap.read::<L, _>(rid, |row| row[50]).expect("at hand")),
            "modify" => {
                let done = heap.modify::<L, _>(&mut journal, rid, &mut buffer, |row| {
                    row[20..28].copy_from_slice(&i.to_le_bytes());
                    ControlFlow::Continue(((), 20..28))
                });
                assert!(matches!(done, Ok(HeapModify::Done(()))));
            }
            "entry" => {
                tree.delete::<L>(&mut journal, &key, Expect::Any).expect("at hand");
                tree.insert::<L>(&mut journal, &key, &rid.encode(), Expect::Any).expect("at hand");
            }
            other => panic!("unknown operation '{other}': expected get, read, modify or entry"),
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [policy, op, calls] = &args[..] else { panic!("expected POLICY OP CALLS") };
    let calls = calls.parse().expect("CALLS is a number");
    match policy.as_str() {
        "owned" => run::<Owned>(op, calls, 1, Pages::Nobodys),
        "by-page" => run::<ByPage>(op, calls, 1, Pages::Mine),
        "by-page-free" => run::<ByPage>(op, calls, 1, Pages::Nobodys),
        "optimistic" => run::<Optimistic>(op, calls, 1, Pages::Nobodys),
        "coupled" => run::<Coupled>(op, calls, 1, Pages::Nobodys),
        "multi" => run::<ByPage>(op, calls, 8, Pages::Mine),
        other => panic!("unknown policy '{other}'"),
    }
}
