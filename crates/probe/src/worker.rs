//! The counts and times of one worker: plain cells of its thread, merged as values when a window
//! ends.
//!
//! Access rules: only the thread itself touches its cells. A thread that never turned profiling on
//! (a checkpoint, a flusher, a client) has it off.
//!
//! ```text
//!   worker's clock   |--- home ---|-- served --|manage|links|manage| ...   every border is stamped
//!                    |exec|lock|exec|log|                                  in one poll of `one_in`
//! ```
//!
//! The time between two stamps belongs to exactly one *account*: the loop itself, its links,
//! transactions with their home here, or parts of transactions from elsewhere. Accounts are exact.
//! The time of the last two is divided among the components by sampling: polls are drawn at random
//! before they begin, and weighted with the inverse of their probability. A poll that the system
//! interrupts for milliseconds has the same weight, so on an overloaded machine the division is
//! rough.

use crate::hardware::Counting;
use crate::profile::{Profile, derive};
use crate::table::{Component, Counter, PageKind, Profiling, Section, Wait};
use crate::ticks::ticks;
use std::cell::{Cell, RefCell};

/// The requests of one part of a transaction to its lock table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockCalls {
    /// See [`Counter::RowLocks`], and so on.
    pub rows: u64,
    pub higher: u64,
    pub repeats: u64,
    pub inherited: u64,
    pub fast: u64,
}

/// Modes: nothing is counted; everything is counted; and this poll's time is split as well.
pub(crate) const OFF: u8 = 0;
const COUNTING: u8 = 1;
pub(crate) const TIMING: u8 = 2;

/// The transactions for which a task works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Transactions that began at this instance: their time and their waits add up to the latency
    /// that a client sees.
    Home,
    /// Parts of transactions from elsewhere, and work for no transaction.
    Served,
}

/// Whether the worker found work in a round of its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    Worked,
    Idle,
}

/// Whether the latch of a page protects it. If not, a single owner or a second look at its version
/// does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latched {
    No,
    Yes,
}

pub(crate) const MANAGE: u8 = 0;
pub(crate) const LINKS: u8 = 1;
const HOME: u8 = 2;
const ROLES: usize = 2;
const NOBODY: u8 = 255;
pub(crate) const UNSPLIT: u8 = 255;

/// More than there are kinds of pages.
const PAGE_KINDS: usize = 16;
/// Counts are kept by kind of transaction; TPC-E has twelve. Kind 0 is for work of no transaction,
/// and for kinds beyond this number.
const KINDS: usize = 16;
pub(crate) const NO_KIND: u8 = 0;

/// If polls are further apart than this many times the cost of a stamp (some 20 µs), all are timed:
/// the worker has the time for it.
const SPARSE: u64 = 2000;

type Cells<const N: usize> = [Cell<u64>; N];

/// The state to restore after a poll inside another one.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    account: u8,
    component: u8,
    kind: u8,
}

pub(crate) struct Worker {
    pub mode: Cell<u8>,
    pub component: Cell<u8>,
    pub wait: Cell<u8>,
    /// The critical section that was entered last: a wait is counted for it.
    section: Cell<u8>,
    account: Cell<u8>,
    /// The kind of the transaction that is running.
    pub kind: Cell<u8>,
    /// The name that was looked up last, and its kind.
    named: Cell<&'static str>,
    named_kind: Cell<u8>,
    /// The kind of the transaction for which pages are being collected; 255 if there is none.
    watched: Cell<u8>,
    /// The list of pages belongs to a transaction that is parked.
    list_kept: Cell<bool>,
    one_in: Cell<u32>,
    /// Polls that begin further apart than this many ticks are all timed.
    sparse: Cell<u64>,
    random: Cell<u64>,
    weight: Cell<u64>,
    stamp_cost: Cell<u64>,
    /// Start of the current account, and of the current component.
    pub since: Cell<u64>,
    split_since: Cell<u64>,
    last_poll: Cell<u64>,
    pub enabled_at: Cell<u64>,
    window_ticks: Cell<u64>,
    window_ns: Cell<u64>,
    accounts: Cells<4>,
    /// Time of the rounds of the loop in which there was work: the loop's own, and the links'.
    rounds: Cells<2>,
    idle: Cell<u64>,
    split: [Cells<{ Component::COUNT }>; ROLES],
    pub waits: Cells<{ Wait::COUNT }>,
    /// By kind of transaction.
    counts: [Cells<{ Counter::COUNT }>; KINDS],
    /// Visits to pages, by kind of transaction, whether they were latched, and the number of the
    /// page's kind.
    visits: [[Cells<PAGE_KINDS>; 2]; KINDS],
    entered: Cells<{ Section::COUNT }>,
    contended: Cells<{ Section::COUNT }>,
    polls: Cell<u64>,
    timed: Cell<u64>,
    /// Parts of transactions for which lock times were measured, and the sum of these times.
    holds: Cell<u64>,
    hold_ticks: Cell<u64>,
    begun: Cells<KINDS>,
    seen: Cells<KINDS>,
    different: [Cells<2>; KINDS],
}

thread_local! {
    pub(crate) static WORKER: Worker = const { Worker::new() };
    /// Pages of the watched transaction. Apart from the cells, because it has a destructor.
    static PAGES: RefCell<Vec<(bool, u32)>> = const { RefCell::new(Vec::new()) };
    /// The processor's counters of the thread, while it profiles.
    static HARDWARE: RefCell<Option<Counting>> = const { RefCell::new(None) };
    /// Names of the kinds from 1 on.
    static NAMES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

const fn cells<const N: usize>() -> Cells<N> {
    [const { Cell::new(0) }; N]
}

#[inline]
fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get().wrapping_add(n));
}

impl Worker {
    const fn new() -> Worker {
        Worker {
            mode: Cell::new(OFF),
            component: Cell::new(Component::Management as u8),
            wait: Cell::new(Wait::Turn as u8),
            section: Cell::new(0),
            account: Cell::new(MANAGE),
            kind: Cell::new(NO_KIND),
            named: Cell::new(""),
            named_kind: Cell::new(NO_KIND),
            watched: Cell::new(NOBODY),
            list_kept: Cell::new(false),
            one_in: Cell::new(1),
            sparse: Cell::new(0),
            random: Cell::new(0x9e37_79b9_7f4a_7c15),
            weight: Cell::new(0),
            stamp_cost: Cell::new(0),
            since: Cell::new(0),
            split_since: Cell::new(0),
            last_poll: Cell::new(0),
            enabled_at: Cell::new(0),
            window_ticks: Cell::new(0),
            window_ns: Cell::new(0),
            accounts: cells(),
            rounds: cells(),
            idle: Cell::new(0),
            split: [const { cells() }; ROLES],
            waits: cells(),
            counts: [const { cells() }; KINDS],
            visits: [const { [const { cells() }; 2] }; KINDS],
            entered: cells(),
            contended: cells(),
            polls: Cell::new(0),
            timed: Cell::new(0),
            holds: Cell::new(0),
            hold_ticks: Cell::new(0),
            begun: cells(),
            seen: cells(),
            different: [const { cells() }; KINDS],
        }
    }

    /// Stamps the end of the current account's time. The time from here on belongs to `account`.
    pub fn switch(&self, account: u8) -> u64 {
        let now = ticks();
        // The counters of two processors may differ a little. When the worker has moved to another
        // one, the time must not come out negative, as an enormous number.
        add(&self.accounts[self.account.get() as usize], now.saturating_sub(self.since.get()));
        self.since.set(now);
        self.account.set(account);
        now
    }

    /// The transactions' accounts come after the loop's two.
    fn role(&self) -> usize {
        usize::from(self.account.get().saturating_sub(HOME))
    }

    /// Begins a poll of a task. Returns the state for [`Worker::leave`] to restore.
    pub fn begin(&self, role: Role, component: u8, kind: u8) -> Before {
        let before =
            Before { account: self.account.get(), component: self.component.get(), kind: self.kind.get() };
        if before.account >= HOME {
            if self.mode.get() == TIMING {
                self.charge(ticks());
            }
            self.switch(HOME + role as u8);
        } else {
            // No stamp: the little time that the loop has spent since the last one, to find this
            // task, is charged to the task.
            self.account.set(HOME + role as u8);
            self.draw(self.since.get());
        }
        self.component.set(component);
        self.kind.set(kind);
        before
    }

    pub fn leave(&self, Before { account, component, kind }: Before) {
        if self.mode.get() == TIMING {
            self.charge(ticks());
            if account < HOME {
                self.mode.set(COUNTING);
            }
        }
        self.switch(account);
        self.component.set(component);
        self.kind.set(kind);
    }

    /// Counts from here on belong to a transaction of this kind.
    pub fn transaction(&self, name: &'static str) {
        if std::ptr::eq(self.named.replace(name), name) {
            return self.kind.set(self.named_kind.get());
        }
        let known = NAMES.with_borrow_mut(|names| {
            let same = |n: &&'static str| std::ptr::eq(*n, name) || *n == name;
            let at = names.iter().position(same).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            at + 1
        });
        self.kind.set(if known < KINDS { known as u8 } else { NO_KIND });
        self.named_kind.set(self.kind.get());
    }

    /// The index of the current kind.
    #[inline]
    fn slot(&self) -> usize {
        usize::from(self.kind.get()) % KINDS
    }

    /// Decides whether the poll that begins is timed.
    fn draw(&self, now: u64) {
        add(&self.polls, 1);
        let sparse = now.saturating_sub(self.last_poll.replace(now)) > self.sparse.get();
        let weight = if sparse || self.one_in.get() == 1 { 1 } else { u64::from(self.lot()) };
        self.weight.set(weight);
        if weight > 0 {
            add(&self.timed, 1);
            self.split_since.set(now);
            self.mode.set(TIMING);
        }
    }

    /// `one_in` with a probability of one in that many, else 0.
    fn lot(&self) -> u32 {
        // xorshift64: any period will do that differs from the workload's own.
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        let n = self.one_in.get();
        if ((x >> 32) * u64::from(n)) >> 32 == 0 { n } else { 0 }
    }

    /// Charges the time since the last stamp of this poll to the current component, less the cost
    /// of the stamp.
    fn charge(&self, now: u64) {
        let spent = now.saturating_sub(self.split_since.replace(now)).saturating_sub(self.stamp_cost.get());
        add(&self.split[self.role()][self.component.get() as usize], spent * self.weight.get());
    }

    /// The span of another component begins or ends.
    #[inline]
    pub fn change(&self, component: u8) -> u8 {
        if self.mode.get() == TIMING {
            self.change_stamped(component)
        } else {
            self.component.replace(component)
        }
    }

    /// A round of the loop is over.
    pub fn round(&self, round: Round) {
        self.switch(MANAGE);
        for account in [MANAGE, LINKS] {
            let spent = self.accounts[account as usize].take();
            match round {
                Round::Worked => add(&self.rounds[account as usize], spent),
                Round::Idle => add(&self.idle, spent),
            }
        }
    }

    #[inline]
    pub fn count(&self, counter: Counter, n: u64) {
        add(&self.counts[self.slot()][counter as usize], n);
    }

    #[inline]
    pub fn lock_calls(&self, calls: LockCalls) {
        let counts = &self.counts[self.slot()];
        let LockCalls { rows, higher, repeats, inherited, fast } = calls;
        add(&counts[Counter::RowLocks as usize], rows);
        add(&counts[Counter::HigherLocks as usize], higher);
        add(&counts[Counter::LockRepeats as usize], repeats);
        add(&counts[Counter::LockInherited as usize], inherited);
        add(&counts[Counter::LockFast as usize], fast);
    }

    #[inline]
    pub fn enter(&self, section: Section) {
        add(&self.entered[section as usize], 1);
        self.section.set(section as u8);
    }

    pub fn contended(&self) {
        add(&self.contended[self.section.get() as usize], 1);
    }

    /// Kinds of pages are numbers here. Their meaning is looked up when the window ends.
    #[inline]
    pub fn visited(&self, kind: u8, page: u32, latched: Latched) {
        let kind = usize::from(kind) % PAGE_KINDS;
        add(&self.visits[self.slot()][latched as usize][kind], 1);
        if self.watched.get() != NOBODY {
            self.watch_page(kind as u8, page);
        }
    }

    #[cold]
    #[inline(never)]
    fn watch_page(&self, kind: u8, page: u32) {
        let kind = PageKind::of(kind);
        if kind.visits().is_some() {
            PAGES.with_borrow_mut(|pages| pages.push((kind == PageKind::Index, page)));
        }
    }

    /// Called before a page latch is taken or released. Returns the component to go back to.
    #[inline(always)]
    pub fn latching(&self) -> u8 {
        self.section.set(Section::PageLatch as u8);
        self.split_off(Component::Latching)
    }

    /// As [`Worker::change`], unless this poll's time is not split.
    #[inline(always)]
    pub fn split_off(&self, component: Component) -> u8 {
        if self.mode.get() == TIMING { self.change_stamped(component as u8) } else { UNSPLIT }
    }

    #[cold]
    #[inline(never)]
    fn change_stamped(&self, component: u8) -> u8 {
        self.charge(ticks());
        self.component.replace(component)
    }

    /// A part of a transaction begins. Its pages are collected if it is drawn. Parts overlap, and
    /// one is watched at a time.
    pub fn part_begins(&self) {
        let slot = self.slot();
        add(&self.begun[slot], 1);
        let free = self.watched.get() == NOBODY && !self.list_kept.get() && self.account.get() >= HOME;
        if free && (self.one_in.get() == 1 || self.lot() > 0) {
            PAGES.with_borrow_mut(Vec::clear);
            self.watched.set(slot as u8);
        }
    }

    /// The current part visits no more pages. Ends the watch if this is the watched part.
    pub fn part_ends(&self) {
        let watched = self.watched.replace(NOBODY);
        let Some(different) = self.different.get(usize::from(watched)) else { return };
        add(&self.seen[usize::from(watched)], 1);
        PAGES.with_borrow_mut(|pages| {
            pages.sort_unstable();
            pages.dedup();
            let index = pages.iter().filter(|(index, _)| *index).count() as u64;
            add(&different[0], pages.len() as u64 - index);
            add(&different[1], index);
        });
    }

    /// The watched transaction is parked. Returns whether there is one: then [`Worker::watch`] has
    /// to be called when it continues.
    pub fn unwatch(&self) -> bool {
        let watched = self.watched.replace(NOBODY) != NOBODY;
        self.list_kept.set(self.list_kept.get() || watched);
        watched
    }

    pub fn watch(&self) {
        self.list_kept.set(false);
        self.watched.set(self.slot() as u8);
    }

    pub fn hold(&self) -> u64 {
        if self.mode.get() == TIMING { ticks() } else { 0 }
    }

    pub fn held(&self, since: u64) {
        if since >= self.enabled_at.get() {
            add(&self.holds, 1);
            add(&self.hold_ticks, ticks().saturating_sub(since));
        }
    }

    pub fn enable(&self, profiling: Profiling) {
        let n = match profiling {
            Profiling::Off => {
                HARDWARE.take();
                return self.mode.set(OFF);
            }
            Profiling::OneIn(n) | Profiling::Drawn(n) => n,
        };
        self.one_in.set(n.max(1));
        self.stamp_cost.set(stamp_cost());
        let drawn = matches!(profiling, Profiling::Drawn(_));
        self.sparse.set(if drawn { u64::MAX } else { SPARSE * self.stamp_cost.get() });
        self.mode.set(COUNTING);
        self.watched.set(NOBODY);
        self.list_kept.set(false);
        self.account.set(MANAGE);
        let now = ticks();
        self.since.set(now);
        self.enabled_at.set(now);
        self.take(|_| 0);
        self.open_window(now);
        HARDWARE.set(Some(Counting::begin()));
    }

    fn open_window(&self, now: u64) {
        self.window_ticks.set(now);
        self.window_ns.set(world::now_ns());
    }

    /// Returns the measurements of the window, and begins the next one.
    pub fn window(&self) -> Option<Profile> {
        if self.mode.get() == OFF {
            return None;
        }
        let account = self.account.get();
        let now = self.switch(account);
        let window_ns = world::now_ns() - self.window_ns.get();
        let scale = window_ns as f64 / now.saturating_sub(self.window_ticks.get()).max(1) as f64;
        let mut profile = self.take(|ticks| (ticks as f64 * scale).round() as u64);
        profile.window_ns = window_ns;
        profile.hardware = HARDWARE.with_borrow_mut(|counting| counting.as_mut().map(Counting::read));
        self.open_window(now);
        Some(profile)
    }

    /// Empties all cells. `ns` turns ticks into nanoseconds.
    fn take(&self, ns: impl Fn(u64) -> u64) -> Profile {
        let mut profile = Profile::default();
        let accounts: [u64; 4] = std::array::from_fn(|i| self.accounts[i].take());
        let own = |account: u8| accounts[account as usize] + self.rounds[account as usize].take();
        profile.busy_ns[Component::Management as usize] = ns(own(MANAGE));
        profile.busy_ns[Component::Communication as usize] = ns(own(LINKS));
        profile.idle_ns = ns(self.idle.take());
        for role in 0..ROLES {
            let split: [u64; Component::COUNT] = std::array::from_fn(|i| self.split[role][i].take());
            for (i, share) in shares(split).into_iter().enumerate() {
                let spent = ns((accounts[usize::from(HOME) + role] as f64 * share).round() as u64);
                profile.busy_ns[i] += spent;
                if role == Role::Home as usize {
                    profile.own_ns[i] += spent;
                }
            }
        }
        profile.wait_ns = std::array::from_fn(|i| ns(self.waits[i].take()));
        profile.entered = std::array::from_fn(|i| self.entered[i].take());
        profile.contended = std::array::from_fn(|i| self.contended[i].take());
        (profile.holds, profile.hold_ns) = (self.holds.take(), ns(self.hold_ticks.take()));
        (profile.polls, profile.timed_polls) = (self.polls.take(), self.timed.take());
        for slot in 0..KINDS {
            let (counts, latched) = self.take_counts(slot);
            profile.entered[Section::PageLatch as usize] += latched;
            let name = slot.checked_sub(1).and_then(|at| NAMES.with_borrow(|names| names.get(at).copied()));
            profile.add_counts(name, &counts);
        }
        profile
    }

    /// The counts of one kind, and the number of pages latched for it.
    fn take_counts(&self, slot: usize) -> ([u64; Counter::COUNT], u64) {
        let mut counts = std::array::from_fn(|i| self.counts[slot][i].take());
        let latched = self.take_visits(slot, &mut counts);
        self.take_pages(slot, &mut counts);
        // A number that is scaled up from a sample may exceed the visits that were counted.
        for (different, visits) in
            [(Counter::UniqueHeapPages, Counter::HeapPages), (Counter::UniqueIndexPages, Counter::IndexPages)]
        {
            counts[different as usize] = counts[different as usize].min(counts[visits as usize]);
        }
        derive(&mut counts);
        (counts, latched)
    }

    fn take_visits(&self, slot: usize, counts: &mut [u64; Counter::COUNT]) -> u64 {
        let mut all_latched = 0;
        for latched in [Latched::No, Latched::Yes] {
            for (number, visits) in self.visits[slot][latched as usize].iter().enumerate() {
                let (kind, visits) = (PageKind::of(number as u8), visits.take());
                if let Some(counter) = kind.visits() {
                    counts[counter as usize] += visits;
                }
                if latched == Latched::Yes {
                    counts[kind.latches() as usize] += visits;
                    all_latched += visits;
                }
            }
        }
        all_latched
    }

    /// Estimates the different pages of all parts that began, from the mean of the watched ones.
    fn take_pages(&self, slot: usize, counts: &mut [u64; Counter::COUNT]) {
        let (begun, seen) = (self.begun[slot].take(), self.seen[slot].take());
        for (i, counter) in [Counter::UniqueHeapPages, Counter::UniqueIndexPages].into_iter().enumerate() {
            let different = self.different[slot][i].take();
            let of_all = (different as f64 / seen.max(1) as f64 * begun as f64).round() as u64;
            counts[counter as usize] += of_all;
        }
    }
}

/// Turns times into fractions of their sum. If no poll was timed, all of it is execution.
fn shares(split: [u64; Component::COUNT]) -> [f64; Component::COUNT] {
    let all: u64 = split.iter().sum();
    if all == 0 {
        let mut shares = [0.0; Component::COUNT];
        shares[Component::Execution as usize] = 1.0;
        return shares;
    }
    split.map(|part| part as f64 / all as f64)
}

/// The time that an empty span measures. The lower quartile of many is free of interrupts.
fn stamp_cost() -> u64 {
    let mut costs: [u64; 64] = std::array::from_fn(|_| {
        let start = ticks();
        ticks().saturating_sub(start)
    });
    costs.sort_unstable();
    costs[16]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tick of a worker's window lies in exactly one account, whether polls are timed or not:
    /// sums of integers.
    #[test]
    fn every_tick_belongs_to_one_account() {
        WORKER.with(|w| {
            w.enable(Profiling::Drawn(3));
            let (start, mut x) = (w.since.get(), 7_u64);
            let mut step = || {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                x >> 60
            };
            let mut end = start;
            for _ in 0..2000 {
                match step() {
                    0..6 => {
                        let outer = w.begin(Role::Home, Component::Execution as u8, NO_KIND);
                        let locking = w.split_off(Component::Locking);
                        // A task that serves another instance, on the way: like a step at home for
                        // it.
                        let inner = w.begin(Role::Served, Component::Management as u8, NO_KIND);
                        w.leave(inner);
                        if locking != UNSPLIT {
                            w.change(locking);
                        }
                        w.leave(outer);
                    }
                    6..10 => _ = w.switch(LINKS),
                    10..13 => w.round(Round::Idle),
                    _ => w.round(Round::Worked),
                }
                end = w.since.get();
            }
            let cells = w.accounts.iter().chain(&w.rounds).chain([&w.idle]);
            let all: u64 = cells.map(Cell::get).sum();
            assert_eq!(all, end - start);
            assert!(w.timed.get() > 100 && w.timed.get() < w.polls.get(), "both kinds of polls");
            w.enable(Profiling::Off);
        });
    }
}
