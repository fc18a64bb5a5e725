//! A line for people on standard error.

use std::fmt::Display;
use std::io::Write;

/// Writes `line` to standard error, in one piece, so that lines of several processes do not tear
/// each other.
///
/// A line that cannot be written (the terminal is gone, the pipe has no reader, the disk is full)
/// is lost, and the program goes on: a run is worth more than its messages. That is why this code
/// must not use `eprintln!`, which panics in these cases.
pub fn tell(line: impl Display) {
    let text = format!("{line}\n");
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
