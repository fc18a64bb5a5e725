//! Requests to the owners of pages: to evict a page, or to copy it for writing.
//!
//! A thread that needs a frame, or takes a checkpoint, must not touch a page of another owner
//! ([`latch::ByPage`]). It puts a request here, and the owner handles it in its next call of
//! [`Pool::turn`]. The slot of a page that is offered for eviction is out of the queues until the
//! owner has examined the page, so the number of such offers is limited.

use crate::batch::BATCH;
use crate::fault::Stop;
use crate::pool::write::Copied;
use crate::pool::{Pool, stop};
use crate::replacement::{Found, LEAVE, Offered};
use base::PageId;
use latch::{OwnerId, Rank, SpinMutex, acting_for};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of pages that one owner is asked to evict at a time: the work of one turn.
const OFFERED: usize = LEAVE;

pub(crate) struct Offers {
    requests: SpinMutex<Requests>,
    /// The number of requests in `requests`, readable without its lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Requests {
    leaving: BTreeMap<OwnerId, Vec<Offered>>,
    /// Dirty pages that a checkpoint waits for.
    wanted: BTreeMap<OwnerId, BTreeSet<PageId>>,
    /// The number of batches that must be written before all wanted pages that their owners have
    /// copied are written.
    upto: u64,
}

impl Requests {
    fn count(&self) -> usize {
        let leaving: usize = self.leaving.values().map(Vec::len).sum();
        leaving + self.wanted.values().map(BTreeSet::len).sum::<usize>()
    }
}

impl Offers {
    pub fn new() -> Offers {
        Offers {
            requests: SpinMutex::ranked(Rank::PoolOffers, Requests::default()),
            waiting: AtomicUsize::new(0),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Requests) -> R) -> R {
        let mut requests = self.requests.lock();
        let result = f(&mut requests);
        self.waiting.store(requests.count(), Ordering::Release);
        result
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether this owner has requests.
    fn any_of(&self, owner: OwnerId) -> bool {
        self.any()
            && self.with(|requests| {
                requests.leaving.get(&owner).is_some_and(|l| !l.is_empty())
                    || requests.wanted.get(&owner).is_some_and(|w| !w.is_empty())
            })
    }

    /// Offers a page for eviction; `false` if the owner has the maximum number of offers already.
    fn offer(&self, owner: OwnerId, offered: Offered) -> bool {
        self.with(|requests| {
            let leaving = requests.leaving.entry(owner).or_default();
            let room = leaving.len() < OFFERED;
            if room {
                leaving.push(offered);
            }
            room
        })
    }

    /// The number of batches that must be written for the wanted pages; `None` while owners have
    /// not copied them all.
    pub fn copied_upto(&self) -> Option<u64> {
        self.with(|requests| requests.wanted.values().all(BTreeSet::is_empty).then_some(requests.upto))
    }
}

impl Pool {
    /// Asks `owner`, to which the page belongs, to evict it or to decide that it stays.
    pub(crate) fn offer(&self, owner: OwnerId, offered: Offered) {
        if self.offers.offer(owner, offered) {
            self.loads.queue.ring_bell();
        } else {
            self.stays(offered.0);
        }
    }

    /// Asks `owner`, to which page `id` belongs, to copy it for writing.
    pub(crate) fn want(&self, owner: OwnerId, id: PageId) {
        self.offers.with(|requests| requests.wanted.entry(owner).or_default().insert(id));
        self.loads.queue.ring_bell();
    }

    /// Whether there are requests to the owner for which the calling thread acts.
    pub fn asked(&self) -> bool {
        self.offers.any() && acting_for().is_some_and(|owner| self.offers.any_of(owner))
    }

    /// Handles the requests to the owner for which the calling thread acts. Returns `true` if there
    /// were any.
    #[cold]
    pub(crate) fn do_asked(&self) -> bool {
        let Some(owner) = acting_for() else { return false };
        let leaving = self.offers.with(|requests| requests.leaving.remove(&owner)).unwrap_or_default();
        let mut any = !leaving.is_empty();
        let (mut found, mut batch) = (Found::default(), None);
        for (slot, id, from) in leaving {
            self.consider((slot, id, from), &mut found, &mut batch);
        }
        if let Some(batch) = batch {
            self.hand_in(batch);
        }
        any |= self.copy_wanted(owner);
        if found.left > 0 {
            self.loads.wake_for_frames();
        }
        any
    }

    fn copy_wanted(&self, owner: OwnerId) -> bool {
        let wanted: Vec<PageId> = self.offers.with(|requests| {
            let wanted = requests.wanted.get(&owner).into_iter().flatten();
            wanted.copied().take(BATCH).collect()
        });
        if wanted.is_empty() {
            return false;
        }
        let Some(mut batch) = self.writer.take_spare(0) else { return false };
        let mut done = Vec::with_capacity(wanted.len());
        for id in wanted {
            match self.copy(id, &mut batch) {
                Copied::Missed => {}
                Copied::Foreign(now) => {
                    // The page has changed owners. The new request is added before the old one is
                    // removed, so that one of the lists always contains the page.
                    self.want(now, id);
                    done.push(id);
                }
                Copied::Taken | Copied::Clean => done.push(id),
            }
        }
        let upto = self.hand_in(batch);
        self.offers.with(|requests| {
            requests.upto = requests.upto.max(upto);
            if let Some(wanted) = requests.wanted.get_mut(&owner) {
                wanted.retain(|id| !done.contains(id));
            }
        });
        !done.is_empty()
    }

    /// Gives page `id` to the owner for which the calling thread acts ([`latch::act_for`]). From
    /// now on only that thread touches the page under [`latch::ByPage`], without latching. The page
    /// need not be in memory.
    ///
    /// # Errors
    /// [`Stop::Again`] if other threads hold it for long; [`Stop::Fault`] if it has another owner.
    ///
    /// # Panics
    /// If the thread acts for no owner.
    pub fn own(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.latch(id).own().map_err(|refused| stop(refused, id))
    }

    /// As [`Pool::own`]. Returns at once if the page is the thread's own already, and does nothing
    /// for a thread that takes over no pages ([`latch::claim`]).
    ///
    /// # Errors
    /// As [`Pool::own`].
    #[inline]
    pub fn claim(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        if self.latch(id).is_mine() || !latch::is_claiming() { Ok(()) } else { self.own(id) }
    }

    /// Whether page `id` has an owner for which the calling thread does not act.
    #[inline]
    pub fn is_foreign(&self, id: PageId) -> bool {
        self.check(id).is_ok() && self.latch(id).look().foreign()
    }

    /// Ends the ownership of every page of the owner for which the calling thread acts. Returns the
    /// number of pages. The thread holds none of them. Reads the words of all pages: a millisecond
    /// for some hundred thousand.
    ///
    /// # Errors
    /// As [`Pool::disown`].
    pub fn disown_mine(&self) -> Result<usize, Stop> {
        let (me, next) = (acting_for(), self.allocator().next);
        let mine = |id: &PageId| me.is_some() && self.latch(*id).look().owner() == me;
        let mut disowned = 0;
        for id in (1..next.0).map(PageId).filter(mine) {
            self.disown(id)?;
            disowned += 1;
        }
        Ok(disowned)
    }

    /// Ends the ownership of page `id`. The calling thread acts for its owner and holds no latch on
    /// it.
    ///
    /// # Errors
    /// [`Stop::Again`] if the page is held nevertheless; [`Stop::Fault`] if it has another owner.
    pub fn disown(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.latch(id).disown().map_err(|refused| stop(refused, id))
    }

    /// The owner of page `id`. The answer may be out of date at once, unless the calling thread
    /// acts for that owner.
    pub fn owner_of(&self, id: PageId) -> Option<OwnerId> {
        self.check(id).ok().and_then(|()| self.latch(id).look().owner())
    }

    /// Ends the ownership of all pages. To be called when no thread acts for an owner.
    pub fn disown_all(&self) {
        let next = self.allocator().next;
        (1..next.0).for_each(|id| self.latch(PageId(id)).abandon_owner());
        let requests = self.offers.with(std::mem::take);
        self.offers.with(|now| now.upto = requests.upto);
        for (slot, ..) in requests.leaving.into_values().flatten() {
            self.stays(slot);
        }
    }

    /// Returns a page to the queues, because it was used or cannot be evicted now.
    pub(crate) fn stays(&self, slot: usize) {
        self.queues().stays(slot);
    }

    /// Ends the ownership of page `id`, which the caller holds exclusively.
    pub(crate) fn give_up(&self, id: PageId) {
        self.latch(id).abandon_owner();
    }
}
