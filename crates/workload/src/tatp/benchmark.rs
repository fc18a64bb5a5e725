//! The names, options and data size of TATP.

use super::{Index, Kind, Mix, Popularity, Population, Predicate, Tatp, TatpOptions};
use crate::benchmark::{Benchmark, Common, Counted, Form, Labels, OwnOption, Shapes, Statistics, Takes};
use crate::spec::{SpecError, WorkloadSpec};
use std::collections::BTreeMap;

/// Bytes for each subscriber in all tables, with slots and index entries: a row of 159 bytes in
/// SUBSCRIBER, 2.5 rows of 24 and 2.5 of 25, and 3.75 of 31.
const SUBSCRIBER_BYTES: u64 = 720;

const MIXES: [(&str, Mix); 12] = [
    ("tatp", Mix::Full),
    ("tatp-get-subscriber-data", Mix::Only(Kind::GetSubscriberData)),
    ("tatp-get-new-destination", Mix::Only(Kind::GetNewDestination)),
    ("tatp-get-access-data", Mix::Only(Kind::GetAccessData)),
    ("tatp-update-subscriber-data", Mix::Only(Kind::UpdateSubscriberData)),
    ("tatp-update-location", Mix::Only(Kind::UpdateLocation)),
    ("tatp-insert-call-forwarding", Mix::Only(Kind::InsertCallForwarding)),
    ("tatp-delete-call-forwarding", Mix::Only(Kind::DeleteCallForwarding)),
    ("tatp-insert", Mix::Insert),
    ("tatp-delete", Mix::Delete),
    ("tatp-insert-delete", Mix::InsertDelete),
    ("tatp-scan", Mix::Scan),
];

const POPULATION: &[(&str, Population)] = &[("subset", Population::Subset), ("prefix", Population::Prefix)];
const IDS: &[(&str, Popularity)] =
    &[("nonuniform", Popularity::NonUniform), ("uniform", Popularity::Uniform)];
const PREDICATE: &[(&str, Predicate)] =
    &[("standard", Predicate::Standard), ("reversed", Predicate::Reversed)];
const INDEX: &[(&str, Index)] = &[("aligned", Index::Aligned), ("nonaligned", Index::NonAligned)];

fn word<T: Copy + PartialEq>(words: &[(&str, T)], value: T) -> String {
    words.iter().find(|w| w.1 == value).map_or_else(String::new, |w| w.0.into())
}

impl Mix {
    /// The name in a specification.
    pub(super) fn name(self) -> &'static str {
        MIXES.iter().find(|m| m.1 == self).map_or("tatp", |m| m.0)
    }
}

impl Kind {
    /// The name in result rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::GetSubscriberData => "get_subscriber_data",
            Kind::GetNewDestination => "get_new_destination",
            Kind::GetAccessData => "get_access_data",
            Kind::UpdateSubscriberData => "update_subscriber_data",
            Kind::UpdateLocation => "update_location",
            Kind::InsertCallForwarding => "insert_call_forwarding",
            Kind::DeleteCallForwarding => "delete_call_forwarding",
        }
    }
}

impl Benchmark for Tatp {
    const FORMS: &'static [Form] = &[
        Form { name: "tatp", about: "TATP: a mobile network's location register; seven short transactions" },
        Form { name: "tatp-get-subscriber-data", about: "TATP's GetSubscriberData alone" },
        Form { name: "tatp-get-new-destination", about: "TATP's GetNewDestination alone" },
        Form { name: "tatp-get-access-data", about: "TATP's GetAccessData alone" },
        Form { name: "tatp-update-subscriber-data", about: "TATP's UpdateSubscriberData alone" },
        Form { name: "tatp-update-location", about: "TATP's UpdateLocation alone" },
        Form { name: "tatp-insert-call-forwarding", about: "TATP's InsertCallForwarding alone" },
        Form { name: "tatp-delete-call-forwarding", about: "TATP's DeleteCallForwarding alone" },
        Form { name: "tatp-insert", about: "Inserts a call forwarding, or deletes it if it is there" },
        Form { name: "tatp-delete", about: "Deletes a call forwarding, or inserts it if it is not there" },
        Form { name: "tatp-insert-delete", about: "tatp-insert and tatp-delete, half each" },
        Form { name: "tatp-scan", about: "Range scans over subscribers by number (--rows, --index)" },
    ];
    const COMMON: &'static [Common] = &[Common::Rows, Common::Hot];
    const OPTIONS: &'static [OwnOption] = &[
        OwnOption {
            name: "subscribers",
            about: "Subscribers of a unit of scale (tatp) [default: 10000]",
            takes: Takes::Number(1, 10_000_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "population",
            about: "Which types and starts a subscriber has: any, or the first ones (tatp) [default: subset]",
            takes: Takes::Word(&["subset", "prefix"]),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "index",
            about: "Whether the index by number is cut like the table (tatp) [default: aligned]",
            takes: Takes::Word(&["aligned", "nonaligned"]),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "ids",
            about: "How popular subscribers are (tatp) [default: nonuniform]",
            takes: Takes::Word(&["nonuniform", "uniform"]),
            shapes: Shapes::Requests,
        },
        OwnOption {
            name: "predicate",
            about: "GetNewDestination's START_TIME <= start, or >= (tatp) [default: standard]",
            takes: Takes::Word(&["standard", "reversed"]),
            shapes: Shapes::Requests,
        },
    ];

    fn from_spec(spec: &WorkloadSpec) -> Result<Tatp, SpecError> {
        let base = TatpOptions::new(spec.scale());
        let mix = MIXES.iter().find(|m| m.0 == spec.name).map_or(Mix::Full, |m| m.1);
        if spec.rows.is_some() && mix != Mix::Scan {
            return Err(SpecError::NotApplicable { option: "rows".into(), workload: spec.name.clone() });
        }
        Tatp::new(TatpOptions {
            mix,
            subscribers: spec.number("subscribers").unwrap_or(base.subscribers),
            distribution: spec.word("population", POPULATION),
            popularity: spec.word("ids", IDS),
            hot: spec.hot,
            predicate: spec.word("predicate", PREDICATE),
            index: spec.word("index", INDEX),
            rows: spec.rows.unwrap_or(base.rows),
            ..base
        })
    }

    fn labels(&self) -> Labels {
        let o = self.options();
        let options = [
            ("subscribers", o.subscribers.to_string()),
            ("population", word(POPULATION, o.distribution)),
            ("index", word(INDEX, o.index)),
            ("ids", word(IDS, o.popularity)),
            ("predicate", word(PREDICATE, o.predicate)),
        ];
        Labels {
            scale: Some(o.scale.into()),
            rows: (o.mix == Mix::Scan).then_some(o.rows.into()),
            hot: o.hot.map(|hot| hot.to_string()),
            options: options.map(|(name, value)| (name.into(), value)).into(),
            ..Labels::default()
        }
    }

    fn data_name(&self) -> String {
        let o = self.options();
        let (population, index) = (word(POPULATION, o.distribution), word(INDEX, o.index));
        format!(
            "tatp with {} times {} subscribers, population by {population}, index {index}",
            o.scale, o.subscribers
        )
    }

    fn row_bytes(&self) -> u64 {
        u64::from(self.options.population()) * SUBSCRIBER_BYTES
    }

    fn statistics(&self, counted: Counted<'_>) -> Statistics {
        super::statistics::statistics(self, counted)
    }

    /// InsertCallForwardings minus DeleteCallForwardings; `None` for the insert and delete benches,
    /// where the counts do not show which of the two each request did.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        let of = |kind: &str| committed.get(kind).copied().unwrap_or(0);
        if of("insert_or_delete") + of("delete_or_insert") > 0 {
            return None;
        }
        Some(of(Kind::InsertCallForwarding.name()).wrapping_sub(of(Kind::DeleteCallForwarding.name())))
    }
}
