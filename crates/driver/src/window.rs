//! What all instances together measured in one window.

use crate::row::LatencyUs;
use crate::{LatencyHistogram, decode_latency};
use deploy::Sample;
use std::collections::{BTreeMap, HashSet};

/// Sums over the instances of a deployment.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub tps: f64,
    pub seconds: f64,
    pub committed: u64,
    pub by_kind: BTreeMap<String, u64>,
    pub aborted: BTreeMap<String, u64>,
    pub distributed: u64,
    pub messages: u64,
    pub log_bytes: u64,
    pub fsyncs: u64,
    pub in_doubt: usize,
    pub rss_bytes: u64,
    /// CPU time of the instances' processes since they started.
    pub cpu_ns: u64,
    pub latency: Option<LatencyHistogram>,
}

impl Window {
    pub fn of(samples: &[Sample]) -> Window {
        let mut window = Window::default();
        let mut processes = HashSet::new();
        for sample in samples {
            let m = &sample.measured;
            let committed: u64 = m.committed.iter().map(|(_, n)| n).sum();
            window.committed += committed;
            if m.seconds > 0.0 {
                window.tps += committed as f64 / m.seconds;
            }
            window.seconds = window.seconds.max(m.seconds);
            m.committed.iter().for_each(|(kind, n)| *window.by_kind.entry(kind.clone()).or_default() += n);
            m.aborted
                .iter()
                .filter(|(_, n)| *n > 0)
                .for_each(|(why, n)| *window.aborted.entry(why.name().into()).or_default() += n);
            window.distributed += m.distributed;
            window.messages += m.messages;
            window.log_bytes += m.log_bytes;
            window.fsyncs += m.fsyncs;
            window.in_doubt += m.in_doubt;
            // Instances hosted by threads share one process.
            if processes.insert(sample.pid) {
                window.rss_bytes += sample.rss_bytes;
                window.cpu_ns += sample.cpu_ns;
            }
            if let Some(latency) = decode_latency(&m.latency) {
                match &mut window.latency {
                    Some(all) => {
                        let _ = all.add(latency); // both have the same bounds, so every value fits
                    }
                    none => *none = Some(latency),
                }
            }
        }
        window
    }

    /// A count for each committed transaction.
    pub fn per_txn(&self, count: u64) -> f64 {
        count as f64 / self.committed.max(1) as f64
    }

    pub fn latency_us(&self) -> Option<LatencyUs> {
        let h = self.latency.as_ref().filter(|h| !h.is_empty())?;
        let at = |q| h.value_at_quantile(q) as f64 / 1000.0;
        Some(LatencyUs {
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: h.max() as f64 / 1000.0,
        })
    }
}
