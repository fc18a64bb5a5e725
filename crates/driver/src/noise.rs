//! The share of a window that went to other work on the machine.
//!
//! ```text
//!             steal + max(0, busy - own)
//!   noise  =  --------------------------     over the CPUs of `/proc/stat`, read before and after
//!                  CPUs x window
//! ```
//!
//! `steal` is the time that the hypervisor took, `busy` all other non-idle time, `own` the CPU time
//! of this process and of the instances' processes. The kernel counts in ticks of 10 ms, so windows
//! under a second are coarse.

use std::time::Instant;

/// Kernel ticks a second: `USER_HZ`, 100 on every Linux that Rust's standard library runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The machine's clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: Instant,
    machine: Option<Ticks>,
    parent_ns: u64,
}

/// Sums over all CPUs of `/proc/stat`, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    cpus: usize,
    busy: u64,
    steal: u64,
}

impl Moment {
    /// Reads the clocks.
    pub fn now() -> Moment {
        let machine = std::fs::read_to_string("/proc/stat").ok().and_then(|text| Ticks::parse(&text));
        Moment { at: Instant::now(), machine, parent_ns: deploy::cpu_ns() }
    }

    /// The noise between `self` and `end`, 0..=1; 0 where the system does not report it.
    /// `children_ns`: CPU time of the instances' processes in between, as far as they are not this
    /// process.
    pub fn noise_until(&self, end: &Moment, children_ns: u64) -> f64 {
        let (Some(a), Some(b)) = (self.machine, end.machine) else { return 0.0 };
        let own = end.parent_ns.saturating_sub(self.parent_ns) + children_ns;
        noise(a, b, own as f64 / 1e9, end.at.duration_since(self.at).as_secs_f64())
    }
}

fn noise(a: Ticks, b: Ticks, own_seconds: f64, window_seconds: f64) -> f64 {
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / TICKS_PER_SECOND;
    let others = (seconds(a.busy, b.busy) - own_seconds).max(0.0);
    let room = b.cpus as f64 * window_seconds;
    if room > 0.0 { ((seconds(a.steal, b.steal) + others) / room).clamp(0.0, 1.0) } else { 0.0 }
}

impl Ticks {
    /// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest time is
    /// included in user.
    fn parse(stat: &str) -> Option<Ticks> {
        let cpus = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
        let total = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let field: Vec<u64> = total.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
        let get = |i: usize| field.get(i).copied().unwrap_or(0);
        Some(Ticks { cpus, busy: get(0) + get(1) + get(2) + get(5) + get(6), steal: get(7) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_on_a_worked_example() {
        let stat = "cpu  100 10 50 1000 7 3 2 20 0 0\ncpu0 50 5 25 500 3 1 1 10 0 0\ncpu1 50 5 25 500 4 2 1 10 0 0\nintr 1\n";
        let a = Ticks::parse(stat).unwrap();
        assert_eq!(a, Ticks { cpus: 2, busy: 165, steal: 20 });
        // Ten seconds on two CPUs: 12 s busy of which 9 s ours, 1 s stolen: (1 + 3) / 20.
        let b = Ticks { cpus: 2, busy: 165 + 1200, steal: 120 };
        assert!((noise(a, b, 9.0, 10.0) - 0.2).abs() < 1e-9);
        // Ticks lag behind the precise clock of our own time; the noise is never below zero.
        assert_eq!(noise(a, Ticks { busy: 165 + 100, ..a }, 1.5, 1.0), 0.0);
    }
}
