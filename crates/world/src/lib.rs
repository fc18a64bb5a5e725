//! The only door to the operating system: files, queues of reads and writes, memory, the clock,
//! entropy, counters, lines for people.
//!
//! A crate that stores something takes an `Arc<dyn Files>` and never opens a file itself. So the
//! same code runs on the real file system ([`real`]), in memory for tests ([`memory`]), over files
//! that must not change ([`overlay`]), and on a simulated disk that tears, loses and fails
//! ([`sim`]). A thread that must not wait for a device uses an [`IoQueue`]. Every error names its
//! file.
//!
//! This crate does not know the content of the files, or which threads wait for them.

mod clock;
mod counters;
mod files;
mod host;
mod memory;
mod overlay;
mod queue;
mod real;
pub mod sim;
mod span;
mod tell;
mod usage;
mod watched;

pub use clock::{boot, entropy, now_ns, wall_ns};
pub use counters::{Counters, Event, Refused};
pub use files::{Caching, File, Files, FolderLock, Open, SharedMemory, Way, is_want_of_room};
pub use host::{host_name, kernel_release};
pub use memory::memory;
pub use overlay::overlay;
pub use queue::{Done, IoQueue, Means};
pub use real::real;
pub use span::{PageSize, Span};
pub use tell::tell;
pub use usage::{Usage, huge_bytes, prefer_huge_pages, usage};
pub use watched::{Deed, Intervention, watched};

#[cfg(test)]
mod tests;
