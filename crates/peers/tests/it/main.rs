//! Every benchmark of this room, tiny: that it runs, that all engines end with the same data, that
//! its numbers are numbers.

#[cfg(feature = "server")]
mod brokerage;

use exec::DesignKind;
use peers::deployment::{Times, private_dir};
use peers::device::Device;
use peers::figures::{self, Asked, Figure, Size};
use peers::rounds::alternate;
use peers::{Bank, Commits, Contestant, Engine, Served, Table, Work};
use std::time::Duration;
use workload::micro::Op;

const TIMES: Times = Times { warm_up: Duration::from_millis(20), window: Duration::from_millis(60) };

fn all_run_and_keep_their_data(bench: impl Served, ops: &[Op], clients: usize, commits: Commits) {
    let dir = private_dir(&std::env::temp_dir()).unwrap();
    let mut engines = Engine::default_list(commits);
    if commits == Commits::Unsynced {
        engines.extend(["serial-async", "conventional-async"].map(|name| name.parse::<Engine>().unwrap()));
    }
    let load = |e: &Engine| e.load(bench.clone(), commits, dir.path(), &vec![None; clients]).unwrap();
    let mut contestants: Vec<_> = engines.iter().map(load).collect();
    for &op in ops {
        let work = Work { op, clients, seed: 1, warm_up: TIMES.warm_up, window: TIMES.window };
        let lines = alternate(&mut contestants, 2, &work, |_, _| ()).unwrap();
        assert_eq!(lines.len(), engines.len());
        assert!(lines.iter().all(|l| l.tps.values.len() == 2 && l.tps.min() > 10.0), "{lines:?}");
    }
    contestants.iter_mut().for_each(|c| c.check().unwrap());
}

#[test]
fn every_engine_runs_both_transactions_and_keeps_its_data() {
    let table = Table { dataset: 2_000, rows: 10, sites: 1 };
    all_run_and_keep_their_data(table, &[Op::Read, Op::Update, Op::Read, Op::Update], 1, Commits::Unsynced);
}

#[test]
fn two_clients_run_on_every_engine() {
    let table = Table { dataset: 2_000, rows: 10, sites: 2 };
    all_run_and_keep_their_data(table, &[Op::Update, Op::Read], 2, Commits::Synced);
}

#[test]
fn every_engine_takes_deposits() {
    let bank = Bank { branches: 2, accounts: 100 };
    all_run_and_keep_their_data(bank, &[Op::Update], 2, Commits::Unsynced);
}

#[test]
fn unknown_engines_are_named() {
    let error = "redis".parse::<Engine>().unwrap_err().to_string();
    assert!(error.contains("'redis'") && error.contains("btree-log"), "{error}");
    assert!(
        Engine::default_list(Commits::Unsynced)
            .iter()
            .all(|e| e.name().parse::<Engine>().is_ok_and(|same| same == *e))
    );
}

fn with_size(figure: impl FnOnce(&Size) -> Result<Figure, peers::PeerFault>) -> Option<Figure> {
    let dir = private_dir(&std::env::temp_dir()).unwrap();
    let size = Size { dataset: 2_000, rounds: 2, seed: 3, times: TIMES, dir: dir.path() };
    match figure(&size) {
        Ok(figure) => Some(figure),
        Err(peers::PeerFault::TooFewCpus { given: 1, .. }) => None,
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn a_distributed_update_takes_longer_than_a_local_one() {
    for design in DesignKind::ALL {
        if let Some(figure) = with_size(|size| figures::distributed(design, size)) {
            assert!(figure.result.1 > 0.0, "{figure}");
        }
    }
}

#[test]
fn islands_and_language_give_tables() {
    for figure in [with_size(figures::islands), with_size(figures::language)].into_iter().flatten() {
        let text = figure.to_string();
        assert!(figure.result.1.is_finite() && text.contains("**"), "{text}");
        assert!(figure.series.iter().all(|s| s.values.len() == 2 && s.min() > 0.0), "{text}");
    }
}

#[test]
fn the_device_takes_part_where_it_takes_direct_writes() {
    let dir = private_dir(&std::env::temp_dir()).unwrap();
    let mut device = Device::prepare(dir.path(), 2, &[None, None]).unwrap();
    let work = Work { op: Op::Update, clients: 2, seed: 1, warm_up: TIMES.warm_up, window: TIMES.window };
    match device.run(&work) {
        Ok(rate) => assert!(rate.tps > 10.0 && rate.retries == 0.0, "{rate:?}"),
        Err(fault) => assert!(fault.to_string().contains("device-"), "{fault}"),
    }
}

#[test]
fn data_larger_than_memory_are_set_beside_the_disk() {
    for (design, op) in [(DesignKind::Conventional, Op::Read), (DesignKind::Serial, Op::Update)] {
        let dir = private_dir(&std::env::temp_dir()).unwrap();
        let size = Size { dataset: 12_000, rounds: 2, seed: 3, times: TIMES, dir: dir.path() };
        let figure = figures::larger(Asked { design, op, depth: 4 }, &size).unwrap();
        let (frames, pages) = figure.pages;
        assert!(pages >= 3 * frames && figure.share.median().is_finite(), "{figure}");
        assert!(
            [&figure.tps, &figure.engine, &figure.device]
                .iter()
                .all(|s| s.values.len() == 2 && s.min() > 0.0)
        );
        assert_eq!(figure.writes_per_read > 0.0, op == Op::Update, "{figure}");
    }
}

#[test]
fn memory_is_at_least_the_rows_and_at_most_half_more() {
    let figure = with_size(figures::memory).expect("one CPU is enough");
    let rows = 2_000.0 * 255.0 / f64::from(1 << 20);
    assert!(figure.result.1 >= rows && figure.result.1 < rows * 1.5 + 1.0, "{figure}");
}
