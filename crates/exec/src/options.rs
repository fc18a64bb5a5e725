//! The options of an engine: the value of each, and the one table in which each is declared.
//!
//! ```text
//!   atoll bench --occ-ahead steps
//!     -> OPTIONS: its name, its values, its default, its help      the command line
//!     -> EngineOptions { occ_ahead: Steps, .. }                    deployment, instance, engine
//!     -> OPTIONS: its column, "occ_ahead": "steps"                 the result row
//! ```
//!
//! To add an option, edit two places. Here: a field of [`EngineOptions`], its default, and an entry
//! of [`OPTIONS`]. And the place where the engine uses it. The command line, its help, the refusal
//! where the option changes nothing, the dimension of a sweep and the column of the row follow from
//! the entry. A rule about several options together belongs to [`EngineOptions::check`].

mod check;
mod declare;
#[cfg(test)]
mod tests;

pub use check::Size;
pub use declare::{Designs, ForLoad, Section, Takes, Values, by_name};

use crate::design::DesignKind;
use declare::{named, words};
use locks::{Inheritance, LockTuning};
use pages::Latching;
use partition::Mode;
use serde::{Deserialize, Serialize};
use store::{HeapForm, TreeKind};
use txn::TableKind;
use wal::Insert;

words! {
    /// How a transaction of `occ` behaves when it meets a row that another one has prepared for
    /// two-phase commit.
    OccConflict {
        Wait "wait" "Waits for the decision of the other one; transactions that keep failing run one \
                     after the other"
        Abort "abort" "Aborts at once and is tried again, as in Silo"
    }
}

words! {
    /// How a transaction of `occ` that is known to write nothing reads.
    OccReads {
        Validate "validate" "The newest rows; at the end it is checked that they have not changed"
        Snapshot "snapshot" "The rows as they were when the transaction began: nothing is checked, and \
                             nothing aborts"
    }
}

words! {
    /// How far ahead `occ` prefetches rows, so that it seldom waits for memory.
    OccAhead {
        Requests "requests" "When a request arrives: the rows that it names"
        Steps "steps" "When a step begins: the rows that it is about to use"
    }
}

words! {
    /// When the requests of a worker's clients start.
    Schedule {
        Arrival "arrival" "Each when it arrives"
        Batched "batched" "Those of one kind together, so that they share code and data in the caches"
        Staged "staged" "The same, phase by phase: the first phase of all of them, then the second"
    }
}

/// The options of the engine of one deployment: the same value at each of its instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Where the rows of tables with a key lie, if this engine creates the tables.
    pub tables: TableKind,
    /// The kind of trees to create if there are none; no effect on `occ`.
    pub trees: TreeKind,
    /// Which rows of tables with a key share a heap page, if this engine creates the tables; no
    /// effect on `occ`.
    pub heaps: HeapForm,
    /// The number of parts into which a load divides each multi-rooted tree of each instance; where
    /// workers own keys, the least number of partitions of the keys. A deployment takes one for
    /// each worker if it is not set.
    pub partitions: Option<usize>,
    /// How readers of pages are kept apart from writers; no effect on `serial` and `occ`.
    #[serde(with = "by_name")]
    pub latching: Latching,
    /// How workers share the log when they append; no effect on `occ`.
    #[serde(with = "by_name")]
    pub log_insert: Insert,
    /// Inheritance and escalation of the lock managers.
    pub locks: LockTuning,
    /// How long a lock wait may take, in ms. This time-out ends distributed deadlocks.
    pub lock_timeout_ms: u64,
    /// A distributed transaction that is undecided after this time is given up, in ms. `None`:
    /// twice `lock_timeout_ms`, at least [`EngineOptions::LEAST_DISTRIBUTED_TIMEOUT_MS`].
    pub distributed_timeout_ms: Option<u64>,
    /// Requests of outside clients that a worker takes before it has answered earlier ones. Further
    /// requests wait at their clients.
    pub most_requests: usize,
    /// When the requests of a worker's clients start.
    #[serde(with = "by_name")]
    pub schedule: Schedule,
    /// The action of `occ` transactions that meet a prepared row.
    #[serde(with = "by_name")]
    pub occ_conflict: OccConflict,
    /// How `occ` transactions that write nothing read.
    #[serde(with = "by_name")]
    pub occ_reads: OccReads,
    /// How far ahead `occ` prefetches rows.
    #[serde(with = "by_name")]
    pub occ_ahead: OccAhead,
    /// Whether keys follow the load among the workers that own them.
    pub balance: Balance,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            tables: TableKind::Heap,
            trees: TreeKind::BTree,
            heaps: HeapForm::Shared,
            partitions: None,
            latching: Latching::Optimistic,
            log_insert: Insert::Extents,
            locks: LockTuning::default(),
            lock_timeout_ms: 100,
            distributed_timeout_ms: None,
            // Enough to keep a worker busy, and a quarter of the tasks that it can have. So
            // requests from other instances still find a task while these wait.
            most_requests: 1024,
            schedule: Schedule::Arrival,
            occ_conflict: OccConflict::Wait,
            occ_reads: OccReads::Validate,
            occ_ahead: OccAhead::Requests,
            balance: Balance::default(),
        }
    }
}

impl EngineOptions {
    /// Time for some round trips and some lock waits on a busy machine.
    pub const LEAST_DISTRIBUTED_TIMEOUT_MS: u64 = 2_000;

    /// The defaults, with the trees and heap pages that `design` needs.
    pub fn of(design: DesignKind) -> EngineOptions {
        let trees = if design.owns_pages() { TreeKind::MultiRooted } else { TreeKind::default() };
        EngineOptions { trees, heaps: design.heap_form(), ..EngineOptions::default() }
    }

    /// After how long an undecided distributed transaction is given up, in ns.
    pub fn distributed_timeout_ns(&self) -> u64 {
        let by_locks = self.lock_timeout_ms.saturating_mul(2).max(Self::LEAST_DISTRIBUTED_TIMEOUT_MS);
        self.distributed_timeout_ms.unwrap_or(by_locks).saturating_mul(1_000_000)
    }

    /// How long a lock wait may take, in ns.
    pub fn lock_timeout_ns(&self) -> u64 {
        self.lock_timeout_ms.saturating_mul(1_000_000)
    }

    /// The number of parts into which a load divides each multi-rooted tree, if it is set; else 1,
    /// which an engine with owners of keys raises to its number of workers.
    pub fn parts(&self) -> usize {
        self.partitions.unwrap_or(1)
    }
}

/// Whether and how often the balancer checks the load of owners. Without effect where workers own
/// no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Balance {
    #[serde(with = "by_name")]
    pub mode: Mode,
    /// Length of a period, in ms.
    pub every_ms: u64,
}

impl Default for Balance {
    /// Off. The period is a quarter of a second: two periods must agree, so a shift of the load is
    /// found within half a second.
    fn default() -> Balance {
        Balance { mode: Mode::Off, every_ms: 250 }
    }
}

/// The declaration of an option.
pub struct EngineOption {
    /// As typed, without the dashes.
    pub name: &'static str,
    /// The name of a value in the help: the `T` of `--tree <T>`.
    pub value: &'static str,
    /// The help, with the default where [`EngineOption::default`] is `None`.
    pub help: &'static str,
    /// A second paragraph of the long help.
    pub more: Option<&'static str>,
    /// The section of the help that it stands in.
    pub section: Section,
    /// The values that it takes.
    pub takes: Takes,
    /// Whether a list of values is measured one by one.
    pub values: Values,
    /// The value if none is typed, as the help shows it. `None`: another setting decides.
    pub default: Option<&'static str>,
    /// The designs that it makes a difference to: a sweep varies it for them, and their rows show
    /// it.
    pub designs: Designs,
    /// A run that has none of these designs refuses the option.
    pub needs: Designs,
    /// The value that changes nothing: no run refuses it.
    pub harmless: Option<&'static str>,
    /// The value that a design cannot do without. A sweep takes it for that design if it is among
    /// the typed values, or if no value is typed.
    pub forced: fn(DesignKind) -> Option<&'static str>,
    /// Whether a sweep varies it beside these values of the options before it.
    pub varies: fn(&EngineOptions) -> bool,
    /// Its column of the result row.
    pub column: Column,
    /// Its help in `atoll load`, for options that shape the data.
    pub load: Option<ForLoad>,
    /// Sets the value from its text. A length of time is given as a number of milliseconds.
    ///
    /// # Errors
    /// A text that is no value.
    pub set: fn(&mut EngineOptions, &str) -> Result<(), String>,
    /// The value as text; `None` where another setting decides.
    pub get: fn(&EngineOptions) -> Option<String>,
}

/// The column of the result row that an option fills.
pub enum Column {
    /// Rows do not show it.
    None,
    /// Its text, in the rows of [`EngineOption::designs`].
    Text(&'static str),
    /// A number that follows from the run; `None`: the row has no such column.
    Number(&'static str, fn(&Run) -> Option<usize>),
}

impl Column {
    /// Its name in rows.
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Column::None => None,
            Column::Text(name) | Column::Number(name, _) => Some(name),
        }
    }
}

/// A run, as far as the columns of options depend on it.
pub struct Run<'a> {
    pub design: DesignKind,
    /// Workers of the instance that has most.
    pub workers: usize,
    pub options: &'a EngineOptions,
}

/// The parts that most declarations have in common: a list option that only these designs have.
const fn entry(section: Section, designs: Designs) -> EngineOption {
    EngineOption {
        name: "",
        value: "",
        help: "",
        more: None,
        section,
        takes: Takes::Text,
        values: Values::List,
        default: None,
        designs,
        needs: designs,
        harmless: None,
        forced: |_| None,
        varies: |_| true,
        column: Column::None,
        load: None,
        set: |_, _| Ok(()),
        get: |_| None,
    }
}

/// Every option of an engine, in the order of the help and of the columns of a row.
pub const OPTIONS: &[EngineOption] = &[
    EngineOption {
        name: "tables",
        value: "T",
        help: "How the rows of tables with a primary key are stored [default: as in --data; else heap]",
        takes: Takes::Words(&[
            ("heap", "In a heap; every index holds the addresses of rows"),
            ("clustered", "In the leaves of the index of the primary key"),
        ]),
        column: Column::Text("tables"),
        load: Some(ForLoad {
            help: "How the rows of tables with a primary key are stored",
            default: Some("heap"),
        }),
        set: |o, text| put(&mut o.tables, named(&TableKind::ALL, TableKind::name, text)),
        get: |o| Some(o.tables.name().into()),
        ..entry(Section::Storage, Designs::All)
    },
    EngineOption {
        name: "tree",
        value: "T",
        help: "The form of the B+trees [default: as in --data; else btree, and mrbtree for the designs \
               plp-*]",
        takes: Takes::Words(&[
            ("btree", "One tree with one root"),
            ("mrbtree", "Multi-rooted: a tree of its own for each range of the keys"),
        ]),
        forced: |design| design.owns_pages().then(|| TreeKind::MultiRooted.name()),
        column: Column::Text("tree"),
        load: Some(ForLoad { help: "The form of the B+trees", default: Some("btree") }),
        set: |o, text| put(&mut o.trees, named(&TreeKind::ALL, TreeKind::name, text)),
        get: |o| Some(o.trees.name().into()),
        ..entry(Section::Storage, Designs::Paged)
    },
    EngineOption {
        name: "heap",
        value: "H",
        help: "Which rows may share a page of a heap [default: as in --data; else shared, and as the \
               design needs for plp-*]",
        takes: Takes::Words(&[
            ("shared", "Any rows"),
            ("partition", "Rows of one partition"),
            ("leaf", "Rows that one leaf of the index of the primary key points to"),
        ]),
        forced: |design| (design.heap_form() != HeapForm::Shared).then(|| design.heap_form().name()),
        column: Column::Text("heap"),
        load: Some(ForLoad {
            help: "Which rows may share a page of a heap: partition is for the design plp-partition, \
                   leaf for plp-leaf",
            default: Some("shared"),
        }),
        set: |o, text| put(&mut o.heaps, named(&HeapForm::ALL, HeapForm::name, text)),
        get: |o| Some(o.heaps.name().into()),
        ..entry(Section::Storage, Designs::Paged)
    },
    EngineOption {
        name: "latching",
        value: "L",
        help: "How a reader of a page is kept from seeing half of a change; not for serial and occ",
        takes: Takes::Words(&[
            ("optimistic", "A reader takes no latch; it compares the version of the page before and after"),
            ("coupled", "A reader latches each page before it releases the parent (latch coupling)"),
        ]),
        default: Some("optimistic"),
        column: Column::Text("latching"),
        set: |o, text| put(&mut o.latching, named(&Latching::ALL, Latching::name, text)),
        get: |o| Some(o.latching.name().into()),
        ..entry(Section::Locks, Designs::Latched)
    },
    EngineOption {
        name: "partitions",
        value: "N",
        help: "Sub-trees of each multi-rooted tree of an instance [default: as in --data; else one per \
               worker]",
        more: Some(
            "For --tree mrbtree. Where workers own keys, each of these is a partition that one worker \
             owns, and there are at least as many as workers.",
        ),
        // Each is a page at least, and an entry of the partition table.
        takes: Takes::Number(1, 4096),
        varies: |o| o.trees == TreeKind::MultiRooted,
        column: Column::Number("partitions", partitions_of),
        load: Some(ForLoad {
            help: "Sub-trees of each multi-rooted tree of an instance [default: one per worker]",
            default: None,
        }),
        set: |o, text| put(&mut o.partitions, text.parse().map(Some)),
        get: |o| o.partitions.map(|n| n.to_string()),
        ..entry(Section::Storage, Designs::Paged)
    },
    EngineOption {
        name: "log-insert",
        value: "I",
        help: "How workers share the log when they append",
        takes: Takes::Words(&[
            ("extents", "Each worker reserves runs of the log and fills them alone"),
            ("consolidated", "A worker that finds the log busy joins a group, which reserves once (Aether)"),
            ("mutex", "One lock, held while a record is copied"),
        ]),
        default: Some("extents"),
        column: Column::Text("log_insert"),
        set: |o, text| put(&mut o.log_insert, named(&Insert::ALL, Insert::name, text)),
        get: |o| Some(o.log_insert.name().into()),
        ..entry(Section::Storage, Designs::Paged)
    },
    EngineOption {
        name: "sli",
        value: "S",
        help: "Whether a worker passes its table locks on to its next transaction (speculative lock \
               inheritance)",
        takes: Takes::Words(&[
            ("on", "A worker keeps its table locks until another worker needs one of them"),
            ("off", "Every transaction takes its table locks anew"),
        ]),
        default: Some("on"),
        needs: Designs::Locking,
        column: Column::Text("sli"),
        set: |o, text| put(&mut o.locks.inheritance, named(&Inheritance::ALL, Inheritance::name, text)),
        get: |o| Some(o.locks.inheritance.name().into()),
        ..entry(Section::Locks, Designs::All)
    },
    EngineOption {
        name: "escalation",
        value: "N",
        help: "Row locks of a table after which a transaction locks the whole table: 25, 25:1000 \
               (reads:writes), off",
        default: Some("25"),
        needs: Designs::Locking,
        column: Column::Text("escalation"),
        set: |o, text| put(&mut o.locks.escalation, text.parse()),
        get: |o| Some(o.locks.escalation.to_string()),
        ..entry(Section::Locks, Designs::All)
    },
    EngineOption {
        name: "lock-timeout",
        value: "TIME",
        help: "How long a transaction waits for a lock, e.g. 100ms, 1s: deadlocks between instances end \
               this way",
        more: Some("A number alone is in ms."),
        takes: Takes::Millis(1, 600_000),
        values: Values::One,
        default: Some("100ms"),
        set: |o, text| put(&mut o.lock_timeout_ms, text.parse()),
        get: |o| Some(o.lock_timeout_ms.to_string()),
        ..entry(Section::Locks, Designs::All)
    },
    EngineOption {
        name: "distributed-timeout",
        value: "TIME",
        help: "How long a transaction over several instances may stay undecided, e.g. 2s [default: twice \
               --lock-timeout, at least 2s]",
        more: Some("It is aborted then. A number alone is in ms."),
        takes: Takes::Millis(1, 600_000),
        values: Values::One,
        set: |o, text| put(&mut o.distributed_timeout_ms, text.parse().map(Some)),
        get: |o| o.distributed_timeout_ms.map(|ms| ms.to_string()),
        ..entry(Section::Locks, Designs::All)
    },
    EngineOption {
        name: "max-requests",
        value: "N",
        help: "Requests that a worker takes from clients outside before it has answered others; more \
               wait at their clients",
        // A worker has room for 4096 tasks, of which others' steps need some.
        takes: Takes::Number(1, 2048),
        values: Values::One,
        default: Some("1024"),
        set: |o, text| put(&mut o.most_requests, text.parse()),
        get: |o| Some(o.most_requests.to_string()),
        ..entry(Section::Load, Designs::All)
    },
    EngineOption {
        name: "schedule",
        value: "S",
        help: "When requests start (a comma list measures each value)",
        takes: Takes::Words(Schedule::WORDS),
        default: Some("arrival"),
        column: Column::Text("schedule"),
        set: |o, text| put(&mut o.schedule, text.parse()),
        get: |o| Some(o.schedule.name().into()),
        ..entry(Section::Load, Designs::All)
    },
    EngineOption {
        name: "occ-conflict",
        value: "C",
        help: "How a transaction treats a row that an unfinished distributed transaction has written",
        takes: Takes::Words(OccConflict::WORDS),
        default: Some("wait"),
        column: Column::Text("occ_conflict"),
        set: |o, text| put(&mut o.occ_conflict, text.parse()),
        get: |o| Some(o.occ_conflict.name().into()),
        ..entry(Section::Occ, Designs::Occ)
    },
    EngineOption {
        name: "occ-reads",
        value: "R",
        help: "How a read-only transaction reads",
        takes: Takes::Words(OccReads::WORDS),
        default: Some("validate"),
        column: Column::Text("occ_reads"),
        set: |o, text| put(&mut o.occ_reads, text.parse()),
        get: |o| Some(o.occ_reads.name().into()),
        ..entry(Section::Occ, Designs::Occ)
    },
    EngineOption {
        name: "occ-ahead",
        value: "A",
        help: "How early rows are fetched into the cache before they are used",
        takes: Takes::Words(OccAhead::WORDS),
        default: Some("requests"),
        column: Column::Text("occ_ahead"),
        set: |o, text| put(&mut o.occ_ahead, text.parse()),
        get: |o| Some(o.occ_ahead.name().into()),
        ..entry(Section::Occ, Designs::Occ)
    },
    EngineOption {
        name: "balance",
        value: "B",
        help: "Whether keys move from workers with much to do to workers with little (a comma list \
               measures each value)",
        takes: Takes::Words(&[
            ("off", "Keys stay where they are"),
            ("advise", "Rows say when keys should move and why; they do not move"),
            ("on", "Keys move"),
        ]),
        default: Some("off"),
        harmless: Some("off"),
        column: Column::Text("balance"),
        set: |o, text| put(&mut o.balance.mode, text.parse()),
        get: |o| Some(o.balance.mode.name().into()),
        ..entry(Section::Balance, Designs::Owners)
    },
    EngineOption {
        name: "balance-every",
        value: "TIME",
        help: "How often the load of the workers is compared, e.g. 250ms, 1s",
        takes: Takes::Time(10, 600_000),
        values: Values::One,
        default: Some("250ms"),
        set: |o, text| put(&mut o.balance.every_ms, text.parse()),
        get: |o| Some(o.balance.every_ms.to_string()),
        ..entry(Section::Balance, Designs::All)
    },
];

/// The option with this name.
pub fn option(name: &str) -> Option<&'static EngineOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// The parts of each multi-rooted tree of an instance after the load. Workers that own pages have
/// at least one part each.
fn partitions_of(run: &Run) -> Option<usize> {
    let parts = run.options.partitions.unwrap_or(run.workers);
    let parts = if run.design.owns_pages() { parts.max(run.workers) } else { parts };
    (run.options.trees == TreeKind::MultiRooted).then_some(parts)
}

fn put<T, E: std::fmt::Display>(place: &mut T, value: Result<T, E>) -> Result<(), String> {
    *place = value.map_err(|why| why.to_string())?;
    Ok(())
}
