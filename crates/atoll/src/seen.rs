//! Deployments of a sweep that are one and the same under several names: measured once, and told.

use crate::choices::Choice;
use base::counted;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use topology::IslandCount;

/// What was asked for, and what it comes to on this machine.
#[derive(Default)]
pub(crate) struct Seen {
    /// Each deployment, written out, with the names that `--islands` and `--workers` gave it.
    deployments: HashMap<String, (usize, Vec<String>)>,
}

impl Seen {
    /// Whether a deployment with so many instances and workers has been met already. `asked`: as it
    /// was asked for.
    pub(crate) fn again(&mut self, asked: &Choice, islands: usize, workers: usize) -> bool {
        let one = Choice {
            islands: IslandCount::Count(islands),
            workers: u32::try_from(workers).ok(),
            ..asked.clone()
        };
        let name = match asked.workers {
            Some(workers) => format!("{} with {workers} --workers", asked.islands),
            None => asked.islands.to_string(),
        };
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
        let line = |(islands, names): &(usize, Vec<String>)| {
            let names = names.join(", ");
            format!(
                "--islands {names} come to one deployment here, on {}: measured once",
                counted(*islands, "island")
            )
        };
        let mut lines: Vec<String> = several.map(line).collect();
        lines.sort();
        lines.dedup();
        lines
    }
}
