//! Reading that a Ctrl-C ends.
//!
//! A pipe, a terminal or a file system may keep its reader waiting for ever, in `open` as well as
//! in `read`, and the system begins both anew after a signal. So a thread of its own reads, and
//! this one looks at the flag.

use crate::failure::Failure;
use deploy::Interrupt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the flag is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What `read` returns.
///
/// # Errors
/// [`Failure::Interrupted`]: the thread is left behind, for a process that is about to end.
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
