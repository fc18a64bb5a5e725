//! What others ask of the owners of pages: to throw pages out, or to copy them for writing.
//!
//! Who needs a frame, or takes a checkpoint, and meets a page that is another owner's must not touch it
//! ([`latch::ByPage`]). So it leaves the page here, and its owner does what is asked in its next turn ([`Pool::turn`]). Slots of pages that were
//! offered to leave are out of the queues until their owner has looked at them, so they are few.

use crate::batch::BATCH;
use crate::evict::{Found, LEAVE};
use crate::fault::Stop;
use crate::pool::{Pool, stop};
use crate::replacement::From;
use crate::write::Copied;
use base::PageId;
use latch::{OwnerId, SpinMutex, acting_for};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages that one owner is asked to throw out at a time: what it does in one turn.
const OFFERED: usize = LEAVE;

/// A page that its owner may throw out, the slot that names it, and where that was found.
pub(crate) type Offered = (usize, PageId, From);

#[derive(Default)]
pub(crate) struct Offers {
    desk: SpinMutex<Desk>,
    /// Pages on the desk, for a look without its lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Desk {
    leaving: BTreeMap<OwnerId, Vec<Offered>>,
    /// Dirty pages that a checkpoint waits for.
    wanted: BTreeMap<OwnerId, BTreeSet<PageId>>,
    /// How many batches must have been written so that all pages that were wanted, and are not on the desk any more, are.
    upto: u64,
}

impl Desk {
    fn count(&self) -> usize {
        let leaving: usize = self.leaving.values().map(Vec::len).sum();
        leaving + self.wanted.values().map(BTreeSet::len).sum::<usize>()
    }
}

impl Offers {
    fn with<R>(&self, f: impl FnOnce(&mut Desk) -> R) -> R {
        let mut desk = self.desk.lock();
        let result = f(&mut desk);
        self.waiting.store(desk.count(), Ordering::Release);
        result
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Whether something is asked of this owner.
    fn any_of(&self, owner: OwnerId) -> bool {
        self.any()
            && self.with(|desk| {
                desk.leaving.get(&owner).is_some_and(|l| !l.is_empty())
                    || desk.wanted.get(&owner).is_some_and(|w| !w.is_empty())
            })
    }

    /// `false` when the owner has been asked for enough.
    fn offer(&self, owner: OwnerId, offered: Offered) -> bool {
        self.with(|desk| {
            let leaving = desk.leaving.entry(owner).or_default();
            let room = leaving.len() < OFFERED;
            if room {
                leaving.push(offered);
            }
            room
        })
    }

    /// How many batches must have been written for what was wanted; `None` while owners have not copied it all.
    pub fn copied_upto(&self) -> Option<u64> {
        self.with(|desk| desk.wanted.values().all(BTreeSet::is_empty).then_some(desk.upto))
    }
}

impl Pool {
    /// Page `id` belongs to `owner`, who is to throw it out or say that it stays.
    pub(crate) fn offer(&self, owner: OwnerId, offered: Offered) {
        if self.offers.offer(owner, offered) {
            self.loads.queue.ring_bell();
        } else {
            self.stays(offered.0);
        }
    }

    /// Page `id` belongs to `owner`, who is to copy it for writing.
    pub(crate) fn want(&self, owner: OwnerId, id: PageId) {
        self.offers.with(|desk| desk.wanted.entry(owner).or_default().insert(id));
        self.loads.queue.ring_bell();
    }

    /// Whether something is asked of the owner for whom the calling thread acts.
    pub fn asked(&self) -> bool {
        self.offers.any() && acting_for().is_some_and(|owner| self.offers.any_of(owner))
    }

    /// Does what is asked of the owner for whom the calling thread acts. `true` when something was.
    #[cold]
    pub(crate) fn do_asked(&self) -> bool {
        let Some(owner) = acting_for() else { return false };
        let leaving = self.offers.with(|desk| desk.leaving.remove(&owner)).unwrap_or_default();
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
        let wanted: Vec<PageId> = self.offers.with(|desk| {
            let wanted = desk.wanted.get(&owner).into_iter().flatten();
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
                    // It has changed hands. Asked for before it is off this list, so that it is always on one.
                    self.want(now, id);
                    done.push(id);
                }
                Copied::Taken | Copied::Clean => done.push(id),
            }
        }
        let upto = self.hand_in(batch);
        self.offers.with(|desk| {
            desk.upto = desk.upto.max(upto);
            if let Some(wanted) = desk.wanted.get_mut(&owner) {
                wanted.retain(|id| !done.contains(id));
            }
        });
        !done.is_empty()
    }

    /// Page `id` becomes the property of the owner for whom the calling thread acts ([`latch::act_for`]): from now on that thread
    /// touches it under [`latch::ByPage`] without latching, and nobody else at all. It need not be in memory.
    ///
    /// # Errors
    /// [`Stop::Again`] when it is held by others for long; [`Stop::Fault`] when it is another owner's.
    ///
    /// # Panics
    /// When the thread acts for no owner.
    pub fn own(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.latch(id).own().map_err(|refused| stop(refused, id))
    }

    /// As [`Pool::own`], at once for a page that is the thread's own already. Does nothing for a thread that takes no pages over
    /// ([`latch::claim`]).
    ///
    /// # Errors
    /// As [`Pool::own`].
    #[inline]
    pub fn claim(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        if self.latch(id).is_mine() || !latch::is_claiming() { Ok(()) } else { self.own(id) }
    }

    /// Whether page `id` is somebody's for whom the calling thread does not act.
    pub fn is_foreign(&self, id: PageId) -> bool {
        self.check(id).is_ok() && self.latch(id).look().foreign()
    }

    /// Every page of the owner for whom the calling thread acts becomes nobody's; gives their number. The thread holds none of
    /// them. Looks at the words of all pages there are: a millisecond for some hundred thousand.
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

    /// Page `id` is nobody's from now on. The calling thread acts for its owner and holds nothing of it.
    ///
    /// # Errors
    /// [`Stop::Again`] when it is held nevertheless; [`Stop::Fault`] when it is another owner's.
    pub fn disown(&self, id: PageId) -> Result<(), Stop> {
        self.check(id)?;
        self.latch(id).disown().map_err(|refused| stop(refused, id))
    }

    /// Whose page `id` is: a look, which may be out of date at once unless it is the calling thread's.
    pub fn owner_of(&self, id: PageId) -> Option<OwnerId> {
        self.check(id).ok().and_then(|()| self.latch(id).look().owner())
    }

    /// No page has an owner any more. To be called when no thread is left that acts for one.
    pub fn disown_all(&self) {
        let next = self.allocator().next;
        (1..next.0).for_each(|id| self.latch(PageId(id)).abandon_owner());
        let desk = self.offers.with(std::mem::take);
        self.offers.with(|now| now.upto = desk.upto);
        for (slot, ..) in desk.leaving.into_values().flatten() {
            self.stays(slot);
        }
    }

    /// What was to leave has been used, or cannot leave now.
    pub(crate) fn stays(&self, slot: usize) {
        self.queues().stays(slot);
    }

    /// Page `id`, held exclusively, is given up by its owner with all it was.
    pub(crate) fn give_up(&self, id: PageId) {
        self.latch(id).abandon_owner();
    }
}
