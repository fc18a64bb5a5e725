//! What the rooms above call. Each hook is one load and one branch while profiling is off.

use crate::profile::Profile;
use crate::table::{Component, Counter, PageKind, Profiling, Section, Wait};
use crate::worker::{LINKS, MANAGE, OFF, Role, Round, TIMING, WORKER};
use std::future::Future;
use std::task::Poll;

/// Turns the profile of the calling thread on (from zero) or off. To be called between polls.
pub fn profile(profiling: Profiling) {
    WORKER.with(|w| w.enable(profiling));
}

/// The window since the last call (or since profiling was turned on); `None` while it is off.
pub fn window() -> Option<Profile> {
    WORKER.with(|w| w.window())
}

#[inline(always)]
pub fn on() -> bool {
    WORKER.with(|w| w.mode.get() != OFF)
}

#[inline(always)]
pub fn count(counter: Counter) {
    add(counter, 1);
}

#[inline(always)]
pub fn add(counter: Counter, n: u64) {
    if on() {
        WORKER.with(|w| w.count(counter, n));
    }
}

/// To be called before the critical section's latch is taken: a wait for it is counted under this section.
#[inline(always)]
pub fn enter(section: Section) {
    if on() {
        WORKER.with(|w| w.enter(section));
    }
}

/// The section entered last is occupied, and has to be waited for.
#[cold]
pub fn contended() {
    if on() {
        WORKER.with(|w| w.contended());
    }
}

/// A page was visited: `kind` is the number in its header, which says what it holds.
#[inline(always)]
pub fn page(kind: u8, page: u32) {
    if on() {
        WORKER.with(|w| w.page(PageKind::of(kind), page));
    }
}

/// A page latch was taken.
#[inline(always)]
pub fn latch(kind: u8) {
    if on() {
        WORKER.with(|w| w.count(PageKind::of(kind).latches(), 1));
    }
}

/// A part of a transaction begins, or makes its last visit to a page.
#[inline(always)]
pub fn part_begins() {
    if on() {
        WORKER.with(|w| w.part_begins());
    }
}

#[inline(always)]
pub fn part_ends() {
    if on() {
        WORKER.with(|w| w.part_ends());
    }
}

const UNSPLIT: u8 = u8::MAX;

/// Runs `f`, whose time belongs to `component`. For code that never awaits; cheaper than [`span`].
#[inline(always)]
pub fn within<R>(component: Component, f: impl FnOnce() -> R) -> R {
    let timed = WORKER.with(|w| w.mode.get() == TIMING);
    let before = if timed { WORKER.with(|w| w.change(component as u8)) } else { UNSPLIT };
    let result = f();
    if before != UNSPLIT {
        WORKER.with(|w| w.change(before));
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
    Span(if on() { WORKER.with(|w| w.change(component as u8)) } else { UNSPLIT })
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 != UNSPLIT {
            WORKER.with(|w| w.change(self.0));
        }
    }
}

/// Says what the task waits for if `poll` is pending. Of several on the way out the innermost counts.
#[inline]
pub fn parks<T>(wait: Wait, poll: Poll<T>) -> Poll<T> {
    if poll.is_pending() && on() {
        WORKER.with(|w| {
            if w.wait.get() == Wait::Turn as u8 {
                w.wait.set(wait as u8);
            }
        });
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
    /// Since when it has been waiting, and for what.
    parked: Option<(u64, u8)>,
    watched: bool,
}

impl Line {
    fn resume(&mut self) -> Option<(u8, u8)> {
        if !on() {
            (self.parked, self.watched) = (None, false);
            return None;
        }
        WORKER.with(|w| {
            let before = w.begin(self.role, self.component);
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
            Some(before)
        })
    }

    fn suspend(&mut self, before: (u8, u8), ended: bool) {
        WORKER.with(|w| {
            self.component = w.component.get();
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
    let mut line = Line { role, component: Component::Management as u8, parked: None, watched: false };
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
    let before = WORKER.with(|w| w.begin(role, Component::Management as u8));
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
