//! Reading a page without a latch: the only place where bytes are read while another thread may be
//! changing them.
//!
//! A reader takes a [`PageView`] and copies the bytes that it needs out of the page. The copies are
//! valid only if [`PageView::still`] returns `true`: the page was not changed since the view was
//! taken. (Readers without latches: Lehman and Yao. The version check is that of optimistic lock
//! coupling in the Adaptive Radix Tree, Leis et al., DaMoN 2016.)
//!
//! ## Why this is sound enough
//! The protocol is a seqlock, and `latch` models it with atomics. Here the bytes are plain memory:
//! the writer changes them with ordinary stores and `memmove`. Reading at the same time is a data
//! race, which the language leaves undefined. Its only way to read racing bytes is one atomic at a
//! time, on both sides. This file relies on the following instead:
//!
//! - No reference to the bytes is ever made, so the compiler cannot assume that they stay the same.
//!   Small reads are *volatile* loads into a local variable: they happen once, as written, and a
//!   value that was checked is the value that is used. Large reads are one `memcpy`. The fence of
//!   the validation follows it, and neither loads nor the copy may be moved or repeated across that
//!   fence.
//! - Loads do not trap, and a torn machine word does no harm: every value read this way is checked
//!   against the page's bounds before it is used as a position, and discarded if the version has
//!   changed.
//! - The writer's code does not depend on readers: it is compiled as if no other thread existed,
//!   and is correct that way.
//! - The addresses are mapped as long as the pool lives. An evicted page reads as zeros, and its
//!   version has changed.
//!
//! ThreadSanitizer reports such reads, as expected; `scripts/tsan-suppressions` names this module.

use crate::fault::Stop;
use crate::page::{KIND_AT, PAGE_SIZE, Page};
use crate::pool::Pool;
use base::PageId;
use latch::{Glimpse, LINE, LatchPolicy, PageLatch, prefetch};
use probe::Latched;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Copies up to this length, in bytes, use a small stack frame.
const SHORT: usize = 512;

/// A page that is read without a latch. Data read from it is valid only after [`PageView::still`]
/// returned `true`. Must not be kept across a wait.
#[derive(Clone, Copy)]
pub struct PageView<'p> {
    latch: &'p PageLatch,
    page: NonNull<Page>,
    id: PageId,
    began: Glimpse,
}

/// The bytes of a page that may change while they are read. Reads never panic, for any contents.
/// Their results are valid only if [`PageView::still`] of the view returns `true` afterwards.
#[derive(Clone, Copy)]
pub struct Racing<'p> {
    page: NonNull<Page>,
    pool: PhantomData<&'p Pool>,
}

/// A number at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

impl<'p> PageView<'p> {
    /// # Safety
    /// `page` is the memory of the page that `latch` protects, mapped for `'p`.
    #[inline]
    pub(crate) unsafe fn new(
        latch: &'p PageLatch,
        page: NonNull<Page>,
        id: PageId,
        began: Glimpse,
    ) -> PageView<'p> {
        PageView { latch, page, id, began }
    }

    #[inline]
    pub fn page_id(self) -> PageId {
        self.id
    }

    /// As [`crate::PageRef::version`].
    #[inline]
    pub fn version(self) -> u64 {
        self.began.version()
    }

    /// Prefetches the cache lines of the `len` bytes from `at` on, as far as they lie in the page.
    #[inline]
    pub fn prefetch(self, at: usize, len: usize) {
        let end = (at + len).min(PAGE_SIZE);
        let mut line = at & !(LINE - 1);
        while line < end {
            prefetch(self.page.cast::<u8>().as_ptr().wrapping_add(line));
            line += LINE;
        }
    }

    /// Whether all data read through this view so far was the page's contents at one moment.
    #[inline]
    pub fn still(self) -> bool {
        self.latch.unchanged(self.began)
    }

    /// The page's bytes. They are valid only if [`PageView::still`] returns `true` afterwards.
    #[inline]
    pub fn bytes(self) -> Racing<'p> {
        Racing { page: self.page, pool: PhantomData }
    }

    /// Copies the page's `len` bytes from `at` on, validates, and calls `f` on the copy; `None` if
    /// the page has changed since the view was taken. Under a policy without latches no other
    /// thread can have changed the page, so there is no validation.
    ///
    /// # Panics
    /// If the bytes do not lie within the page.
    #[inline]
    pub fn copied<L: LatchPolicy, R>(self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        assert!(at <= PAGE_SIZE && len <= PAGE_SIZE - at, "the caller has checked the bounds");
        if len <= 8
            && let Some(word) = self.bytes().u64_at(at)
        {
            return (!L::LATCHED || self.still()).then(|| f(&word.to_le_bytes()[..len]));
        }
        if len <= SHORT { self.through::<L, SHORT, R>(at, len, f) } else { self.long::<L, R>(at, len, f) }
    }

    /// A function of its own, because of its stack frame.
    #[inline(never)]
    fn long<L: LatchPolicy, R>(self, at: usize, len: usize, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.through::<L, PAGE_SIZE, R>(at, len, f)
    }

    #[inline]
    fn through<L: LatchPolicy, const N: usize, R>(
        self,
        at: usize,
        len: usize,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut copy = [const { MaybeUninit::<u8>::uninit() }; N];
        let copy = &mut copy[..len];
        // SAFETY: `at + len` is within the page, as `copied` asserts; `copy` has `len` bytes of its
        // own. Races with a writer: see the head of the file.
        unsafe { copy_racing(self.page.cast::<u8>().add(at), copy.as_mut_ptr().cast(), len) };
        if L::LATCHED && !self.still() {
            return None;
        }
        // SAFETY: all `len` bytes were written just now.
        Some(f(unsafe { copy.assume_init_ref() }))
    }

    /// Copies the whole page. `false` if it has changed since the view was taken; `into` is then
    /// invalid.
    #[inline]
    pub fn snapshot(self, into: &mut Page) -> bool {
        let into = into.bytes_mut().as_mut_ptr();
        // SAFETY: both are a page long and do not overlap, as one is a reference of the caller's
        // own.
        unsafe { copy_racing(self.page.cast(), into, PAGE_SIZE) };
        self.still()
    }
}

/// One `memcpy` from bytes that may be changing.
///
/// # Safety
/// `from` is mapped and `to` writable for `len` bytes, and they do not overlap.
#[inline]
unsafe fn copy_racing(from: NonNull<u8>, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
}

impl Racing<'_> {
    #[inline]
    fn get<T: Copy>(self, at: usize) -> Option<T> {
        if at > PAGE_SIZE - size_of::<T>() {
            return None;
        }
        // SAFETY: inside the page, which is mapped. Any bytes are a valid number, and `Unaligned`
        // needs no alignment. Races with a writer: see the head of the file.
        Some(unsafe { self.page.cast::<u8>().add(at).cast::<Unaligned<T>>().read_volatile() }.0)
    }

    /// Word number `i` of the page, modulo the number of words in a page, as an aligned
    /// little-endian word. No position is out of bounds, so a search that checked its positions
    /// once needs no check per word.
    #[inline]
    pub fn word(self, i: usize) -> u64 {
        // SAFETY: one of the page's aligned words. Races with a writer: see the head of the file.
        u64::from_le(unsafe { self.page.cast::<u64>().add(i % (PAGE_SIZE / 8)).read_volatile() })
    }

    /// Prefetches the cache line of the byte at `at`, modulo the page size.
    #[inline]
    pub fn prefetch(self, at: usize) {
        prefetch(self.page.cast::<u8>().as_ptr().wrapping_add(at % PAGE_SIZE));
    }

    /// The byte at `at`; `None` beyond the end of the page. The functions below do the same for
    /// little-endian numbers.
    #[inline]
    pub fn u8_at(self, at: usize) -> Option<u8> {
        self.get(at)
    }
    #[inline]
    pub fn u32_at(self, at: usize) -> Option<u32> {
        self.get(at).map(u32::from_le)
    }
    #[inline]
    pub fn u64_at(self, at: usize) -> Option<u64> {
        self.get(at).map(u64::from_le)
    }
}

impl Pool {
    /// Page `id`, for reading without a latch.
    ///
    /// # Errors
    /// See [`Stop`]; nothing was changed.
    #[inline]
    pub fn view<L: LatchPolicy>(&self, id: PageId) -> Result<PageView<'_>, Stop> {
        let view = self.glance::<L>(id)?;
        probe::visited(|| view.bytes().u8_at(KIND_AT).unwrap_or_default(), id.0, Latched::No);
        Ok(view)
    }

    /// As [`Pool::view`], for a hint: it is not counted as a visit.
    ///
    /// # Errors
    /// As [`Pool::view`].
    #[inline]
    pub fn glance<L: LatchPolicy>(&self, id: PageId) -> Result<PageView<'_>, Stop> {
        self.check(id)?;
        if !L::LATCHED {
            self.owner.check();
        }
        let latch = self.latch(id);
        match latch.glimpse() {
            // SAFETY: the page's own latch and memory, both as long-lived as the pool.
            Ok(began) => Ok(unsafe { PageView::new(latch, self.page(id), id, began) }),
            Err(refused) => Err(crate::pool::stop(refused, id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::pool_of;
    use crate::{Optimistic, PAGE_SIZE, Page, Stop};
    use base::PageId;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_view_of_a_changed_page_is_not_believed() {
        let pool = pool_of(4);
        let id = PageId(1);
        let view = pool.view::<Optimistic>(id).unwrap();
        assert!(view.still());
        assert_eq!(view.copied::<Optimistic, _>(8000, 192, <[u8]>::len), Some(192));
        assert_eq!(
            (
                view.bytes().u8_at(PAGE_SIZE),
                view.bytes().u64_at(PAGE_SIZE - 7),
                view.bytes().u32_at(usize::MAX)
            ),
            (None, None, None)
        );
        pool.exclusive::<Optimistic>(id).unwrap().bytes_mut()[100] = 5;
        assert!(!view.still());
        assert_eq!(view.copied::<Optimistic, _>(100, 1, <[u8]>::len), None);
        let mut copy = Page::zeroed();
        assert!(!view.snapshot(&mut copy));
        let view = pool.view::<Optimistic>(id).unwrap();
        assert_eq!(view.bytes().u8_at(100), Some(5));
        assert!(view.snapshot(&mut copy) && copy.bytes()[100] == 5);
        assert!(matches!(pool.view::<Optimistic>(PageId(1 << 20)), Err(Stop::Fault(_))));
    }

    /// Readers without latches run beside a writer and an evictor: bytes that were validated come
    /// from one write.
    #[test]
    fn what_is_believed_is_whole() {
        let pool = pool_of(32);
        let (pool, done) = (&pool, &AtomicBool::new(false));
        let write = |n: u32| {
            let id = PageId(1 + n % 32);
            loop {
                match pool.exclusive::<Optimistic>(id) {
                    Ok(mut page) => break page.bytes_mut()[24..].fill(n as u8),
                    Err(Stop::Page(id)) => pool.load(id).unwrap(),
                    Err(_) => {}
                }
            }
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2).map(|r| scope.spawn(move || read_until(pool, done, r))).collect();
            (0..6000).for_each(write);
            done.store(true, Ordering::Relaxed);
            let believed: u64 = readers.into_iter().map(|r| r.join().unwrap()).sum();
            assert!(believed > 0, "some reads went through");
        });
        assert!(pool.stats().evicted > 100, "pages left meanwhile");
    }

    fn read_until(pool: &crate::Pool, done: &AtomicBool, seed: u32) -> u64 {
        let (mut believed, mut n, mut copy) = (0, seed, Page::zeroed());
        while !done.load(Ordering::Relaxed) {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match pool.view::<Optimistic>(PageId(1 + (n >> 16) % 32)) {
                Err(Stop::Page(id)) => pool.load(id).unwrap(),
                Err(_) => {}
                Ok(view) => {
                    let same = |bytes: &[u8]| bytes.iter().all(|b| *b == bytes[0]);
                    let words = (view.bytes().u64_at(24), view.bytes().u64_at(PAGE_SIZE - 8));
                    if view.still() {
                        assert_eq!(words.0, words.1);
                    }
                    for len in [100, PAGE_SIZE - 24] {
                        if let Some(same) = view.copied::<Optimistic, _>(PAGE_SIZE - len, len, same) {
                            assert!(same, "bytes of two writes were believed");
                            believed += 1;
                        }
                    }
                    if view.snapshot(&mut copy) {
                        assert!(same(&copy.bytes()[24..]));
                    }
                }
            }
        }
        believed
    }
}
