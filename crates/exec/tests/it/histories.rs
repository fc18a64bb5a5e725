//! Random histories of three transactions at a time, each operation polled once. What has to wait rolls back. Locks are
//! held to the end, so the order of commits is an order in which the transactions could have run one by one: every
//! committed transaction is replayed in that order on an ordered map, and must have been told the same.

use crate::isolation::{Bench, Done, INDEXED, Scene, Tried, Waits, bench_with};
use locks::{Escalation, Inheritance, LockTuning};
use std::collections::BTreeMap;
use txn::{Direction, Inserted};

#[derive(Clone, Copy, Debug)]
enum Op {
    Read(i64),
    Write(i64, i64),
    Insert(i64),
    Delete(i64),
    Scan(i64, i64, Direction),
    ScanValues(i64, i64, Direction),
}

#[derive(Clone, PartialEq, Debug)]
enum Told {
    Value(Option<i64>),
    Wrote(Option<()>),
    Put(Inserted),
    Gone(bool),
    Ids(Vec<i64>),
    Pairs(Vec<(i64, i64)>),
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as i64 % n
    }

    fn op(&mut self) -> Op {
        let (id, value) = (self.below(40), self.below(30));
        let way = [Direction::Forward, Direction::Backward][self.below(2) as usize];
        match self.below(10) {
            0 | 1 => Op::Read(id),
            2 | 3 => Op::Write(id, value),
            4 => Op::Insert(id),
            5 => Op::Delete(id),
            6 | 7 => Op::Scan(id, id + self.below(12), way),
            _ => Op::ScanValues(value, value + self.below(12), way),
        }
    }
}

fn told<T>(tried: Tried<T>, how: impl FnOnce(T) -> Told) -> Tried<Told> {
    match tried {
        Done(value) => Done(how(value)),
        Waits => Waits,
        Tried::Fails(abort) => Tried::Fails(abort),
    }
}

fn perform(b: &Bench, scene: &mut Scene<'_>, op: Op) -> Tried<Told> {
    match op {
        Op::Read(id) => told(b.read(scene, id), Told::Value),
        Op::Write(id, value) => told(b.write(scene, id, value), Told::Wrote),
        Op::Insert(id) => told(b.insert(scene, id), Told::Put),
        Op::Delete(id) => told(b.delete(scene, id), Told::Gone),
        Op::Scan(low, high, way) => told(b.scan(scene, low, high, way), Told::Ids),
        Op::ScanValues(low, high, way) => told(b.scan_values(scene, low, high, way), Told::Pairs),
    }
}

fn replay(model: &mut BTreeMap<i64, i64>, op: Op) -> Told {
    fn turned<T>(way: Direction, mut all: Vec<T>) -> Vec<T> {
        if way == Direction::Backward {
            all.reverse();
        }
        all
    }
    match op {
        Op::Read(id) => Told::Value(model.get(&id).copied()),
        Op::Write(id, value) => Told::Wrote(model.get_mut(&id).map(|v| *v = value)),
        Op::Insert(id) if model.contains_key(&id) => Told::Put(Inserted::Exists),
        Op::Insert(id) => {
            model.insert(id, 0);
            Told::Put(Inserted::Done)
        }
        Op::Delete(id) => Told::Gone(model.remove(&id).is_some()),
        Op::Scan(low, high, way) => {
            Told::Ids(turned(way, model.range(low..high).map(|(id, _)| *id).collect()))
        }
        Op::ScanValues(low, high, way) => {
            let mut pairs: Vec<_> = model.iter().map(|(id, v)| (*v, *id)).collect();
            pairs.retain(|(v, _)| (low..high).contains(v));
            pairs.sort_unstable();
            Told::Pairs(turned(way, pairs))
        }
    }
}

/// Everything that was answered, in order.
fn history(tuning: LockTuning, seed: u64) -> (Vec<Tried<Told>>, Bench) {
    let b = bench_with(tuning, INDEXED, (0..40).step_by(2));
    let mut model: BTreeMap<i64, i64> = (0..40).step_by(2).map(|id| (id, 0)).collect();
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut answers = Vec::new();
    {
        let mut scenes: Vec<_> = (0..3).map(|_| (b.begin(), Vec::new())).collect();
        for step in 0..120 {
            let who = random.below(3) as usize;
            let op = random.op();
            let (scene, done) = &mut scenes[who];
            let answer = perform(&b, scene, op);
            answers.push(answer.clone());
            let over = match answer {
                Done(told) => {
                    done.push((op, told));
                    random.below(6) == 0
                }
                _ => false,
            };
            if !over && matches!(answers.last(), Some(Done(_))) {
                continue;
            }
            let (scene, done) = std::mem::replace(&mut scenes[who], (b.begin(), Vec::new()));
            if !over {
                scene.rollback();
                continue;
            }
            scene.commit();
            for (op, told) in done {
                assert_eq!(replay(&mut model, op), told, "seed {seed}, step {step}, {op:?}, {tuning:?}");
            }
        }
    }
    (answers, b)
}

#[test]
fn committed_transactions_ran_one_by_one_whatever_the_lock_manager_does() {
    let (mut inherited, mut escalated, mut waited, mut done) = (0, 0, 0, 0);
    for seed in 0..60 {
        let (plain, _) = history(LockTuning::PLAIN, seed);
        let inheriting = LockTuning { inheritance: Inheritance::On, ..LockTuning::PLAIN };
        let (same, b) = history(inheriting, seed);
        assert_eq!(plain, same, "seed {seed}: inheritance changed an outcome");
        inherited += b.inherited();
        let escalation = Escalation { reads: Some(4), writes: Some(3) };
        let (other, b) = history(LockTuning { escalation, ..inheriting }, seed);
        escalated += b.escalated();
        waited += plain.iter().chain(&other).filter(|a| **a == Waits).count();
        done += plain.iter().chain(&other).filter(|a| matches!(a, Done(_))).count();
    }
    assert!(
        inherited > 500 && escalated > 100 && waited > 500 && done > 5_000,
        "{inherited} {escalated} {waited} {done}"
    );
}
