//! The settings that distinguish the deployments of a sweep, and every combination of the requested
//! ones: an option that matters only to some designs is not varied for the others.

use crate::cli::{
    BalanceArg, DesignArg, DurabilityArg, HeapArg, LatchingArg, OccAheadArg, OccConflictArg, OccReadsArg,
    OpArg, SliArg, TreeArg,
};
use deploy::engine::{
    DesignKind, Durability, EngineOptions, HeapForm, Inheritance, Latching, OccAhead, OccConflict, OccReads,
    TreeKind,
};
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

/// The kinds of trees, for designs that have trees, and the number of partitions, for trees that
/// have them.
pub(crate) fn in_pages(all: Vec<Choice>, trees: &[TreeArg], partitions: &[u64]) -> Vec<Choice> {
    let given: Vec<TreeKind> = list(trees, || vec![TreeArg::Btree]).into_iter().map(TreeKind::from).collect();
    let parts: Vec<_> = optional(partitions).into_iter().map(|n| n.map(|n| n as usize)).collect();
    let of = |choice: Choice| match choice.design {
        DesignKind::Occ => vec![choice],
        // A design that owns pages needs a multi-rooted tree, and gets one unless other trees were
        // asked for; that combination is refused.
        design if design.owns_pages() && (trees.is_empty() || trees.contains(&TreeArg::Mrbtree)) => {
            times(vec![choice], &[TreeKind::MultiRooted], |c, v| c.options.trees = v)
        }
        _ => times(vec![choice], &given, |c, v| c.options.trees = v),
    };
    let divided = |choice: Choice| match choice.options.trees {
        TreeKind::BTree => vec![choice],
        TreeKind::MultiRooted => times(vec![choice], &parts, |c, v| c.options.partitions = v),
    };
    all.into_iter().flat_map(of).flat_map(divided).collect()
}

/// Which rows share a heap page and how pages are read, for designs in which that makes a
/// difference.
pub(crate) fn in_heaps(all: Vec<Choice>, heaps: &[HeapArg], latching: &[LatchingArg]) -> Vec<Choice> {
    let given: Vec<HeapForm> =
        list(heaps, || vec![HeapArg::Shared]).into_iter().map(HeapForm::from).collect();
    let latching: Vec<Latching> = latching
        .iter()
        .map(|arg| match arg {
            LatchingArg::Optimistic => Latching::Optimistic,
            LatchingArg::Coupled => Latching::Coupled,
        })
        .collect();
    let housed = |choice: Choice| match (choice.design, choice.design.heap_form()) {
        (DesignKind::Occ, _) => vec![choice],
        // A design gets the heap form that it needs, unless other forms were asked for; that
        // combination is refused.
        (_, form) if form != HeapForm::Shared && (heaps.is_empty() || given.contains(&form)) => {
            times(vec![choice], &[form], |c, v| c.options.heaps = v)
        }
        _ => times(vec![choice], &given, |c, v| c.options.heaps = v),
    };
    let latched = |choice: Choice| match choice.design {
        DesignKind::Occ | DesignKind::Serial => vec![choice],
        _ => times(vec![choice], &latching, |c, v| c.options.latching = v),
    };
    all.into_iter().flat_map(housed).flat_map(latched).collect()
}

/// The conflict rule, reads and prefetch of `occ`; other designs run once, with the first value of
/// each.
pub(crate) fn in_occ(
    all: Vec<Choice>,
    conflicts: &[OccConflictArg],
    reads: &[OccReadsArg],
    aheads: &[OccAheadArg],
) -> Vec<Choice> {
    let conflict = |c: &mut Choice, arg| {
        c.options.occ_conflict = match arg {
            OccConflictArg::Wait => OccConflict::Wait,
            OccConflictArg::Abort => OccConflict::Abort,
        }
    };
    let read = |c: &mut Choice, arg| {
        c.options.occ_reads = match arg {
            OccReadsArg::Validate => OccReads::Validate,
            OccReadsArg::Snapshot => OccReads::Snapshot,
        }
    };
    let ahead = |c: &mut Choice, arg| {
        c.options.occ_ahead = match arg {
            OccAheadArg::Requests => OccAhead::Requests,
            OccAheadArg::Steps => OccAhead::Steps,
        }
    };
    let each = |choice: Choice| match choice.design {
        DesignKind::Occ => times(times(times(vec![choice], conflicts, conflict), reads, read), aheads, ahead),
        _ => times(vec![choice], &conflicts[..1.min(conflicts.len())], conflict),
    };
    all.into_iter().flat_map(each).collect()
}

/// Keys follow the load only where workers own keys; in a sweep with such designs, the others run
/// without balancing.
pub(crate) fn among_owners(all: Vec<Choice>, given: &[BalanceArg]) -> Vec<Choice> {
    let owns = |c: &Choice| c.design.owns_keys();
    if !all.iter().any(owns) {
        return times(all, given, |c, v| c.options.balance.mode = v.into());
    }
    let of = |c: Choice| {
        if owns(&c) { times(vec![c], given, |c, v| c.options.balance.mode = v.into()) } else { vec![c] }
    };
    all.into_iter().flat_map(of).collect()
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
        DurabilityArg::Async => Durability::Async,
        DurabilityArg::Memory => Durability::Memory,
    }
}

pub(crate) fn inheritance_of(arg: SliArg) -> Inheritance {
    match arg {
        SliArg::On => Inheritance::On,
        SliArg::Off => Inheritance::Off,
    }
}

pub(crate) fn op_of(arg: OpArg) -> Op {
    match arg {
        OpArg::Read => Op::Read,
        OpArg::Update => Op::Update,
        OpArg::Mixed => Op::Mixed,
    }
}
