//! Deployments of a sweep that are the same under several names are measured once, with a remark.

use crate::choices::Choice;
use base::counted;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use topology::IslandCount;

/// As `--islands` and `--workers` ask for it.
type Name = (String, Option<u32>);

/// Requested deployments, and the deployments that they resolve to on this machine.
#[derive(Default)]
pub(crate) struct Seen {
    /// Each deployment, written out, with the names that `--islands` and `--workers` gave it.
    deployments: HashMap<String, (usize, Vec<Name>)>,
}

impl Seen {
    /// Whether a deployment with these instances and workers has been seen already. `asked`: the
    /// request.
    pub(crate) fn again(&mut self, asked: &Choice, islands: usize, workers: usize) -> bool {
        let one = Choice {
            islands: IslandCount::Count(islands),
            workers: u32::try_from(workers).ok(),
            ..asked.clone()
        };
        let name = (asked.islands.to_string(), asked.workers);
        match self.deployments.entry(format!("{one:?}")) {
            Entry::Occupied(mut known) => {
                let (_, names) = known.get_mut();
                if !names.contains(&name) {
                    names.push(name);
                }
                true
            }
            Entry::Vacant(free) => {
                free.insert((islands, vec![name]));
                false
            }
        }
    }

    /// A line for each set of names of one deployment.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let several = self.deployments.values().filter(|(_, names)| names.len() > 1);
        let line = |(islands, names): &(usize, Vec<Name>)| {
            let differ = names.iter().any(|(_, workers)| *workers != names[0].1);
            let name = |(islands, workers): &Name| match workers {
                Some(workers) if differ => format!("{islands} with --workers {workers}"),
                _ => islands.clone(),
            };
            let names: Vec<String> = names.iter().map(name).collect();
            format!(
                "--islands {} come to one deployment here, on {}: measured once",
                names.join(", "),
                counted(*islands, "island")
            )
        };
        let mut lines: Vec<String> = several.map(line).collect();
        lines.sort();
        lines.dedup();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::IslandCount::{Count, PerCore, Shared};

    #[test]
    fn names_of_one_deployment_are_told_together() {
        let mut seen = Seen::default();
        let asked = |islands, workers| Choice { islands, workers, ..Choice::default() };
        assert!(!seen.again(&asked(Shared, None), 1, 4) && seen.again(&asked(Count(1), None), 1, 4));
        assert!(!seen.again(&asked(PerCore, None), 4, 4), "another number of instances");
        assert!(!seen.again(&asked(Count(1), None), 1, 2), "another number of workers");
        let text = "--islands shared, 1 come to one deployment here, on 1 island: measured once";
        assert_eq!(seen.remarks(), [text]);
        let mut seen = Seen::default();
        assert!(!seen.again(&asked(Count(2), Some(2)), 2, 2) && seen.again(&asked(Count(2), Some(4)), 2, 2));
        assert!(seen.remarks()[0].contains("2 with --workers 2, 2 with --workers 4"), "{:?}", seen.remarks());
    }
}
