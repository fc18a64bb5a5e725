//! Values by number, with numbers used again.

pub(super) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    /// A free number; its value is the one left there, so that its buffers serve again.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.values.push(T::default());
            (self.values.len() - 1) as u32
        })
    }

    /// All values, also of free numbers.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub fn free(&mut self, number: u32) {
        self.free.push(number);
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.values[number as usize]
    }
}
