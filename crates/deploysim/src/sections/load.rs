//! Transactions as phases of accesses. Each access is of one table and one site, so that under a
//! design with owners it is one action. A site is a partition of every table.

use crate::error::ModelError;
use crate::transaction::{self, Mix, Place, RecordedKind};

/// A table with at most this many rows per site is small.
const FEW_ROWS: u64 = 64;

#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    pub name: String,
    pub rows_per_site: u64,
    /// Whether its rows have an index, so that inserts split pages.
    pub is_indexed: bool,
    /// Whether each row has a heap page of its own.
    pub is_padded: bool,
    /// Whether two transactions may well meet at one of its rows, so that these have locks and
    /// pages of their own in the simulation.
    pub is_small: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    Read,
    Update,
    Insert,
}

/// The way to the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A descent of the index for each row.
    Probe,
    /// One descent, and then from entry to entry.
    Scan,
    /// A scan of which the records go to the client, over an index that is cut like the table.
    Range,
    /// The same over an index that is not cut like the table.
    RangeNotAligned,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Site {
    Home,
    /// Another site with this probability.
    Remote(f64),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rows {
    pub table: usize,
    pub count: u32,
    pub touch: Touch,
    pub way: Way,
    pub site: Site,
    /// Rows of a site that such an access chooses from; `None` for all of the table.
    pub among: Option<u64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    pub name: String,
    pub share: f64,
    /// What a rendezvous point separates.
    pub phases: Vec<Vec<Rows>>,
}

/// The home sites of a client's requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Homes {
    /// The client's own site.
    Own,
    Any,
    /// The first `sites` (a share) get `requests` (a share) of the requests.
    Hot {
        sites: f64,
        requests: f64,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    pub name: String,
    pub sites: u32,
    pub tables: Vec<Table>,
    pub kinds: Vec<Kind>,
    pub homes: Homes,
}

fn rows(table: usize, count: u32, touch: Touch, way: Way) -> Rows {
    Rows { table, count, touch, way, site: Site::Home, among: None }
}

impl Table {
    fn new(name: &str, rows_per_site: u64) -> Table {
        let is_small = rows_per_site <= FEW_ROWS;
        Table { name: name.into(), rows_per_site, is_indexed: true, is_padded: is_small, is_small }
    }
}

impl Load {
    /// # Errors
    /// No site, no kind, an access of no table or of no row, shares that add up to 0.
    pub fn check(&self) -> Result<(), ModelError> {
        let wrong = |problem: &str| {
            Err(ModelError::NoSteps { workload: self.name.clone(), problem: problem.to_owned() })
        };
        let accesses = || self.kinds.iter().flat_map(|kind| kind.phases.iter().flatten());
        if self.sites == 0 || self.kinds.iter().any(|kind| kind.phases.iter().all(Vec::is_empty)) {
            return wrong("it has no sites, or a kind without accesses");
        }
        if accesses().any(|rows| rows.table >= self.tables.len() || rows.count == 0) {
            return wrong("an access is of no table or of no row");
        }
        let shares = self.kinds.iter().map(|kind| kind.share);
        if shares.clone().any(|share| !(share.is_finite() && share >= 0.0)) || shares.sum::<f64>() <= 0.0 {
            return wrong("the shares of its kinds add up to 0, or one is below 0");
        }
        Ok(())
    }

    /// The same load with other homes.
    #[must_use]
    pub fn with_homes(self, homes: Homes) -> Load {
        Load { homes, ..self }
    }

    /// The same load with small tables of which rows share heap pages.
    #[must_use]
    pub fn without_padding(mut self) -> Load {
        self.tables.iter_mut().for_each(|table| table.is_padded = false);
        self
    }

    /// Kinds of a described mix. Inserts go to a table of their own, in the last phase.
    fn of(mix: &Mix, homes: Homes, inserted: &Table) -> Load {
        let mut tables: Vec<Table> =
            mix.tables.iter().map(|table| Table::new(&table.name, table.rows_per_site)).collect();
        tables.push(inserted.clone());
        let kinds = mix.kinds.iter().map(|kind| Kind::of(kind, tables.len() - 1)).collect();
        Load { name: mix.name.clone(), sites: mix.sites, tables, kinds, homes }
    }

    /// TATP with 10,000 subscribers a site (thesis s4.5.1).
    pub fn tatp(sites: u32) -> Load {
        let mut load =
            Load::of(&transaction::tatp(sites), Homes::Any, &Table::new("call_forwarding_new", 37_500));
        load.tables.iter_mut().for_each(|table| table.rows_per_site = table.rows_per_site.min(37_500));
        load.tables[0].rows_per_site = 10_000;
        load
    }

    /// TATP's GetSubscriberData alone.
    pub fn get_subscriber_data(sites: u32) -> Load {
        let mut load = Load::tatp(sites);
        load.kinds.truncate(1);
        Load { name: "tatp-getsubscriberdata".into(), ..load }
    }

    /// GetSubscriberData as a range scan of a secondary index.
    pub fn range_scan(sites: u32, records: u32, is_aligned: bool) -> Load {
        let way = if is_aligned { Way::Range } else { Way::RangeNotAligned };
        let phases = vec![vec![rows(0, records, Touch::Read, way)]];
        let kinds = vec![Kind { name: "range_scan".into(), share: 1.0, phases }];
        Load { name: "tatp-scan".into(), kinds, ..Load::tatp(sites) }
    }

    /// TPC-B. Its history has no index.
    pub fn tpcb(sites: u32) -> Load {
        let history = Table { is_indexed: false, ..Table::new("history", 100_000) };
        Load::of(&transaction::tpcb(sites, 0.15), Homes::Own, &history)
    }

    /// TPC-C's NewOrder and Payment, half of each (thesis, Figure 3.7).
    pub fn new_order_and_payment(sites: u32) -> Load {
        let mut load = Load::tpcc(sites);
        load.kinds.truncate(2);
        load.kinds.iter_mut().for_each(|kind| kind.share = 0.5);
        Load { name: "tpcc-prime".into(), ..load }
    }

    /// TPC-C's mix.
    pub fn tpcc(sites: u32) -> Load {
        let orders = Table::new("new_rows", 300_000);
        let mut load = Load::of(&transaction::tpcc_mix(sites), Homes::Own, &orders);
        // OrderStatus, Delivery and StockLevel read the lines of orders by scans.
        let lines = load.tables.iter().position(|table| table.name == "order_line");
        let reading = load.kinds.iter_mut().flat_map(|kind| kind.phases.iter_mut().flatten());
        reading.filter(|rows| Some(rows.table) == lines).for_each(|rows| rows.way = Way::Scan);
        load
    }

    /// TPC-C's StockLevel with a join of `tuples` order lines and stocks: the district, then the
    /// lines, then the stocks, which the lines name. The lines are the latest of ten districts.
    pub fn stock_level(sites: u32, tuples: u32) -> Load {
        let lines = Rows { among: Some(10 * u64::from(tuples)), ..rows(6, tuples, Touch::Read, Way::Scan) };
        let phases = vec![
            vec![rows(1, 1, Touch::Read, Way::Probe)],
            vec![lines],
            vec![rows(3, tuples, Touch::Read, Way::Probe)],
        ];
        let kinds = vec![Kind { name: "stock_level".into(), share: 1.0, phases }];
        Load { name: "tpcc-stocklevel".into(), kinds, ..Load::tpcc(sites) }
    }

    /// One record probed, or, with this probability, inserted.
    pub fn probe_insert(sites: u32, inserts: f64) -> Load {
        let kind = |name: &str, share: f64, touch: Touch| Kind {
            name: name.into(),
            share,
            phases: vec![vec![rows(0, 1, touch, Way::Probe)]],
        };
        Load {
            name: "probe-insert".into(),
            sites,
            tables: vec![Table::new("records", 10_000)],
            kinds: vec![kind("probe", 1.0 - inserts, Touch::Read), kind("insert", inserts, Touch::Insert)],
            homes: Homes::Any,
        }
    }
}

impl Kind {
    fn of(kind: &RecordedKind, inserted: usize) -> Kind {
        let group = |group: &transaction::RowGroup| Rows {
            table: group.table,
            count: group.rows,
            touch: if group.update { Touch::Update } else { Touch::Read },
            way: Way::Probe,
            site: match group.place {
                Place::Home => Site::Home,
                Place::Remote { probability, .. } => Site::Remote(probability),
            },
            among: None,
        };
        let mut phases: Vec<Vec<Rows>> =
            kind.phases.iter().map(|phase| phase.groups.iter().map(group).collect()).collect();
        if kind.inserts > 0 {
            let new = rows(inserted, kind.inserts, Touch::Insert, Way::Probe);
            match phases.last_mut() {
                Some(last) => last.push(new),
                None => phases.push(vec![new]),
            }
        }
        Kind { name: kind.name.clone(), share: kind.share, phases }
    }
}
