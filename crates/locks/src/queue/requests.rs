//! A short vector of requests, optimised for none or one, the usual content of a bucket.

use crate::queue::Request;
use std::ops::{Deref, DerefMut};

/// As many as fill a cache line together with the bucket's mutex and the pointer.
const INLINE: usize = 3;

/// Inline at first; on the heap for good once it has been longer than [`INLINE`].
///
/// The inline requests lie at the front. A request that wants nothing marks a free place, since
/// there is no room for a length.
#[derive(Default)]
pub(crate) struct Requests {
    inline: [Request; INLINE],
    /// All the requests, once there were too many. Boxed twice to be small here: few buckets ever
    /// have it.
    #[allow(clippy::box_collection)]
    spilled: Option<Box<Vec<Request>>>,
}

impl Deref for Requests {
    type Target = [Request];
    #[inline]
    fn deref(&self) -> &[Request] {
        match &self.spilled {
            None => &self.inline[..self.few()],
            Some(all) => all,
        }
    }
}

impl DerefMut for Requests {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Request] {
        let few = self.few();
        match &mut self.spilled {
            None => &mut self.inline[..few],
            Some(all) => all,
        }
    }
}

impl Requests {
    #[inline]
    fn few(&self) -> usize {
        let [a, b, c] = &self.inline;
        usize::from(a.wants()) + usize::from(b.wants()) + usize::from(c.wants())
    }

    /// Pushes if there is no request yet, as in most buckets of a table that is large enough.
    #[inline]
    pub(crate) fn push_first(&mut self, request: Request) -> bool {
        let empty = self.spilled.is_none() && !self.inline[0].wants();
        if empty {
            self.inline[0] = request;
        }
        empty
    }

    /// Removes the request if it is the only one and `is_it` accepts it.
    #[inline]
    pub(crate) fn remove_only(&mut self, is_it: impl FnOnce(&Request) -> bool) -> bool {
        let it = self.spilled.is_none() && !self.inline[1].wants() && is_it(&self.inline[0]);
        if it {
            self.inline[0] = Request::default();
        }
        it
    }

    #[inline]
    pub(crate) fn push(&mut self, request: Request) {
        debug_assert!(request.wants(), "a request for nothing");
        if let Some(all) = &mut self.spilled {
            return all.push(request);
        }
        match self.inline.iter_mut().find(|r| !r.wants()) {
            Some(free) => *free = request,
            None => self.spill(request),
        }
    }

    #[cold]
    fn spill(&mut self, request: Request) {
        let mut all = Vec::with_capacity(4 * INLINE);
        all.extend_from_slice(&self.inline);
        all.push(request);
        self.inline = Default::default();
        self.spilled = Some(Box::new(all));
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Request {
        if let Some(all) = &mut self.spilled {
            return all.remove(at);
        }
        let request = self.inline[at];
        for i in at..INLINE - 1 {
            self.inline[i] = self.inline[i + 1];
        }
        self.inline[INLINE - 1] = Request::default();
        request
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Request) -> bool) {
        let mut at = 0;
        while at < self.len() {
            match keep(&self[at]) {
                true => at += 1,
                false => {
                    self.remove(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::{LockName, Mode};
    use base::TableId;

    #[test]
    fn it_is_a_vector() {
        let mut requests = Requests::default();
        let mut model: Vec<u16> = Vec::new();
        let mut next = 0u16;
        for step in 0..2000usize {
            let grows = [1, 3, 9][step / 700];
            if step % 7 < 4 && model.len() < grows {
                requests.push(Request::new(LockName::table(TableId(1)), next, Mode::S));
                model.push(next);
                next += 1;
            } else if !model.is_empty() {
                let at = step * 31 % model.len();
                assert_eq!(requests.remove(at).locker(), model.remove(at));
            }
            assert!(requests.iter().map(Request::locker).eq(model.iter().copied()));
        }
        requests.retain(|r| r.locker() % 2 == 0);
        model.retain(|m| m % 2 == 0);
        assert!(requests.iter().map(Request::locker).eq(model.iter().copied()));
        assert_eq!(size_of::<Requests>(), 56);
    }
}
