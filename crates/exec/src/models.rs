//! The owner map under loom: every interleaving of a giver, a taker and a home, with loom's memory
//! model. `owners/owner_map.rs` is compiled here a second time, against loom's atomics, so the
//! explored code is the shipped code.
//!
//! A worker's work on a site is two accesses of a counter that order nothing themselves. Two
//! workers at work at once, or a taker that does not see the giver's work, lose a count. Messages
//! travel in loom's channels. As with the rings, the receiver of a message sees all writes before
//! its sending.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};
}
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "owners/owner_map.rs"]
mod owner_map;

use loom::sync::Arc;
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::thread::spawn;
use owner_map::{MapVersion, OwnerMap};
use sync::{AtomicU64, Ordering};

enum Message {
    Step(MapVersion),
    /// From the balancer.
    Give,
    End,
}

#[derive(PartialEq, Eq)]
enum Reply {
    Done,
    Moved,
}

/// One site, and the count of the work there.
struct World {
    map: OwnerMap,
    count: AtomicU64,
}

impl World {
    fn work(&self) {
        let before = self.count.load(Ordering::Relaxed);
        self.count.store(before + 1, Ordering::Relaxed);
    }

    fn owner(&self, worker: usize, messages: &Receiver<Message>, home: &Sender<Reply>) {
        loop {
            match messages.recv().unwrap() {
                Message::Step(map_version) if self.map.holds(worker, &map_version) => {
                    self.work();
                    home.send(Reply::Done).unwrap();
                }
                Message::Step(_) => home.send(Reply::Moved).unwrap(),
                Message::Give => self.map.give(0..1, 1 - worker),
                Message::End => return,
            }
        }
    }
}

#[test]
fn a_site_that_changes_hands_has_one_worker_at_a_time() {
    const STEPS: u64 = 2;
    let mut model = loom::model::Builder::new();
    // More switches have found nothing beyond these, and take minutes.
    model.preemption_bound = Some(2);
    model.check(|| {
        let world = Arc::new(World { map: OwnerMap::new([0]), count: AtomicU64::new(0) });
        let (to_home, answers) = channel();
        let mut owners = Vec::new();
        let mut threads = Vec::new();
        for worker in 0..2 {
            let (to, messages) = channel();
            let (world, home) = (Arc::clone(&world), to_home.clone());
            threads.push(spawn(move || world.owner(worker, &messages, &home)));
            owners.push(to);
        }
        let giver = owners[0].clone();
        let balancer = spawn(move || giver.send(Message::Give).unwrap());
        for _ in 0..STEPS {
            loop {
                let mut map_version = world.map.map_version();
                let owner = world.map.owner(0);
                map_version.widen(0);
                owners[owner].send(Message::Step(map_version)).unwrap();
                if answers.recv().unwrap() == Reply::Done {
                    break;
                }
            }
        }
        balancer.join().unwrap();
        owners.iter().for_each(|to| to.send(Message::End).unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((world.count.load(Ordering::Relaxed), world.map.owner(0)), (STEPS, 1));
    });
}
