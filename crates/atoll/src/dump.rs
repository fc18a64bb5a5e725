//! `atoll dump`, and `atoll restore` of what it wrote: a database as SQL text.
//!
//! ```text
//!   directory --served by this process--+
//!                                       +-- client --> schema, COPY --> file, standard output, CSV
//!   server ------------------------------+           <-- statements, COPY <-- script
//! ```
//!
//! Both sides are clients of PostgreSQL's protocol, so a dump goes into PostgreSQL and out of it
//! too ([`schema`] asks the system catalogs only). A directory is served by a thread of this
//! process while the command runs ([`place`]).

mod place;
mod restoring;
mod schema;
mod script;
mod sink;
mod writing;

pub use restoring::{is_dump, restore};
pub use writing::dump;
