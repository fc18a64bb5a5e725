//! The lines of `--progress`: the figures of a deployment at every interval while it runs.

use crate::units::{micros, per_cent, scaled};
use driver::Measured;
use std::time::Duration;

/// `at`: the time of load so far; `phase`: the phase of the row; `instances`: the measurements of
/// each instance since the last line.
pub fn line(at: Duration, phase: &str, instances: &[Measured]) -> String {
    let mut all = Measured::default();
    instances.iter().for_each(|m| all.merge(m));
    let tps: f64 = instances.iter().map(rate).sum();
    let latency = match all.latency.count() {
        0 => "no latency".into(),
        _ => format!(
            "latency avg {} p99 {}",
            micros(all.latency.mean() / 1000.0),
            micros(all.latency.quantile(0.99) as f64 / 1000.0)
        ),
    };
    let aborts: u64 = all.aborted.iter().filter(|(why, _)| *why != "user").map(|(_, n)| n).sum();
    let tries = (all.committed_total() + aborts).max(1);
    let share = per_cent(aborts as f64 / tries as f64 * 100.0);
    let (at, tps, aborts) = (at.as_secs_f64(), scaled(tps), scaled(aborts as f64));
    format!("{at:.1} s, {phase}: {tps} tps, {latency}, {aborts} aborts ({share})")
}

fn rate(m: &Measured) -> f64 {
    m.committed_total() as f64 / (m.window_ns.max(1) as f64 / 1e9)
}

/// The length of an interval.
pub fn length(instances: &[Measured]) -> Duration {
    Duration::from_nanos(instances.iter().map(|m| m.window_ns).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_adds_up_the_instances() {
        let instance = |n: u64| {
            let mut m = Measured {
                window_ns: 500_000_000,
                committed: [("x".to_string(), n)].into(),
                aborted: [("deadlock".to_string(), 5), ("user".to_string(), 70)].into(),
                ..Measured::default()
            };
            m.latency.record(80_000);
            m
        };
        let both = [instance(5_000), instance(10_000)];
        let text = line(Duration::from_millis(1500), "measuring 1/3", &both);
        assert!(text.starts_with("1.5 s, measuring 1/3: 30.00k tps, latency avg 8"), "{text}");
        assert!(text.ends_with(", 10 aborts (0.1%)"), "{text}");
        assert_eq!(length(&both), Duration::from_millis(500));
        assert!(line(Duration::ZERO, "warming up", &[]).contains("0 tps, no latency, 0 aborts"));
    }
}
