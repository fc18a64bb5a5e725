//! What the rooms above call. Each hook is a load and a branch while no worker profiles. While one does, it is a call of `far`;
//! but counting, and entering a section, reach the thread's cells where they stand, since around a call the caller saves
//! registers even while nobody profiles.

use crate::far;
use crate::profile::Profile;
use crate::table::{Component, Counter, Profiling, Section, Wait};
use crate::worker::{Before, LINKS, Latched, MANAGE, NO_KIND, OFF, Role, Round, UNSPLIT, WORKER};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// How many workers of this process profile. A hook looks here first: a plain load, whichever crate it is inlined into,
/// where reaching a thread's own cells may be a call or two (without link-time optimisation).
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Turns the profile of the calling thread on (from zero) or off. To be called between polls, and with
/// [`Profiling::Off`] before the thread ends.
pub fn profile(profiling: Profiling) {
    WORKER.with(|w| {
        let before = w.mode.get() != OFF;
        w.enable(profiling);
        match (before, w.mode.get() != OFF) {
            (false, true) => _ = WORKERS.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = WORKERS.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    });
}

/// The window since the last call (or since profiling was turned on); `None` while it is off.
pub fn window() -> Option<Profile> {
    WORKER.with(|w| w.window())
}

/// Whether any worker of the process profiles.
#[inline(always)]
fn somebody() -> bool {
    !cfg!(feature = "unprobed") && WORKERS.load(Ordering::Relaxed) != 0
}

/// Whether this thread profiles.
#[inline(always)]
pub fn on() -> bool {
    somebody() && far::on()
}

#[inline(always)]
pub fn count(counter: Counter) {
    add(counter, 1);
}

#[inline(always)]
pub fn add(counter: Counter, n: u64) {
    if somebody() {
        far::here((), |w| w.count(counter, n));
    }
}

/// What one part of a transaction asked of its lock table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockCalls {
    /// See [`Counter::RowLocks`], and so on.
    pub rows: u64,
    pub higher: u64,
    pub repeats: u64,
    pub inherited: u64,
    pub fast: u64,
}

/// A part of a transaction gives its locks back. Said once and not lock by lock, for which a TPC-B deposit called eleven hooks.
#[inline(always)]
pub fn lock_calls(calls: impl FnOnce() -> LockCalls) {
    if somebody() {
        far::lock_calls(calls());
    }
}

/// To be called before the critical section's latch is taken: a wait for it is counted under this section.
#[inline(always)]
pub fn enter(section: Section) {
    if somebody() {
        far::here((), |w| w.enter(section));
    }
}

/// The section entered last is occupied, and has to be waited for.
#[cold]
pub fn contended() {
    if on() {
        WORKER.with(|w| w.contended());
    }
}

/// A page was visited: `kind` gives the number in its header, which says what it holds.
#[inline(always)]
pub fn visited(kind: impl FnOnce() -> u8, page: u32, latched: Latched) {
    if somebody() {
        far::visited(kind(), page, latched);
    }
}

/// Runs `f`, which takes or leaves a page latch.
#[inline(always)]
pub fn latching<R>(f: impl FnOnce() -> R) -> R {
    let before = latch_begins();
    let result = f();
    unlatched(before);
    result
}

/// What a page latch goes back to.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Latching(u8);

/// A page latch is about to be taken: [`latched`] or [`unlatched`] follows.
#[inline(always)]
pub fn latch_begins() -> Latching {
    Latching(if somebody() { far::latching() } else { UNSPLIT })
}

/// It was not taken, or was left.
#[inline(always)]
pub fn unlatched(Latching(before): Latching) {
    if before != UNSPLIT {
        far::change(before);
    }
}

/// It was taken, and the page is visited.
#[inline(always)]
pub fn latched(before: Latching, kind: impl FnOnce() -> u8, page: u32) {
    if somebody() {
        unlatched(before);
        far::visited(kind(), page, Latched::Yes);
    }
}

/// The task begins a transaction of this kind: what is counted in its polls from here on is counted under it.
#[inline]
pub fn transaction(kind: &'static str) {
    if on() {
        WORKER.with(|w| w.transaction(kind));
    }
}

/// When a part of a transaction began, if its poll's time is split: how long it holds its locks is measured from there.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hold(u64);

/// A part of a transaction begins.
#[inline]
pub fn part_begins() -> Hold {
    Hold(if somebody() { far::part_begins() } else { 0 })
}

/// It has made its last visit to a page.
#[inline]
pub fn part_ends() {
    if somebody() {
        far::part_ends();
    }
}

/// Its locks have been given back.
#[inline]
pub fn held(Hold(since): Hold) {
    if since != 0 {
        far::held(since);
    }
}

/// Runs `f`, whose time belongs to `component`. For code that never awaits; cheaper than [`span`].
#[inline(always)]
pub fn within<R>(component: Component, f: impl FnOnce() -> R) -> R {
    let before = if somebody() { far::split_off(component) } else { UNSPLIT };
    let result = f();
    if before != UNSPLIT {
        far::change(before);
    }
    result
}

/// Until it is dropped the task's time belongs to another component, over all its awaits: a [`charged`] task resumes
/// with the component it was left with.
#[must_use]
#[derive(Debug)]
pub struct Span(u8);

#[inline(always)]
pub fn span(component: Component) -> Span {
    Span(if somebody() { far::span(component) } else { UNSPLIT })
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 != UNSPLIT {
            far::change(self.0);
        }
    }
}

/// Says what the task waits for if `poll` is pending. Of several on the way out the innermost counts.
#[inline]
pub fn parks<T>(wait: Wait, poll: Poll<T>) -> Poll<T> {
    if poll.is_pending() && somebody() {
        far::parks(wait);
    }
    poll
}

/// As [`parks`], for a task that waits while its request is run, and timed, elsewhere.
#[inline]
pub fn parks_untimed<T>(poll: Poll<T>) -> Poll<T> {
    if poll.is_pending() && on() {
        WORKER.with(|w| w.wait.set(UNTIMED));
    }
    poll
}

const UNTIMED: u8 = u8::MAX;

/// One task's line of time: polls, and waits between them.
struct Line {
    role: Role,
    component: u8,
    /// Of the transaction.
    kind: u8,
    /// Since when it has been waiting, and for what.
    parked: Option<(u64, u8)>,
    watched: bool,
}

impl Line {
    #[inline(always)]
    fn resume(&mut self) -> Option<Before> {
        if on() {
            return Some(self.resume_stamped());
        }
        (self.parked, self.watched) = (None, false);
        None
    }

    #[inline(never)]
    fn resume_stamped(&mut self) -> Before {
        WORKER.with(|w| {
            let before = w.begin(self.role, self.component, self.kind);
            if let Some((since, wait)) = self.parked.take()
                && let Some(cell) = w.waits.get(usize::from(wait))
                && since >= w.enabled_at.get()
            {
                cell.set(cell.get() + w.since.get().saturating_sub(since));
            }
            w.wait.set(Wait::Turn as u8);
            if std::mem::take(&mut self.watched) {
                w.watch();
            }
            before
        })
    }

    fn suspend(&mut self, before: Before, ended: bool) {
        WORKER.with(|w| {
            (self.component, self.kind) = (w.component.get(), w.kind.get());
            // A part of somebody else's transaction goes on in another task's poll: it is watched up to here.
            if ended || self.role == Role::Served {
                w.part_ends();
            } else {
                self.watched = w.unwatch();
            }
            w.leave(before);
            if self.role == Role::Home {
                self.parked = Some((w.since.get(), w.wait.get()));
            }
        });
    }
}

/// Runs a task whose polls are charged to `role`; those of [`Role::Home`] also have their waits charged. It begins in
/// [`Component::Management`].
pub async fn charged<F: Future>(role: Role, task: F) -> F::Output {
    let mut task = std::pin::pin!(task);
    let component = Component::Management as u8;
    let mut line = Line { role, component, kind: NO_KIND, parked: None, watched: false };
    std::future::poll_fn(move |cx| {
        let before = line.resume();
        let polled = task.as_mut().poll(cx);
        if let Some(before) = before {
            line.suspend(before, polled.is_ready());
        }
        polled
    })
    .await
}

/// As [`charged`], for work that never awaits.
pub fn charge<R>(role: Role, work: impl FnOnce() -> R) -> R {
    if !on() {
        return work();
    }
    let before = WORKER.with(|w| w.begin(role, Component::Management as u8, NO_KIND));
    let result = work();
    WORKER.with(|w| {
        w.part_ends();
        w.leave(before);
    });
    result
}

/// The worker's loop looks for messages, or has its own sent.
#[inline]
pub fn communicating<R>(f: impl FnOnce() -> R) -> R {
    if !on() {
        return f();
    }
    WORKER.with(|w| w.switch(LINKS));
    let result = f();
    WORKER.with(|w| w.switch(MANAGE));
    result
}

/// A round of the worker's loop is over.
#[inline]
pub fn round(round: Round) {
    if on() {
        WORKER.with(|w| w.round(round));
    }
}
