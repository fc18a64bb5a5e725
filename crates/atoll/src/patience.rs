//! Reads that a Ctrl-C can end.
//!
//! A pipe, a terminal or a file system can block its reader for ever, in `open` as well as in
//! `read`, and the system restarts both after a signal. So a separate thread reads, and the calling
//! thread checks the flag.

use crate::failure::Failure;
use deploy::Interrupt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The interval at which the flag is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The result of `read`.
///
/// # Errors
/// [`Failure::Interrupted`]: the reading thread is left behind, in a process that is about to end.
pub fn interruptibly<T: Send + 'static>(
    interrupt: &Interrupt,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (done, result) = channel();
    let body = move || drop(done.send(read()));
    std::thread::Builder::new()
        .name("reader".into())
        .spawn(body)
        .map_err(|e| Failure::Run(format!("cannot start a thread to read with: {e}")))?;
    loop {
        match result.recv_timeout(LOOK_EVERY) {
            Ok(read) => return Ok(read),
            Err(RecvTimeoutError::Timeout) if interrupt.is_set() => return Err(Failure::InterruptedReading),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Run("the thread that reads has panicked; this is a bug".into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_comes_back_and_what_is_not_is_left() {
        let interrupt = Interrupt::default();
        assert_eq!(interruptibly(&interrupt, || 7).unwrap(), 7);
        interrupt.set();
        let (_never, read) = channel::<()>();
        let read = interruptibly(&interrupt, move || read.recv().is_ok());
        assert!(matches!(read, Err(Failure::InterruptedReading)));
    }
}
