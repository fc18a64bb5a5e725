//! Several steps, or several outputs, in one frame: `[tag u16][length u32][bytes]` each, little
//! endian.

/// Builds a batch. Reuse it: its buffer stays allocated.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    count: usize,
}

impl Batch {
    const HEAD: usize = 6;

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Starts an item. The caller appends its bytes to [`Batch::buffer`], and may await meanwhile;
    /// [`Batch::close`] ends it.
    pub fn open(&mut self, tag: u16) -> usize {
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.len()
    }

    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub fn close(&mut self, body: usize) {
        let len = ((self.bytes.len() - body) as u32).to_le_bytes();
        self.bytes[body - 4..body].copy_from_slice(&len);
        self.count += 1;
    }
}

/// Reads a batch; ends early (see [`BatchReader::finished`]) at bytes that do not fit.
#[derive(Clone, Debug)]
pub struct BatchReader<'a>(&'a [u8]);

impl<'a> BatchReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        BatchReader(bytes)
    }

    /// True when every byte was read as an item.
    pub fn finished(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<{ Batch::HEAD }>()?;
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (body, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((u16::from_le_bytes([head[0], head[1]]), body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_order_and_a_cut_batch_is_noticed() {
        let mut batch = Batch::default();
        for (tag, body) in [(1u16, &b"one"[..]), (2, b""), (3, b"three")] {
            let item = batch.open(tag);
            batch.buffer().extend_from_slice(body);
            batch.close(item);
        }
        let mut reader = BatchReader::new(batch.bytes());
        let items: Vec<_> = reader.by_ref().collect();
        assert_eq!(items, [(1, &b"one"[..]), (2, b""), (3, b"three")]);
        assert!(reader.finished() && batch.count() == 3);
        for cut in 1..batch.bytes().len() {
            let mut reader = BatchReader::new(&batch.bytes()[..cut]);
            while reader.next().is_some() {}
            assert!(!reader.finished() || cut == 9 || cut == 15, "cut at {cut} not noticed");
        }
    }
}
