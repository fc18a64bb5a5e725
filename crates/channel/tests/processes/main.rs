//! Links to other processes, which these tests start. They are apart from the other tests of links because a process
//! that is being started holds, until it has become the other program, all that its parent had open: an address that
//! another thread has just freed still answers.

// Each of the two binaries uses a part of it.
#[allow(dead_code)]
#[path = "../links/common.rs"]
mod common;
mod death;
mod ipc;
mod starved;
