//! One case: a machine, an engine, transactions and a deployment that fit together, with the
//! service times that follow from them.

use crate::costs::{ChannelCosts, DesignCosts, EngineProfile, HotLine, Parts, Protection, RunLine};
use crate::deployment::{Channel, Deployment, Durability};
use crate::error::ModelError;
use crate::machine::{LevelName, MachineModel};
use crate::transaction::Transactions;
use std::ops::Range;

/// A checked case.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    pub machine: &'a MachineModel,
    pub profile: &'a EngineProfile,
    pub transactions: &'a Transactions,
    pub deployment: &'a Deployment,
    pub(crate) costs: &'a DesignCosts,
    /// None with one instance.
    pub(crate) channel: Option<ChannelCosts>,
    pub(crate) speed: f64,
}

impl<'a> Case<'a> {
    /// # Errors
    /// A deployment that does not fit the machine, a design or channel that the profile does not
    /// know, `serial` with several workers in an instance, or fewer sites than instances.
    pub fn new(
        machine: &'a MachineModel,
        profile: &'a EngineProfile,
        transactions: &'a Transactions,
        deployment: &'a Deployment,
    ) -> Result<Case<'a>, ModelError> {
        deployment.check(machine)?;
        let costs = profile.design(&deployment.design)?;
        let wrong = |text: String| Err(ModelError::Deployment(text));
        let most = deployment.instances.iter().map(Vec::len).max().unwrap_or(0);
        if costs.protection == Protection::SerialLocks && most > 1 {
            return wrong(format!("{} has one worker per instance, not {most}", deployment.design));
        }
        let (sites, instances) = (transactions.sites() as usize, deployment.instances.len());
        if sites < instances {
            return wrong(format!("{sites} sites for {instances} instances: each needs at least one"));
        }
        deployment.check_bounds(transactions.sites())?;
        let channel = match deployment.channel {
            _ if instances == 1 => None,
            channel => Some(*profile.channel(channel)?),
        };
        let speed = profile.speed_on(machine);
        if !(speed.is_finite() && speed > 0.0) {
            let what = "the speed of the machine".to_owned();
            return Err(ModelError::Value { what, value: speed.to_string(), expected: "a number above 0" });
        }
        Ok(Case { machine, profile, transactions, deployment, costs, channel, speed })
    }

    /// The sites of an instance.
    pub(crate) fn sites_of(&self, instance: usize) -> Range<u32> {
        self.deployment.sites_of(instance, self.transactions.sites())
    }

    /// The instance of a site.
    pub(crate) fn owner_of(&self, site: u32) -> usize {
        self.deployment.owner_of(site, self.transactions.sites())
    }

    /// The ns of one visit of a hot line at an instance: its lines come from cores that are
    /// `distance_ns` away.
    pub(crate) fn hot_ns(&self, line: &HotLine, distance_ns: f64) -> f64 {
        let lines = &self.profile.lines;
        let moved = line.transfers.unwrap_or(lines.q) * distance_ns;
        (lines.t0_ns + line.held_ns) / self.speed + moved
    }

    /// Visits of a hot line by a part of `rows` of a transaction's rows.
    pub(crate) fn hot_visits(&self, line: &HotLine, shape: Shape, rows: f64) -> f64 {
        let whole = if shape.updates > 0.0 { line.update } else { line.read };
        let by_row = line.per_row.read * (shape.all - shape.updates) + line.per_row.update * shape.updates;
        (whole + by_row) * rows / shape.all
    }

    /// The ns for which a row's visits keep the line of its run.
    pub(crate) fn run_ns(&self, run: &RunLine, update: bool, distance_ns: f64) -> f64 {
        let (visits, held) = if update {
            (run.visits.update, run.held_ns.update)
        } else {
            (run.visits.read, run.held_ns.read)
        };
        visits * ((self.profile.lines.t0_ns + held) / self.speed + run.transfers * distance_ns)
    }

    /// The worker of an instance, counted from 0, that owns a site of it.
    pub(crate) fn worker_of_site(&self, instance: usize, site: u32) -> usize {
        let sites = self.sites_of(instance);
        let (count, workers) = (sites.len().max(1) as u64, self.deployment.instances[instance].len() as u64);
        // The inverse of an even division of the sites into runs, a run for each worker.
        ((u64::from(site - sites.start) + 1) * workers).div_ceil(count).saturating_sub(1) as usize
    }

    /// Whether each worker owns the rows of its sites.
    pub(crate) fn has_owners(&self) -> bool {
        self.costs.handoff != crate::costs::ByOp::default()
    }

    /// ns for the rows of a transaction at another owner of the same instance.
    pub(crate) fn handoff_ns(&self, updates: bool) -> f64 {
        let by = self.costs.handoff;
        (if updates { by.update } else { by.read }) / self.speed
    }

    pub(crate) fn is_shared(&self, instance: usize) -> bool {
        self.deployment.instances[instance].len() > 1
    }

    /// Whether the requests of a client may have their home at another instance.
    pub(crate) fn is_routed(&self) -> bool {
        let (skew, hot) = self.transactions.skew();
        skew > 0.0 || hot.is_some() || self.transactions.is_routed()
    }

    pub(crate) fn parts(&self, updates: bool) -> Parts {
        if updates { self.costs.parts.update } else { self.costs.parts.read }
    }

    pub(crate) fn tcp_between(&self, a: usize, b: usize) -> bool {
        self.deployment.channel == Channel::Tcp && !self.machine.is_one_host(a, b)
    }

    /// Whether messages lie in memory that both ends use: the receiver fetches their lines from the
    /// sender's core, and a sender wakes its receiver by itself.
    pub(crate) fn shares_memory(&self) -> bool {
        self.channel.is_some_and(|c| !c.is_socket) && self.deployment.channel != Channel::Rdma
    }

    /// The one-way ns of a message from core `a` to core `b`, besides the work at the ends.
    pub(crate) fn way_ns(&self, a: usize, b: usize) -> f64 {
        let wire = self.channel.map_or(0.0, |c| c.wire_ns);
        if self.deployment.channel == Channel::Rdma {
            // Within a machine, too, the message goes through the device.
            return wire + self.machine.terms().rdma_ns;
        }
        if self.tcp_between(a, b) {
            return wire + self.machine.latency_ns(a, b);
        }
        wire + self.channel.filter(|c| !c.is_socket).map_or(0.0, |_| self.machine.latency_ns(a, b))
    }

    /// What a commit waits for.
    pub(crate) fn log_wait(&self) -> LogWait {
        let is_written = self.costs.protection == Protection::Validation && self.profile.log_write.ns > 0.0;
        match self.deployment.durability {
            Durability::Sync => LogWait::Flushed,
            Durability::Async if is_written => LogWait::Written,
            Durability::Async | Durability::Memory => LogWait::None,
        }
    }

    /// ns to write so many bytes of the log to the system's cache.
    pub(crate) fn write_ns(&self, bytes: f64) -> f64 {
        let write = &self.profile.log_write;
        (write.ns + write.per_byte_ns * bytes) / self.speed
    }

    /// The part of such a write in which it takes a core: the wake-up of its thread for a share of
    /// its time, and the copy of the bytes.
    pub(crate) fn write_busy_ns(&self, bytes: f64) -> f64 {
        let write = &self.profile.log_write;
        (write.ns * write.busy + write.per_byte_ns * bytes) / self.speed
    }

    /// The service times of an instance.
    pub(crate) fn service(&self, instance: usize) -> Service {
        let cores = &self.deployment.instances[instance];
        let workers = cores.len() as f64;
        let line = self.machine.mean_ns(cores);
        let miss = self.miss_ns(cores) * self.costs.miss;
        let [read, update] = [false, true].map(|updates| {
            let pick =
                |by: crate::costs::ByOp<crate::costs::Linear>| if updates { by.update } else { by.read };
            let cold = if updates { self.costs.cold.update } else { self.costs.cold.read };
            let mut work = pick(self.costs.work);
            let mut locked = pick(self.costs.with_distributed);
            if workers > 1.0 {
                let shared = pick(self.costs.shared);
                work.per_transaction += shared.per_transaction;
                work.per_row += shared.per_row;
                if !self.has_owners() {
                    locked = crate::costs::Linear::default();
                }
            }
            OpService {
                per_transaction: work.per_transaction / self.speed,
                per_row: work.per_row / self.speed,
                locked_per_transaction: locked.per_transaction / self.speed,
                locked_per_row: locked.per_row / self.speed,
                sharing_per_row: cold.per_row * (1.0 - 1.0 / workers) * cold.exposed_ns(line),
            }
        });
        let append = match self.deployment.durability {
            Durability::Memory => 0.0,
            Durability::Async | Durability::Sync => self.profile.log_append_ns / self.speed,
        };
        // The rows of a mix lie in tables of all sizes, and many of them miss nothing: `miss` is an
        // average of these rows, for their number.
        let lanes = if self.transactions.is_one_table() { self.profile.cache.lanes } else { 1.0 };
        Service { read, update, append_ns: append, miss_ns: miss, lanes }
    }

    /// ns per row for lines that no cache holds, and for pages that no TLB holds: an instance's
    /// rows against the caches of its cores.
    fn miss_ns(&self, cores: &[usize]) -> f64 {
        let (terms, cache) = (self.machine.terms(), &self.profile.cache);
        let share = self.transactions.dataset() as f64 / self.deployment.instances.len() as f64;
        let bytes = share * cache.row_bytes;
        let group_of = |core: usize, level: LevelName| {
            let level = self.machine.levels().iter().find(|l| l.level == level)?;
            level.groups.iter().position(|g| g.contains(&core))
        };
        let last_level = |core: usize| {
            group_of(core, LevelName::Cache).or_else(|| group_of(core, LevelName::Socket)).unwrap_or(0)
        };
        let count = |of: &dyn Fn(usize) -> usize| {
            let mut groups: Vec<usize> = cores.iter().map(|&core| of(core)).collect();
            groups.sort_unstable();
            groups.dedup();
            groups.len() as f64
        };
        // An instance has the caches of its groups in the share of the groups' workers it has.
        let groups = count(&last_level);
        let all = self.deployment.instances.iter().flatten();
        let mine: Vec<usize> = cores.iter().map(|&core| last_level(core)).collect();
        let around = all.filter(|&&core| mine.contains(&last_level(core))).count() as f64;
        let held =
            terms.l2_bytes * cores.len() as f64 + terms.l3_bytes * groups * cores.len() as f64 / around;
        let missing = (1.0 - held / bytes).max(0.0);
        // A line in a cache of the instance is often in that of another package, and then as far
        // away as memory: only the difference is lost.
        let packages = count(&|core| self.machine.package(core));
        let (near, far) = (1.0 / packages, 1.0 - 1.0 / packages);
        let memory = terms.memory_local_ns * near + terms.memory_remote_ns * far;
        let between = self.machine.mean_between_packages_ns(cores);
        let cached = terms.l3_ns * near + between * far;
        // A core has the pages of the rows of its own sites.
        let known = cache.tlb_bytes * cores.len() as f64;
        let walking = if known > 0.0 { (1.0 - known / bytes).max(0.0) } else { 0.0 };
        let each = missing * (memory - cached).max(0.0) + walking * cache.walk_ns;
        cache.lines_per_row * cache.exposed * each
    }
}

/// What a commit waits for before its client has the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogWait {
    None,
    /// The system has its record.
    Written,
    /// The device has its record.
    Flushed,
}

/// Service times of one kind of operation at an instance, in ns of its machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OpService {
    pub per_transaction: f64,
    pub per_row: f64,
    /// Added while distributed transactions exist.
    pub locked_per_transaction: f64,
    pub locked_per_row: f64,
    /// Transfers of cold shared lines.
    pub sharing_per_row: f64,
}

/// The service times of one instance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Service {
    pub read: OpService,
    pub update: OpService,
    pub append_ns: f64,
    /// Lines and pages of a row that no cache and no TLB holds, of a row among `lanes` and more.
    pub miss_ns: f64,
    pub lanes: f64,
}

impl Service {
    /// ns of work and of sharing for a part of `rows` of a transaction's `all` rows, of which the
    /// transaction updates `updates`. The part's rows are among `together` that are looked up at
    /// once. Where these are fewer than the [`lanes`](crate::costs::CacheCosts::lanes), they wait
    /// for their misses as long as so many.
    pub fn part_ns(&self, request: Shape, rows: f64, together: f64, locked: f64) -> (f64, f64) {
        let Shape { all, updates, weight } = request;
        let op = if updates > 0.0 { &self.update } else { &self.read };
        let share = rows / all;
        let reads = all - updates;
        let rows_ns = self.read.per_row * reads + self.update.per_row * updates;
        let waiting = (self.lanes / together.max(1.0)).max(1.0);
        let mut work = op.per_transaction + (rows_ns + self.miss_ns * waiting * all) * weight;
        let locked_ns = self.read.locked_per_row * reads + self.update.locked_per_row * updates;
        work += locked * (op.locked_per_transaction + locked_ns * weight);
        let sharing = self.read.sharing_per_row * reads + self.update.sharing_per_row * updates;
        (work * share, sharing * share)
    }
}

/// The rows of a transaction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Shape {
    pub all: f64,
    pub updates: f64,
    pub weight: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that are looked up together wait for their misses together: one row waits as long as
    /// ten, thirty wait three times as long.
    #[test]
    fn few_rows_wait_for_misses_as_long_as_the_lanes() {
        let op = OpService {
            per_transaction: 100.0,
            per_row: 50.0,
            locked_per_transaction: 0.0,
            locked_per_row: 0.0,
            sharing_per_row: 0.0,
        };
        let waits = |rows: f64| {
            let of = |miss_ns: f64| {
                let service = Service { read: op, update: op, append_ns: 0.0, miss_ns, lanes: 10.0 };
                service.part_ns(Shape { all: rows, updates: 0.0, weight: 1.0 }, rows, rows, 0.0).0
            };
            of(7.0) - of(0.0)
        };
        assert_eq!([1.0, 2.0, 10.0, 30.0].map(waits), [70.0, 70.0, 70.0, 210.0]);
        // Half of the rows of a transaction, at an instance that looks up these only.
        let service = Service { read: op, update: op, append_ns: 0.0, miss_ns: 7.0, lanes: 10.0 };
        let half = service.part_ns(Shape { all: 8.0, updates: 0.0, weight: 1.0 }, 4.0, 4.0, 0.0).0;
        assert_eq!(half, 50.0 + 4.0 * 50.0 + 70.0);
    }
}
