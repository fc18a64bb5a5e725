//! The settings that distinguish the deployments of a sweep, and every combination of the requested
//! ones: an option that matters only to some designs is not varied for the others.

use crate::cli::{DesignArg, DurabilityArg, OpArg};
use crate::engine_args::EngineArgs;
use crate::failure::Failure;
use deploy::engine::{DesignKind, Durability, EngineOption, EngineOptions, OPTIONS, option};
use deploy::{ChannelKind, Host};
use std::collections::BTreeMap;
use topology::{IslandCount, Placement};
use workload::micro::Op;

/// The settings that distinguish one deployment from the next.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) design: DesignKind,
    pub(crate) islands: IslandCount,
    pub(crate) channel: ChannelKind,
    pub(crate) host: Host,
    pub(crate) durability: Durability,
    pub(crate) options: EngineOptions,
    pub(crate) placement: Placement,
    /// `None`: the default.
    pub(crate) workers: Option<u32>,
    pub(crate) dataset: Option<u64>,
    pub(crate) scale: Option<u32>,
    /// Options of one workload that shape its data.
    pub(crate) own: BTreeMap<String, String>,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            design: DesignKind::Conventional,
            islands: IslandCount::Shared,
            channel: ChannelKind::Shm,
            host: Host::Process,
            durability: Durability::Async,
            options: EngineOptions::default(),
            placement: Placement::Island,
            workers: None,
            dataset: None,
            scale: None,
            own: BTreeMap::new(),
        }
    }
}

/// A list option: the given values, or the default.
pub(crate) fn list<T: Clone>(given: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if given.is_empty() { default() } else { given.to_vec() }
}

/// A list option for which the workload has defaults of its own: `None` if it is not given.
pub(crate) fn optional<T: Copy>(given: &[T]) -> Vec<Option<T>> {
    if given.is_empty() { vec![None] } else { given.iter().copied().map(Some).collect() }
}

/// Every element of `all` with every one of `values`; the values vary faster.
pub(crate) fn times<T: Clone, V: Clone>(all: Vec<T>, values: &[V], set: impl Fn(&mut T, V)) -> Vec<T> {
    let with = |one: &T, value: &V| {
        let mut one = one.clone();
        set(&mut one, value.clone());
        one
    };
    all.iter().flat_map(|one| values.iter().map(move |value| (one, value))).map(|(o, v)| with(o, v)).collect()
}

/// The options of the engine that vary slowest, in this order. The others follow in the order of
/// their table.
const SLOWEST: &[&str] = &["tables", "tree", "partitions", "sli", "escalation", "heap", "latching"];

/// Every combination of the options of the engine, for the designs that they make a difference to.
///
/// # Errors
/// A value that an option does not take.
pub(crate) fn with_options(mut all: Vec<Choice>, given: &EngineArgs) -> Result<Vec<Choice>, Failure> {
    let slowest = SLOWEST.iter().filter_map(|name| option(name));
    let others = OPTIONS.iter().filter(|option| !SLOWEST.contains(&option.name));
    for option in slowest.chain(others) {
        all = varied(all, option, given.values(option.name))?;
    }
    Ok(all)
}

/// Every choice with every value of an option, if the option makes a difference to it. If it makes
/// none to any, all choices get the values, and the check of the deployment tells why they do not
/// fit.
fn varied(all: Vec<Choice>, option: &EngineOption, given: &[String]) -> Result<Vec<Choice>, Failure> {
    let differs = |c: &Choice| option.designs.has(c.design) && (option.varies)(&c.options);
    let nowhere = !all.iter().any(differs);
    let mut varied = Vec::new();
    for choice in all {
        let is_possible = |word: &&str| given.is_empty() || given.iter().any(|value| value == word);
        let forced = (option.forced)(choice.design).filter(is_possible);
        let values: Vec<&str> = match forced {
            Some(word) => vec![word],
            None if nowhere || differs(&choice) => given.iter().map(String::as_str).collect(),
            None => Vec::new(),
        };
        if values.is_empty() {
            varied.push(choice.clone());
        }
        for value in values {
            let mut one = choice.clone();
            (option.set)(&mut one.options, value).map_err(Failure::Usage)?;
            varied.push(one);
        }
    }
    Ok(varied)
}

pub(crate) fn design_of(arg: DesignArg) -> DesignKind {
    match arg {
        DesignArg::Conventional => DesignKind::Conventional,
        DesignArg::Logical => DesignKind::Logical,
        DesignArg::PlpRegular => DesignKind::PlpRegular,
        DesignArg::PlpPartition => DesignKind::PlpPartition,
        DesignArg::PlpLeaf => DesignKind::PlpLeaf,
        DesignArg::Serial => DesignKind::Serial,
        DesignArg::Occ => DesignKind::Occ,
    }
}

pub(crate) fn durability_of(arg: DurabilityArg) -> Durability {
    match arg {
        DurabilityArg::Sync => Durability::Sync,
        DurabilityArg::Replicated => Durability::Replicated,
        DurabilityArg::Async => Durability::Async,
        DurabilityArg::Memory => Durability::Memory,
    }
}

pub(crate) fn op_of(arg: OpArg) -> Op {
    match arg {
        OpArg::Read => Op::Read,
        OpArg::Update => Op::Update,
        OpArg::Mixed => Op::Mixed,
    }
}
