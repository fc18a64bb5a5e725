//! Rows of a transaction at one instance: locked in order, and paid for.

use super::Sim;
use super::locks::{Mode, NONE, Waiter};
use super::parts::{Cursor, Group, Task};
use crate::case::Shape;
use crate::costs::{Conflict, Protection};
use crate::outcome::Component;
use smallvec::SmallVec;

/// The end of an attempt to lock and pay for rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// All are locked and paid.
    Done,
    /// Another step is needed, at the worker's new time.
    Again,
    /// The party waits for a lock.
    Waits,
    /// A row is prepared by another transaction, and the design aborts.
    Conflict,
}

/// Rows to lock and pay for, at one instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub group: Option<Group>,
    pub inserts: f64,
    pub shape: Shape,
    pub is_distributed: bool,
    pub task: Task,
    pub txn: u32,
}

impl Sim<'_> {
    /// Locks the rows of a part and pays for them.
    pub(super) fn rows(
        &mut self,
        number: usize,
        part: &Part,
        cursor: &mut Cursor,
        held: &mut SmallVec<[u32; 16]>,
    ) -> Rows {
        let instance = self.workers[number].instance;
        let is_shared = self.instances[instance].is_shared;
        let count = part.group.map_or(0, |group| group.rows());
        if is_shared && self.visit_lines(number, part, cursor) {
            return Rows::Again;
        }
        if self.is_updating && (is_shared || self.instances[instance].distributed > 0 || part.is_distributed)
        {
            while cursor.row < count {
                match self.lock_row(number, part, cursor, held) {
                    Rows::Done => cursor.row += 1,
                    other => return other,
                }
            }
        }
        let left = (count - cursor.paid) as f64 + part.inserts;
        if left > 0.0 {
            self.pay_rows(number, part, left);
            self.pay_handoffs(number, part);
            cursor.paid = count;
        }
        Rows::Done
    }

    fn pay_rows(&mut self, number: usize, part: &Part, rows: f64) {
        let instance = &self.instances[self.workers[number].instance];
        let is_locked = part.is_distributed || instance.distributed > 0;
        let (work, sharing) = instance.service.part_ns(part.shape, rows, is_locked);
        self.pay(number, Component::Work, work);
        self.pay(number, Component::Sharing, sharing);
    }

    /// The rows of other owners of the instance. The worker pays for both sides: in a steady state
    /// each works for the others as much as they for it.
    fn pay_handoffs(&mut self, number: usize, part: &Part) {
        let ns = self.case.handoff_ns(part.shape.updates > 0.0);
        let (instance, own) = (self.workers[number].instance, self.workers[number].index);
        let Some(group) = part.group.filter(|_| ns > 0.0 && self.instances[instance].is_shared) else {
            return;
        };
        let rows = &self.txns[part.txn].request.rows[usize::from(group.start)..usize::from(group.end)];
        let mut others: SmallVec<[usize; 8]> =
            rows.iter().map(|row| self.case.owner_of(instance, row.site)).filter(|at| *at != own).collect();
        others.sort_unstable();
        others.dedup();
        let count = others.len() as f64;
        self.pay(number, Component::Management, ns * count);
    }

    /// One visit of a hot line, if the part has one left.
    fn visit_lines(&mut self, number: usize, part: &Part, cursor: &mut Cursor) -> bool {
        let share = part.group.map_or(1.0, |group| group.rows() as f64 / part.shape.all);
        while let Some(visits) = self.case.costs.hot.get(cursor.line) {
            let at = cursor.line;
            cursor.line += 1;
            let mean = share * if part.shape.updates > 0.0 { visits.update } else { visits.read };
            let whole = mean.floor();
            let visits = whole + f64::from(u8::from(mean > whole && self.random.f64() < mean - whole));
            if visits == 0.0 {
                continue;
            }
            let lines = &self.case.profile.lines;
            let (core, clock) = (self.workers[number].core, self.workers[number].clock);
            let line = &mut self.instances[self.workers[number].instance].lines[at];
            let distance = line.owner.map_or(0.0, |owner| self.case.machine.latency_ns(owner, core));
            let service = visits * (lines.t0_ns / self.case.speed + lines.q * distance);
            let end = line.visit(clock, core, service);
            self.pay_until(number, Component::Sharing, end);
            return true;
        }
        false
    }

    /// Locks the row at the cursor, or finds it free.
    fn lock_row(
        &mut self,
        number: usize,
        part: &Part,
        cursor: &mut Cursor,
        held: &mut SmallVec<[u32; 16]>,
    ) -> Rows {
        let group = part.group.expect("a row lies in a group");
        let row = self.txns[part.txn].request.rows[usize::from(group.start) + cursor.row];
        let lock = self.locks.of(row.key);
        if lock == NONE {
            return Rows::Done;
        }
        let is_shared = self.instances[self.workers[number].instance].is_shared;
        if is_shared
            && cursor.row > cursor.paid
            && self.hot_keys.iter().any(|(a, b)| (*a..*b).contains(&row.key))
        {
            // The rows before this one take their time first.
            self.pay_rows(number, part, (cursor.row - cursor.paid) as f64);
            cursor.paid = cursor.row;
            return Rows::Again;
        }
        let mode = if row.update { Mode::Exclusive } else { Mode::Shared };
        let protection = self.case.costs.protection;
        let keeps = match protection {
            Protection::Validation => part.is_distributed && row.update,
            Protection::Locks | Protection::SerialLocks => is_shared || part.is_distributed,
        };
        let is_granted = if keeps { self.locks.try_take(lock, mode) } else { self.locks.is_free(lock, mode) };
        if is_granted {
            if keeps {
                held.push(lock);
            }
            return Rows::Done;
        }
        if held.contains(&lock) {
            return Rows::Done;
        }
        if protection == Protection::Validation && self.case.costs.on_conflict == Conflict::Abort {
            return Rows::Conflict;
        }
        self.locks.wait(lock, Waiter { task: part.task, mode, since: self.workers[number].clock });
        // The lock is its own when it goes on.
        held.push(lock);
        cursor.row += 1;
        Rows::Waits
    }

    /// Gives locks back at the worker's time; those that waited go on.
    pub(super) fn release(&mut self, number: usize, held: &mut SmallVec<[u32; 16]>) {
        if held.is_empty() {
            return;
        }
        let mut granted = std::mem::take(&mut self.granted);
        held.drain(..).for_each(|lock| self.locks.release(lock, &mut granted));
        let (now, core) = (self.workers[number].clock, self.workers[number].core);
        for waiter in granted.drain(..) {
            self.counts.lock_waits += 1;
            self.counts.lock_wait_ns += now - waiter.since;
            let worker = match waiter.task {
                Task::Run(txn) => self.txns[txn].home,
                Task::Steps(session) => self.sessions[session].worker,
                Task::Next(_) | Task::Durable(_) => unreachable!("only these wait for locks"),
            };
            let way = self.case.machine.latency_ns(core, self.workers[worker].core);
            self.make_ready(worker, waiter.task, now + way);
        }
        self.granted = granted;
    }
}
