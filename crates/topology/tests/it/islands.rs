//! Islands from latency alone, for each machine of which there is a file. The expected values come
//! from the hardware's data sheets and the numbering of each system, not from the algorithm. Where
//! the data shows less than the hardware has, the table notes it and expects the levels that the
//! data supports.

use std::collections::BTreeSet;

use topology::{CpuId, LatencyMatrix, Level, LevelKind, Machine, find_levels, island_groups};

use crate::{described, lists, machines};

/// The numbering of SMT siblings on a system.
#[derive(Clone, Copy)]
enum Siblings {
    /// One thread a core.
    None,
    /// 0 and 1, 2 and 3.
    Adjacent,
    /// 0 and n/2, 1 and n/2+1.
    Half,
    /// Adjacent for the first sixteen CPUs (eight P-cores), none for the eight E-cores after them.
    Hybrid,
}
use Siblings::{Adjacent, Half, Hybrid, None as Single};

struct Expected {
    file: &'static str,
    cpus: usize,
    siblings: Siblings,
    /// Number of cores in each group that shares a cache, in order; empty = one group, no such
    /// level.
    caches: &'static [usize],
    /// Number of sockets that the data shows, in equal parts; 1 = no such level.
    sockets: usize,
    islands: usize,
    /// The difference between data and hardware, or the reason for the expected values.
    note: &'static str,
}

const CCX4_X32: [usize; 32] = [4; 32];
const CCX8_X12: [usize; 12] = [8; 12];
const CCX3_X8: [usize; 8] = [3; 8];
const TILES: [usize; 32] = [2; 32];

const fn machine(
    file: &'static str,
    cpus: usize,
    siblings: Siblings,
    caches: &'static [usize],
    sockets: usize,
    islands: usize,
    note: &'static str,
) -> Expected {
    Expected { file, cpus, siblings, caches, sockets, islands, note }
}

#[rustfmt::skip]
const TABLE: [Expected; 30] = [
    machine("amd-epyc-7r13-48-core.csv", 192, Half, &CCX8_X12, 2, 12, "Zen 3, 2 x 6 CCX of 8; socket 1 shows by profile only"),
    machine("amd-ryzen-7-2700x-eight-core.csv", 16, Adjacent, &[4, 4], 1, 2, "Zen+, 2 CCX of 4"),
    machine("amd-ryzen-7-5700x.csv", 16, Half, &[], 1, 1, "Zen 3, one CCX of 8"),
    machine("amd-ryzen-7-5800u.csv", 16, Adjacent, &[], 1, 1, "Zen 3, one CCX of 8"),
    machine("amd-ryzen-9-5900hx.csv", 16, Adjacent, &[], 1, 1, "Zen 3, one CCX of 8"),
    machine("amd-ryzen-9-5900x.csv", 24, Adjacent, &[6, 6], 1, 2, "Zen 3, 2 CCX of 6"),
    machine("amd-ryzen-9-5950x.csv", 32, Half, &[8, 8], 1, 2, "Zen 3, 2 CCX of 8"),
    machine("amd-ryzen-threadripper-3960x.csv", 48, Half, &CCX3_X8, 1, 8, "Zen 2, 8 CCX of 3; their distances differ (74 to 100 ns) but form no further level"),
    machine("apple-m1-pro.csv", 8, Single, &[2, 3, 3], 1, 3, "2 efficiency cores and two clusters of 3, each around its own L2"),
    machine("aws-graviton2.csv", 64, Single, &[], 1, 1, "one mesh of 64; pairs of one tile are 30 to 45 ns apart, the mesh 34 to 53: no level"),
    machine("dual-amd-epyc-7742-64-core.csv", 256, Half, &CCX4_X32, 2, 32, "Zen 2, 2 x 16 CCX of 4; socket 0 shows by profile only"),
    machine("dual-ibm-power7-8-cores.csv", 16, Single, &[], 2, 2, "2 x 8, one thread a core in the data"),
    machine("dual-intel-xeon-e5-2630-v4.csv", 40, Half, &[], 2, 2, "2 x 10; one pair of siblings is noisy (12 ns)"),
    machine("dual-intel-xeon-e5-2680-v4.csv", 56, Half, &[], 2, 2, "2 x 14"),
    machine("dual-intel-xeon-x5650.csv", 24, Half, &[], 2, 2, "2 x 6"),
    machine("dual-sun-oracle-sparc-t4-8-cores.csv", 16, Single, &[], 2, 2, "2 x 8, one thread a core in the data"),
    machine("ibm-ppc970-2-2.csv", 2, Single, &[], 1, 1, "two processors, but one pair of CPUs has nothing to be compared with"),
    machine("intel-atom-d510.csv", 4, Half, &[], 1, 1, "2 cores that meet on the bus (86 ns); no level above SMT to make islands of"),
    machine("intel-core-i5-10310u.csv", 8, Half, &[], 1, 1, "4 cores, one L3"),
    machine("intel-core-i5-4590.csv", 4, Single, &[], 1, 1, "4 cores, one L3"),
    machine("intel-core-i7-1165g7.csv", 8, Half, &[], 1, 1, "4 cores, one L3"),
    machine("intel-core-i7-6700k.csv", 8, Adjacent, &[], 1, 1, "4 cores, one L3"),
    machine("intel-core-i9-12900k.csv", 24, Hybrid, &[], 1, 1, "8 P + 8 E; an E-cluster's cores are farther apart (50 ns) than from P-cores (40 ns), so the data has no cluster level"),
    machine("intel-core-i9-9900k.csv", 16, Adjacent, &[], 1, 1, "8 cores, one L3"),
    machine("intel-xeon-e5-2695-v4.csv", 72, Half, &[], 2, 2, "2 x 18; the file's name says one, its 72 CPUs say two"),
    machine("intel-xeon-gold-6242.csv", 32, Half, &[], 1, 1, "one socket of 16; one pair of siblings is noisy (14 ns)"),
    machine("intel-xeon-phi-7210.csv", 64, Single, &TILES, 1, 32, "32 tiles of 2 cores around an L2, one mesh"),
    machine("intel-xeon-platinum-8275cl.csv", 96, Half, &[], 2, 2, "2 x 24"),
    machine("loongson-3a5000hv.csv", 4, Single, &[], 1, 1, "4 cores, one L3"),
    machine("m1-ultra-16p+4e.csv", 20, Single, &[], 1, 1, "noise: 40 to 84 ns in no pattern, as if the threads had not stayed on their cores; its two dies and clusters do not show"),
];

impl Expected {
    fn threads_of(&self, core: usize) -> Vec<CpuId> {
        let threads = match self.siblings {
            Single => vec![core],
            Adjacent => vec![2 * core, 2 * core + 1],
            Half => vec![core, core + self.cpus / 2],
            Hybrid if core < 8 => vec![2 * core, 2 * core + 1],
            Hybrid => vec![core + 8],
        };
        threads.into_iter().map(|cpu| CpuId(cpu as u32)).collect()
    }

    fn cores(&self) -> usize {
        match self.siblings {
            Single => self.cpus,
            Adjacent | Half => self.cpus / 2,
            Hybrid => 16,
        }
    }

    /// Consecutive cores in groups of the given sizes.
    fn groups(&self, sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<CpuId>> {
        let mut first = 0;
        let group = |size: usize| {
            let mut cpus: Vec<CpuId> = (first..first + size).flat_map(|core| self.threads_of(core)).collect();
            first += size;
            cpus.sort_unstable();
            cpus
        };
        sizes.into_iter().map(group).collect()
    }

    fn levels(&self) -> Vec<(LevelKind, Vec<Vec<CpuId>>)> {
        let mut levels = Vec::new();
        if !matches!(self.siblings, Single) {
            levels.push((LevelKind::Smt, self.groups(vec![1; self.cores()])));
        }
        if !self.caches.is_empty() {
            levels.push((LevelKind::Cache, self.groups(self.caches.iter().copied())));
        }
        if self.sockets > 1 {
            levels.push((LevelKind::Socket, self.groups(vec![self.cores() / self.sockets; self.sockets])));
        }
        levels
    }
}

#[test]
fn every_machine_shows_the_levels_of_its_hardware() {
    for expected in &TABLE {
        let machine = described(expected.file);
        let context = format!("{} ({})", expected.file, expected.note);
        assert_eq!(machine.pus.len(), expected.cpus, "{context}");
        let found: Vec<(LevelKind, Vec<String>)> =
            machine.levels.iter().map(|level| (level.kind, lists(&level.groups))).collect();
        let wanted: Vec<(LevelKind, Vec<String>)> =
            expected.levels().into_iter().map(|(kind, groups)| (kind, lists(&groups))).collect();
        assert_eq!(found, wanted, "{context}");
        assert_eq!(machine.islands.len(), expected.islands, "{context}");
        assert_eq!((machine.packages(), machine.cores()), (expected.sockets, expected.cores()), "{context}");
    }
}

#[test]
fn the_table_covers_every_file() {
    let files =
        std::fs::read_dir(machines()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name.ends_with(".csv")).collect();
    let table: BTreeSet<String> = TABLE.iter().map(|expected| expected.file.to_owned()).collect();
    assert_eq!(files, table);
}

#[test]
fn medians_of_the_large_epyc_are_those_of_the_literature() {
    let machine = described("amd-epyc-7r13-48-core.csv");
    let cache = machine.levels.iter().find(|level| level.kind == LevelKind::Cache).unwrap();
    assert!((22.0..24.0).contains(&cache.inside_ns), "{}", cache.inside_ns);
    assert!((194.0..198.0).contains(&cache.outside_ns), "{}", cache.outside_ns);
}

/// The result does not depend on the order in which the CPUs are listed.
#[test]
fn the_order_of_cpus_does_not_matter() {
    for file in ["amd-ryzen-threadripper-3960x.csv", "dual-intel-xeon-e5-2680-v4.csv", "apple-m1-pro.csv"] {
        let machine = described(file);
        let matrix = machine.latency.as_ref().unwrap();
        let n = matrix.cpus().len();
        // The step must be coprime to `n`: 7 is, except for multiples of 7 such as 56, which take
        // 5.
        let step = if n.is_multiple_of(7) { 5 } else { 7 };
        let order: Vec<CpuId> = (0..n).map(|at| matrix.cpus()[at * step % n]).collect();
        let ns = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
        let ns = ns.map(|(i, j)| matrix.between(order[i], order[j]).unwrap()).collect();
        let shuffled = LatencyMatrix::new(order, ns).unwrap();
        let groups = |levels: &[Level]| -> Vec<Vec<String>> {
            levels.iter().map(|level| lists(&level.groups)).collect()
        };
        assert_eq!(groups(&find_levels(&shuffled)), groups(&machine.levels), "{file}");
    }
}

/// A matrix of `n` CPUs from a function of two of them.
fn matrix(n: u32, ns: impl Fn(u32, u32) -> f64) -> LatencyMatrix {
    let values = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| ns(i, j)).collect();
    LatencyMatrix::new((0..n).map(CpuId).collect(), values).unwrap()
}

#[test]
fn four_sockets_are_found_and_one_noisy_cpu_is_not_an_island() {
    let sockets =
        matrix(24, |i, j| if i / 6 == j / 6 { 45.0 + f64::from(i % 3) } else { 130.0 + f64::from(j % 5) });
    let levels = find_levels(&sockets);
    assert_eq!(levels.len(), 1);
    assert_eq!(lists(&levels[0].groups), ["0-5", "6-11", "12-17", "18-23"]);
    assert_eq!(levels[0].kind, LevelKind::Socket);
    let noisy = matrix(8, |i, _| if i == 7 { 90.0 } else { 40.0 });
    assert!(find_levels(&noisy).is_empty());
    assert_eq!(lists(&island_groups(&[], &noisy)), ["0-7"]);
}

#[test]
fn too_few_cpus_show_nothing() {
    assert!(find_levels(&matrix(2, |_, _| 50.0)).is_empty());
    assert!(find_levels(&matrix(1, |_, _| 50.0)).is_empty());
    assert!(LatencyMatrix::new(vec![CpuId(0), CpuId(0)], vec![1.0]).is_none());
    assert!(LatencyMatrix::new(vec![CpuId(0), CpuId(1)], vec![f64::NAN]).is_none());
}

/// Measured islands overrule the caches that a virtual machine names, and unmeasured CPUs stay with
/// their relatives.
#[test]
fn latency_overrules_named_caches() {
    let machine = Machine::parse("package:1 core:8 pu:2").unwrap();
    assert_eq!(machine.islands.len(), 1);
    let even: Vec<CpuId> = (0..8).map(|core| CpuId(2 * core)).collect();
    let ns = (0..8).flat_map(|i| (0..i).map(move |j| if i / 4 == j / 4 { 20.0 } else { 90.0 })).collect();
    let machine = machine.with_latency(LatencyMatrix::new(even, ns).unwrap());
    let islands: Vec<Vec<CpuId>> = machine.islands.iter().map(|island| island.cpus.clone()).collect();
    assert_eq!(lists(&islands), ["0-7", "8-15"], "siblings 1, 3, .. were not measured");
    assert_eq!(machine.l3_groups(), 2);
}
