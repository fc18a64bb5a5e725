//! `bench --watch`: the run on the terminal while it runs.
//!
//! [`Dashboard`] keeps the measured seconds and draws them into a frame; [`Screen`] owns the
//! terminal. The terminal is restored however the run ends: at the end, at an error, at the first
//! Ctrl-C, in a panic.

mod dashboard;
mod screen;

pub use dashboard::Dashboard;
pub use screen::Screen;
