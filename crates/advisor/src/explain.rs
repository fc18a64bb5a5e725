//! Why one deployment beats another: the differences of their costs by component.

use crate::predictor::Prediction;
use serde::Serialize;
use std::fmt;

/// A component's cost in both deployments, in ns of worker time per transaction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    pub component: String,
    pub first_ns: f64,
    pub second_ns: f64,
}

impl Difference {
    /// Positive if the second costs more.
    pub fn ns(&self) -> f64 {
        self.second_ns - self.first_ns
    }
}

/// The comparison of two deployments.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    pub first: String,
    pub second: String,
    pub first_tps: f64,
    pub second_tps: f64,
    /// The largest difference first.
    pub differences: Vec<Difference>,
    pub first_limit: String,
    pub second_limit: String,
}

/// Compares two predictions; `None` if one of them has no costs by component.
pub fn explain(first: (&str, &Prediction), second: (&str, &Prediction)) -> Option<Explanation> {
    let ((first, a), (second, b)) = (first, second);
    if a.parts.is_empty() || b.parts.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = a.parts.iter().chain(&b.parts).map(|part| part.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let difference = |name: &&str| Difference {
        component: (*name).to_owned(),
        first_ns: a.part_ns(name),
        second_ns: b.part_ns(name),
    };
    let mut differences: Vec<Difference> = names.iter().map(difference).collect();
    differences.retain(|d| d.first_ns > 0.0 || d.second_ns > 0.0);
    differences.sort_by(|x, y| y.ns().abs().total_cmp(&x.ns().abs()));
    let limit = |p: &Prediction| p.limits.first().map_or_else(String::new, |l| l.resource.clone());
    Some(Explanation {
        first: first.to_owned(),
        second: second.to_owned(),
        first_tps: a.tps.mid,
        second_tps: b.tps.mid,
        differences,
        first_limit: limit(a),
        second_limit: limit(b),
    })
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = self.first_tps / self.second_tps;
        let (verb, by) = if ratio >= 1.0 { ("beats", ratio) } else { ("loses to", 1.0 / ratio) };
        writeln!(f, "A: {}\nB: {}", self.first, self.second)?;
        writeln!(f, "A {verb} B by {:.0} %", (by - 1.0) * 100.0)?;
        writeln!(f, "\n{:<18} {:>9} {:>9} {:>10}", "us a transaction", "A", "B", "B - A")?;
        let us = |ns: f64| ns / 1e3;
        for d in &self.differences {
            let (a, b) = (us(d.first_ns), us(d.second_ns));
            writeln!(f, "{:<18} {a:>9.2} {b:>9.2} {:>+10.2}", d.component, us(d.ns()))?;
        }
        let sum = |of: fn(&Difference) -> f64| us(self.differences.iter().map(of).sum());
        let (a, b) = (sum(|d| d.first_ns), sum(|d| d.second_ns));
        writeln!(f, "{:<18} {a:>9.2} {b:>9.2} {:>+10.2}", "all workers", b - a)?;
        write!(f, "limit of A: {}\nlimit of B: {}", self.first_limit, self.second_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::{Interval, Limit, Part};

    fn prediction(tps: f64, parts: &[(&str, f64)]) -> Prediction {
        Prediction {
            tps: Interval::around(tps, 0.1),
            p99_us: None,
            limits: vec![Limit { resource: "workers' time: rows".into(), share: 0.9 }],
            parts: parts.iter().map(|(name, ns)| Part { name: (*name).into(), ns: *ns }).collect(),
        }
    }

    #[test]
    fn the_largest_difference_comes_first() {
        let a = prediction(1000.0, &[("rows", 500.0), ("messages", 100.0), ("log", 0.0)]);
        let b = prediction(800.0, &[("rows", 550.0), ("messages", 900.0), ("idle", 20.0)]);
        let told = explain(("one", &a), ("two", &b)).unwrap();
        let order: Vec<&str> = told.differences.iter().map(|d| d.component.as_str()).collect();
        assert_eq!(order, ["messages", "rows", "idle"]);
        let text = told.to_string();
        assert!(text.contains("A beats B by 25 %") && text.contains("+0.80"), "{text}");
        let back = explain(("two", &b), ("one", &a)).unwrap().to_string();
        assert!(back.contains("A loses to B by 25 %"), "{back}");
        assert_eq!(explain(("one", &a), ("none", &prediction(1.0, &[]))), None);
    }
}
