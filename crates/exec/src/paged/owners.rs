//! The part of the engine on pages where workers own keys, or pages too (designs `logical` and
//! `plp-*`). The conventional designs read without it.
//!
//! - `face`: the engine as one of [`KeyOwners`](crate::engine::owners::KeyOwners).
//! - `owning`: steps sent to owners, visits, and the end of a transaction at its owners.
//! - `moving`: keys that change their owner while transactions run.
//! - `page_ownership`: which worker owns a page.
//! - `dividing`: trees and heaps, cut where keys are cut.

mod dividing;
mod face;
pub(super) mod moving;
mod owning;
pub(super) mod page_ownership;
