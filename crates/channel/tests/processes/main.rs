//! Links to other processes, which these tests start. They are separate from the other link tests
//! for one reason: a process that is being started holds all open descriptors of its parent until
//! it executes the new program. Meanwhile an address that another thread has just freed still
//! answers.

// Each of the two binaries uses a part of it.
#[allow(dead_code)]
#[path = "../links/common.rs"]
mod common;
mod death;
mod ipc;
mod starved;
