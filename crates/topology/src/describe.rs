//! `--machine M`: turns the argument into a machine.
//!
//! `live` is the machine under the process. A path is a file, XML or CSV by its content. Any other
//! argument with a colon is an hwloc synthetic string.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::cluster::{LevelKind, find_levels};
use crate::cpu::CpuId;
use crate::csv::parse_latencies;
use crate::error::MachineError;
use crate::latency::LatencyMatrix;
use crate::machine::{L3Group, Machine, Pu, Source};
use crate::{synthetic, sysfs, xml};

/// No description of a real machine is nearly this large; a larger file is a mistake (a disk image,
/// a core dump).
const MOST_BYTES: u64 = 64 << 20;

const EXPECTED: &str =
    "\"live\", an hwloc XML file, a latency CSV, or a synthetic string such as \"package:4 core:6\"";
const EXPECTED_XML: &str = "an hwloc topology of at least one CPU, as `lstopo machine.xml` writes it";
const EXPECTED_CSV: &str = "a lower triangle of one-way nanoseconds: line i, column j is CPU i to CPU j";
const EXPECTED_SYNTHETIC: &str =
    "hwloc's synthetic form, outermost first, such as \"package:2 l3:2 core:4 pu:2\"";

impl Machine {
    /// The machine under this process.
    ///
    /// # Errors
    /// Not a single CPU can be found.
    pub fn live() -> Result<Machine, MachineError> {
        sysfs::live()
    }

    /// The machine that `argument` names: `live`, a file, or a synthetic string.
    ///
    /// # Errors
    /// One line each, which names the argument.
    pub fn parse(argument: &str) -> Result<Machine, MachineError> {
        let argument = argument.trim();
        if argument == "live" {
            return Machine::live();
        }
        let path = Path::new(argument);
        if path.exists() {
            return from_file(argument, path);
        }
        if argument.contains(':') && !argument.contains('/') {
            return from_synthetic(argument);
        }
        let looks_like_path = argument.contains('/') || path.extension().is_some();
        let problem = if looks_like_path { "no such file" } else { "not a machine" };
        Err(described(argument, problem.to_owned(), EXPECTED, "correct --machine"))
    }

    /// The machine that the content of a file describes, XML or CSV. `name` is the file's name, for
    /// error texts.
    pub fn from_text(name: &str, text: &str) -> Result<Machine, MachineError> {
        from_text(name, text)
    }

    /// A machine known only by its latencies: clustering finds its packages, L3 groups and cores.
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
    Machine::from_text(argument, &text)
}

fn from_text(argument: &str, text: &str) -> Result<Machine, MachineError> {
    if text.trim_start().starts_with('<') {
        let advice = "write the file again with lstopo on the machine itself";
        return xml::from_xml(text, argument)
            .map_err(|problem| described(argument, problem, EXPECTED_XML, advice));
    }
    let matrix = parse_latencies(text).map_err(|problem| MachineError::Line {
        file: argument.to_owned(),
        problem,
        expected: EXPECTED_CSV,
        advice: "correct that line of the file",
    })?;
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
    synthetic::from_synthetic(argument).map_err(fail)
}
