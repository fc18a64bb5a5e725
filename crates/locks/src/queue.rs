//! The requests of one bucket in order of arrival: a pure data structure that neither waits nor
//! wakes.
//!
//! One short vector holds the requests for all names that hash to the bucket. The rules for each
//! name:
//! - A request holds `granted` and wants `wanted`. It waits while they differ.
//! - A *conversion* (a request that already holds a mode) waits only for the modes that other
//!   requests hold.
//! - A *new* request waits for the modes that others hold, the modes that waiting conversions want,
//!   and the modes that earlier new requests want.
//!
//! So conversions come first, and among them the one that has waited longest. New requests are
//! served in order. One overtakes a waiting request only if the two are compatible, and so delays
//! it in no case.
//!
//! ```text
//! T1 holds S.  T2 waits for X.  T3 asks for S: it waits behind T2.
//! T1 asks for X: a conversion.  It waits for other holders only; there are none, so it is granted.
//! ```

mod requests;

use crate::mode::{LockName, Mode};
pub(crate) use requests::Requests;

/// Number of a locker in its table; also the index of its slot.
pub(crate) type LockerId = u16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// With `space`, the name of the lock.
    key: u64,
    space: u32,
    locker: LockerId,
    /// The mode that the locker holds; [`Mode::NONE`] for a new request that waits.
    granted: Mode,
    /// The mode that the locker requests; equal to `granted` if it does not wait.
    wanted: Mode,
}

#[derive(Default)]
pub(crate) struct Queue(Requests);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Granted,
    Waiting,
}

impl Request {
    /// A granted request.
    #[inline]
    pub(crate) fn new(name: LockName, locker: LockerId, mode: Mode) -> Request {
        Request { key: name.key, space: name.space, locker, granted: mode, wanted: mode }
    }

    #[cfg(test)]
    pub(crate) fn locker(&self) -> LockerId {
        self.locker
    }

    /// Whether this is a request: an unused place wants nothing.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        self.wanted != Mode::NONE
    }

    #[inline]
    fn is_for(&self, name: LockName) -> bool {
        self.key == name.key && self.space == name.space
    }

    #[inline]
    fn waits(&self) -> bool {
        self.granted != self.wanted
    }
}

impl Queue {
    #[inline]
    fn position(&self, name: LockName, locker: LockerId) -> Option<usize> {
        self.0.iter().position(|r| r.locker == locker && r.is_for(name))
    }

    /// The modes with which a new request after the first `before` requests must be compatible, as
    /// bits.
    #[inline]
    fn ahead(&self, name: LockName, before: usize) -> u32 {
        let mut bits = 0;
        for (i, r) in self.0.iter().enumerate().filter(|(_, r)| r.is_for(name)) {
            bits |= r.granted.bit();
            if r.granted != Mode::NONE || i < before {
                bits |= r.wanted.bit();
            }
        }
        bits
    }

    /// The modes that requests other than the one at `own` hold, as bits.
    fn held_by_others(&self, name: LockName, own: usize) -> u32 {
        let others = self.0.iter().enumerate().filter(|&(i, r)| i != own && r.is_for(name));
        others.fold(0, |bits, (_, r)| bits | r.granted.bit())
    }

    /// Adds a request of a locker that has none on this name.
    #[inline]
    pub(crate) fn enter(&mut self, name: LockName, locker: LockerId, mode: Mode) -> Entry {
        debug_assert!(self.position(name, locker).is_none(), "{name:?} requested twice");
        if self.0.push_first(Request::new(name, locker, mode)) {
            return Entry::Granted;
        }
        let free = self.ahead(name, self.0.len()) & mode.conflicts() == 0;
        let granted = if free { mode } else { Mode::NONE };
        self.0.push(Request { granted, ..Request::new(name, locker, mode) });
        if free { Entry::Granted } else { Entry::Waiting }
    }

    /// Adds a granted request that is known to conflict with none: one that is moved here from a
    /// fast path.
    pub(crate) fn place(&mut self, name: LockName, locker: LockerId, mode: Mode) {
        self.0.push(Request::new(name, locker, mode));
    }

    /// The holder of a request wants the stronger `mode`.
    pub(crate) fn convert(&mut self, name: LockName, locker: LockerId, mode: Mode) -> Entry {
        let Some(own) = self.position(name, locker) else { return self.enter(name, locker, mode) };
        let free = self.held_by_others(name, own) & mode.conflicts() == 0;
        if free {
            (self.0[own].granted, self.0[own].wanted) = (mode, mode);
            return Entry::Granted;
        }
        // Placed after the conversions that wait already.
        let request = self.0.remove(own);
        self.0.push(Request { wanted: mode, ..request });
        Entry::Waiting
    }

    /// As [`Queue::convert`] if the mode can be granted at once. Otherwise changes nothing and
    /// returns false; also if a request for the name waits, since it would have to wait longer.
    pub(crate) fn convert_at_once(&mut self, name: LockName, locker: LockerId, mode: Mode) -> bool {
        let Some(own) = self.position(name, locker) else { return false };
        let free = !self.has_waiters(name) && self.held_by_others(name, own) & mode.conflicts() == 0;
        if free {
            (self.0[own].granted, self.0[own].wanted) = (mode, mode);
        }
        free
    }

    pub(crate) fn has_waiters(&self, name: LockName) -> bool {
        self.0.iter().any(|r| r.is_for(name) && r.waits())
    }

    /// Removes the requests of other lockers that hold `name`, do not wait and conflict with
    /// `mode`, if `gone` confirms that no transaction uses them.
    pub(crate) fn drop_unused(
        &mut self,
        name: LockName,
        locker: LockerId,
        mode: Mode,
        mut gone: impl FnMut(LockerId, Mode) -> bool,
    ) {
        self.0.retain(|r| {
            let obstacle = r.is_for(name) && r.locker != locker && !r.waits() && !r.granted.compatible(mode);
            !(obstacle && gone(r.locker, r.granted))
        });
    }

    /// Lowers a locker's request to `mode` (`NONE` removes it) and ends its wait. Returns true if a
    /// request for the name waits: then the caller calls [`Queue::promote`].
    #[inline]
    pub(crate) fn lower(&mut self, name: LockName, locker: LockerId, mode: Mode) -> bool {
        if mode == Mode::NONE && self.0.remove_only(|r| r.locker == locker && r.is_for(name)) {
            return false;
        }
        let Some(own) = self.position(name, locker) else { return false };
        if mode == Mode::NONE {
            self.0.remove(own);
        } else {
            self.0[own].granted = mode;
            self.0[own].wanted = mode;
        }
        self.has_waiters(name)
    }

    /// Grants the requests that can be granted, conversions first. Calls `woken` for each.
    pub(crate) fn promote(&mut self, name: LockName, mut woken: impl FnMut(LockerId)) {
        for conversions in [true, false] {
            for i in 0..self.0.len() {
                let r = self.0[i];
                if !r.is_for(name) || !r.waits() || (r.granted != Mode::NONE) != conversions {
                    continue;
                }
                let against = if conversions { self.held_by_others(name, i) } else { self.ahead(name, i) };
                if against & r.wanted.conflicts() == 0 {
                    self.0[i].granted = r.wanted;
                    woken(r.locker);
                }
            }
        }
    }

    /// The mode that a locker holds on `name`, and whether it waits for a stronger one.
    pub(crate) fn state(&self, name: LockName, locker: LockerId) -> Option<(Mode, bool)> {
        self.position(name, locker).map(|i| (self.0[i].granted, self.0[i].waits()))
    }

    /// Calls `f` for each locker that `locker`'s waiting request on `name` waits for. Does nothing
    /// if it does not wait.
    pub(crate) fn blockers(&self, name: LockName, locker: LockerId, mut f: impl FnMut(LockerId)) {
        let Some(own) = self.position(name, locker) else { return };
        let request = self.0[own];
        if !request.waits() {
            return;
        }
        let conflicts = request.wanted.conflicts();
        for (i, r) in self.0.iter().enumerate().filter(|&(i, r)| i != own && r.is_for(name)) {
            let mut against = r.granted.bit();
            if request.granted == Mode::NONE && (r.granted != Mode::NONE || i < own) {
                against |= r.wanted.bit();
            }
            if against & conflicts != 0 {
                f(r.locker);
            }
        }
    }

    /// All holders and waiters, for checks: name, locker, granted, wanted.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (LockName, LockerId, Mode, Mode)> {
        self.0.iter().map(|r| (LockName { space: r.space, key: r.key }, r.locker, r.granted, r.wanted))
    }
}
