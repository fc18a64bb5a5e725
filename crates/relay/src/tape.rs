//! The service behind a log: it appends, and tells positions.

use crate::fault::Trouble;
use std::sync::Arc;

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// A quorum has it, at this position.
    At(u64),
    /// It may be on the tape, or come later, or never.
    Unknown(String),
}

/// Takes the news of appends, by their tickets. Each ticket gets one call, on any thread.
pub type Landing = Arc<dyn Fn(u64, Landed) + Send + Sync>;

/// One log at a service. Positions are consecutive numbers that the service gives. All methods may
/// be called from any thread.
pub trait Tape: Send + Sync {
    /// Begins to append `bytes` and returns at once. `after` is the position that the entry before
    /// has if all goes well: a service that can refuse entries out of order uses it. Each ticket
    /// lands within some seconds, known or unknown.
    fn append(&self, ticket: u64, bytes: Arc<Vec<u8>>, after: Option<u64>, landing: &Landing);

    /// The first position that the tape still has, and the one behind its last: empty if they are
    /// equal.
    ///
    /// # Errors
    /// No answer.
    fn range(&self) -> Result<(u64, u64), Trouble>;

    /// Gives what lies at the positions `from..to`, in order. A position that is not there is
    /// passed over.
    ///
    /// # Errors
    /// No answer; `each` may have got some of the entries.
    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble>;

    /// Removes all positions before `first`, for good.
    ///
    /// # Errors
    /// No answer; it may be removed all the same.
    fn trim(&self, first: u64) -> Result<(), Trouble>;

    /// The largest entry that the service takes, in bytes.
    fn most(&self) -> usize {
        1 << 19
    }
}

/// What drives a client library: one thread, which only this tape knows.
#[cfg(any(feature = "nats", feature = "kafka"))]
pub(crate) struct Room(Option<tokio::runtime::Runtime>);

/// An append on its way to the task that sends.
#[cfg(any(feature = "nats", feature = "kafka"))]
pub(crate) struct Sending {
    pub ticket: u64,
    pub bytes: Arc<Vec<u8>>,
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "only NATS refuses entries out of order"))]
    pub after: Option<u64>,
    pub landing: Landing,
}

#[cfg(any(feature = "nats", feature = "kafka"))]
impl Room {
    /// # Errors
    /// The system has no thread left.
    pub fn open() -> std::io::Result<Room> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Ok(Room(Some(builder.worker_threads(1).thread_name("relay-client").enable_all().build()?)))
    }

    fn runtime(&self) -> &tokio::runtime::Runtime {
        self.0.as_ref().expect("it is taken out at the end only")
    }

    pub fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime().block_on(what)
    }

    pub fn spawn(&self, what: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(what);
    }

    /// Waits for an answer for some time.
    pub fn wait<T>(
        &self,
        patience: std::time::Duration,
        what: impl Future<Output = Result<T, String>>,
    ) -> Result<T, Trouble> {
        let waited = self.block_on(async { tokio::time::timeout(patience, what).await });
        waited.unwrap_or_else(|_| Err("no answer".to_owned())).map_err(Trouble)
    }
}

/// The last owner of a tape may be a landing on the client's own thread, which must not wait for
/// itself.
#[cfg(any(feature = "nats", feature = "kafka"))]
impl Drop for Room {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
