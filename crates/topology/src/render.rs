//! A picture of the machine for a person at a terminal.

use std::fmt::Write;

use base::counted;

use crate::cluster::LevelKind;
use crate::cpu::{CpuId, cpu_list};
use crate::latency::LatencyMatrix;
use crate::machine::{Island, IslandSource, Machine, Source};

/// Up to this number of CPUs the whole matrix is drawn; above, the islands' medians.
const WHOLE_MATRIX: usize = 16;

/// Up to this number of islands their medians are drawn as a matrix (7 columns each).
const ISLAND_MATRIX: usize = 16;

/// The machine as text: its model, its packages with their islands, its levels, and the latencies.
/// Lines end in `\n` and stay under 120 columns with ordinary names.
pub fn picture(machine: &Machine) -> String {
    let mut out = String::new();
    heading(&mut out, machine);
    packages(&mut out, machine);
    memory(&mut out, machine);
    levels(&mut out, machine);
    match &machine.latency {
        Some(latency) => latencies(&mut out, machine, latency),
        None => line(&mut out, format!("\n{}", no_latency(machine))),
    }
    out
}

fn line(out: &mut String, text: impl AsRef<str>) {
    out.push_str(text.as_ref());
    out.push('\n');
}

fn heading(out: &mut String, machine: &Machine) {
    let described = match &machine.source {
        Source::Live => String::new(),
        Source::Xml(path) => format!("  (described by hwloc XML {path})"),
        Source::LatencyCsv(path) => format!("  (described by latencies {path})"),
        Source::Synthetic(text) => format!("  (synthetic \"{text}\")"),
    };
    line(out, format!("{}{described}", machine.model));
    let counts = [
        counted(machine.packages(), "socket"),
        counted(machine.islands.len(), "island"),
        counted(machine.cores(), "core"),
        counted(machine.pus.len(), "CPU"),
    ];
    let by = match machine.island_source {
        IslandSource::Latency => "islands from measured latency",
        IslandSource::Caches => "islands from the caches the hardware names",
    };
    line(out, format!("{}; {by}", counts.join(", ")));
    let allowed = machine.allowed_cpus();
    if allowed.len() < machine.pus.len() {
        line(out, format!("this process may use CPU {} only", cpu_list(&allowed)));
    }
    if let Some(cpus) = machine.limits.cpus {
        line(out, format!("control group: {cpus:.2} CPUs of time"));
    }
    if let Some(bytes) = machine.limits.memory_bytes {
        line(out, format!("control group: {} of memory", size(bytes)));
    }
}

/// One box per package, one row per island, one `[...]` per core with its SMT siblings.
fn packages(out: &mut String, machine: &Machine) {
    let mut numbers: Vec<u32> = machine.pus.iter().map(|pu| pu.package).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for package in numbers {
        line(out, format!("\nsocket {package}"));
        for (number, island) in machine.islands.iter().enumerate() {
            let here = |cpu: &CpuId| machine.pu(*cpu).is_some_and(|pu| pu.package == package);
            let cpus: Vec<CpuId> = island.cpus.iter().copied().filter(here).collect();
            if !cpus.is_empty() {
                island_row(out, machine, number, &cpus);
            }
        }
    }
}

fn island_row(out: &mut String, machine: &Machine, number: usize, cpus: &[CpuId]) {
    let cores = machine.cores_of(cpus);
    let cache =
        cpus.first().and_then(|cpu| machine.l3_bytes(*cpu)).map(|bytes| format!(", L3 {}", size(bytes)));
    let node = machine.node_of(cpus).map(|node| format!(", node {node}"));
    let (cache, node) = (cache.unwrap_or_default(), node.unwrap_or_default());
    line(
        out,
        format!("  island {number}: {}, CPU {}{cache}{node}", counted(cores.len(), "core"), cpu_list(cpus)),
    );
    for row in cores.chunks(8) {
        let drawn: Vec<String> = row.iter().map(|siblings| core(machine, siblings)).collect();
        line(out, format!("    {}", drawn.join(" ")));
    }
}

/// `[0 96]`; a CPU that this process may not use is in parentheses.
fn core(machine: &Machine, siblings: &[CpuId]) -> String {
    let cpu = |cpu: &CpuId| match machine.pu(*cpu) {
        Some(pu) if !pu.allowed => format!("({cpu})"),
        _ => cpu.to_string(),
    };
    format!("[{}]", siblings.iter().map(cpu).collect::<Vec<_>>().join(" "))
}

fn memory(out: &mut String, machine: &Machine) {
    if machine.nodes.is_empty() {
        return;
    }
    line(out, "\nNUMA nodes (distances: 10 = local)");
    for (at, node) in machine.nodes.iter().enumerate() {
        let bytes = node.bytes.map_or_else(|| "memory unknown".to_owned(), size);
        let distances = machine.node_distances.get(at).map(|row| {
            format!("  distances {}", row.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
        });
        line(out, format!("  node {}: {bytes}{}", node.node, distances.unwrap_or_default()));
    }
}

fn levels(out: &mut String, machine: &Machine) {
    if machine.levels.is_empty() {
        return;
    }
    line(out, "\nlevels found in the latencies (one way, medians)");
    for level in &machine.levels {
        let name = match level.kind {
            LevelKind::Smt => "SMT siblings",
            LevelKind::Cache => "shared cache",
            LevelKind::Socket => "socket",
        };
        let groups = counted(level.groups.len(), "group");
        line(
            out,
            format!(
                "  {name:<12}  {groups:<10}  {:.0} ns inside, {:.0} ns outside",
                level.inside_ns, level.outside_ns
            ),
        );
    }
}

fn no_latency(machine: &Machine) -> &'static str {
    match machine.is_live() {
        true => "core-to-core latency not measured (--probe measures it)",
        false => "no core-to-core latencies in this description",
    }
}

fn latencies(out: &mut String, machine: &Machine, latency: &LatencyMatrix) {
    let cpus = latency.cpus();
    if cpus.len() < 2 {
        line(out, "\none CPU only: there is no core-to-core latency");
    } else if cpus.len() <= WHOLE_MATRIX {
        line(out, "\ncore-to-core latency, ns one way");
        let names = cpus.iter().map(CpuId::to_string).collect::<Vec<_>>();
        matrix(out, &names, |i, j| (i != j).then(|| latency.at(i, j)));
    } else if machine.islands.len() <= ISLAND_MATRIX {
        line(out, "\nisland-to-island latency, median ns one way (diagonal: inside the island)");
        let names = (0..machine.islands.len()).map(|n| n.to_string()).collect::<Vec<_>>();
        let group = |n: usize| machine.islands[n].cpus.as_slice();
        matrix(out, &names, |i, j| latency.median_between(group(i), group(j)));
    } else {
        line(out, format!("\nlatency between islands: {}", span(latency, &machine.islands)));
    }
}

/// The range of the medians, for more islands than a terminal is wide.
fn span(latency: &LatencyMatrix, islands: &[Island]) -> String {
    let pairs = islands.iter().enumerate().flat_map(|(at, a)| islands[..at].iter().map(move |b| (a, b)));
    let medians = pairs.filter_map(|(a, b)| latency.median_between(&a.cpus, &b.cpus));
    let (least, most) = medians.fold((f64::INFINITY, 0.0_f64), |(lo, hi), ns| (lo.min(ns), hi.max(ns)));
    format!("{least:.0} to {most:.0} ns one way (medians of {} islands)", islands.len())
}

fn matrix(out: &mut String, names: &[String], cell: impl Fn(usize, usize) -> Option<f64>) {
    let mut row = "      ".to_owned();
    names.iter().for_each(|name| _ = write!(row, "{name:>7}"));
    line(out, &row);
    for (i, name) in names.iter().enumerate() {
        row = format!("{name:>6}");
        for j in 0..names.len() {
            match cell(i, j) {
                Some(ns) if ns < 100.0 => _ = write!(row, "{ns:>7.1}"),
                Some(ns) => _ = write!(row, "{ns:>7.0}"),
                None => row.push_str("      -"),
            }
        }
        line(out, &row);
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}
