//! A client of a history over several instances: it draws transactions, submits them and records
//! the requests and their results.

use super::{AGAIN, Course, DEPLOYMENT, LAST_READING, Trouble};
use crate::histories::{Event, Recorder, Seen};
use crate::lists::{Ask, ELEMENTS, Lists, Phase, SLOTS, Ticket, ToDo, Touch, unknown};
use adya::history::OpType;
use base::InstanceId;
use client::{Client, ClientError};
use fastrand::Rng;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;
use txn::Placement;

/// One client.
pub(super) struct Asker<'a> {
    client: Client<Lists>,
    recorder: &'a Recorder,
    random: Rng,
    /// The slots of each instance.
    placement: Placement,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        course: &Course,
        dir: &Path,
        recorder: &'a Recorder,
        number: u64,
    ) -> Result<Asker<'a>, Trouble> {
        let placement = Placement::even(SLOTS as u32, course.islands);
        let addresses = (0..course.islands).map(|id| course.via.address(dir, id)).collect();
        let client = Client::new(Lists::default(), placement.clone(), DEPLOYMENT, addresses)?;
        let random = Rng::with_seed(course.seed ^ number.wrapping_add(1).rotate_left(40));
        Ok(Asker { client, recorder, random, placement })
    }

    /// Submits one transaction; returns whether it committed.
    pub(super) fn ask(&mut self) -> bool {
        let home = self.random.i64(0..SLOTS);
        let asks = self.draw(home);
        let gives_up = self.random.u8(..12) == 0;
        self.submit(home, asks, gives_up).is_some()
    }

    fn submit(&mut self, home: i64, asks: Vec<Ask>, gives_up: bool) -> Option<Vec<Seen>> {
        let attempt = self.recorder.stamp();
        let process = attempt as i64;
        let begun = Event { order: attempt, kind: OpType::Invoke, process, seen: unknown(&asks) };
        self.recorder.push(vec![begun]);
        let before = unknown(&asks);
        let outcome = self.client.submit(&Ticket { home, to_do: ToDo::Given { asks, gives_up } });
        let (kind, seen) = match &outcome {
            Ok((_, seen)) => (OpType::Ok, seen.clone()),
            Err(ClientError::Aborted(_) | ClientError::Unreachable { .. }) => (OpType::Fail, before),
            Err(ClientError::Unknown(_)) => (OpType::Info, before),
        };
        self.recorder.push(vec![Event { order: self.recorder.stamp(), kind, process, seen }]);
        if let Err(ClientError::Unreachable { .. }) = outcome {
            std::thread::sleep(AGAIN);
        }
        outcome.ok().map(|(_, seen)| seen)
    }

    fn draw(&mut self, home: i64) -> Vec<Ask> {
        let generation = self.recorder.elements() / ELEMENTS;
        match self.random.u8(..10) {
            0..3 => self.write_then_look(generation, home),
            3 => self.elsewhere_first(generation, home),
            4 => vec![self.touch(generation, Phase::Last, 4, 0)],
            _ => {
                let count = self.random.usize(1..=3);
                let mut asks: Vec<Ask> =
                    (0..count).map(|_| Ask::draw(generation, self.recorder, &mut self.random)).collect();
                if let (Some(Ask::Touch(phase, _)), 1..) = (asks.last_mut(), self.random.u8(..5)) {
                    *phase = Phase::Last;
                }
                asks
            }
        }
    }

    /// Writes at one instance, then reads at another, both away from home if there are enough
    /// instances. The read must stay protected until the participant that wrote is prepared.
    fn write_then_look(&mut self, generation: i64, home: i64) -> Vec<Ask> {
        let mut instances: Vec<u16> = (0..self.placement.instances()).collect();
        let own = self.placement.owner(base::SiteId(home as u32)).0;
        instances.retain(|other| *other != own);
        self.random.shuffle(&mut instances);
        let (first, last) = (instances[0], instances.get(1).copied().unwrap_or(own));
        let append = Some(self.recorder.element());
        let write = Touch { slot: self.slot_of(first), generation, append };
        let look = Touch { slot: self.slot_of(last), generation, append: None };
        vec![Ask::Touch(Phase::Early, vec![write]), Ask::Touch(Phase::Last, vec![look])]
    }

    /// All steps at other instances come before the last one, which is at home.
    fn elsewhere_first(&mut self, generation: i64, home: i64) -> Vec<Ask> {
        let own = self.placement.owner(base::SiteId(home as u32));
        let away = |slot: &i64| self.placement.owner(base::SiteId(*slot as u32)) != own;
        let slots = self.random.choose_multiple((0..SLOTS).filter(away), 2);
        let mut touch = |slot| {
            let append = self.random.bool().then(|| self.recorder.element());
            Touch { slot, generation, append }
        };
        let there = slots.into_iter().map(&mut touch).collect();
        let here = touch(home);
        vec![Ask::Touch(Phase::LastElsewhere, there), Ask::Touch(Phase::Last, vec![here])]
    }

    /// Up to `most` slots; `writes` in ten of them are appended to.
    fn touch(&mut self, generation: i64, phase: Phase, most: usize, writes: u8) -> Ask {
        let count = self.random.usize(1..=most);
        let slots = self.random.choose_multiple(0..SLOTS, count);
        let touch = |slot| {
            let append = (self.random.u8(..10) < writes).then(|| self.recorder.element());
            Touch { slot, generation, append }
        };
        Ask::Touch(phase, slots.into_iter().map(touch).collect())
    }

    fn slot_of(&mut self, instance: u16) -> i64 {
        i64::from(self.random.u32(self.placement.sites_of(InstanceId(instance))))
    }

    /// Reads every list, retrying while rows are locked; `None` if some stay locked.
    pub(super) fn read_all(mut self) -> Option<HashMap<i64, Vec<i64>>> {
        let begun = Instant::now();
        let mut lists = HashMap::new();
        for generation in 0..=self.recorder.elements() / ELEMENTS {
            let touches = (0..SLOTS).map(|slot| Touch { slot, generation, append: None }).collect();
            let asks = vec![Ask::Touch(Phase::Last, touches)];
            let seen = loop {
                match self.submit(generation % SLOTS, asks.clone(), false) {
                    Some(seen) => break seen,
                    None if begun.elapsed() > LAST_READING => return None,
                    None => std::thread::sleep(AGAIN),
                }
            };
            lists.extend(seen.into_iter().filter_map(|seen| match seen {
                Seen::Read { id, list } => list.map(|list| (id, list)),
                Seen::Append { .. } => None,
            }));
        }
        Some(lists)
    }
}
