//! `bench --watch`: the run on the terminal while it runs.
//!
//! [`Dashboard`] keeps what has been seen and draws it into a frame; [`Screen`] owns the terminal. The terminal is given
//! back as it was however the run ends: at the end, at an error, at the first Ctrl-C, in a panic.

mod dashboard;
mod screen;

pub use dashboard::Dashboard;
pub use screen::Screen;
