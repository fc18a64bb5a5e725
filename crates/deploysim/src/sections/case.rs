//! A checked case, and the prices that follow from its profile and machine.

use super::design::Design;
use super::load::{Load, Table};
use crate::costs::{EngineProfile, SectionCosts};
use crate::deployment::Channel;
use crate::error::ModelError;
use crate::machine::{LevelName, MachineModel};

/// Threads of one instance on contexts of a machine.
#[derive(Clone, Debug)]
pub struct SectionCase<'a> {
    pub machine: &'a MachineModel,
    pub load: &'a Load,
    pub design: Design,
    /// The contexts in use: in turn over packages, then over cores.
    pub contexts: Vec<usize>,
    /// Sub-buckets of the access histogram of each partition, if there is one.
    pub histogram: Option<u32>,
    pub(super) prices: Prices,
}

/// ns on the machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Prices {
    /// Half of the begin and the commit.
    pub begin: f64,
    pub root: f64,
    /// An index page below the root.
    pub page: f64,
    /// The rest of a read row: its entry and its heap page.
    pub row: f64,
    /// Besides, for an updated row without its log record.
    pub update: f64,
    pub log: f64,
    pub lock: f64,
    /// One page.
    pub latch: f64,
    /// An entry into the section of an index root, and lines that it moves.
    pub root_entry: f64,
    pub root_lines: f64,
    /// The latch of a heap page: of a reader, and held by an update.
    pub page_entry: f64,
    pub page_held: f64,
    pub page_lines: f64,
    /// Rows of a heap page.
    pub page_rows: u64,
    pub log_entry: f64,
    pub log_lines: f64,
    /// An entry into a queue, and lines that it moves.
    pub queue_entry: f64,
    pub queue_lines: f64,
    /// ns of lines of a row that another context touched last: data, its lock, one of its latches.
    pub cold_data: f64,
    pub cold_lock: f64,
    pub cold_latch: f64,
    /// Rows that the caches of one context hold.
    pub cache_rows: f64,
    /// An action: at the thread that hands it over, at its owner, at the rendezvous point, and at
    /// its release.
    pub hand_over: f64,
    pub action: f64,
    pub rendezvous: f64,
    pub release: f64,
    /// A record from thread to thread.
    pub record: f64,
    pub compare: f64,
    pub histogram: f64,
    pub split: f64,
    pub shares: SectionCosts,
}

impl<'a> SectionCase<'a> {
    /// The first `contexts` contexts of a machine; 0 for all.
    ///
    /// # Errors
    /// A design that there is not, a profile without `[sections]` or without costs of
    /// `conventional` and of shared memory, more contexts than the machine has, or a wrong load.
    pub fn new(
        machine: &'a MachineModel,
        profile: &EngineProfile,
        load: &'a Load,
        design: &str,
        contexts: usize,
    ) -> Result<SectionCase<'a>, ModelError> {
        load.check()?;
        let all = spread(machine);
        if contexts > all.len() {
            let text = format!("{contexts} threads on {} contexts", all.len());
            return Err(ModelError::Deployment(text));
        }
        let count = if contexts == 0 { all.len() } else { contexts };
        let contexts = all[..count].to_vec();
        let prices = Prices::new(profile, machine, &contexts)?;
        Ok(SectionCase { machine, load, design: Design::named(design)?, contexts, histogram: None, prices })
    }

    /// The same case with an access histogram of so many sub-buckets a partition.
    #[must_use]
    pub fn with_histogram(self, sub_buckets: u32) -> SectionCase<'a> {
        SectionCase { histogram: Some(sub_buckets), ..self }
    }

    /// Levels of a table's index, or of one of its sub-trees without the root above them.
    pub(super) fn levels(&self, table: &Table) -> u32 {
        let entries = self.prices.shares.entries;
        let rows = table.rows_per_site * u64::from(self.load.sites);
        let (mut levels, mut reach) = (1, entries);
        while reach < rows {
            reach = reach.saturating_mul(entries);
            levels += 1;
        }
        levels
    }

    /// Requests that the clients of a context keep under way.
    pub(super) fn in_flight(&self) -> u32 {
        if self.design.has_owners() { self.prices.shares.in_flight } else { 1 }
    }

    /// The core of each context in use, as a number.
    pub(super) fn cores(&self) -> Vec<usize> {
        let level = self.machine.levels().iter().find(|level| level.level == LevelName::Smt);
        let core = |&context: &usize| {
            let group = level.and_then(|level| level.groups.iter().position(|g| g.contains(&context)));
            group.unwrap_or(context)
        };
        self.contexts.iter().map(core).collect()
    }
}

/// All contexts, in turn over packages, then over cores.
fn spread(machine: &MachineModel) -> Vec<usize> {
    let smt = machine.levels().iter().find(|level| level.level == LevelName::Smt);
    let mut seen = Vec::new();
    let mut place = |context: usize| {
        let package = machine.package(context);
        let core =
            smt.and_then(|s| s.groups.iter().position(|group| group.contains(&context))).unwrap_or(context);
        let thread = smt.map_or(0, |s| s.groups[core].iter().position(|&c| c == context).unwrap_or(0));
        let before = seen.iter().filter(|&&(p, t)| p == package && t == thread).count();
        seen.push((package, thread));
        (thread, before, package)
    };
    let mut all: Vec<usize> = (0..machine.cores()).collect();
    let places: Vec<_> = all.iter().map(|&context| place(context)).collect();
    all.sort_by_key(|&context| places[context]);
    all
}

fn count_packages(machine: &MachineModel, contexts: &[usize]) -> usize {
    let mut packages: Vec<usize> = contexts.iter().map(|&context| machine.package(context)).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.len()
}

impl Prices {
    fn new(
        profile: &EngineProfile,
        machine: &MachineModel,
        contexts: &[usize],
    ) -> Result<Prices, ModelError> {
        let missing = || ModelError::NoCosts {
            profile: profile.name.clone(),
            design: "critical sections of one instance".into(),
            known: profile.designs.keys().cloned().collect::<Vec<_>>().join(", "),
        };
        let shares = profile.sections.ok_or_else(missing)?;
        let costs = profile.design("conventional")?;
        let channel = profile.channel(Channel::Shm)?;
        let speed = profile.speed_on(machine);
        let ns = |ns: f64| ns / speed;
        let read = costs.work.read.per_row;
        let descent = shares.index_share * read;
        let page = descent / (f64::from(shares.levels - 1) + shares.root_weight);
        let locks_and_latches = costs.shared.read.per_row;
        let pages = f64::from(shares.levels + 1);
        let update = (costs.work.update.per_row - read - shares.log_ns).max(0.0);
        let t0 = profile.lines.t0_ns;
        let hot =
            |at: usize| (costs.hot[at].held_ns + t0, costs.hot[at].transfers.unwrap_or(profile.lines.q));
        let (root, log) = (hot(shares.root_line), hot(shares.log_line));
        let visits = costs.hot[shares.root_line].per_row.read;
        let run = costs.runs.first();
        let parts = costs.parts.read;
        let far = machine.mean_ns(contexts);
        // Of n contexts that touch a line, another one was the last in n - 1 of n cases.
        let others = 1.0 - 1.0 / contexts.len() as f64;
        let lines = costs.cold.read.per_row * costs.cold.read.exposed_ns(far) * others;
        let terms = machine.terms();
        let packages = count_packages(machine, contexts) as f64;
        let cache_bytes = terms.l2_bytes + terms.l3_bytes * packages / contexts.len() as f64;
        Ok(Prices {
            begin: ns(costs.work.read.per_transaction / 2.0),
            root: ns(page * shares.root_weight),
            page: ns(page),
            row: ns(read - descent),
            update: ns(update),
            log: ns(shares.log_ns),
            lock: ns(locks_and_latches * shares.lock_share),
            latch: ns(locks_and_latches * (1.0 - shares.lock_share) / pages),
            root_entry: ns(visits * root.0),
            root_lines: visits * root.1,
            page_entry: ns(run.map_or(0.0, |r| r.visits.read * (t0 + r.held_ns.read))),
            page_held: ns(run.map_or(0.0, |r| r.visits.update * (t0 + r.held_ns.update))),
            page_lines: run.map_or(0.0, |r| r.visits.read * r.transfers),
            page_rows: run.map_or(1, |r| r.rows.max(1)),
            log_entry: ns(log.0),
            log_lines: log.1,
            queue_entry: ns(t0),
            queue_lines: root.1,
            cold_data: lines * shares.cold.data,
            cold_lock: lines * shares.cold.lock,
            cold_latch: lines * shares.cold.latch / pages,
            cache_rows: cache_bytes / profile.cache.row_bytes,
            hand_over: ns(parts.home + channel.write_ns),
            action: ns(channel.read_ns + parts.participant),
            rendezvous: ns(parts.reply),
            release: ns(parts.decision),
            record: ns(channel.write_ns + channel.read_ns),
            compare: ns(shares.compare_ns),
            histogram: ns(shares.histogram_ns),
            split: ns(shares.split_pages * (update + shares.log_ns)),
            shares,
        })
    }
}
