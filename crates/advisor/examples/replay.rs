//! The predictions of a validation (`cargo xtask validate-plan`), computed again from its saved
//! calibrations: nothing runs, so a change of the model is judged in seconds.
//!
//! ```text
//! cargo run --profile quick -p advisor --example replay -- DIR [MACHINE] > predictions.jsonl
//! ```
//!
//! For each point of `DIR/run.json`, one line for each scheme with a calibration. Without `MACHINE`
//! (as `--machine` of `atoll plan` takes it) cores and distances are those of the calibration, and
//! the size of the L3 that of the machine under this process.

use advisor::Preference;
use advisor::search::{SearchOptions, search};
use advisor::simulated::{ClosedForm, Setting, Simulation};
use advisor::space::{Design, Levels, Space};
use deploysim::calibration::{Cell, Kept, SOLVER};
use deploysim::machine::MachineTerms;
use deploysim::{
    Case, Channel, Clients, Deployment, Durability, EngineProfile, MachineModel, RunOptions, Transactions,
    simulate,
};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use topology::{Machine, Placement};
use workload::WorkloadSpec;
use workload::micro::Op;

type Fails<T> = Result<T, Box<dyn Error>>;

fn main() -> Fails<()> {
    let mut args = std::env::args().skip(1);
    let dir =
        args.next().ok_or("expected the directory of a validation, as cargo xtask validate-plan makes it")?;
    let (dir, machine) = (Path::new(&dir), args.next());
    let run: Value = serde_json::from_str(&std::fs::read_to_string(dir.join("run.json"))?)?;
    let points = run["points"].as_array().ok_or("run.json has no points")?;
    let mut jobs: Vec<(&Value, &str, String)> = Vec::new();
    for point in points {
        let (number, durability) = (&point["point"], option(point, "durability").unwrap_or("async"));
        let kind = point["kind"].as_str().ok_or("a point without a kind")?;
        jobs.push((point, "kind", format!("{kind}-{durability}")));
        jobs.push((point, "own", format!("point-{number}")));
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        while let Some((point, scheme, file)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let files = dir.join("calibration");
            let own = if *scheme == "kind" { format!("point-{}", point["point"]) } else { String::new() };
            let lines = predicted(point, &files, (file, &own), machine.as_deref());
            for mut line in lines.map_err(|e| format!("{file}: {e}"))? {
                (line["scheme"], line["point"]) = ((*scheme).into(), point["point"].clone());
                println!("{line}");
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(())
}

/// The predictions of a point by the calibration in a file, if there is one: for its deployments,
/// and for the cells that the point's own calibration has measured.
fn predicted(
    point: &Value,
    dir: &Path,
    (file, own): (&str, &str),
    machine: Option<&str>,
) -> Fails<Vec<Value>> {
    let read = |file: &str| -> Fails<Option<Kept>> {
        let path = dir.join(format!("{file}.toml"));
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        Ok(Some(Kept::parse(&path.display().to_string(), &text)?))
    };
    let Some(kept) = read(file)? else { return Ok(Vec::new()) };
    let asked = Asked::read(point, &kept, machine)?;
    let profile = asked.profile(&kept)?;
    let mut lines = vec![asked.predict(&kept, &profile)?];
    if let Some(own) = read(own)? {
        for cell in own.cells() {
            let tps = asked.cell(&cell, &profile)?;
            lines.push(json!({"cell": cell, "predicted": tps}));
        }
    }
    Ok(lines)
}

fn option<'a>(point: &'a Value, name: &str) -> Option<&'a str> {
    let pairs = point["options"].as_array()?;
    pairs.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_str())
}

/// The load of a point and the machine of its calibration.
struct Asked {
    machine: MachineModel,
    spec: WorkloadSpec,
    channel: Channel,
    durability: Durability,
}

impl Asked {
    fn read(point: &Value, kept: &Kept, machine: Option<&str>) -> Fails<Asked> {
        let kind = point["kind"].as_str().unwrap_or_default();
        let (name, op) = match kind.strip_prefix("micro-") {
            Some("read") => ("micro", Some(Op::Read)),
            Some("update") => ("micro", Some(Op::Update)),
            _ => (kind, None),
        };
        let number = |name: &str| option(point, name).map(str::parse::<f64>).transpose();
        let spec = WorkloadSpec {
            op,
            multisite: number("multisite")?,
            rows: number("rows")?.map(|rows| rows as u32),
            skew: number("skew")?,
            dataset: number("dataset")?.map(|rows| rows as u64),
            ..WorkloadSpec::new(name, kept.conditions.cores as u32)
        };
        let machine = match machine {
            Some(machine) => MachineModel::parse(machine)?,
            None => as_calibrated(kept)?,
        };
        let of = |name: &str| Channel::ALL.into_iter().find(|channel| channel.name() == name);
        let channel = point["channel"].as_str().and_then(of).ok_or("a point without a channel")?;
        let durability = match option(point, "durability") {
            Some("memory") => Durability::Memory,
            Some("sync") => Durability::Sync,
            _ => Durability::Async,
        };
        Ok(Asked {
            machine: machine.with_measured(kept.memory_ns, kept.flush_ns)?,
            spec,
            channel,
            durability,
        })
    }

    /// The costs by a calibration, as `atoll plan` uses it.
    fn profile(&self, kept: &Kept) -> Fails<EngineProfile> {
        // A probe has the other options of its load, so the cells of the kind have its defaults.
        let mut of_cells = self.spec.clone();
        let measured_at = |name: &str| kept.conditions.options.iter().find(|(known, _)| known == name);
        of_cells.rows = measured_at("rows").map(|(_, rows)| rows.parse()).transpose()?;
        of_cells.dataset = measured_at("dataset").map(|(_, rows)| rows.parse()).transpose()?;
        let cells = |multisite, dataset| Transactions::of_cell(&of_cells, multisite, dataset);
        // Always solved again: the file's factors are those of the solver of its day.
        let kept = Kept { solver: SOLVER.wrapping_sub(1), ..kept.clone() };
        Ok(kept.profile(&EngineProfile::builtin("atoll")?, &self.machine, &cells)?)
    }

    /// The throughput of a measured cell of this load.
    fn cell(&self, cell: &Cell, profile: &EngineProfile) -> Fails<f64> {
        let transactions = Transactions::of_cell(&self.spec, cell.multisite, cell.dataset)?;
        let Cell { design, islands, workers, .. } = cell;
        let deployment =
            Deployment::new(&self.machine, design, *islands, *workers, deploysim::Placement::Island)?
                .over(cell.channel)
                .with_durability(cell.durability)
                .with_clients(Clients::Closed(cell.clients));
        let case = Case::new(&self.machine, profile, &transactions, &deployment)?;
        Ok(simulate(&case, &RunOptions::for_workers(*workers)).tps)
    }

    /// As `atoll plan --no-trials --calibration` with this channel.
    fn predict(&self, kept: &Kept, profile: &EngineProfile) -> Fails<Value> {
        let transactions = Transactions::of(&self.spec)?;
        let space = Space {
            levels: Levels { packages: 1, l3_groups: 1, cores: kept.conditions.cores },
            designs: profile.designs.keys().map(|name| design(name)).collect(),
            workers: vec![kept.conditions.cores],
            placements: vec![Placement::Island],
            channels: vec![self.channel],
            sites: transactions.sites(),
            rows_fit: true,
            site_load: Vec::new(),
        };
        let setting = Setting {
            machine: &self.machine,
            profile,
            transactions: &transactions,
            durability: self.durability,
            clients: Clients::Closed(kept.conditions.clients),
            spread: kept.spread().unwrap_or(0.0),
            seed: 1,
        };
        let preference = Preference { default_design: "conventional".to_owned(), current: None };
        let options = SearchOptions { preference, ..SearchOptions::default() };
        let found = search(&space.candidates()?, &ClosedForm(setting), Some(&Simulation(setting)), &options)?;
        let name =
            |ranked: &advisor::Ranked| format!("{}/{}", ranked.candidate.design, ranked.candidate.islands);
        let tps = found.ranking.iter().map(|ranked| (name(ranked), json!(ranked.prediction.tps.mid)));
        let tps: serde_json::Map<String, Value> = tps.collect();
        Ok(json!({"choice": found.ranking.first().map(name), "tps": tps}))
    }
}

fn design(name: &str) -> Design {
    Design { name: name.to_owned(), is_single_threaded: name == "serial", is_in_memory: name == "occ" }
}

/// The machine as the calibration found it.
fn as_calibrated(kept: &Kept) -> Fails<MachineModel> {
    let mut ns = kept.line_ns.clone();
    ns.sort_by(f64::total_cmp);
    let line = ns.first().copied().unwrap_or(50.0);
    let l3 = Machine::live()?.l3.iter().find_map(|group| group.bytes);
    let mut terms = MachineTerms::default();
    terms.l3_bytes = l3.map_or(terms.l3_bytes, |bytes| bytes as f64);
    Ok(MachineModel::uniform(kept.conditions.cores, line)?.with_terms(terms)?)
}
