//! The maps of `results/maps.md`: the winner by the closed form over multisite share and skew, on
//! every described machine of `machines/`.
//!
//! ```text
//! cargo run --profile quick -p advisor --example maps > maps.txt
//! ```

use advisor::map::{Axis, Map};
use advisor::search::{SearchOptions, search};
use advisor::simulated::{ClosedForm, Setting, levels};
use advisor::space::{Design, Space};
use deploysim::{Channel, Clients, Durability, EngineProfile, MachineModel, Transactions};
use std::error::Error;
use std::path::Path;
use topology::Placement;
use workload::micro::{MicroOptions, Op};

const MULTISITE: [f64; 7] = [0.0, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0];
const SKEW: [f64; 4] = [0.0, 0.5, 0.75, 1.0];

fn main() -> Result<(), Box<dyn Error>> {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<String> = std::fs::read_dir(&machines)?
        .filter_map(|entry| entry.ok()?.path().to_str().map(str::to_owned))
        .filter(|path| path.ends_with(".toml") || path.ends_with(".csv"))
        .collect();
    files.sort();
    let profile = EngineProfile::builtin("atoll")?;
    for file in files {
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        match MachineModel::parse(&file) {
            // A cluster has no instance over all machines.
            Ok(machine) if machine.network_ns().is_some() => println!("{name}: a cluster, no map\n"),
            Ok(machine) => {
                for op in [Op::Read, Op::Update] {
                    println!("{name}, {op:?}, every design\n{}\n", map(&machine, &profile, op, true)?);
                    println!("{name}, {op:?}, designs with pages\n{}\n", map(&machine, &profile, op, false)?);
                }
            }
            Err(e) => println!("{name}: {e}\n"),
        }
    }
    Ok(())
}

/// Ten rows of each site's 10,000, four clients a worker, the log in memory, over shared memory.
/// Without `memory`, the designs are those that keep rows in pages.
fn map(machine: &MachineModel, profile: &EngineProfile, op: Op, memory: bool) -> Result<Map, Box<dyn Error>> {
    let levels = levels(machine);
    let names = profile.designs.keys().filter(|name| memory || *name != "occ");
    let designs = names.map(|name| Design {
        name: name.clone(),
        is_single_threaded: name == "serial",
        is_in_memory: name == "occ",
    });
    let space = Space {
        levels,
        designs: designs.collect(),
        workers: vec![levels.cores],
        placements: vec![Placement::Island],
        channels: vec![Channel::Shm],
        sites: levels.cores as u32,
        rows_fit: true,
        site_load: Vec::new(),
    };
    let candidates = space.candidates()?;
    let advise = |multisite: f64, skew: f64| {
        let options = MicroOptions { op, multisite, skew, ..MicroOptions::new(levels.cores as u32) };
        let transactions =
            Transactions::micro(options).map_err(|e| advisor::AdviceError::NoCandidate(e.to_string()))?;
        let setting = Setting {
            machine,
            profile,
            transactions: &transactions,
            durability: Durability::Memory,
            clients: Clients::Closed(4),
            spread: 0.0,
            seed: 1,
        };
        search(&candidates, &ClosedForm(setting), None, &SearchOptions::default())
    };
    let axis = |name: &str, values: &[f64]| Axis { name: name.into(), values: values.into() };
    let words = (machine.name(), "micro");
    Ok(Map::draw(words, axis("multisite", &MULTISITE), axis("skew", &SKEW), advise)?)
}
