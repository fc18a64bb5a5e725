//! The placement of workers: the four placements and the sizes, on described machines.

use std::collections::{BTreeMap, BTreeSet};

use topology::{
    CpuId, IslandCount, Layout, Limits, Machine, NodeId, Placement, PlacementError, default_islands, place,
};

use crate::{described, synthetic};

/// The CPUs of each instance as numbers.
fn cpus(layout: &Layout) -> Vec<Vec<u32>> {
    let instance = |cpus: &Vec<Option<CpuId>>| cpus.iter().flatten().map(|cpu| cpu.0).collect();
    layout.instances.iter().map(|place| instance(&place.cpus)).collect()
}

fn laid(machine: &Machine, instances: usize, workers: usize, placement: Placement) -> Vec<Vec<u32>> {
    cpus(&place(machine, instances, workers, placement).unwrap())
}

#[test]
fn the_papers_quad_socket_with_four_workers() {
    let quad = synthetic("package:4 core:6");
    assert_eq!(laid(&quad, 1, 4, Placement::Island), [[0, 1, 2, 3]]);
    assert_eq!(laid(&quad, 1, 4, Placement::Spread), [[0, 6, 12, 18]]);
    assert_eq!(laid(&quad, 1, 4, Placement::Mix), [[0, 1, 6, 7]]);
    let os = place(&quad, 1, 4, Placement::Os).unwrap();
    assert_eq!(os.instances[0].cpus, [None; 4]);
}

#[test]
fn four_instances_on_the_quad_socket() {
    let quad = synthetic("package:4 [numa] core:6");
    let islands = laid(&quad, 4, 24, Placement::Island);
    assert_eq!(islands[0], [0, 1, 2, 3, 4, 5]);
    assert_eq!(islands[3], [18, 19, 20, 21, 22, 23]);
    let layout = place(&quad, 4, 24, Placement::Island).unwrap();
    let nodes: Vec<Option<NodeId>> = layout.instances.iter().map(|instance| instance.node).collect();
    assert_eq!(nodes, [0, 1, 2, 3].map(|node| Some(NodeId(node))));
    let spread = laid(&quad, 4, 24, Placement::Spread);
    for instance in &spread {
        let sockets: BTreeSet<u32> = instance.iter().map(|cpu| cpu / 6).collect();
        assert_eq!(sockets.len(), 4, "{spread:?}");
    }
    let mix = laid(&quad, 4, 24, Placement::Mix);
    for instance in &mix {
        let mut per_socket: BTreeMap<u32, usize> = BTreeMap::new();
        instance.iter().for_each(|cpu| *per_socket.entry(cpu / 6).or_default() += 1);
        assert_eq!(per_socket.values().copied().collect::<Vec<_>>(), [3, 3], "{mix:?}");
    }
}

#[test]
fn the_drawing_in_the_source_is_true() {
    let two = synthetic("package:2 core:4");
    assert_eq!(laid(&two, 2, 8, Placement::Island), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(laid(&two, 2, 8, Placement::Mix), [[0, 1, 6, 7], [4, 5, 2, 3]]);
    assert_eq!(laid(&two, 2, 8, Placement::Spread), [[0, 4, 1, 5], [2, 6, 3, 7]]);
}

#[test]
fn cores_come_before_siblings_and_siblings_spread_evenly() {
    let smt = synthetic("package:2 core:2 pu:2");
    assert_eq!(laid(&smt, 2, 4, Placement::Island), [[0, 2], [4, 6]]);
    assert_eq!(laid(&smt, 2, 6, Placement::Island), [[0, 2, 3], [4, 6, 7]]);
    let full = laid(&smt, 2, 8, Placement::Island);
    assert_eq!(full, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let layout = place(&smt, 2, 6, Placement::Island).unwrap();
    assert!(layout.oversubscribed, "siblings are not cores");
    assert!(!place(&smt, 2, 4, Placement::Island).unwrap().oversubscribed);
}

/// Over many machines, sizes and counts: every worker has a seat, no CPU is used twice while
/// another is free, and whole instances stay inside an island whenever they evenly fit.
#[test]
fn seats_are_used_once_and_instances_stay_together() {
    let machines =
        ["package:4 core:6", "package:2 l3:6 core:8 pu:2", "package:1 core:1", "package:3 core:5 pu:2"];
    for (text, placement) in machines.iter().flat_map(|m| Placement::ALL.map(|p| (m, p))) {
        let machine = synthetic(text);
        for workers in (1..=machine.pus.len() + 3).step_by(if machine.pus.len() > 100 { 7 } else { 1 }) {
            for instances in (1..=workers).filter(|n| n <= &6 || workers % n == 0) {
                let layout = place(&machine, instances, workers, placement).unwrap();
                let context = format!("{text}, {instances} of {workers}, {placement}");
                assert_eq!(layout.workers(), workers, "{context}");
                assert_eq!(layout.instances.len(), instances, "{context}");
                if placement != Placement::Os {
                    check_use(&machine, &layout, workers, &context);
                }
            }
        }
    }
    let epyc = described("amd-epyc-7r13-48-core.csv");
    for instance in laid(&epyc, 24, 96, Placement::Island) {
        let groups: BTreeSet<u32> = instance.iter().map(|cpu| cpu % 96 / 8).collect();
        assert_eq!(groups.len(), 1, "{instance:?}");
    }
}

fn check_use(machine: &Machine, layout: &Layout, workers: usize, context: &str) {
    let used: Vec<u32> = cpus(layout).concat();
    assert_eq!(used.len(), workers, "{context}: pinned");
    let mut per_core: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in &used {
        *per_core.entry(machine.pu(CpuId(*cpu)).unwrap().core).or_default() += 1;
    }
    let most = workers.div_ceil(machine.cores());
    assert!(per_core.values().all(|count| *count <= most), "{context}: {per_core:?}");
    let distinct: BTreeSet<u32> = used.iter().copied().collect();
    assert_eq!(distinct.len(), workers.min(machine.pus.len()).min(used.len()), "{context}");
}

#[test]
fn only_allowed_cpus_are_used_and_a_quota_oversubscribes() {
    let mut machine = synthetic("package:2 core:4");
    machine.pus.iter_mut().for_each(|pu| pu.allowed = [1, 3, 6].contains(&pu.cpu.0));
    assert_eq!(laid(&machine, 3, 3, Placement::Island).concat().iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(laid(&machine, 1, 3, Placement::Spread), [[1, 6, 3]]);
    assert_eq!((machine.default_workers(), machine.packages()), (3, 2));
    assert_eq!(machine.stamp_pair(), Some((CpuId(1), CpuId(6))));
    machine.limits = Limits { cpus: Some(2.0), memory_bytes: None };
    assert!(place(&machine, 1, 3, Placement::Island).unwrap().oversubscribed);
    assert!(!place(&machine, 1, 2, Placement::Island).unwrap().oversubscribed);
    machine.pus.iter_mut().for_each(|pu| pu.allowed = false);
    assert_eq!(place(&machine, 1, 1, Placement::Os), Err(PlacementError::NoCpu));
}

#[test]
fn words_resolve_per_machine() {
    let quad = synthetic("package:4 l3:2 core:3 pu:2");
    let count = |word: &str, workers| word.parse::<IslandCount>().unwrap().resolve(&quad, workers);
    assert_eq!(count("shared", 24), Ok(1));
    assert_eq!(count("per-socket", 24), Ok(4));
    assert_eq!(count("per-l3", 24), Ok(8));
    assert_eq!(count("per-core", 24), Ok(24));
    assert_eq!(count("7", 24), Ok(7));
    assert_eq!(count("per-core", 3), Ok(3), "one per core that is used");
    assert_eq!(default_islands(&quad, 24), [1, 4, 8, 24]);
    assert_eq!(default_islands(&quad, 5), [1, 4]);
    assert_eq!(default_islands(&synthetic("package:1 core:2"), 2), [1, 2]);
    assert_eq!(default_islands(&described("amd-epyc-7r13-48-core.csv"), 96), [1, 2, 12, 96]);
    for word in ["1", "per-core", "per-l3", "per-socket", "shared"] {
        assert_eq!(word.parse::<IslandCount>().unwrap().to_string(), word);
    }
}

#[test]
fn impossible_requests_say_what_to_do() {
    let quad = synthetic("package:4 core:6");
    let text = |result: Result<Layout, PlacementError>| result.unwrap_err().to_string();
    let cases = [
        (text(place(&quad, 25, 24, Placement::Island)), "islands 25: more instances than the 24 worker(s)"),
        (text(place(&quad, 0, 24, Placement::Os)), "islands 0"),
        (text(place(&quad, 1, 0, Placement::Os)), "workers 0"),
        (text(place(&quad, 1, usize::MAX, Placement::Os)), "expected at most 1536"),
        ("0".parse::<IslandCount>().unwrap_err().to_string(), "islands 0"),
        ("-3".parse::<IslandCount>().unwrap_err().to_string(), "islands \"-3\""),
        ("per-rack".parse::<IslandCount>().unwrap_err().to_string(), "per-socket"),
        ("group".parse::<Placement>().unwrap_err().to_string(), "island, spread, mix or os"),
        (IslandCount::Count(9).resolve(&quad, 8).unwrap_err().to_string(), "expected 1 to 8"),
    ];
    for (text, part) in cases {
        assert!(text.contains(part) && text.contains("expected") && !text.contains('\n'), "{text}");
    }
}
