//! Service times by component: an engine profile as data.
//!
//! Times are nanoseconds of a core of the reference machine ([`EngineProfile::speed_on`] scales
//! them), except those that name another unit. Three profiles are built in: `atoll`, `shore-mt` and
//! `silo` ([`EngineProfile::builtin`]). Each states its source and the anchors it was fitted to;
//! an anchor never counts as a result.

mod sections;

pub use sections::{ColdShares, SectionCosts};

use crate::deployment::Channel;
use crate::error::ModelError;
use crate::machine::MachineModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cost of a transaction's own work: `per_transaction + per_row * rows`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    pub per_transaction: f64,
    pub per_row: f64,
}

impl Linear {
    /// ns for `rows` rows.
    #[inline]
    pub fn at(self, rows: f64) -> f64 {
        self.per_transaction + self.per_row * rows
    }
}

/// A pair of terms: for a transaction that only reads, and for one that updates.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByOp<T> {
    pub read: T,
    pub update: T,
}

/// The way in which a design keeps transactions apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Row locks from the step to the end.
    Locks,
    /// One worker per instance; row locks only while distributed transactions exist.
    SerialLocks,
    /// Validation. Rows are held from prepare to decision only.
    Validation,
}

/// The reaction of a design with validation to a row that another transaction has prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conflict {
    /// The transaction waits for the decision.
    #[default]
    Wait,
    /// The transaction aborts and starts again.
    Abort,
}

/// The parts of a distributed transaction besides its rows, in ns each.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// At the home, per participant: to group and send its steps.
    pub home: f64,
    /// At each participant: to open a session, run and vote.
    pub participant: f64,
    /// At the home: to take one reply.
    pub reply: f64,
    /// At a participant: to take the decision or the release.
    pub decision: f64,
    /// At the home: to take an acknowledgement.
    pub ack: f64,
}

/// Cache lines of shared structures that several workers of an instance touch.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdLines {
    /// Visits per row, to lines that another worker rarely has at this moment.
    pub per_row: f64,
    /// The share of a line's transfer that the core cannot overlap with other work.
    pub exposed: f64,
    /// The longest transfer, in ns, that other work can hide: what exceeds it is exposed.
    #[serde(default)]
    pub hidden_ns: Option<f64>,
}

impl ColdLines {
    /// The exposed ns of one transfer of `ns`.
    pub fn exposed_ns(&self, ns: f64) -> f64 {
        let beyond = self.hidden_ns.map_or(0.0, |hidden| ns - hidden);
        (self.exposed * ns).max(beyond)
    }
}

/// A line that every transaction of an instance visits: a server with one place. With several
/// lines under one latch, a visit is one critical section, and moves each of them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotLine {
    /// Visits per transaction.
    pub read: f64,
    pub update: f64,
    /// Visits per row besides.
    #[serde(default)]
    pub per_row: ByOp<f64>,
    /// Lines that a visit moves, as a multiple of the distance to the last owner; without it, the
    /// burst share [`LineCosts::q`] of one line.
    #[serde(default)]
    pub transfers: Option<f64>,
    /// Work done inside a visit, in ns.
    #[serde(default)]
    pub held_ns: f64,
}

/// Lines of neighbouring rows: the latch of their page, or the head of a row's lock. Each run of
/// `rows` rows has its own, which is a server with one place as well. The work and the transfers of
/// a visit are part of a row's other costs: a visitor pays for waiting only.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLine {
    /// Rows of a run; 1 for a line of each row.
    pub rows: u64,
    /// Visits per row.
    pub visits: ByOp<f64>,
    /// Lines that a visit moves, as a multiple of the distance to the last owner.
    pub transfers: f64,
    /// Work done inside a visit, in ns.
    #[serde(default)]
    pub held_ns: ByOp<f64>,
}

/// The costs of one design.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignCosts {
    pub protection: Protection,
    /// The design that these costs were copied from, for one without costs of its own: they hold
    /// once measured cells have scaled them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowed_from: Option<String>,
    /// With validation only.
    #[serde(default)]
    pub on_conflict: Conflict,
    /// A local transaction on an instance of one worker.
    pub work: ByOp<Linear>,
    /// Added on an instance of several workers, besides the lines: its locks and latches.
    #[serde(default)]
    pub shared: ByOp<Linear>,
    /// Added while distributed transactions exist, on an instance of one worker.
    #[serde(default)]
    pub with_distributed: ByOp<Linear>,
    pub parts: ByOp<Parts>,
    /// A request that a client sends to its home at another instance: ns of both workers together
    /// for the request and its answer, besides the messages.
    #[serde(default)]
    pub forward: f64,
    /// For a design of which each worker owns sites: ns of both workers for the rows of a
    /// transaction that another worker of the same instance owns. 0 where any worker reaches any
    /// row.
    #[serde(default)]
    pub handoff: ByOp<f64>,
    /// Its misses relative to those of the profile's cache terms.
    #[serde(default = "whole")]
    pub miss: f64,
    #[serde(default)]
    pub cold: ByOp<ColdLines>,
    /// The lines that every transaction visits.
    #[serde(default)]
    pub hot: Vec<HotLine>,
    /// The lines of popular rows.
    #[serde(default)]
    pub runs: Vec<RunLine>,
    /// Log bytes per updated row.
    pub log_bytes_per_row: f64,
    /// Prepare and commit records of an updating distributed transaction, in ns at each site.
    #[serde(default)]
    pub two_phase_log_ns: f64,
    /// Besides, for each row that a participant has updated: its prepare records.
    #[serde(default)]
    pub two_phase_row_ns: f64,
    /// An aborted attempt costs this share of its work before the retry.
    #[serde(default = "whole")]
    pub abort_share: f64,
}

fn patience() -> f64 {
    50e6
}

fn whole() -> f64 {
    1.0
}

/// A write of the log to the system's cache: `ns + per_byte_ns * bytes`. With 0 no commit waits.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogWrite {
    pub ns: f64,
    pub per_byte_ns: f64,
    /// The share of `ns` in which it takes a core: the rest is the wake-up of its thread. The copy
    /// of the bytes takes one all the time.
    #[serde(default = "whole")]
    pub busy: f64,
}

/// Hot cache lines: a visit costs `t0 + q * distance to the last owner`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCosts {
    pub t0_ns: f64,
    pub q: f64,
}

/// The costs of one channel, besides encoding and decoding.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelCosts {
    /// Whether the channel is a socket: sends are buffered until the end of the loop, and a look is
    /// a system call. RDMA counts as none: a look is a load.
    pub is_socket: bool,
    /// The sender, per flush of a link (socket) or per message (ring).
    pub write_ns: f64,
    /// The receiver, per look at a link that finds something.
    pub read_ns: f64,
    /// The receiver, per look at an empty link.
    pub empty_ns: f64,
    /// On the way besides the distance of the cores; no core works for it.
    pub wire_ns: f64,
}

/// The costs of messages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageCosts {
    pub encode_ns: f64,
    pub decode_ns: f64,
    /// By the channel's name: `ring`, `shm`, `uds`, `tcp`, `rdma`. A channel without costs cannot
    /// be simulated.
    pub channels: BTreeMap<String, ChannelCosts>,
}

/// Bytes that a transaction touches, and the cost of those that no cache or TLB holds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheCosts {
    /// Bytes of a row with its share of the index.
    pub row_bytes: f64,
    /// Lines of a row that miss when the row is in no cache.
    pub lines_per_row: f64,
    /// The share of a miss that the core cannot overlap.
    pub exposed: f64,
    /// Bytes of memory of which a core's TLB knows the pages; 0 leaves page walks out.
    #[serde(default)]
    pub tlb_bytes: f64,
    /// A walk for a page that the TLB does not know, for each line.
    #[serde(default)]
    pub walk_ns: f64,
    /// Rows that are looked up at once: their misses overlap, so that those of fewer rows take as
    /// long. `exposed` is the share of a miss of a row among so many.
    #[serde(default = "whole")]
    pub lanes: f64,
}

/// The worker's loop: the constants of [`crate::engine_loop`] unless a profile says otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopCosts {
    pub turns: usize,
    pub ask_ns: f64,
    pub budget: usize,
    pub spin_ns: f64,
    pub gate: usize,
    /// One pass of the loop besides its tasks and looks.
    pub pass_ns: f64,
    /// Whether a message is served between two rows of a transaction: threads that serve messages
    /// share the core with the worker, and the kernel lets one run when its message comes.
    pub preempts: bool,
}

impl Default for LoopCosts {
    fn default() -> LoopCosts {
        use crate::engine_loop as l;
        LoopCosts {
            turns: l::TURNS,
            ask_ns: l::ASK_NS as f64,
            budget: l::BUDGET,
            spin_ns: (l::SPIN_US * 1_000) as f64,
            gate: l::GATE,
            pass_ns: 60.0,
            preempts: false,
        }
    }
}

/// The sites from which the clients of a worker draw the homes of their requests, without skew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Homes {
    /// The worker's part of its instance's sites: each client stays at its own.
    #[default]
    OfWorker,
    /// All sites of the instance: two workers may want the same rows.
    OfInstance,
}

/// The order in which a transaction visits the other instances of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visits {
    /// As `instance::home::phases`: one after the other where the phase writes, so that no circle
    /// of waits over instances can form.
    #[default]
    InOrder,
    /// All at once, the parts being known beforehand. A circle of waits ends by a timeout.
    AtOnce,
}

/// The costs of one engine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineProfile {
    pub name: String,
    /// The day of the measurement or of the fit.
    pub date: String,
    /// Where the figures come from.
    pub source: String,
    /// The figures that the profile was fitted to; none of them counts as a result.
    pub anchors: Vec<String>,
    /// Whether the costs were fitted at all; without, only orders of magnitude hold.
    pub is_calibrated: bool,
    /// The clock of the machine on which the costs hold; `None` if it is unknown.
    pub reference_ghz: Option<f64>,
    pub designs: BTreeMap<String, DesignCosts>,
    pub messages: MessageCosts,
    pub lines: LineCosts,
    pub cache: CacheCosts,
    /// An append to the log where durability is not `memory`, per transaction.
    pub log_append_ns: f64,
    /// A write of the log under `async`, by a design with validation: each commit waits for one.
    #[serde(default)]
    pub log_write: LogWrite,
    #[serde(default)]
    pub homes: Homes,
    #[serde(default)]
    pub visits: Visits,
    /// With [`Visits::AtOnce`]: the wait for a row lock, in ns, after which a part of a distributed
    /// transaction gives up; it may take up to twice as long.
    #[serde(default = "patience")]
    pub lock_timeout_ns: f64,
    #[serde(default, rename = "loop")]
    pub worker_loop: LoopCosts,
    /// For [`crate::sections`]: the division of the costs over the parts of a storage manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<SectionCosts>,
}

/// The hand-over between two workers that borrowed costs begin with: messages each way between
/// threads, their tasks, and their share of the worker's loop, as measured on two cores
/// (`results/plan-validation.md`). A measured cell scales it.
const HANDOFF: ByOp<f64> = ByOp { read: 4_800.0, update: 8_000.0 };

/// The built-in profiles by name.
pub const PROFILES: [(&str, &str); 3] = [
    ("atoll", include_str!("../profiles/atoll.toml")),
    ("shore-mt", include_str!("../profiles/shore-mt.toml")),
    ("silo", include_str!("../profiles/silo.toml")),
];

impl EngineProfile {
    /// A built-in profile.
    ///
    /// # Errors
    /// A name that is not one of [`PROFILES`].
    pub fn builtin(name: &str) -> Result<EngineProfile, ModelError> {
        let known = PROFILES.iter().find(|(known, _)| *known == name);
        let unknown = || ModelError::File {
            file: name.to_owned(),
            problem: format!("no such engine profile; expected {}", PROFILES.map(|(n, _)| n).join(", ")),
        };
        let (name, text) = known.ok_or_else(unknown)?;
        EngineProfile::parse(name, text)
    }

    /// # Errors
    /// Text that is no profile; a cost below 0; a profile without designs.
    pub fn parse(name: &str, text: &str) -> Result<EngineProfile, ModelError> {
        let wrong = |problem| ModelError::File { file: name.to_owned(), problem };
        let profile: EngineProfile = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        profile.check().map_err(wrong)?;
        Ok(profile)
    }

    /// The profile as TOML, which [`EngineProfile::parse`] reads back.
    ///
    /// # Errors
    /// None for a profile that was parsed; the serialiser's complaint otherwise.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        let wrong =
            |e: toml::ser::Error| ModelError::File { file: self.name.clone(), problem: e.to_string() };
        toml::to_string(self).map_err(wrong)
    }

    fn check(&self) -> Result<(), String> {
        if self.designs.is_empty() {
            return Err("a profile needs the costs of at least one design".into());
        }
        let mut costs = vec![
            ("lines.t0_ns", self.lines.t0_ns),
            ("lines.q", self.lines.q),
            ("messages.encode_ns", self.messages.encode_ns),
            ("messages.decode_ns", self.messages.decode_ns),
            ("log_append_ns", self.log_append_ns),
            ("log_write.ns", self.log_write.ns),
            ("log_write.per_byte_ns", self.log_write.per_byte_ns),
            ("cache.lanes", self.cache.lanes),
        ];
        for channel in self.messages.channels.values() {
            costs.push(("messages.channels write_ns", channel.write_ns));
            costs.push(("messages.channels read_ns", channel.read_ns));
            costs.push(("messages.channels empty_ns", channel.empty_ns));
        }
        for design in self.designs.values() {
            costs.push(("designs miss", design.miss));
            costs.push(("designs forward", design.forward));
            costs.push(("designs handoff.read", design.handoff.read));
            costs.push(("designs handoff.update", design.handoff.update));
            costs.push(("designs work.read", design.work.read.at(1.0)));
            costs.push(("designs work.update", design.work.update.at(1.0)));
        }
        if self.worker_loop.turns == 0 || self.worker_loop.budget == 0 || self.worker_loop.pass_ns <= 0.0 {
            return Err("[loop] needs turns, a budget and pass_ns above 0".into());
        }
        if let Some(sections) = &self.sections {
            sections.check(self.designs.get("conventional").map_or(0, |design| design.hot.len()))?;
        }
        match costs.into_iter().find(|(_, cost)| !(cost.is_finite() && *cost >= 0.0)) {
            Some((name, cost)) => Err(format!("{name} is {cost}: expected 0 or more")),
            None => Ok(()),
        }
    }

    /// The costs of a design.
    ///
    /// # Errors
    /// The profile has none for it.
    pub fn design(&self, design: &str) -> Result<&DesignCosts, ModelError> {
        let known = || self.designs.keys().cloned().collect::<Vec<_>>().join(", ");
        self.designs.get(design).ok_or_else(|| ModelError::NoCosts {
            profile: self.name.clone(),
            design: design.to_owned(),
            known: known(),
        })
    }

    /// The profile with costs of `design` copied from those of `lender`, marked as borrowed. An
    /// owner takes no row locks of its own while no other transaction visits it: its work and those
    /// locks are those of `serial`, if the profile has it. A design that has costs keeps them.
    ///
    /// # Errors
    /// The profile has no costs for the lender.
    pub fn lending(&self, design: &str, lender: &str) -> Result<EngineProfile, ModelError> {
        let mut lent = self.clone();
        if !lent.designs.contains_key(design) {
            let from = self.design(lender)?;
            let alone = self.designs.get("serial").unwrap_or(from);
            let costs = DesignCosts {
                borrowed_from: Some(lender.to_owned()),
                handoff: HANDOFF,
                work: alone.work,
                with_distributed: alone.with_distributed,
                ..from.clone()
            };
            lent.designs.insert(design.to_owned(), costs);
        }
        Ok(lent)
    }

    /// The costs of a channel.
    ///
    /// # Errors
    /// The profile has none for it.
    pub fn channel(&self, channel: Channel) -> Result<&ChannelCosts, ModelError> {
        let none = || ModelError::NoChannel { profile: self.name.clone(), channel: channel.name() };
        self.messages.channels.get(channel.name()).ok_or_else(none)
    }

    /// The speed by which the profile's costs are divided on `machine`: its `speed`, else the ratio
    /// of the clocks, else 1.
    pub fn speed_on(&self, machine: &MachineModel) -> f64 {
        let terms = machine.terms();
        let clocks = || Some(terms.ghz? / self.reference_ghz?);
        terms.speed.or_else(clocks).unwrap_or(1.0)
    }
}
