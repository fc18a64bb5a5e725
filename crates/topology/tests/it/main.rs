//! One binary for all tests of the crate; each module has one subject.

mod described;
mod islands;
mod live;
mod placements;

use std::path::{Path, PathBuf};

use topology::{CpuId, Machine, cpu_list};

/// The described machines shipped with the project.
fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines")
}

fn described(name: &str) -> Machine {
    let path = machines().join(name);
    Machine::parse(path.to_str().expect("paths of this repository are text"))
        .expect("a shipped machine is readable")
}

fn synthetic(text: &str) -> Machine {
    Machine::parse(text).expect("a valid description")
}

fn lists(groups: &[Vec<CpuId>]) -> Vec<String> {
    groups.iter().map(|group| cpu_list(group)).collect()
}
