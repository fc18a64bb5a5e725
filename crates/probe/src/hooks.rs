//! The functions that other crates call. While no worker profiles, each hook is a load and a
//! branch. While one does, a hook calls `far`. Counting and entering a section are the exceptions:
//! they reach the thread's cells inline, since the caller of a function saves registers around the
//! call, also while no worker profiles.

use crate::far;
use crate::profile::Profile;
use crate::table::{Component, Counter, Profiling, Section, Wait};
use crate::worker::{Before, LINKS, Latched, LockCalls, MANAGE, NO_KIND, OFF, Role, Round, UNSPLIT, WORKER};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// The number of workers of this process that profile. A hook reads it first: a plain load in every
/// crate into which it is inlined. To reach a thread's own cells may take a call or two there
/// (without link-time optimisation).
static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Turns the profile of the calling thread on (from zero) or off. Has to be called between polls,
/// and with [`Profiling::Off`] before the thread ends.
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

/// The window since the last call, or since profiling was turned on; `None` while it is off.
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

/// Reports the lock requests of a part of a transaction when it gives its locks back. One call for
/// all locks: with one per lock, a TPC-B deposit would call eleven hooks.
#[inline(always)]
pub fn lock_calls(calls: impl FnOnce() -> LockCalls) {
    if somebody() {
        far::lock_calls(calls());
    }
}

/// Has to be called before the critical section's latch is taken: a wait for the latch is counted
/// under this section.
#[inline(always)]
pub fn enter(section: Section) {
    if somebody() {
        far::here((), |w| w.enter(section));
    }
}

/// The section entered last is occupied, and the thread has to wait for it.
#[cold]
pub fn contended() {
    if on() {
        WORKER.with(|w| w.contended());
    }
}

/// A page was visited. `kind` returns the number in its header that says which kind of page it is.
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

/// The component to go back to after a page latch.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Latching(u8);

/// A page latch is about to be taken: [`latched`] or [`unlatched`] follows.
#[inline(always)]
pub fn latch_begins() -> Latching {
    Latching(if somebody() { far::latching() } else { UNSPLIT })
}

/// The latch was not taken, or was released.
#[inline(always)]
pub fn unlatched(Latching(before): Latching) {
    if before != UNSPLIT {
        far::change(before);
    }
}

/// The latch was taken, and the page is visited.
#[inline(always)]
pub fn latched(before: Latching, kind: impl FnOnce() -> u8, page: u32) {
    if somebody() {
        unlatched(before);
        far::visited(kind(), page, Latched::Yes);
    }
}

/// The task begins a transaction of this kind: counts in its polls from here on belong to this
/// kind.
#[inline]
pub fn transaction(kind: &'static str) {
    if on() {
        WORKER.with(|w| w.transaction(kind));
    }
}

/// The time at which a part of a transaction began, if its poll's time is split. The time for which
/// it holds its locks is measured from here.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hold(u64);

/// A part of a transaction begins.
#[inline]
pub fn part_begins() -> Hold {
    Hold(if somebody() { far::part_begins() } else { 0 })
}

/// The part has made its last visit to a page.
#[inline]
pub fn part_ends() {
    if somebody() {
        far::part_ends();
    }
}

/// The part's locks have been given back.
#[inline]
pub fn held(Hold(since): Hold) {
    if since != 0 {
        far::held(since);
    }
}

/// Runs `f` and charges its time to `component`. For code that never awaits; cheaper than [`span`].
#[inline(always)]
pub fn within<R>(component: Component, f: impl FnOnce() -> R) -> R {
    let before = if somebody() { far::split_off(component) } else { UNSPLIT };
    let result = f();
    if before != UNSPLIT {
        far::change(before);
    }
    result
}

/// Until it is dropped, the task's time belongs to another component, over all its awaits: a
/// [`charged`] task resumes with the component that it had when it was suspended.
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

/// Reports the task's wait if `poll` is pending. If several waits are reported on the way out, the
/// innermost counts.
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

/// One task's time line: polls, and waits between them.
struct Line {
    role: Role,
    component: u8,
    /// The kind of its transaction.
    kind: u8,
    /// The start of its wait in ticks, and the kind of wait.
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
            // A part of a transaction from elsewhere continues in another task's poll: it is
            // watched up to here.
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

/// Runs a task and charges its polls to `role`. For [`Role::Home`] its waits are charged too. The
/// task begins in [`Component::Management`].
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

/// Charges the time of `f` to the links: the worker's loop looks for messages, or sends its own.
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
