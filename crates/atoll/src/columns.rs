//! The columns of tables of rows: the name of each, the value that it shows, and one line of
//! explanation.

use crate::sheet::Rank;
use crate::units::{micros, per_cent, scaled};
use driver::{EngineColumns, ResultRow};
use report::verdict::Measure;

/// `None` if a row has no value.
pub type Value = fn(&ResultRow) -> Option<String>;

/// A result.
pub struct Column {
    pub name: &'static str,
    pub value: Value,
    /// The width of the widest value, in characters.
    pub width: usize,
    pub rank: Rank,
    /// The line of the legend; empty for a name that explains itself.
    pub about: &'static str,
}

const fn column(name: &'static str, width: usize, rank: Rank, about: &'static str, value: Value) -> Column {
    Column { name, value, width, rank, about }
}

/// The settings before those of the engine, in the order in which a sweep varies them, the slowest
/// first.
const EARLIER: &[(&str, Value)] = &[
    ("workload", |r| Some(r.settings.workload.clone())),
    ("design", |r| r.settings.design.clone()),
    ("islands", |r| r.settings.islands.map(|n| n.to_string())),
    ("workers", |r| r.settings.workers.map(|n| n.to_string())),
    ("hosts", |r| r.settings.hosts.map(|n| n.to_string())),
    ("placement", |r| r.settings.placement.clone()),
    ("host", |r| r.settings.host.clone()),
    ("channel", |r| r.settings.channel.clone()),
    ("durability", |r| r.settings.durability.clone()),
];

/// The settings after those of the engine, in the same order.
const LATER: &[(&str, Value)] = &[
    ("clients", |r| r.settings.clients.map(|n| n.to_string())),
    ("rate", |r| r.settings.rate.clone()),
    ("arrivals", |r| r.settings.arrivals.clone()),
    ("terminals", |r| r.settings.terminals.map(|n| n.to_string())),
    ("think", |r| r.settings.think.clone()),
    ("phases", |r| r.settings.phases.clone()),
    ("counters", |r| r.settings.labels.counters.clone()),
    ("protection", |r| r.settings.labels.protection.clone()),
    ("waiting", |r| r.settings.labels.waiting.clone()),
    ("peers", |r| r.settings.labels.peers.clone()),
    ("op", |r| r.settings.labels.op.clone()),
    ("rows", |r| r.settings.labels.rows.map(|n| n.to_string())),
    ("skew", |r| r.settings.labels.skew.map(|n| n.to_string())),
    ("hot", |r| r.settings.labels.hot.clone()),
    ("dataset", |r| r.settings.labels.dataset.map(|n| n.to_string())),
    ("scale", |r| r.settings.labels.scale.map(|n| n.to_string())),
    ("multisite", |r| r.settings.labels.multisite.map(|n| n.to_string())),
    ("options", |r| {
        let options = &r.settings.labels.options;
        let words: Vec<_> = options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }),
];

/// Every setting with its value in this row, in the order of a row.
pub fn settings(row: &ResultRow) -> Vec<(&'static str, Option<String>)> {
    let of = |(name, value): &(&'static str, Value)| (*name, value(row));
    let engine = EngineColumns::names().iter().map(|name| (*name, row.settings.engine.get(name)));
    EARLIER.iter().map(of).chain(engine).chain(LATER.iter().map(of)).collect()
}

pub const RESULTS: &[Column] = &[
    column(
        "per s",
        6,
        Rank::Essence,
        "transactions committed a second (counter: increments, ipc: round trips), in the median window",
        |r| Some(scaled(r.tps)),
    ),
    column(
        "spread",
        5,
        Rank::Result,
        "from the slowest to the fastest window, as a share of the median",
        |r| {
            let spread = Measure::Tps.spread(r).filter(|spread| spread.measured)?;
            Some(per_cent(spread.share() * 100.0))
        },
    ),
    column("p50", 6, Rank::Result, "latency that half of the transactions stay below", |r| {
        r.latency_us.map(|l| micros(l.p50))
    }),
    column("p99", 6, Rank::Result, "latency that 99 of 100 transactions stay below", |r| {
        r.latency_us.map(|l| micros(l.p99))
    }),
    column("offered", 6, Rank::Result, "requests that became due a second", |r| r.offered_tps.map(scaled)),
    column("backlog", 6, Rank::Result, "requests that were waiting when the window ended", |r| {
        r.backlog.map(|n| scaled(n as f64))
    }),
    column("tpmC", 6, Rank::Result, "NewOrders completed a minute", |r| r.tpmc.map(scaled)),
    column("of max", 6, Rank::Result, "tpmC as a share of the most that so many terminals can bring", |r| {
        Some(per_cent(r.tpmc? / r.tpmc_ceiling? * 100.0))
    }),
    column("kills", 5, Rank::Result, "instances killed", |r| r.kills.map(|n| n.to_string())),
    column(
        "in doubt",
        7,
        Rank::Result,
        "the longest time that a prepared transaction waited for its decision after a kill",
        |r| r.max_in_doubt_ms.map(|ms| micros(ms as f64 * 1000.0)),
    ),
    column("moves", 6, Rank::Detail, "decisions to divide the keys otherwise among the workers", |r| {
        r.settings.engine.get("balance").filter(|mode| mode != "off")?;
        Some(r.rebalances.len().to_string())
    }),
    column("ok", 3, Rank::Result, "whether the workload's consistency conditions held at the end", |r| {
        r.consistent.map(|holds| if holds { "yes" } else { "NO" }.into())
    }),
    column(
        "aborts",
        6,
        Rank::Result,
        "tries that failed (conflict, deadlock, time-out) and were repeated",
        |r| r.consistent.or(r.interrupted).map(|_| scaled(r.conflicts() as f64)),
    ),
    column("msg/s", 6, Rank::Detail, "messages a second, one way, in a stream", |r| {
        r.messages_per_second.map(scaled)
    }),
];

/// The columns of rows with a profile; in per cent of the time from request to reply, unless a unit
/// is named. The JSON rows hold the rest of the profile.
pub const PROFILE: &[Column] = &[
    column("time", 6, Rank::Essence, "mean time from request to reply", |r| {
        r.profile.as_ref().map(|p| micros(p.elapsed_ns() / 1000.0))
    }),
    column("exec", 4, Rank::Result, "execution: procedures, index and heap operations", |r| {
        share(r, "execution")
    }),
    column("lock", 4, Rank::Result, "locking: asking for locks and giving them back", |r| {
        share(r, "locking")
    }),
    column("latch", 4, Rank::Result, "latching: taking and leaving page latches", |r| share(r, "latching")),
    column("log", 4, Rank::Result, "logging: building log records", |r| share(r, "logging")),
    column("msgs", 4, Rank::Result, "communication: encoding, sending and decoding messages", |r| {
        share(r, "communication")
    }),
    column("mgmt", 4, Rank::Result, "management: begin, commit, two-phase commit, the worker's loop", |r| {
        share(r, "management")
    }),
    column("wait", 4, Rank::Result, "waiting: parked, while its worker runs other transactions", |r| {
        share(r, "waiting")
    }),
    column("wait for", 8, Rank::Result, "the longest wait", longest_wait),
    column("idle", 4, Rank::Result, "share of the workers' time without anything to do", |r| {
        let workers = &r.profile.as_ref()?.worker_ns_per_txn;
        Some(per_cent(workers.get("idle")? / workers.values().sum::<f64>() * 100.0))
    }),
    column("sections", 6, Rank::Detail, "critical sections entered for each transaction", |r| {
        let sections = &r.profile.as_ref()?.critical_sections_per_txn;
        Some(few(sections.values().flat_map(|kinds| kinds.values()).sum()))
    }),
    column("latches", 6, Rank::Detail, "page latches taken for each transaction", |r| {
        Some(few(r.profile.as_ref()?.latches_per_txn.values().sum()))
    }),
    column("row locks", 6, Rank::Detail, "rows locked by each transaction", |r| {
        r.profile.as_ref()?.accesses_per_txn.get("row_locks").map(|n| few(*n))
    }),
    column("instr", 6, Rank::Detail, "instructions retired for each transaction", |r| {
        hardware(r, "instructions").map(scaled)
    }),
    column("IPC", 4, Rank::Detail, "instructions retired in each cycle of a processor", |r| {
        Some(format!("{:.2}", hardware(r, "instructions")? / hardware(r, "cycles")?))
    }),
    column("LLC", 6, Rank::Detail, "misses of the last level of cache for each transaction", |r| {
        hardware(r, "llc_misses").map(few)
    }),
];

/// A number with one decimal place if it is small.
fn few(n: f64) -> String {
    if n < 999.95 { format!("{n:.1}") } else { scaled(n) }
}

/// The longest wait of transactions.
pub fn longest_wait(row: &ResultRow) -> Option<String> {
    let waits = &row.profile.as_ref()?.waiting_ns_per_txn;
    waits.iter().filter(|w| *w.1 > 0.0).max_by(|a, b| a.1.total_cmp(b.1)).map(|w| w.0.clone())
}

/// Counts of a processor event per transaction.
fn hardware(row: &ResultRow, event: &str) -> Option<f64> {
    row.profile.as_ref()?.hardware.as_ref()?.get(event).copied()
}

/// A component's share of the time of a transaction, in per cent.
fn share(row: &ResultRow, component: &str) -> Option<String> {
    let profile = row.profile.as_ref()?;
    let part = profile.time_ns_per_txn.get(component)?;
    Some(per_cent(part / profile.elapsed_ns().max(1e-9) * 100.0))
}
