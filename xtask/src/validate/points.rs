//! Workload points, drawn from a seed: the options of a load, and the channel of its deployments.

use fastrand::Rng;
use serde_json::{Value, json};

/// The workloads in the order in which points take them; the microbenchmark has most levels.
const TURNS: [&str; 9] = [
    "micro-read",
    "micro-update",
    "tpcb",
    "micro-read",
    "micro-update",
    "tpcc-payment",
    "micro-update",
    "tatp",
    "tpcc",
];
/// Choices flip at small shares, so most levels are small.
const MULTISITE: [u32; 8] = [0, 1, 2, 5, 10, 20, 50, 100];
const REMOTE: [u32; 5] = [0, 5, 15, 50, 100];
const ROWS: [u32; 5] = [2, 4, 10, 20, 50];
const SKEW: [&str; 5] = ["0", "0", "0", "0.5", "0.9"];
const DATASET: [u32; 4] = [20_000, 20_000, 200_000, 1_000_000];
const DURABILITY: [&str; 2] = ["memory", "async"];
const CHANNELS: [&str; 3] = ["shm", "uds", "tcp"];

/// One load. Its deployments are all designs and numbers of islands, joined by one channel.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub number: usize,
    /// The workload with its operation: what a calibration is for.
    pub kind: String,
    pub channel: String,
    /// Options of `bench` and `plan` without dashes, besides those of the kind.
    pub options: Vec<(String, String)>,
}

impl Point {
    /// The workload, and `--op` where the kind has one.
    pub fn kind_words(kind: &str) -> Vec<String> {
        match kind.strip_prefix("micro-") {
            Some(op) => vec!["micro".into(), "--op".into(), op.into()],
            None => vec![kind.into()],
        }
    }

    /// The words after `bench` or `plan`.
    pub fn words(&self) -> Vec<String> {
        let mut words = Point::kind_words(&self.kind);
        words.extend(self.options.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]));
        words
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        json!({"point": self.number, "kind": self.kind, "channel": self.channel, "options": self.options})
    }

    pub fn from_json(value: &Value) -> Option<Point> {
        let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
        Some(Point {
            number: value["point"].as_u64()? as usize,
            kind: value["kind"].as_str()?.to_owned(),
            channel: value["channel"].as_str()?.to_owned(),
            options: value["options"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
        })
    }
}

/// `count` points: the workloads in turn, their options at random.
pub fn draw(seed: u64, count: usize) -> Vec<Point> {
    let mut random = Rng::with_seed(seed);
    (0..count).map(|number| point(number, &mut random)).collect()
}

fn point(number: usize, random: &mut Rng) -> Point {
    let kind = TURNS[number % TURNS.len()];
    let mut options: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| options.push((name.to_owned(), value));
    if kind.starts_with("micro") {
        add("multisite", MULTISITE[random.usize(..MULTISITE.len())].to_string());
        add("rows", ROWS[random.usize(..ROWS.len())].to_string());
        add("skew", SKEW[random.usize(..SKEW.len())].to_owned());
        add("dataset", DATASET[random.usize(..DATASET.len())].to_string());
    } else if kind != "tatp" {
        add("multisite", REMOTE[random.usize(..REMOTE.len())].to_string());
    }
    add("durability", DURABILITY[random.usize(..DURABILITY.len())].to_owned());
    let channel = CHANNELS[random.usize(..CHANNELS.len())].to_owned();
    Point { number, kind: kind.to_owned(), channel, options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_points_and_each_workload_has_some() {
        let points = draw(7, 18);
        assert_eq!(points, draw(7, 18));
        assert_ne!(points, draw(8, 18));
        for kind in TURNS {
            assert!(points.iter().any(|point| point.kind == kind), "{kind}");
        }
        let tatp = points.iter().find(|point| point.kind == "tatp").unwrap();
        assert_eq!(tatp.option("multisite"), None, "its transactions are local by definition");
        for point in &points {
            assert_eq!(Point::from_json(&point.json()).as_ref(), Some(point));
        }
        let micro = points.iter().find(|point| point.kind == "micro-update").unwrap();
        assert_eq!(micro.words()[..3], ["micro", "--op", "update"]);
    }
}
