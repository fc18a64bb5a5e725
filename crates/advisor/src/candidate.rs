//! A deployment to choose, as a value: the options that `atoll bench` takes for it.

use deploysim::Channel;
use serde::{Deserialize, Serialize};
use std::fmt;
use topology::Placement;

/// One deployment. Invariant: `channel` is `None` exactly if there is one island.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// A name that `--design` takes.
    pub design: String,
    /// Instances.
    pub islands: usize,
    /// Worker threads of all instances.
    pub workers: usize,
    pub placement: Placement,
    /// The way of messages between instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The first site of each island but the first; empty if the sites are divided evenly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<u32>,
}

impl Candidate {
    /// Whether the instances are threads of one process.
    pub fn is_one_process(&self) -> bool {
        self.channel == Some(Channel::Ring)
    }

    /// The options of `atoll bench` that deploy it.
    ///
    /// Uneven bounds have no option of their own and do not appear.
    pub fn options(&self) -> Vec<String> {
        let mut words = vec!["--design".to_owned(), self.design.clone()];
        words.extend(["--islands".to_owned(), self.islands.to_string()]);
        words.extend(["--workers".to_owned(), self.workers.to_string()]);
        if self.placement != Placement::Island {
            words.extend(["--placement".to_owned(), self.placement.name().to_owned()]);
        }
        if let Some(channel) = self.channel {
            words.extend(["--channel".to_owned(), channel.name().to_owned()]);
        }
        words
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.workers / self.islands.max(1);
        match self.islands {
            1 => write!(f, "{}, one instance of {}", self.design, workers(each))?,
            n => write!(f, "{}, {n} islands of {}", self.design, workers(each))?,
        }
        if let Some(channel) = self.channel {
            write!(f, " over {}", channel.name())?;
        }
        if self.placement != Placement::Island {
            write!(f, ", {}", self.placement.name())?;
        }
        if !self.bounds.is_empty() {
            write!(f, ", uneven parts")?;
        }
        Ok(())
    }
}

fn workers(n: usize) -> String {
    if n == 1 { "1 worker".to_owned() } else { format!("{n} workers") }
}

/// The choice among equals: fewer instances, then the default design, then the present deployment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Preference {
    pub default_design: String,
    /// The deployment that runs now, if there is one.
    pub current: Option<Candidate>,
}

impl Preference {
    /// The smaller, the better. The channel's place in [`Channel::ALL`] and the order of placements
    /// decide between candidates that are equal in all that matters.
    pub fn rank(&self, candidate: &Candidate) -> (usize, bool, bool, Placement, usize, usize) {
        let channel = candidate.channel.and_then(|c| Channel::ALL.iter().position(|known| *known == c));
        (
            candidate.islands,
            candidate.design != self.default_design,
            self.current.as_ref() != Some(candidate),
            candidate.placement,
            candidate.bounds.len(),
            channel.map_or(0, |at| at + 1),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::tests::candidate;

    #[test]
    fn a_candidate_is_the_options_that_deploy_it() {
        let two = candidate("occ", 2, 4, Some(Channel::Uds));
        assert_eq!(two.options().join(" "), "--design occ --islands 2 --workers 4 --channel uds");
        assert_eq!(two.to_string(), "occ, 2 islands of 2 workers over uds");
        let spread = Candidate { placement: Placement::Spread, ..candidate("serial", 1, 1, None) };
        assert_eq!(spread.to_string(), "serial, one instance of 1 worker, spread");
        assert!(spread.options().join(" ").ends_with("--placement spread"));
    }

    #[test]
    fn equals_are_ordered_by_instances_then_design_then_the_present_one() {
        let current = candidate("occ", 2, 4, Some(Channel::Uds));
        let preference = Preference { default_design: "conventional".into(), current: Some(current.clone()) };
        let mut all = [
            candidate("occ", 4, 4, Some(Channel::Shm)),
            candidate("occ", 2, 4, Some(Channel::Shm)),
            current.clone(),
            candidate("conventional", 2, 4, Some(Channel::Shm)),
            candidate("occ", 1, 4, None),
        ];
        all.sort_by_key(|c| preference.rank(c));
        assert_eq!(all[0], candidate("occ", 1, 4, None));
        assert_eq!(all[1], candidate("conventional", 2, 4, Some(Channel::Shm)));
        assert_eq!(all[2], current);
        assert_eq!(all[4].islands, 4);
    }
}
