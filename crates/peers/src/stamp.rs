//! The circumstances of a measurement, printed below its table: the machine, the latency between
//! its cores before and after, the CPU time taken by others meanwhile, and the commit.

use std::fmt;
use std::process::Command;
use std::time::Instant;

/// USER_HZ: 100 on every Linux that Rust's standard library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The machine's CPU times at one moment, in ticks over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Ticks {
    busy: u64,
    steal: u64,
}

impl Ticks {
    fn now() -> Ticks {
        Ticks::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    /// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is
    /// included in user.
    fn parse(stat: &str) -> Option<Ticks> {
        let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let field: Vec<u64> = line.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let get = |i: usize| field.get(i).copied().unwrap_or(0);
        Some(Ticks { busy: get(0) + get(1) + get(2) + get(5) + get(6), steal: get(7) })
    }
}

/// Started before the first round, finished after the last.
pub struct Watch {
    started: Instant,
    ticks: Ticks,
    cpu_ns: u64,
    probe_ns: Option<f64>,
}

/// The line below a table.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub model: String,
    pub cpus: usize,
    /// One-way latency of a cache line between the first two CPUs, before and after.
    pub probe_ns: [Option<f64>; 2],
    /// Per cent of all CPUs' time: taken by the hypervisor, and used by other processes.
    pub steal: f64,
    pub others: f64,
    pub commit: String,
}

fn probe() -> Option<f64> {
    let cpus = topology::allowed_cpus();
    topology::ping_pong_ns(*cpus.first()?, *cpus.get(1)?).ok()
}

impl Watch {
    pub fn start() -> Watch {
        let probe_ns = probe();
        Watch { started: Instant::now(), ticks: Ticks::now(), cpu_ns: world::usage().cpu_ns, probe_ns }
    }

    pub fn finish(self) -> Stamp {
        let (now, cpu_ns, seconds) =
            (Ticks::now(), world::usage().cpu_ns, self.started.elapsed().as_secs_f64());
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| cpus.lines().find(|l| l.starts_with(name)).and_then(|l| l.split_once(':'));
        let all = cpus.lines().filter(|l| l.starts_with("processor")).count().max(1);
        let room = all as f64 * seconds.max(1e-3);
        let share = |s: f64| (100.0 * s / room).clamp(0.0, 100.0);
        let ticks = |from: u64, to: u64| to.saturating_sub(from) as f64 / TICKS_PER_SECOND;
        let own = (cpu_ns - self.cpu_ns) as f64 / 1e9;
        Stamp {
            model: field("model name").map_or("unknown processor".into(), |(_, v)| v.trim().to_owned()),
            cpus: topology::allowed_cpus().len(),
            probe_ns: [self.probe_ns, probe()],
            steal: share(ticks(self.ticks.steal, now.steal)),
            others: share((ticks(self.ticks.busy, now.busy) - own).max(0.0)),
            commit: commit(),
        }
    }
}

/// The commit that is checked out, with `+` if tracked files differ from it.
fn commit() -> String {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
    let mark = if changed { "+" } else { "" };
    git(&["rev-parse", "--short=10", "HEAD"]).map_or("unknown".into(), |hash| hash + mark)
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |p: Option<f64>| p.map_or("none".into(), |ns| format!("{ns:.0} ns"));
        let [before, after] = self.probe_ns.map(ns);
        write!(
            f,
            "{}, {} CPUs; a cache line between two of them {before} before, {after} after; {:.1} % of CPU time stolen, \
             {:.1} % used by others; commit {}",
            self.model, self.cpus, self.steal, self.others, self.commit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let stat = "cpu  100 10 50 1000 7 3 2 20 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(Ticks::parse(stat), Some(Ticks { busy: 165, steal: 20 }));
        assert_eq!(Ticks::parse("intr 5"), None);
    }
}
