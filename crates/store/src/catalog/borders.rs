//! The borders that partitions of a table are about to get.

use base::Key;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Keys at which divisions of a table are under way. Rows on different sides of a key go to
/// different last pages.
#[derive(Default)]
pub(crate) struct Coming {
    /// Whether `keys` is not empty: lets inserters skip the mutex.
    any: AtomicBool,
    /// In order; a key may occur twice.
    keys: Mutex<Vec<Key>>,
}

impl Coming {
    pub fn change(&self, change: impl FnOnce(&mut Vec<Key>)) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut keys);
        self.any.store(!keys.is_empty(), Ordering::Release);
    }

    /// A number for the side of `key` within the group of keys `group`; the group's own number if
    /// no division is under way.
    #[inline]
    pub fn group(&self, group: u32, key: &[u8]) -> u32 {
        if self.any.load(Ordering::Acquire) { self.side(group, key) } else { group }
    }

    #[cold]
    fn side(&self, group: u32, key: &[u8]) -> u32 {
        // Any odd number far from page numbers. If two groups collide, each forgets the other's
        // last page; a page that two sides then share is found by the last division.
        const STEP: u32 = 0x9e37_79b1;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let below = keys.partition_point(|border| border.as_slice() <= key) as u32;
        group.wrapping_add(below.wrapping_mul(STEP))
    }
}
