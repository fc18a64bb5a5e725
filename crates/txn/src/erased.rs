//! Steps, rows and transactions behind one pointer each.
//!
//! A procedure is generic over its transaction, and a step over its access to rows, so both are
//! compiled again for each engine. A workload with much code and long transactions calls its own
//! code through this module instead, and is compiled once:
//!
//! ```text
//!   engine --run(&mut T)--> run_erased(&mut dyn AnyTransaction)         one box per transaction
//!                             procedure --all(steps)--> &dyn AnySteps   one box per phase
//!   engine <--Steps::run----- step --read(key)--> &mut dyn AnyAccess    a box per step, access
//! ```
//!
//! A box costs some 20 to 50 ns. The benchmarks with short transactions (micro, TPC-B, TPC-C, TATP)
//! do without.

mod access;
mod transaction;

pub use access::{AnyAccess, ErasedAccess};
pub use transaction::{AnySteps, AnyTransaction, ErasedTransaction};

use std::future::Future;
use std::pin::Pin;

/// A future that stays on its thread.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
