//! `atoll dump`, and `atoll restore` of what it wrote: a database as SQL text.
//!
//! ```text
//!   directory --served by this process--+             schema, COPY --> file, standard output,
//!                                       +-- client -->                 CSV, Parquet
//!   server -----------------------------+           <-- statements, COPY <-- script, Parquet
//! ```
//!
//! Both sides are clients of PostgreSQL's protocol, so a dump goes into PostgreSQL and out of it
//! too ([`schema`] asks the system catalogs only). A directory is served by a thread of this
//! process while the command runs ([`place`]).

#[cfg(feature = "parquet")]
mod columns;
#[cfg(not(feature = "parquet"))]
#[path = "dump/no_columns.rs"]
mod columns;
mod place;
mod restoring;
mod rows_file;
mod schema;
mod script;
mod sink;
mod storing;
mod writing;

pub use restoring::{is_dump, restore};
pub use writing::dump;
