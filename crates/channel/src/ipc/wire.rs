//! One interface to every mechanism, so that each side of a measurement is written only once.

use super::{IpcError, PATIENCE};
use std::time::Instant;

/// One end of a connection that carries messages of one length.
pub(super) trait Wire {
    fn send(&mut self, message: &[u8]) -> Result<(), IpcError>;
    fn flush(&mut self) -> Result<(), IpcError> {
        Ok(())
    }
    /// Waits for the next message, in the way of waiting that the wire was made with.
    fn receive(&mut self, into: &mut [u8]) -> Result<(), IpcError>;
}

/// Spins until `attempt` returns a value. Reads the clock only once in 2^14 attempts.
pub(super) fn spin<T>(mut attempt: impl FnMut() -> Result<Option<T>, IpcError>) -> Result<T, IpcError> {
    let mut start = None;
    loop {
        for _ in 0..1 << 14 {
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(IpcError::Silent);
        }
    }
}
