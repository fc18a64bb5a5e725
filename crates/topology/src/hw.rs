//! Reading a machine through hwloc: the live one, an XML file, a synthetic string.
//!
//! hwloc is asked for facts only; threads and memory are bound by `bind`. Why hwloc and not `/sys`:
//! `docs/decisions/0001-hwloc.md`.

use std::collections::BTreeMap;
use std::fs;

use hwlocality::Topology;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;

use crate::bind;
use crate::cgroup;
use crate::cpu::{CpuId, NodeId};
use crate::error::MachineError;
use crate::machine::{L3Group, Machine, NumaNode, Pu, Source};

/// The machine under this process, with its affinity mask and control-group limits.
pub(crate) fn live() -> Result<Machine, MachineError> {
    let fail = |problem: String, advice| MachineError::Live { problem, advice };
    let topology = Topology::new().map_err(|e| {
        fail(format!("hwloc cannot discover it ({e})"), "check that /sys and /proc are mounted")
    })?;
    if !topology.is_this_system() {
        let problem = "the environment makes hwloc describe another machine".to_owned();
        return Err(fail(problem, "unset HWLOC_XMLFILE, HWLOC_SYNTHETIC and HWLOC_FSROOT"));
    }
    let mut machine = from_hwloc(&topology, Source::Live, String::new())
        .ok_or_else(|| fail("hwloc names no CPU".to_owned(), "check that /sys is mounted"))?;
    let mine = bind::allowed_cpus();
    machine.pus.iter_mut().for_each(|pu| pu.allowed = mine.contains(&pu.cpu));
    if machine.model.is_empty() {
        machine.model = model_from_cpuinfo();
    }
    machine.limits = cgroup::limits();
    Ok(machine)
}

/// The machine in an hwloc XML text; `None` when hwloc rejects it or it names no CPU.
pub(crate) fn from_xml(text: &str, path: &str) -> Option<Machine> {
    let topology = Topology::builder().from_xml(text).ok()?.build().ok()?;
    from_hwloc(&topology, Source::Xml(path.to_owned()), path.to_owned())
}

/// The machine of a synthetic string; `None` when hwloc rejects it, as it does without a last level of CPUs (`pu`).
pub(crate) fn from_synthetic(text: &str) -> Option<Machine> {
    let topology = Topology::builder().from_synthetic(text).ok()?.build().ok()?;
    from_hwloc(&topology, Source::Synthetic(text.to_owned()), text.to_owned())
}

/// `name` stands in where no processor model is told.
fn from_hwloc(topology: &Topology, source: Source, name: String) -> Option<Machine> {
    let mut numbering = Numbering::default();
    let nodes = nodes_by_cpu(topology);
    let mut pus: Vec<Pu> = topology
        .objects_with_type(ObjectType::PU)
        .filter_map(|object| {
            let cpu = CpuId(u32::try_from(object.os_index()?).ok()?);
            Some(numbering.place(object, cpu, nodes.get(&cpu).copied()))
        })
        .collect();
    if pus.is_empty() {
        return None;
    }
    pus.sort_by_key(|pu| pu.cpu);
    let mut machine = Machine::from_tables(source, model(topology).unwrap_or(name), pus);
    machine.l3 = numbering.l3_groups();
    (machine.nodes, machine.node_distances) = numa(topology);
    Some(machine)
}

/// Gives cores, L3 groups and packages numbers in the order they are met, which is hwloc's logical order: neighbours
/// get neighbouring numbers whatever the operating system calls them.
#[derive(Default)]
struct Numbering {
    cores: Vec<u64>,
    packages: Vec<u64>,
    /// Key and size. The key is a cache's, or what stands for it (package, else NUMA node) with its own number.
    l3: Vec<(GroupKey, Option<u64>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum GroupKey {
    Cache(u64),
    Package(u64),
    Node(Option<NodeId>),
}

impl Numbering {
    fn place(&mut self, pu: &TopologyObject, cpu: CpuId, node: Option<NodeId>) -> Pu {
        let id = |object: &TopologyObject| object.global_persistent_index();
        let over = |ty| pu.first_ancestor_with_type(ty);
        let own = id(pu);
        let core = index_of(&mut self.cores, over(ObjectType::Core).map_or(own, id));
        let socket = over(ObjectType::Package).map(id);
        let package = index_of(&mut self.packages, socket.unwrap_or(0));
        let (key, bytes) = match (over(ObjectType::L3Cache), socket) {
            (Some(cache), _) => (GroupKey::Cache(id(cache)), cache_bytes(cache)),
            (None, Some(socket)) => (GroupKey::Package(socket), None),
            (None, None) => (GroupKey::Node(node), None),
        };
        let l3 = match self.l3.iter().position(|(known, _)| *known == key) {
            Some(at) => at as u32,
            None => {
                self.l3.push((key, bytes));
                self.l3.len() as u32 - 1
            }
        };
        Pu { cpu, core, l3, package, node, allowed: true }
    }

    fn l3_groups(&self) -> Vec<L3Group> {
        let groups = self.l3.iter().enumerate();
        groups.map(|(at, (_, bytes))| L3Group { l3: at as u32, bytes: *bytes }).collect()
    }
}

fn index_of(known: &mut Vec<u64>, id: u64) -> u32 {
    match known.iter().position(|k| *k == id) {
        Some(at) => at as u32,
        None => {
            known.push(id);
            known.len() as u32 - 1
        }
    }
}

fn cache_bytes(cache: &TopologyObject) -> Option<u64> {
    match cache.attributes()? {
        ObjectAttributes::Cache(attributes) => attributes.size().map(|size| size.get()),
        _ => None,
    }
}

fn node_bytes(node: &TopologyObject) -> Option<u64> {
    match node.attributes()? {
        ObjectAttributes::NUMANode(attributes) => attributes.local_memory().map(|size| size.get()),
        _ => None,
    }
}

/// The node each CPU is local to. Where several cover a CPU (fast memory beside DRAM), the one named first counts.
fn nodes_by_cpu(topology: &Topology) -> BTreeMap<CpuId, NodeId> {
    let mut by_cpu = BTreeMap::new();
    for object in topology.objects_with_type(ObjectType::NUMANode) {
        let Some(node) = object.os_index().and_then(|index| u32::try_from(index).ok()) else { continue };
        let Some(cpuset) = object.cpuset() else { continue };
        for cpu in cpuset.iter_set() {
            by_cpu.entry(CpuId(usize::from(cpu) as u32)).or_insert(NodeId(node));
        }
    }
    by_cpu
}

fn numa(topology: &Topology) -> (Vec<NumaNode>, Vec<Vec<u64>>) {
    let objects: Vec<&TopologyObject> = topology.objects_with_type(ObjectType::NUMANode).collect();
    let nodes = objects
        .iter()
        .filter_map(|object| {
            let node = NodeId(u32::try_from(object.os_index()?).ok()?);
            Some(NumaNode { node, bytes: node_bytes(object) })
        })
        .collect();
    let matrices = topology.distances_with_type(None, ObjectType::NUMANode).unwrap_or_default();
    let square = matrices.first().and_then(|matrix| {
        let row = |a: &&TopologyObject| -> Option<Vec<u64>> {
            let from = matrix.object_idx(a)?;
            let cell = |b: &&TopologyObject| {
                matrix.distances().get(from * matrix.num_objects() + matrix.object_idx(b)?).copied()
            };
            objects.iter().map(cell).collect()
        };
        objects.iter().map(row).collect::<Option<Vec<_>>>()
    });
    (nodes, square.unwrap_or_default())
}

fn model(topology: &Topology) -> Option<String> {
    let told = |object: &TopologyObject| {
        object
            .info("CPUModel")
            .map(|name| name.to_string_lossy().trim().to_owned())
            .filter(|name| !name.is_empty())
    };
    let packages = topology.objects_with_type(ObjectType::Package);
    packages.into_iter().find_map(told).or_else(|| told(topology.root_object()))
}

fn model_from_cpuinfo() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = named.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
