//! Signals that end a run early.
//!
//! The first Ctrl-C, SIGTERM or SIGHUP ends the run in order: every wait checks one flag, the
//! instances end, temporary files are removed, and the measured rows are reported. A second Ctrl-C
//! or SIGTERM ends the process on the spot; its child processes detect that on their own. A second
//! SIGHUP does not: a terminal that closes sends one SIGHUP from the kernel and one from the shell.

use crate::failure::Failure;
use deploy::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// # Errors
/// The system refuses the signal handler.
pub fn watch(interrupt: &Interrupt) -> Result<(), Failure> {
    let cannot = |signal: i32, e: std::io::Error| Failure::Run(format!("cannot catch signal {signal}: {e}"));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, interrupt.flag())
            .and_then(|_| flag::register(signal, interrupt.flag()))
            .map_err(|e| cannot(signal, e))?;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !is_ignored(&status, SIGHUP) {
        flag::register(SIGHUP, interrupt.flag()).map_err(|e| cannot(SIGHUP, e))?;
    }
    Ok(())
}

/// Whether the process was started with this signal ignored, as `nohup` does: the signal then stays
/// ignored. `status` is the text of `/proc/self/status`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(is_ignored("Name:\tatoll\nSigIgn:\t0000000000001001\n", SIGHUP));
        assert!(!is_ignored("SigIgn:\t0000000000001000\n", SIGHUP) && !is_ignored("", SIGHUP));
    }
}
