//! The hooks of a process in which a worker profiles. All but [`here`] are out of line: to reach a
//! thread's cells takes two instructions inside this crate, and may take two calls in any other
//! crate into which a hook is inlined (without link-time optimisation).

use crate::table::{Component, Wait};
use crate::worker::{Latched, LockCalls, OFF, UNSPLIT, WORKER, Worker};

/// The result of `f` if this thread profiles, else `off`.
#[inline(always)]
pub(crate) fn here<R>(off: R, f: impl FnOnce(&Worker) -> R) -> R {
    WORKER.with(|w| if w.mode.get() == OFF { off } else { f(w) })
}

#[inline(never)]
pub(crate) fn on() -> bool {
    here(false, |_| true)
}

#[inline(never)]
pub(crate) fn visited(kind: u8, page: u32, latched: Latched) {
    here((), |w| w.visited(kind, page, latched));
}

#[inline(never)]
pub(crate) fn lock_calls(calls: LockCalls) {
    here((), |w| w.lock_calls(calls));
}

/// The time now, in ticks; 0 outside of polls with split time.
#[inline(never)]
pub(crate) fn part_begins() -> u64 {
    here(0, |w| {
        w.part_begins();
        w.hold()
    })
}

#[inline(never)]
pub(crate) fn part_ends() {
    here((), |w| w.part_ends());
}

#[inline(never)]
pub(crate) fn held(since: u64) {
    here((), |w| w.held(since));
}

/// Called on the way out of a poll that waits. If several waits are reported, the innermost counts.
#[inline(never)]
pub(crate) fn parks(wait: Wait) {
    here((), |w| {
        if w.wait.get() == Wait::Turn as u8 {
            w.wait.set(wait as u8);
        }
    });
}

/// Returns the component to go back to, or [`UNSPLIT`]. The section is stored also if this thread
/// does not profile: its cell is not read then.
#[inline(never)]
pub(crate) fn latching() -> u8 {
    WORKER.with(|w| w.latching())
}

#[inline(never)]
pub(crate) fn split_off(component: Component) -> u8 {
    WORKER.with(|w| w.split_off(component))
}

#[inline(never)]
pub(crate) fn span(component: Component) -> u8 {
    here(UNSPLIT, |w| w.change(component as u8))
}

/// Goes back to a component that one of these returned.
#[inline(never)]
pub(crate) fn change(component: u8) {
    WORKER.with(|w| w.change(component));
}
