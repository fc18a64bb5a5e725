//! A SQL database as an entry of the list of workloads: what `atoll serve` deploys. It has no
//! requests of its own, so no benchmark offers it.

use crate::benchmark::{Benchmark, Form, Labels, OwnOption, Shapes, Takes};
use crate::spec::{SpecError, WorkloadSpec};
use sql::Database;

/// The number of slots over which rows are spread: the most instances, and owners, that a database
/// can be divided among.
const SITES: u32 = 64;
/// Tables and indexes.
const STORES: u16 = 250;

impl Benchmark for Database {
    const FORMS: &'static [Form] = &[];
    const HIDDEN: &'static [Form] = &[Form { name: "sql", about: "Tables of one's own, over SQL" }];
    const OPTIONS: &'static [OwnOption] = &[
        OwnOption {
            name: "slots",
            about: "Parts into which the rows of each table are spread (64)",
            takes: Takes::Number(1, 4096),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "stores",
            about: "The most tables and indexes (250)",
            takes: Takes::Number(1, 250),
            shapes: Shapes::Data,
        },
    ];

    fn from_spec(spec: &WorkloadSpec) -> Result<Self, SpecError> {
        let number = |name: &str| spec.own.get(name).and_then(|value| value.parse::<u32>().ok());
        let sites = number("slots").unwrap_or(SITES);
        let stores = number("stores").and_then(|n| u16::try_from(n).ok()).unwrap_or(STORES);
        Ok(Database { sites, stores: stores + 1 })
    }

    fn labels(&self) -> Labels {
        Labels::default()
    }

    fn data_name(&self) -> String {
        format!("sql, {} slots, {} tables and indexes at most", self.sites, self.stores - 1)
    }

    fn row_bytes(&self) -> u64 {
        0
    }

    fn growth_bytes(&self) -> u64 {
        256 << 20
    }
}
