//! Decisions under load that comes and goes.

mod balancing;
mod placing;
mod world;
