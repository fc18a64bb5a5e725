//! Links as their users see them: every channel by the same scripts.

mod common;
mod death;
mod exchange;
mod ipc;
mod setup;
mod wake;
