//! `--machine M`: from what was typed to a machine.
//!
//! `live` is the machine under the process; a path is a file, XML or CSV by its content; anything with a colon is an
//! hwloc synthetic string. A path that exists wins over the synthetic reading.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::cluster::{LevelKind, find_levels};
use crate::cpu::CpuId;
use crate::csv::{MOST_CPUS, parse_latencies};
use crate::error::MachineError;
use crate::hw;
use crate::latency::LatencyMatrix;
use crate::machine::{L3Group, Machine, Pu, Source};

/// No description of a real machine comes near this; a larger file is a mistake (a disk image, a core dump).
const MOST_BYTES: u64 = 64 << 20;

const EXPECTED: &str =
    "\"live\", an hwloc XML file, a latency CSV, or a synthetic string such as \"package:4 core:6\"";
const EXPECTED_XML: &str = "an hwloc topology of at least one CPU, as `lstopo machine.xml` writes it";
const EXPECTED_CSV: &str = "a lower triangle of one-way nanoseconds: line i, column j is CPU i to CPU j";
const EXPECTED_SYNTHETIC: &str =
    "hwloc's synthetic form, outermost first, such as \"package:2 l3:2 core:4 pu:2\"";

impl Machine {
    /// The machine under this process. Errors when hwloc cannot read it.
    pub fn live() -> Result<Machine, MachineError> {
        hw::live()
    }

    /// The machine that `argument` names: `live`, a file, or a synthetic string. Errors are one line each and name
    /// the argument.
    pub fn parse(argument: &str) -> Result<Machine, MachineError> {
        let argument = argument.trim();
        if argument == "live" {
            return Machine::live();
        }
        let path = Path::new(argument);
        if path.exists() {
            return from_file(argument, path);
        }
        let looks_like_path = argument.contains('/') || path.extension().is_some();
        if argument.contains(':') && !looks_like_path {
            return from_synthetic(argument);
        }
        let problem = if looks_like_path { "no such file" } else { "not a machine" };
        Err(described(argument, problem.to_owned(), EXPECTED, "correct --machine"))
    }

    /// A machine known by its latencies only: packages, L3 groups and cores are what clustering finds in them.
    pub fn from_latencies(name: &str, latency: LatencyMatrix) -> Machine {
        let levels = find_levels(&latency);
        let group = |kind: LevelKind, cpu: CpuId| -> Option<u32> {
            let level = levels.iter().find(|level| level.kind == kind)?;
            level.groups.iter().position(|group| group.contains(&cpu)).map(|at| at as u32)
        };
        let mut pus = Vec::with_capacity(latency.cpus().len());
        for (at, &cpu) in latency.cpus().iter().enumerate() {
            let package = group(LevelKind::Socket, cpu).unwrap_or(0);
            let l3 = group(LevelKind::Cache, cpu).unwrap_or(package);
            let core = group(LevelKind::Smt, cpu).unwrap_or(at as u32);
            pus.push(Pu { cpu, core, l3, package, node: None, allowed: true });
        }
        let model = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        let mut machine = Machine::from_tables(Source::LatencyCsv(name.to_owned()), model.into_owned(), pus);
        let mut groups: Vec<u32> = machine.pus.iter().map(|pu| pu.l3).collect();
        groups.sort_unstable();
        groups.dedup();
        machine.l3 = groups.into_iter().map(|l3| L3Group { l3, bytes: None }).collect();
        machine.with_latency(latency)
    }
}

fn described(value: &str, problem: String, expected: &'static str, advice: &'static str) -> MachineError {
    MachineError::Described { value: value.to_owned(), problem, expected, advice }
}

fn from_file(argument: &str, path: &Path) -> Result<Machine, MachineError> {
    let text = read_bounded(path)
        .map_err(|problem| described(argument, problem, EXPECTED, "name a readable text file"))?;
    if text.trim_start().starts_with('<') {
        return hw::from_xml(&text, argument).ok_or_else(|| {
            let advice = "write the file again with lstopo on the machine itself";
            described(argument, "hwloc rejects this XML".to_owned(), EXPECTED_XML, advice)
        });
    }
    let matrix = parse_latencies(&text)
        .map_err(|problem| described(argument, problem, EXPECTED_CSV, "correct that line of the file"))?;
    Ok(Machine::from_latencies(argument, matrix))
}

fn read_bounded(path: &Path) -> Result<String, String> {
    let unreadable = |e: std::io::Error| format!("cannot be read ({e})");
    if path.is_dir() {
        return Err("is a directory".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("is larger than {} MiB", MOST_BYTES >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "is not text".to_owned())
}

fn from_synthetic(argument: &str) -> Result<Machine, MachineError> {
    let fail = |problem: String| described(argument, problem, EXPECTED_SYNTHETIC, "correct --machine");
    let leaves = synthetic_leaves(argument).map_err(fail)?;
    if leaves > MOST_CPUS {
        return Err(fail(format!("describes {leaves} CPUs, more than {MOST_CPUS}")));
    }
    // hwloc wants CPUs at the end; who names only cores means one each.
    let with_pus = || hw::from_synthetic(&format!("{argument} pu:1"));
    let mut machine = hw::from_synthetic(argument)
        .or_else(with_pus)
        .ok_or_else(|| fail("hwloc rejects this description".to_owned()))?;
    machine.source = Source::Synthetic(argument.to_owned());
    machine.model = argument.to_owned();
    Ok(machine)
}

/// The product of the counts, to refuse a machine of millions of CPUs before hwloc builds it. Memory attached in
/// brackets, attributes in parentheses, do not multiply.
fn synthetic_leaves(text: &str) -> Result<usize, String> {
    let mut leaves = 1_usize;
    for level in strip_nested(text).split_whitespace() {
        let count = level.rsplit(':').next().unwrap_or(level);
        let count: usize = count.parse().map_err(|_| format!("{level:?} is not TYPE:COUNT"))?;
        if count == 0 {
            return Err(format!("{level:?} counts to zero"));
        }
        leaves = leaves.saturating_mul(count);
    }
    Ok(leaves)
}

fn strip_nested(text: &str) -> String {
    let mut depth = 0_i32;
    let kept = text.chars().filter(|c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => return depth == 0,
        }
        false
    });
    kept.collect()
}
