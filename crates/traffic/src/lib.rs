//! The times at which requests come: arrivals at a rate, people at terminals, and a client's
//! retries after an abort.
//!
//! Pure values and state machines over a time that the caller passes in (nanoseconds of one clock).
//! This crate has no clock and no thread, and does not know the content of a request. The workers
//! of an instance drive the machines, the driver and the command line fill in the values, and a
//! test can let an hour pass in a millisecond.
//!
//! - [`rate`]: requests per second, constant or on a ramp.
//! - [`time`]: lengths of time as people type them.
//! - [`arrivals`]: the moments at which requests of an open loop are due.
//! - [`wheel`]: very many timers, one for each terminal, in 16 bytes each.
//! - [`think`]: how long a person keys in a request and looks at the answer.
//! - [`retry`]: how often and how soon an aborted request is tried again.
//! - [`change`]: a change of a load while it runs.
//! - [`model`]: all of it in the one value that an instance gets.

#![forbid(unsafe_code)]

pub mod arrivals;
pub mod change;
pub mod model;
pub mod rate;
pub mod retry;
pub mod think;
pub mod time;
pub mod wheel;

pub use arrivals::{ArrivalStream, Arrivals};
pub use change::LoadChange;
pub use model::{LoadModel, Share, Traffic};
pub use rate::Rate;
pub use retry::Retries;
pub use think::{Think, Thinker};
pub use time::{in_words, parse_time, parse_time_in};
pub use wheel::Wheel;
