//! Values of one worker for reuse, so that a transaction allocates little.

use std::cell::RefCell;
use wire::Batch;

/// Values for reuse. `P` is a local transaction.
pub(crate) struct Spares<P> {
    /// They are long, and a request would copy one three times: so it gets it in its box.
    txns: RefCell<Vec<Box<P>>>,
    batches: RefCell<Vec<Batch>>,
    buffers: RefCell<Vec<Vec<u8>>>,
    /// A buffer in which frames are encoded.
    pub frame: RefCell<Vec<u8>>,
}

impl<P> Default for Spares<P> {
    fn default() -> Self {
        Spares {
            txns: RefCell::default(),
            batches: RefCell::default(),
            buffers: RefCell::default(),
            frame: RefCell::default(),
        }
    }
}

impl<P> Spares<P> {
    pub fn take_txn(&self) -> Option<Box<P>> {
        self.txns.borrow_mut().pop()
    }

    pub fn give_txn(&self, txn: Box<P>) {
        self.txns.borrow_mut().push(txn);
    }

    pub fn take_batch(&self) -> Batch {
        let mut batch = self.batches.borrow_mut().pop().unwrap_or_default();
        batch.clear();
        batch
    }

    pub fn give_batch(&self, batch: Batch) {
        self.batches.borrow_mut().push(batch);
    }

    /// A copy of `bytes` in a recycled buffer.
    pub fn take_buffer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.buffers.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    pub fn give_buffer(&self, buffer: Vec<u8>) {
        self.buffers.borrow_mut().push(buffer);
    }
}
