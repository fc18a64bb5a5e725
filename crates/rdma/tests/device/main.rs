//! Links over an RDMA device of this machine, by the scripts of `channel`'s own links, and links
//! that end. Run by `scripts/rdma-here`, which has a device; without one each test fails.
//!
//! With `ATOLL_RDMA_PEER` this program is a process that calls the address named there, says so
//! much and sleeps until it is killed.

mod common;
mod ends;

#[path = "../../../channel/tests/links/exchange.rs"]
mod exchange;
#[path = "../../../channel/tests/links/held_back.rs"]
mod held_back;
#[path = "../../../channel/tests/links/wake.rs"]
mod wake;
