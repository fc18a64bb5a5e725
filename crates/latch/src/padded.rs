//! Two hot words on one cache line slow each other down. This type keeps a value on cache lines of
//! its own.

use std::ops::{Deref, DerefMut};

/// A value aligned to 128 bytes: two lines, because the adjacent-line prefetcher fetches them as a
/// pair.
#[derive(Clone, Copy, Default, Debug)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub const fn new(value: T) -> Self {
        CachePadded(value)
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
