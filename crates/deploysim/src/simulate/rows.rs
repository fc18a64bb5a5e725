//! Rows of a transaction at one instance: locked in order, and paid for.

use super::locks::{Mode, NONE, Waiter};
use super::parts::{Cursor, Group, Task};
use super::{Sim, Timer};
use crate::case::Shape;
use crate::costs::{Conflict, Protection, Visits};
use crate::deployment::Clients;
use crate::outcome::Component;
use fastrand::Rng;
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

/// So many transactions of a worker say how many of those to come are handed over.
const RECENT: f64 = 256.0;

/// A time of mean 1. Equal service times would let the visitors of a line fall into step, and never
/// meet; with these, one line and one client a worker are the network that [`crate::mva`] solves.
fn memoryless(random: &mut Rng) -> f64 {
    -(1.0 - random.f64()).ln()
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
        cursor.waits = None;
        if std::mem::take(&mut cursor.has_given_up) {
            return Rows::Conflict;
        }
        let instance = self.workers[number].instance;
        let is_shared = self.instances[instance].is_shared;
        let count = part.group.map_or(0, |group| group.rows());
        if is_shared && self.visit_lines(number, part, cursor) {
            return Rows::Again;
        }
        let takes_locks = self.is_updating
            && (is_shared || self.instances[instance].distributed > 0 || part.is_distributed);
        let has_runs = is_shared && self.has_runs;
        while (takes_locks || has_runs) && cursor.row < count {
            if has_runs && self.wait_for_runs(number, part, cursor) {
                return Rows::Again;
            }
            if takes_locks {
                match self.lock_row(number, part, cursor, held) {
                    Rows::Done => {}
                    other => return other,
                }
            }
            cursor.row += 1;
            cursor.run = 0;
        }
        if self.case.profile.worker_loop.preempts && count > cursor.paid {
            self.pay_rows(number, part, 1.0);
            cursor.paid += 1;
            if count > cursor.paid || part.inserts > 0.0 {
                return Rows::Again;
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
        let locked = self.locked_share(number, part);
        let instance = &self.instances[self.workers[number].instance];
        let together = part.group.map_or(0, |group| group.rows()) as f64 + part.inserts;
        let (work, sharing) = instance.service.part_ns(part.shape, rows, together, locked);
        self.pay(number, Component::Work, work);
        self.pay(number, Component::Sharing, sharing);
    }

    /// The share of a part's transactions that take row locks where only those beside others do:
    /// all while a distributed transaction lives here. With owners, all beside a transaction that
    /// was handed over: one of the worker's own, or one of those of another worker that visit it.
    fn locked_share(&self, number: usize, part: &Part) -> f64 {
        let w = &self.workers[number];
        let instance = &self.instances[w.instance];
        if part.is_distributed || instance.distributed > 0 {
            return 1.0;
        }
        if !instance.is_shared || w.handed == 0.0 {
            return 0.0;
        }
        let clients = match self.case.deployment.clients {
            Clients::Closed(clients) => clients as i32,
            Clients::Open(_) => 1,
        };
        1.0 - (1.0 - w.handed).powi(2 * clients - 1)
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
        let mut others: SmallVec<[usize; 8]> = rows
            .iter()
            .map(|row| self.case.worker_of_site(instance, row.site))
            .filter(|at| *at != own)
            .collect();
        others.sort_unstable();
        others.dedup();
        let count = others.len() as f64;
        let w = &mut self.workers[number];
        w.handed += (count.min(1.0) - w.handed) / RECENT;
        self.pay(number, Component::Management, ns * count);
    }

    /// One visit of a hot line, if the part has one left.
    fn visit_lines(&mut self, number: usize, part: &Part, cursor: &mut Cursor) -> bool {
        let rows = part.group.map_or(part.shape.all, |group| group.rows() as f64);
        while let Some(hot) = self.case.costs.hot.get(cursor.line) {
            let at = cursor.line;
            cursor.line += 1;
            let mean = self.case.hot_visits(hot, part.shape, rows);
            let whole = mean.floor();
            let visits = whole + f64::from(u8::from(mean > whole && self.random.f64() < mean - whole));
            if visits == 0.0 {
                continue;
            }
            let (core, clock) = (self.workers[number].core, self.workers[number].clock);
            let line = &mut self.instances[self.workers[number].instance].lines[at];
            let distance = line.owner.map_or(0.0, |owner| self.case.machine.latency_ns(owner, core));
            let service = visits * self.case.hot_ns(hot, distance) * memoryless(&mut self.random);
            let end = line.visit(clock, core, service);
            self.pay_until(number, Component::Sharing, end);
            return true;
        }
        false
    }

    /// Whether the row at the cursor keeps the party waiting for a line of its runs, or waits for
    /// the rows before it to be paid.
    fn wait_for_runs(&mut self, number: usize, part: &Part, cursor: &mut Cursor) -> bool {
        let Some(group) = part.group else { return false };
        let row = self.txns[part.txn].request.rows[usize::from(group.start) + cursor.row];
        let Some(&(first, _)) = self.hot_keys.iter().find(|(a, b)| (*a..*b).contains(&row.key)) else {
            return false;
        };
        if cursor.row > cursor.paid {
            self.pay_rows(number, part, (cursor.row - cursor.paid) as f64);
            cursor.paid = cursor.row;
            return true;
        }
        let (core, now) = (self.workers[number].core, self.workers[number].clock);
        let instance = self.workers[number].instance;
        while let Some(run) = self.case.costs.runs.get(usize::from(cursor.run)) {
            let name = (cursor.run, instance as u16, first + (row.key - first) / run.rows);
            cursor.run += 1;
            let line = self.runs.entry(name).or_default();
            let distance = line.owner.map_or(0.0, |owner| self.case.machine.latency_ns(owner, core));
            let service = self.case.run_ns(run, row.update, distance);
            if service > 0.0 {
                let service = service * memoryless(&mut self.random);
                let start = line.visit(now, core, service) - service;
                if start > now {
                    self.pay_until(number, Component::Sharing, start);
                    return true;
                }
            }
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
        let is_hot = is_shared && self.hot_keys.iter().any(|(a, b)| (*a..*b).contains(&row.key));
        if is_hot && cursor.row > cursor.paid {
            // The rows before this one take their time first.
            self.pay_rows(number, part, (cursor.row - cursor.paid) as f64);
            cursor.paid = cursor.row;
            return Rows::Again;
        }
        let mode = if row.update { Mode::Exclusive } else { Mode::Shared };
        let protection = self.case.costs.protection;
        let keeps = match protection {
            // Transactions wait for their turn at a row that they often lose (`memstore::turn`).
            Protection::Validation => {
                row.update && (part.is_distributed || is_hot && self.case.costs.on_conflict == Conflict::Wait)
            }
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
        let now = self.workers[number].clock;
        self.locks.wait(lock, Waiter { task: part.task, mode, since: now });
        // The lock is its own when it goes on.
        held.push(lock);
        cursor.row += 1;
        cursor.run = 0;
        cursor.waits = Some((lock, now));
        if part.is_distributed && self.case.profile.visits == Visits::AtOnce {
            // Waits of one length would end together, and meet again.
            let patience = self.case.profile.lock_timeout_ns * (1.0 + self.random.f64());
            self.set_timer(now + patience, Timer::GivesUp { lock, task: part.task, since: now });
        }
        Rows::Waits
    }

    /// A party that is to end waits for no lock any more. Whether it did: its task does not run.
    pub(super) fn withdraw(&mut self, task: Task) -> bool {
        let (cursor, held) = match task {
            Task::Run(txn) => {
                let t = &mut self.txns[txn];
                (&mut t.cursor, &mut t.held)
            }
            Task::Steps(session) => {
                let s = &mut self.sessions[session];
                (&mut s.cursor, &mut s.held)
            }
            Task::Next(_) | Task::Durable(_) | Task::Answered(_) => return false,
        };
        let Some((lock, since)) = cursor.waits else { return false };
        let has_waited = self.locks.withdraw(lock, task, since);
        if has_waited {
            held.retain(|other| *other != lock);
            cursor.waits = None;
        }
        has_waited
    }

    /// The time of a wait is over: a party that still waits gives up, and its transaction aborts.
    pub(super) fn gives_up(&mut self, lock: u32, task: Task, since: f64, now: f64) {
        if !self.locks.withdraw(lock, task, since) {
            return;
        }
        let (worker, held) = match task {
            Task::Run(txn) => (self.txns[txn].home, &mut self.txns[txn].held),
            Task::Steps(session) => (self.sessions[session].worker, &mut self.sessions[session].held),
            Task::Next(_) | Task::Durable(_) | Task::Answered(_) => unreachable!("only these wait for locks"),
        };
        held.retain(|other| *other != lock);
        match task {
            Task::Run(txn) => self.txns[txn].cursor.has_given_up = true,
            Task::Steps(session) => self.sessions[session].cursor.has_given_up = true,
            Task::Next(_) | Task::Durable(_) | Task::Answered(_) => {}
        }
        self.counts.lock_waits += 1;
        self.counts.lock_wait_ns += now - since;
        self.make_ready(worker, task, now);
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
                Task::Next(_) | Task::Durable(_) | Task::Answered(_) => {
                    unreachable!("only these wait for locks")
                }
            };
            let way = self.case.machine.latency_ns(core, self.workers[worker].core);
            self.make_ready(worker, waiter.task, now + way);
        }
        self.granted = granted;
    }
}
