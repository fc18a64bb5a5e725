//! Calibration against a machine of which the costs are known: a simulated one.

use crate::run;
use deploysim::calibration::{
    Cell, Conditions, Kept, Load, Term, Wanted, apply, calibrate, cells_to_measure, with_costs_for,
};
use deploysim::{
    Channel, Deployment, Durability, EngineProfile, MachineModel, ModelError, Placement, RunOptions,
    Transactions,
};
use workload::micro::{MicroOptions, Op};

const DESIGNS: [&str; 3] = ["conventional", "serial", "occ"];
const CHANNELS: [Channel; 2] = [Channel::Shm, Channel::Uds];

/// An engine with costs that differ from those of the profile `atoll`, each by another factor.
fn truth() -> EngineProfile {
    let mut truth = EngineProfile::builtin("atoll").unwrap();
    for (i, costs) in truth.designs.values_mut().enumerate() {
        let factor = 1.3 + 0.4 * i as f64;
        costs.work.read.per_row *= factor;
        costs.work.read.per_transaction *= factor;
        costs.with_distributed.read.per_row *= factor;
        costs.with_distributed.read.per_transaction *= factor;
        costs.parts.read.home *= 2.2 - 0.3 * i as f64;
        costs.parts.read.participant *= 1.6;
        costs.cold.read.exposed += 0.5;
    }
    let uds = truth.messages.channels.get_mut("uds").unwrap();
    (uds.write_ns, uds.read_ns) = (uds.write_ns * 1.9, uds.read_ns * 1.4);
    truth
}

fn workload(multisite: f64, dataset: Option<u64>) -> Result<Transactions, ModelError> {
    let options = MicroOptions { op: Op::Read, multisite, ..MicroOptions::new(2) };
    Transactions::micro(MicroOptions { dataset: dataset.unwrap_or(options.dataset), ..options })
}

/// The throughput of the engine `profile`, with another seed than calibrations use.
fn measured(profile: &EngineProfile, design: &str, islands: usize, channel: Channel, multisite: f64) -> f64 {
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let deployment = Deployment::new(&machine, design, islands, 2, Placement::Island).unwrap().over(channel);
    let options = RunOptions::default().seeded(77);
    run(&machine, profile, &workload(multisite, None).unwrap(), &deployment, &options).tps
}

fn cell(design: &str, islands: usize, channel: Channel, multisite: f64, tps: f64) -> Cell {
    let design = design.to_owned();
    Cell {
        design,
        islands,
        workers: 2,
        channel,
        multisite,
        clients: 4,
        dataset: None,
        durability: Durability::Memory,
        tps,
        tps_min: tps,
        tps_max: tps,
        windows: 1,
        is_disturbed: false,
    }
}

fn load(multisite: f64, dataset: Option<u64>) -> Load {
    Load { multisite, dataset, durability: Durability::Memory, is_updating: false, is_routed: false }
}

#[test]
fn the_costs_of_another_engine_are_found_from_its_throughputs() {
    let (base, truth) = (EngineProfile::builtin("atoll").unwrap(), truth());
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let wanted = cells_to_measure(&base, &DESIGNS, 2, &CHANNELS, &load(100.0, None)).unwrap();
    let cells: Vec<Cell> = wanted
        .iter()
        .map(|w| {
            let tps = measured(&truth, &w.design, w.islands, w.channel, w.multisite);
            cell(&w.design, w.islands, w.channel, w.multisite, tps)
        })
        .collect();
    let found = calibrate(&base, &machine, &workload, &cells).unwrap();
    for fit in &found.fits {
        assert!(!fit.is_at_bound() && (fit.tps / fit.cell.tps - 1.0).abs() < 0.02, "{fit:?}");
    }
    // Shares that no cell has: the uncalibrated profile is wrong by tens of per cent.
    let error = |profile, design, islands, channel, multisite| {
        let tps = measured(&truth, design, islands, channel, multisite);
        (measured(profile, design, islands, channel, multisite) / tps - 1.0).abs()
    };
    let mut worst_before: f64 = 0.0;
    for design in DESIGNS {
        for (channel, multisite) in [(Channel::Shm, 5.0), (Channel::Shm, 30.0), (Channel::Uds, 30.0)] {
            let after = error(&found.profile, design, 2, channel, multisite);
            assert!(after < 0.07, "{design} over {channel:?} at {multisite} %: {after}");
            worst_before = worst_before.max(error(&base, design, 2, channel, multisite));
        }
    }
    assert!(worst_before > 0.2, "{worst_before}");
}

#[test]
fn a_calibration_is_read_back_as_it_was_written() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let cells = [cell("occ", 2, Channel::Shm, 0.0, 1.1e6)];
    let found = calibrate(&base, &machine, &workload, &cells).unwrap();
    assert_eq!(found.profile.anchors.len(), 1);
    let text = found.profile.to_toml().unwrap();
    assert_eq!(EngineProfile::parse("again", &text).unwrap(), found.profile);
}

#[test]
fn a_cell_that_no_cost_explains_is_at_a_bound() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let faster_than_its_parts = cell("occ", 2, Channel::Shm, 100.0, 1e9);
    let found = calibrate(&base, &machine, &workload, &[faster_than_its_parts]).unwrap();
    assert_eq!(found.fits[0].term, Term::Parts);
    assert!(found.fits[0].is_at_bound());
    let wrong = calibrate(&base, &machine, &workload, &[cell("occ", 2, Channel::Shm, 0.0, 0.0)]);
    assert!(matches!(wrong, Err(ModelError::Value { .. })), "{wrong:?}");
    let wrong = calibrate(&base, &machine, &workload, &[cell("logical", 2, Channel::Shm, 0.0, 1e5)]);
    assert!(matches!(wrong, Err(ModelError::NoCosts { .. })), "{wrong:?}");
}

/// A design of which each commit waits for the log: its work is measured without one.
#[test]
fn the_wait_for_the_log_is_told_from_the_work() {
    let base = EngineProfile::builtin("atoll").unwrap();
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let mut truth = base.clone();
    truth.log_write.ns *= 1.8;
    truth.log_write.per_byte_ns *= 1.8;
    truth.designs.values_mut().for_each(|costs| costs.work.update.per_row *= 1.4);
    let updates = |multisite: f64, _: Option<u64>| {
        Transactions::micro(MicroOptions { op: Op::Update, multisite, ..MicroOptions::new(2) })
    };
    let tps = |of: &EngineProfile, design: &str, durability, rows: u32| {
        let workload = Transactions::micro(MicroOptions {
            op: Op::Update,
            rows,
            multisite: 0.0,
            ..MicroOptions::new(2)
        });
        let deployment = Deployment::new(&machine, design, 2, 2, Placement::Island).unwrap();
        let deployment = deployment.with_durability(durability);
        run(&machine, of, &workload.unwrap(), &deployment, &RunOptions::default().seeded(5)).tps
    };
    let asked = Load { durability: Durability::Async, is_updating: true, ..load(0.0, None) };
    let wanted = cells_to_measure(&base, &["serial", "occ"], 2, &CHANNELS, &asked).unwrap();
    let of_log: Vec<&Wanted> = wanted.iter().filter(|w| w.term == Term::Log).collect();
    assert_eq!(of_log.iter().map(|w| (w.design.as_str(), w.durability)).collect::<Vec<_>>(), [("occ", None)]);
    let all: Vec<Cell> = wanted
        .iter()
        .filter(|w| w.islands == 2)
        .map(|w| {
            let durability = w.durability.unwrap_or(Durability::Async);
            Cell { durability, ..cell(&w.design, 2, w.channel, 0.0, tps(&truth, &w.design, durability, 10)) }
        })
        .collect();
    // Without a cell of its work it is taken to differ from the profile as the others do.
    let asyncs: Vec<Cell> = all.iter().filter(|c| c.durability == Durability::Async).cloned().collect();
    for (cells, terms) in [(all, 3), (asyncs, 3)] {
        let found = calibrate(&base, &machine, &updates, &cells).unwrap();
        assert_eq!(found.fits.len(), terms, "{:?}", found.fits);
        assert_eq!(apply(&base, &found.fits).unwrap(), found.profile);
        for rows in [2, 40] {
            let of = |profile| tps(profile, "occ", Durability::Async, rows);
            let (error, before) = (of(&found.profile) / of(&truth) - 1.0, of(&base) / of(&truth) - 1.0);
            assert!(error.abs() < 0.06 && before.abs() > 0.2, "{rows} rows: {error} after {before}");
        }
    }
}

#[test]
fn the_cells_of_one_worker_are_local() {
    let base = EngineProfile::builtin("atoll").unwrap();
    let terms = |workers| {
        let wanted =
            cells_to_measure(&base, &["serial", "occ"], workers, &CHANNELS, &load(100.0, None)).unwrap();
        wanted.into_iter().map(|w| w.term).collect::<Vec<_>>()
    };
    assert_eq!(terms(1), [Term::Work; 2]);
    use Term::{Channel, Parts, Sharing, Work};
    assert_eq!(terms(2), [Work, Work, Sharing, Parts, Parts, Channel]);
}

/// A design of owners that the profile has no costs of, in an engine in which it has them.
fn with_owners() -> EngineProfile {
    let mut truth = truth().lending("plp-leaf", "conventional").unwrap();
    let owners = truth.designs.get_mut("plp-leaf").unwrap();
    owners.work.read.per_row *= 0.7;
    owners.with_distributed.read.per_row *= 0.7;
    owners.handoff.read *= 2.4;
    truth
}

#[test]
fn a_design_without_costs_borrows_them_and_measured_cells_scale_them() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    assert!(cells_to_measure(&base, &["plp-leaf"], 2, &CHANNELS, &load(50.0, None)).is_err());
    let base = with_costs_for(&base, &["conventional", "plp-leaf"]).unwrap();
    assert_eq!(base.designs["plp-leaf"].borrowed_from.as_deref(), Some("conventional"));
    assert_eq!(base.designs["conventional"].borrowed_from, None);
    let wanted = cells_to_measure(&base, &["plp-leaf"], 2, &[Channel::Shm], &load(50.0, None)).unwrap();
    let terms: Vec<Term> = wanted.iter().map(|w| w.term).collect();
    assert_eq!(terms, [Term::Work, Term::Sharing, Term::Handoff, Term::Parts]);
    let truth = with_owners();
    let tps = |w: &Wanted| measured(&truth, &w.design, w.islands, w.channel, w.multisite);
    let cells: Vec<Cell> =
        wanted.iter().map(|w| cell(&w.design, w.islands, w.channel, w.multisite, tps(w))).collect();
    let found = calibrate(&base, &machine, &workload, &cells).unwrap();
    assert_eq!(deploysim::calibration::measured(&found.fits), ["plp-leaf"]);
    assert_eq!(apply(&base, &found.fits).unwrap(), found.profile);
    // Shares without a cell. An instance of both workers pays for rows of the other owner.
    let mut worst_before: f64 = 0.0;
    for (islands, multisite) in [(1, 10.0), (1, 100.0), (2, 10.0)] {
        let tps = measured(&truth, "plp-leaf", islands, Channel::Shm, multisite);
        let error =
            |of: &EngineProfile| measured(of, "plp-leaf", islands, Channel::Shm, multisite) / tps - 1.0;
        assert!(error(&found.profile).abs() < 0.05, "{islands} at {multisite} %: {}", error(&found.profile));
        worst_before = worst_before.max(error(&base).abs());
    }
    assert!(worst_before > 0.1, "{worst_before}");
}

/// Three designs alike: one with a disturbed cell, and one without cells of its parts.
#[test]
fn cells_of_few_windows_are_drawn_to_their_kin() {
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let names = ["logical", "plp-regular", "plp-leaf"];
    let base = with_costs_for(&EngineProfile::builtin("atoll").unwrap(), &names).unwrap();
    let wanted = cells_to_measure(&base, &names, 2, &[Channel::Shm], &load(50.0, None)).unwrap();
    let terms: Vec<(Term, &str)> = wanted.iter().map(|w| (w.term, w.design.as_str())).collect();
    assert_eq!(
        terms[..4],
        [
            (Term::Work, "logical"),
            (Term::Sharing, "logical"),
            (Term::Work, "plp-regular"),
            (Term::Work, "plp-leaf")
        ]
    );
    assert!(
        terms.iter().position(|t| *t == (Term::Parts, "logical"))
            < terms.iter().position(|t| *t == (Term::Sharing, "plp-leaf"))
    );
    let truth = |w: &Wanted| measured(&base, &w.design, w.islands, w.channel, w.multisite);
    let is_left_out =
        |w: &&Wanted| !(w.design == "plp-leaf" && matches!(w.term, Term::Handoff | Term::Parts));
    let cells: Vec<Cell> = wanted
        .iter()
        .filter(is_left_out)
        .map(|w| {
            let spoilt = w.design == "plp-regular" && w.term == Term::Work;
            let tps = truth(w) * if spoilt { 0.6 } else { 1.0 };
            Cell { is_disturbed: spoilt, ..cell(&w.design, w.islands, w.channel, w.multisite, tps) }
        })
        .collect();
    let found = calibrate(&base, &machine, &workload, &cells).unwrap();
    assert_eq!(apply(&base, &found.fits).unwrap(), found.profile);
    let tps = |of, design, islands, multisite| measured(of, design, islands, Channel::Shm, multisite);
    for (design, islands, multisite) in
        [("plp-regular", 2, 0.0), ("plp-leaf", 1, 50.0), ("plp-leaf", 2, 50.0)]
    {
        let error =
            tps(&found.profile, design, islands, multisite) / tps(&base, design, islands, multisite) - 1.0;
        assert!(error.abs() < 0.12, "{design} on {islands}: {error}");
    }
    let assumed: Vec<Term> = found.fits.iter().filter(|fit| fit.is_assumed).map(|fit| fit.term).collect();
    assert_eq!(assumed, [Term::Handoff, Term::Parts]);
    let kept = Kept { fits: found.fits, ..kept() };
    assert_eq!((kept.cells().len(), kept.disturbed()), (cells.len(), 1));
}

/// Clients that send their requests to the instance of their rows: one instance alone has no
/// messages.
#[test]
fn routed_requests_tell_the_work_from_the_messages() {
    let base = EngineProfile::builtin("atoll").unwrap();
    let machine = MachineModel::uniform(2, 60.0).unwrap();
    let mut truth = base.clone();
    for costs in truth.designs.values_mut() {
        costs.work.read.per_row *= 1.5;
        costs.work.read.per_transaction *= 1.5;
        costs.forward *= 3.0;
    }
    let spec = workload::WorkloadSpec::new("tatp", 2);
    let routed = |multisite, dataset| Transactions::of_cell(&spec, multisite, dataset);
    let tps = |of: &EngineProfile, design: &str, islands| {
        let deployment = Deployment::new(&machine, design, islands, 2, Placement::Island).unwrap();
        run(&machine, of, &routed(0.0, None).unwrap(), &deployment, &RunOptions::default().seeded(3)).tps
    };
    assert!(routed(0.0, None).unwrap().is_routed());
    let bound = spec.clone().with("ids", "uniform");
    assert!(!Transactions::of(&bound).unwrap().is_routed());
    let asked = Load { is_routed: true, ..load(0.0, None) };
    let wanted = cells_to_measure(&base, &["conventional", "serial"], 2, &CHANNELS, &asked).unwrap();
    assert!(wanted.iter().any(|w| w.term == Term::Channel && w.channel == Channel::Uds), "{wanted:?}");
    let local = wanted.iter().filter(|w| w.channel == Channel::Shm);
    let cells: Vec<Cell> = local
        .map(|w| cell(&w.design, w.islands, w.channel, 0.0, tps(&truth, &w.design, w.islands)))
        .collect();
    let found = calibrate(&base, &machine, &routed, &cells).unwrap();
    for (design, islands) in [("conventional", 1), ("conventional", 2), ("serial", 2)] {
        let error = tps(&found.profile, design, islands) / tps(&truth, design, islands) - 1.0;
        assert!(error.abs() < 0.03, "{design} on {islands}: {error}");
    }
    assert!(found.profile.designs["conventional"].forward > 1_500.0, "{:?}", found.fits);
}

#[test]
fn a_workload_without_distributed_transactions_has_no_cells_of_them() {
    let base = EngineProfile::builtin("atoll").unwrap();
    let base = with_costs_for(&base, &["logical"]).unwrap();
    let wanted = cells_to_measure(&base, &["serial", "logical"], 2, &CHANNELS, &load(0.0, None)).unwrap();
    assert!(wanted.iter().all(|w| matches!(w.term, Term::Work | Term::Sharing)), "{wanted:?}");
}

fn kept() -> Kept {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let mut measured = cell("occ", 2, Channel::Shm, 0.0, 1.1e6);
    (measured.tps_min, measured.tps_max, measured.windows) = (1.0e6, 1.2e6, 3);
    let fits = calibrate(&base, &machine, &workload, &[measured]).unwrap().fits;
    let conditions = Conditions {
        machine: "a machine".into(),
        cores: 2,
        profile: "atoll of today".into(),
        workload: "micro".into(),
        op: Some("read".into()),
        durability: Durability::Memory,
        clients: 4,
        options: vec![("rows".into(), "10".into())],
    };
    Kept {
        version: deploysim::calibration::VERSION,
        unix_s: 1_790_000_000,
        date: "2026-09-21 13:33".into(),
        program: "0.1.0".into(),
        commit: "abc".into(),
        seconds: 4.0,
        line_ns: vec![58.0, 60.0],
        memory_ns: Some(95.0),
        flush_ns: None,
        solver: deploysim::calibration::SOLVER,
        conditions,
        fits,
    }
}

#[test]
fn a_kept_calibration_is_read_back_and_says_what_it_holds_for() {
    let kept = kept();
    let text = kept.to_toml().unwrap();
    assert_eq!(Kept::parse("c.toml", &text).unwrap(), kept);
    assert!((kept.spread().unwrap() - 0.2 / 2.2).abs() < 1e-9);
    assert_eq!(kept.misfit(&kept.conditions), None);
    assert!(kept.differences(&kept.conditions).is_empty());
    let other = Conditions { op: Some("update".into()), ..kept.conditions.clone() };
    assert_eq!(kept.misfit(&other).unwrap(), "its op is read, not update");
    let other = Conditions { durability: Durability::Sync, ..kept.conditions.clone() };
    assert_eq!(kept.misfit(&other).unwrap(), "its durability is memory, not sync");
    let other = Conditions { cores: 96, ..kept.conditions.clone() };
    assert!(kept.misfit(&other).unwrap().contains("96"));
    let other =
        Conditions { options: vec![("skew".into(), "1".into())], clients: 1, ..kept.conditions.clone() };
    assert_eq!(kept.misfit(&other), None);
    assert_eq!(kept.differences(&other), ["clients 4", "rows 10", "skew as by default"]);
}

#[test]
fn a_file_that_is_no_calibration_is_refused_in_a_sentence() {
    let text = kept().to_toml().unwrap();
    let refusal = |text: &str| {
        let told = Kept::parse("c.toml", text).unwrap_err().to_string();
        assert!(
            told.starts_with("c.toml: ") && told.contains("--calibrate") && !told.contains('\n'),
            "{told}"
        );
        told
    };
    assert!(refusal("hello").contains("line 1"));
    assert!(refusal("version = 7").contains("version 7"));
    assert!(refusal(&text.replace("cores = 2", "cores = \"two\"")).contains("line"));
    let end = text.find("[[fits]]").unwrap();
    refusal(&text[..end]);
    assert!(refusal(&format!("fits = []\n{}", &text[..end])).contains("no cell"));
    let factor = text.lines().find(|line| line.starts_with("factor")).unwrap();
    assert!(refusal(&text.replace(factor, "factor = -1.0")).contains("factor"));
}

#[test]
fn an_instance_that_is_faster_than_its_parts_has_a_relief() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let apart = cell("conventional", 2, Channel::Shm, 0.0, 4e5);
    let together = cell("conventional", 1, Channel::Shm, 0.0, 7e5);
    let found = calibrate(&base, &machine, &workload, &[apart.clone(), together.clone()]).unwrap();
    let terms: Vec<Term> = found.fits.iter().map(|fit| fit.term).collect();
    assert_eq!(terms, [Term::Work, Term::Sharing, Term::Relief]);
    assert_eq!(apply(&base, &found.fits).unwrap(), found.profile);
    let kept = Kept { fits: found.fits, ..kept() };
    assert!(kept.at_bound().is_empty(), "{:?}", kept.at_bound());
    // Both cells come out, and the instances of one worker do not change.
    let tps = |islands| measured(&found.profile, "conventional", islands, Channel::Shm, 0.0);
    assert!((tps(1) / 7e5 - 1.0).abs() < 0.02 && (tps(2) / 4e5 - 1.0).abs() < 0.02, "{} {}", tps(1), tps(2));
    // A slower one has a cost, and no relief.
    let found = calibrate(&base, &machine, &workload, &[apart, Cell { tps: 3.7e5, ..together }]).unwrap();
    assert!(found.fits.iter().all(|fit| fit.term != Term::Relief) && found.fits[1].factor > 0.1);
}

#[test]
fn an_instance_that_loses_more_than_its_lines_has_work_of_its_own() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let apart = cell("conventional", 2, Channel::Shm, 0.0, 4e5);
    let together = cell("conventional", 1, Channel::Shm, 0.0, 5e4);
    let found = calibrate(&base, &machine, &workload, &[apart, together]).unwrap();
    let terms: Vec<Term> = found.fits.iter().map(|fit| fit.term).collect();
    assert_eq!(terms, [Term::Work, Term::Sharing, Term::Relief]);
    assert!(found.fits[2].factor > 2.0, "{:?}", found.fits[2]);
    let costs = &found.profile.designs["conventional"];
    assert!(costs.cold.read.exposed <= 3.01 && costs.cold.update.exposed <= 3.01, "{:?}", costs.cold);
    let tps = |islands| measured(&found.profile, "conventional", islands, Channel::Shm, 0.0);
    assert!((tps(1) / 5e4 - 1.0).abs() < 0.02 && (tps(2) / 4e5 - 1.0).abs() < 0.02, "{} {}", tps(1), tps(2));
    assert!(Kept { fits: found.fits, ..kept() }.at_bound().is_empty());
}

#[test]
fn the_parts_of_distributed_transactions_say_nothing_about_forwarded_requests() {
    let (base, machine) = (EngineProfile::builtin("atoll").unwrap(), MachineModel::uniform(2, 60.0).unwrap());
    let cells = [cell("occ", 2, Channel::Shm, 0.0, 1.1e6), cell("occ", 2, Channel::Shm, 30.0, 3e5)];
    let found = calibrate(&base, &machine, &workload, &cells).unwrap();
    let forward = |profile: &EngineProfile| profile.designs["occ"].forward;
    assert!(found.fits[1].term == Term::Parts && found.fits[1].factor > 1.5, "{:?}", found.fits[1]);
    assert!((forward(&found.profile) - forward(&base)).abs() < 1e-9);
}

#[test]
fn two_sizes_tell_misses_from_work_whatever_size_the_other_cells_have() {
    let base = EngineProfile::builtin("atoll").unwrap();
    let machine = MachineModel::uniform(2, 60.0).unwrap().with_measured(Some(160.0), None).unwrap();
    let mut truth = base.clone();
    truth.designs.values_mut().for_each(|costs| costs.miss = 0.4);
    let serial = truth.designs.get_mut("serial").unwrap();
    serial.work.read.per_row *= 1.5;
    let tps = |of: &EngineProfile, design: &str, rows: u64| {
        let deployment = Deployment::new(&machine, design, 2, 2, Placement::Island).unwrap();
        run(&machine, of, &workload(0.0, Some(rows)).unwrap(), &deployment, &RunOptions::default()).tps
    };
    let wanted = cells_to_measure(&base, &DESIGNS, 2, &CHANNELS, &load(0.0, Some(7))).unwrap();
    let sized: Vec<&str> =
        wanted.iter().filter(|w| w.dataset == Some(7)).map(|w| w.design.as_str()).collect();
    assert_eq!(sized, ["conventional", "occ"]);
    for (own, other) in [(20_000, 1_000_000), (1_000_000, 20_000)] {
        let of = |design: &str, rows: u64| {
            let tps = tps(&truth, design, rows);
            Cell { dataset: Some(rows), ..cell(design, 2, Channel::Shm, 0.0, tps) }
        };
        let cells = [of("serial", own), of("conventional", own), of("conventional", other)];
        let found = calibrate(&base, &machine, &workload, &cells).unwrap();
        assert!((found.profile.designs["serial"].miss / 0.4 - 1.0).abs() < 0.1, "{:?}", found.fits);
        let error = tps(&found.profile, "serial", other) / tps(&truth, "serial", other) - 1.0;
        assert!(error.abs() < 0.03, "{own}: {error}");
        assert!((tps(&base, "serial", 1_000_000) / tps(&truth, "serial", 1_000_000) - 1.0).abs() > 0.1);
    }
}
