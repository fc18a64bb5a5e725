//! Cache hierarchies as data: the files of `machines/caches/`.

use crate::lru::SetCache;
use serde::Deserialize;

/// The bytes of a line.
pub const LINE_BYTES: u64 = 64;

/// The machines that are built in, by name.
pub const BUILT_IN: [(&str, &str); 9] = [
    ("xeon-e5-2660", include_str!("../../../machines/caches/xeon-e5-2660.toml")),
    ("zesto", include_str!("../../../machines/caches/zesto.toml")),
    ("zesto-deep", include_str!("../../../machines/caches/zesto-deep.toml")),
    ("epyc-7763", include_str!("../../../machines/caches/epyc-7763.toml")),
    ("x5660", include_str!("../../../machines/caches/x5660.toml")),
    ("x5660-chip", include_str!("../../../machines/caches/x5660-chip.toml")),
    ("ultrasparc-t2", include_str!("../../../machines/caches/ultrasparc-t2.toml")),
    ("epyc-9004", include_str!("../../../machines/caches/epyc-9004.toml")),
    ("xeon-8480", include_str!("../../../machines/caches/xeon-8480.toml")),
];

#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("{file}: {problem}; expected a file as in machines/caches")]
    File { file: String, problem: String },
    #[error(
        "{file}: {cache} cannot be {kb} KB of {ways} ways: expected at least one set of whole lines of 64 bytes"
    )]
    Geometry { file: String, cache: &'static str, kb: usize, ways: usize },
}

/// One cache.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub kb: usize,
    pub ways: usize,
    /// Of a line that it has.
    pub cycles: f64,
}

impl Cache {
    pub fn lines(&self) -> usize {
        self.kb * 1024 / LINE_BYTES as usize
    }

    pub fn build(&self) -> SetCache {
        SetCache::new(self.lines() / self.ways, self.ways)
    }
}

/// The cores of a chip, and the last-level cache that they share.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// For each core; the slices are one cache, a line's slice given by its address.
    pub kb: usize,
    pub ways: usize,
    pub cycles: f64,
    /// Of one hop of the torus, one way.
    pub hop_cycles: f64,
    /// Instructions per cycle of a core that never waits.
    pub ipc: f64,
    /// The shares of latencies that are not hidden: of instruction misses, of loads and stores that
    /// the last level has, and of data misses that it does not have.
    pub shown_instruction: f64,
    pub shown_data: f64,
    pub shown_store: f64,
    pub shown_memory: f64,
    /// Of a switch or migration.
    pub switch_cycles: f64,
    /// Lines written to the last level, and read from it, by a switch or migration.
    pub switch_lines: u64,
}

/// A cache hierarchy.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub name: String,
    pub source: String,
    pub memory_cycles: f64,
    pub l1i: Cache,
    pub l1d: Cache,
    #[serde(default)]
    pub l2: Option<Cache>,
    #[serde(default)]
    pub l3: Option<Cache>,
    #[serde(default)]
    pub shared: Option<Shared>,
}

impl Machine {
    /// # Errors
    /// [`MachineError`]; `file` is the file's name for messages.
    pub fn parse(file: &str, text: &str) -> Result<Machine, MachineError> {
        let problem = |problem: String| MachineError::File { file: file.to_owned(), problem };
        let machine: Machine =
            toml::from_str(text).map_err(|e| problem(e.to_string().trim_end().replace('\n', "; ")))?;
        let level = |cache: &'static str, of: Option<Cache>| of.map(|c| (cache, c.kb, c.ways));
        let shared = machine.shared.map(|s| ("shared", s.kb, s.ways));
        let all = [
            level("l1i", Some(machine.l1i)),
            level("l1d", Some(machine.l1d)),
            level("l2", machine.l2),
            level("l3", machine.l3),
            shared,
        ];
        for (cache, kb, ways) in all.into_iter().flatten() {
            let lines = kb.checked_mul(1024 / LINE_BYTES as usize).filter(|&lines| lines <= 1 << 26);
            if !lines.is_some_and(|lines| ways > 0 && lines >= ways && lines % ways == 0) {
                return Err(MachineError::Geometry { file: file.to_owned(), cache, kb, ways });
            }
        }
        let cycles = [machine.memory_cycles, machine.l1i.cycles, machine.l1d.cycles];
        let rates =
            machine.shared.map_or([1.0; 4], |s| [s.ipc, s.cycles, s.switch_cycles + 1.0, s.hop_cycles + 1.0]);
        if cycles.iter().chain(&rates).any(|n| !n.is_finite() || *n <= 0.0) {
            return Err(problem("cycles and rates have to be positive".into()));
        }
        if machine.l3.is_some() && machine.l2.is_none() || machine.l3.is_some() && machine.shared.is_some() {
            return Err(problem("an l3 follows an l2, and is not beside a shared cache".into()));
        }
        Ok(machine)
    }

    /// A machine that is built in.
    ///
    /// # Errors
    /// [`MachineError::File`] with the names of all.
    pub fn built_in(name: &str) -> Result<Machine, MachineError> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let names = || BUILT_IN.map(|(known, _)| known).join(", ");
        let (file, text) = found.ok_or_else(|| MachineError::File {
            file: name.to_owned(),
            problem: format!("no such machine is built in (known are {})", names()),
        })?;
        Machine::parse(file, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_machine_is_read_under_its_name() {
        for (name, _) in BUILT_IN {
            assert_eq!(Machine::built_in(name).unwrap().name, name);
        }
        assert!(Machine::built_in("z80").unwrap_err().to_string().contains("zesto"));
    }

    #[test]
    fn impossible_machines_are_refused() {
        let good = BUILT_IN[0].1;
        for (from, to, part) in [
            ("ways = 20", "ways = 0", "l3 cannot be 20480 KB of 0 ways"),
            ("ways = 20", "ways = 7", "l3 cannot be"),
            ("kb = 256", "kb = 0", "l2 cannot be"),
            ("kb = 256", "kb = 99999999999", "l2 cannot be"),
            ("memory_cycles = 167", "memory_cycles = -1", "positive"),
            ("[l2]", "[l4]", "l4"),
        ] {
            let error = Machine::parse("m.toml", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with("m.toml: ") && error.contains(part), "{error}");
        }
    }
}
