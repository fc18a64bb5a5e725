//! Checks that a run fits the memory of this machine, before anything is touched.
//!
//! The memory of all its instances is summed and compared with the free memory of the machine and
//! of every control group around this process. A run that does not fit would start the system's
//! out-of-memory killer, which kills other programs too.

use crate::failure::Failure;
use base::counted;
use deploy::{Deployment, Footprint};
use topology::{MemoryRoom, memory_room};

/// At least this much free memory is left, for memory that the sum leaves out.
const LEAST_MARGIN: u64 = 64 << 20;
const MARGIN_SHARE: u64 = 20;

/// Whether a run that does not fit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    Required,
    /// `--memory-unchecked`.
    Waived,
}

impl Fit {
    pub fn unless(unchecked: bool) -> Fit {
        if unchecked { Fit::Waived } else { Fit::Required }
    }
}

/// Memory that is free for a run, in bytes; `None` if the system does not report it.
pub fn free() -> Option<u64> {
    memory_room().map(|room| room.free)
}

/// Checks every deployment of a sweep against the free memory; they run one at a time. `given` is
/// `--memory`.
///
/// # Errors
/// The first deployment that does not fit: the memory it takes, the free memory, and a size that
/// would fit.
pub fn hold<'a>(
    deployments: impl Iterator<Item = &'a Deployment>,
    given: Option<u64>,
    fit: Fit,
) -> Result<(), Failure> {
    let (Fit::Required, Some(room)) = (fit, memory_room()) else { return Ok(()) };
    for d in deployments {
        let what = format!("{} on {}", d.design, counted(d.islands, "island"));
        against(&room, &what, d.footprint(), given)?;
    }
    Ok(())
}

/// Checks the page memory of `atoll check` against the free memory.
///
/// # Errors
/// As [`hold`].
pub fn hold_check(pages: u64, given: u64, fit: Fit) -> Result<(), Failure> {
    let (Fit::Required, Some(room)) = (fit, memory_room()) else { return Ok(()) };
    against(&room, "check", Footprint { pages, ..Footprint::default() }, Some(given))
}

fn against(room: &MemoryRoom, what: &str, takes: Footprint, given: Option<u64>) -> Result<(), Failure> {
    let most = room.free.saturating_sub((room.free / MARGIN_SHARE).max(LEAST_MARGIN));
    if takes.total() <= most {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let option = given.map_or(String::new(), |bytes| format!("--memory {}M: ", mib(bytes)));
    let parts = [
        ("page memory", takes.pages),
        ("log buffers", takes.logs),
        ("links", takes.links),
        ("instances and workers", takes.rest),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| format!("{name} {} MiB", mib(*bytes)))
        .collect();
    let place = match &room.group {
        Some(group) => format!("in the control group {}", group.display()),
        None => "on this machine".into(),
    };
    let rest = takes.total() - takes.pages;
    let advice = match most.saturating_sub(rest) >> 20 {
        0 => "fewer --islands or --workers".into(),
        mib => format!("--memory {mib}M at most"),
    };
    Err(Failure::Usage(format!(
        "{option}{what} takes {} MiB ({}), and {} MiB are free {place} (of {} MiB), of which {} MiB may be taken; expected \
         {advice}, or --memory-unchecked to run all the same",
        mib(takes.total()),
        parts.join(", "),
        room.free >> 20,
        room.of >> 20,
        most >> 20,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn room(free: u64) -> MemoryRoom {
        MemoryRoom { free, of: 4 * GIB, group: None }
    }

    #[test]
    fn what_fits_says_nothing_and_what_does_not_says_what_would() {
        let takes = Footprint { pages: GIB, logs: 32 << 20, links: 0, rest: 16 << 20 };
        assert!(against(&room(2 * GIB), "occ on 1 island", takes, None).is_ok());
        let text = against(&room(GIB), "serial on 2 islands", takes, Some(GIB)).unwrap_err().to_string();
        let parts = [
            "--memory 1024M: serial on 2 islands takes 1072 MiB (page memory 1024 MiB, log buffers 32 MiB, instances and",
            "1024 MiB are free on this machine (of 4096 MiB), of which 960 MiB may be taken",
            "expected --memory 912M at most, or --memory-unchecked",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        // A run that is refused with this text fits if it follows the advice of the text.
        let takes = Footprint { pages: 912 << 20, ..takes };
        assert!(against(&room(GIB), "", takes, None).is_ok());
    }

    #[test]
    fn what_no_machine_has_and_what_is_not_pages() {
        let takes = Footprint { pages: u64::MAX, logs: 7, links: u64::MAX, rest: 1 };
        assert!(against(&room(GIB), "", takes, Some(1 << 50)).is_err());
        let group = MemoryRoom { group: Some("/sys/fs/cgroup/a".into()), ..room(GIB / 8) };
        let takes = Footprint { pages: 0, links: GIB, ..Footprint::default() };
        let text = against(&group, "", takes, None).unwrap_err().to_string();
        assert!(text.contains("/sys/fs/cgroup/a") && text.contains("fewer --islands"), "{text}");
    }
}
