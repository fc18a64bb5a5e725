//! The live machine, from `/sys/devices/system` and `/proc`.
//!
//! `docs/islands.md` explains why this does not use hwloc. Every file may be missing
//! (a sandbox without `/sys`, an architecture that names no caches). Then the value stays unknown;
//! at least the CPUs of the affinity mask are known.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bind;
use crate::cgroup;
use crate::cpu::{CpuId, NodeId, parse_cpu_list};
use crate::error::MachineError;
use crate::machine::{Machine, NumaNode, Source};
use crate::tables::{Numa, RawPu, assemble};

/// The machine under this process, with its affinity mask and control-group limits.
pub(crate) fn live() -> Result<Machine, MachineError> {
    let mut machine =
        discover(Path::new("/sys/devices/system"), Path::new("/proc/cpuinfo"), &bind::allowed_cpus())
            .map_err(|problem| MachineError::Live { problem })?;
    machine.limits = cgroup::limits();
    Ok(machine)
}

/// The machine that the tree under `system` describes. This process may use the CPUs `mine`.
fn discover(system: &Path, cpuinfo: &Path, mine: &[CpuId]) -> Result<Machine, String> {
    let online = read(&system.join("cpu/online")).and_then(|text| parse_cpu_list(&text)).unwrap_or_default();
    let cpus = if online.is_empty() { mine.to_vec() } else { online };
    let numa = numa(&system.join("node"));
    let nodes = nodes_by_cpu(&system.join("node"), &numa);
    let mut raw: Vec<RawPu> = cpus
        .into_iter()
        .map(|cpu| raw_pu(&system.join(format!("cpu/cpu{cpu}")), cpu, nodes.get(&cpu).copied()))
        .collect();
    // Neighbours lie together: keys are the first CPU of each group, so this is the order of the
    // hardware.
    raw.sort_by_key(|pu| (pu.package, pu.l3.map(|(first, _)| first), pu.core, pu.cpu));
    let mut machine = assemble(Source::Live, model(cpuinfo), raw, numa)?;
    machine.pus.iter_mut().for_each(|pu| pu.allowed = mine.contains(&pu.cpu));
    Ok(machine)
}

fn raw_pu(folder: &Path, cpu: CpuId, node: Option<NodeId>) -> RawPu {
    let siblings = ["topology/core_cpus_list", "topology/thread_siblings_list"];
    let core = siblings.iter().find_map(|name| first_cpu(&folder.join(name)));
    let package = read(&folder.join("topology/physical_package_id"));
    // Some ARM boards report -1: no package is named.
    let package = package.and_then(|text| text.trim().parse::<u64>().ok());
    RawPu { cpu, core: core.unwrap_or(u64::from(cpu.0)), l3: l3(&folder.join("cache")), package, node }
}

/// The first CPU that shares the L3, and its size.
fn l3(folder: &Path) -> Option<(u64, Option<u64>)> {
    let caches = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut level3 =
        caches.filter(|cache| read(&cache.join("level")).is_some_and(|level| level.trim() == "3"));
    let cache = level3.next()?;
    Some((first_cpu(&cache.join("shared_cpu_list"))?, cache_bytes(&cache)))
}

/// `32768K`: always in KiB.
fn cache_bytes(cache: &Path) -> Option<u64> {
    let text = read(&cache.join("size"))?;
    text.trim().strip_suffix('K')?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn first_cpu(path: &Path) -> Option<u64> {
    let cpus = parse_cpu_list(&read(path)?)?;
    cpus.first().map(|cpu| u64::from(cpu.0))
}

fn node_folder(nodes: &Path, node: NodeId) -> PathBuf {
    nodes.join(format!("node{node}"))
}

fn numa(folder: &Path) -> Numa {
    let listed = read(&folder.join("online")).and_then(|text| parse_cpu_list(&text)).unwrap_or_default();
    let nodes: Vec<NumaNode> = listed
        .into_iter()
        .map(|number| NodeId(number.0))
        .map(|node| NumaNode { node, bytes: node_bytes(&node_folder(folder, node)) })
        .collect();
    let row = |node: &NumaNode| -> Option<Vec<u64>> {
        let text = read(&node_folder(folder, node.node).join("distance"))?;
        let row: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        row.filter(|row| row.len() == nodes.len())
    };
    let distances = nodes.iter().map(row).collect::<Option<Vec<_>>>();
    Numa { distances: distances.unwrap_or_default(), nodes }
}

/// From a line such as `Node 0 MemTotal:  6021564 kB`.
fn node_bytes(folder: &Path) -> Option<u64> {
    let text = read(&folder.join("meminfo"))?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

fn nodes_by_cpu(folder: &Path, numa: &Numa) -> BTreeMap<CpuId, NodeId> {
    let mut by_cpu = BTreeMap::new();
    for node in &numa.nodes {
        let list = read(&node_folder(folder, node.node).join("cpulist"));
        for cpu in list.and_then(|text| parse_cpu_list(&text)).unwrap_or_default() {
            by_cpu.entry(cpu).or_insert(node.node);
        }
    }
    by_cpu
}

fn model(cpuinfo: &Path) -> String {
    let text = read(cpuinfo).unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = named.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Two sockets, each one node with two L3 groups of two cores of two threads; siblings are 8
    /// apart.
    fn two_sockets() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "cpu/online", "0-15\n");
        write(root, "node/online", "0-1\n");
        for node in 0..2 {
            let first = node * 4;
            write(
                root,
                &format!("node/node{node}/cpulist"),
                &format!("{first}-{},{}-{}\n", first + 3, first + 8, first + 11),
            );
            write(
                root,
                &format!("node/node{node}/meminfo"),
                &format!("Node {node} MemTotal:     2048 kB\nNode {node} MemFree: 1 kB\n"),
            );
            write(root, &format!("node/node{node}/distance"), if node == 0 { "10 21\n" } else { "21 10\n" });
        }
        for cpu in 0..16 {
            let (core, cache) = (cpu % 8, cpu % 8 / 2 * 2);
            let own = |name: &str| format!("cpu/cpu{cpu}/{name}");
            write(root, &own("topology/core_cpus_list"), &format!("{core},{}\n", core + 8));
            write(root, &own("topology/physical_package_id"), &format!("{}\n", core / 4));
            write(root, &own("cache/index0/level"), "1\n");
            write(root, &own("cache/index3/level"), "3\n");
            write(root, &own("cache/index3/size"), "16384K\n");
            write(
                root,
                &own("cache/index3/shared_cpu_list"),
                &format!("{cache}-{},{}-{}\n", cache + 1, cache + 8, cache + 9),
            );
        }
        write(root, "cpuinfo", "processor\t: 0\nmodel name\t: Two Sockets 3000\n");
        dir
    }

    #[test]
    fn a_tree_of_two_sockets() {
        let dir = two_sockets();
        let mine: Vec<CpuId> = [0, 1, 8, 4].map(CpuId).to_vec();
        let machine = discover(dir.path(), &dir.path().join("cpuinfo"), &mine).unwrap();
        assert_eq!(machine.model, "Two Sockets 3000");
        assert_eq!((machine.pus.len(), machine.l3.len(), machine.nodes.len()), (16, 4, 2));
        assert_eq!(machine.l3[0].bytes, Some(16 << 20));
        assert_eq!(machine.nodes[1].bytes, Some(2 << 20));
        assert_eq!(machine.node_distances, [[10, 21], [21, 10]]);
        let islands: Vec<String> =
            machine.islands.iter().map(|island| crate::cpu_list(&island.cpus)).collect();
        assert_eq!(islands, ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]);
        let pu = machine.pu(CpuId(13)).unwrap();
        assert_eq!((pu.core, pu.l3, pu.package, pu.node), (5, 2, 1, Some(NodeId(1))));
        assert_eq!(
            (machine.cores(), machine.l3_groups(), machine.packages()),
            (3, 2, 2),
            "allowed CPUs only"
        );
        assert_eq!(machine.allowed_cpus(), [0, 1, 4, 8].map(CpuId));
    }

    #[test]
    fn without_sys_the_affinity_mask_is_what_is_known() {
        let nothing = Path::new("/nonexistent");
        let machine = discover(nothing, nothing, &[CpuId(3), CpuId(17)]).unwrap();
        assert_eq!((machine.cores(), machine.packages(), machine.islands.len()), (2, 1, 1));
        assert!(machine.nodes.is_empty() && machine.l3[0].bytes.is_none());
        assert!(discover(nothing, nothing, &[]).is_err());
    }
}
