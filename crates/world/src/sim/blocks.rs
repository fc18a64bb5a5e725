//! A file's bytes in shared blocks, so that a copy of a whole disk copies pointers.

use std::sync::Arc;

pub(crate) const BLOCK: usize = 4096;
type Block = [u8; BLOCK];

/// `None` is a block of zeros. Bytes past the length within the last block are zeros. `blocks` may
/// be shorter than the length needs; the rest are zeros too.
#[derive(Clone, Default)]
pub(crate) struct Blocks {
    len: u64,
    blocks: Vec<Option<Arc<Block>>>,
}

/// The parts of `bytes` bytes at `at`, block by block: block number, offset in the block, range in
/// the whole.
fn parts(at: u64, bytes: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = bytes - done;
        let position = at + done as u64;
        let within = (position % BLOCK as u64) as usize;
        let n = left.min(BLOCK - within);
        let part = (n > 0).then(|| ((position / BLOCK as u64) as usize, within, done..done + n));
        done += n;
        part
    })
}

impl Blocks {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (block, within, range) in parts(at, bytes.len()) {
            if self.blocks.len() <= block {
                self.blocks.resize(block + 1, None);
            }
            let data = self.blocks[block].get_or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(data)[within..within + range.len()].copy_from_slice(&bytes[range]);
        }
        self.len = self.len.max(at + bytes.len() as u64);
    }

    /// Fills `buf` as far as the file goes; returns the number of bytes.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> usize {
        let n = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX).min(buf.len());
        for (block, within, range) in parts(at, n) {
            let to = &mut buf[range];
            match self.blocks.get(block) {
                Some(Some(data)) => to.copy_from_slice(&data[within..within + to.len()]),
                _ => to.fill(0),
            }
        }
        n
    }

    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.blocks.truncate(len.div_ceil(BLOCK as u64) as usize);
            let within = (len % BLOCK as u64) as usize;
            let last = self.blocks.get_mut((len / BLOCK as u64) as usize);
            if let Some(Some(data)) = last.filter(|_| within > 0) {
                Arc::make_mut(data)[within..].fill(0);
            }
        }
        self.len = len;
    }

    /// Mixes the bytes into `mix`. Zeros count the same whether there is a block for them or not.
    pub fn stir(&self, mix: &mut super::random::Random) {
        mix.stir(self.len);
        for (n, block) in self.blocks.iter().enumerate() {
            let Some(block) = block.as_deref().filter(|b| b.iter().any(|b| *b != 0)) else { continue };
            mix.stir(n as u64);
            for word in block.chunks_exact(8) {
                mix.stir(u64::from_le_bytes(word.try_into().expect("eight bytes")));
            }
        }
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }
}
