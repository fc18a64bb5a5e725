//! The driver: puts load on a deployment, measures it, has its data checked, and writes one
//! [`ResultRow`].
//!
//! It knows deployments from outside ([`deploy::Running`]). It knows workloads only through
//! [`Subject`]: their labels, their size, and the counts of their consistency check. It knows
//! nothing of designs, pages or messages.
//!
//! A configuration enters as a [`deploy::Deployment`] with a [`Schedule`] and leaves as a row.
//!
//! - [`session`]: loads once and measures any number of request mixes, each in windows
//!   ([`window`]), changing them on the way ([`phases`]) and waiting until they are [`steady`].
//!   `live`: the partial results of a running window, for a watcher. `shift`: figures about a
//!   series around a change of the load.
//! - [`kill`]: kills instances of a session and keeps a ledger of every reply.
//! - [`row`]: the result; `engine_columns`: its columns that the options of the engine fill.
//!   `stamp`: when, where and by which command it was measured. [`noise`]: other work on this
//!   machine. [`subject`]: workloads, as far as the driver knows them.

#![forbid(unsafe_code)]

mod engine_columns;
pub mod kill;
mod live;
pub mod noise;
pub mod phases;
pub mod row;
pub mod session;
mod settings;
mod shift;
mod stamp;
pub mod steady;
pub mod subject;
pub mod window;

pub use engine_columns::EngineColumns;
pub use kill::{KillSchedule, torment};
pub use phases::{PhaseError, Phases};
pub use probe::{Measured, PerTransaction, Profile, Profiling, Wait};
pub use row::{
    Labels, LatencyUs, MachineStamp, RebalanceRow, RebalancedRow, RepetitionRow, ResultRow, SecondRow,
    Settings, ShiftRow,
};
pub use session::{Ping, Sampling, Schedule, Session, Warmup, Watcher};
pub use stamp::built_from;
pub use subject::Subject;
pub use traffic::{Arrivals, LoadModel, Rate, Retries, Think, Traffic};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
