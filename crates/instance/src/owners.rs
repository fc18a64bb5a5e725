//! The designs in which each worker owns keys: `logical` and the three of PLP
//! ([`Engine::OWNERS`]). The conventional path can be read without these files: there, all of this
//! is compiled away, or asks an empty list.
//!
//! ```text
//!   request ---> all keys at one other worker ---> forwarding: the request goes there, whole
//!           \--> keys at several workers ---> visits: its steps go to their owners
//!
//!   sampling: counts of each worker ---> balance: other borders, other owners
//!                                        placing: on which island each owner works
//! ```
//!
//! - [`visits`]: steps at other workers of the instance.
//! - [`forwarding`]: the rings for whole requests; [`forwarded`]: the tasks at both ends.
//! - [`sampling`]: counts and samples of each worker, for the balancer.
//! - [`balance`]: the balancer's thread, and repartitioning; [`placing`]: partitions and islands.
//!
//! [`Engine::OWNERS`]: exec::Engine::OWNERS

pub(crate) mod balance;
mod forwarded;
pub(crate) mod forwarding;
mod placing;
pub(crate) mod sampling;
mod visits;
