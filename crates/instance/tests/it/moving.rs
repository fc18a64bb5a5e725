//! Keys that change owners under running transactions: random partitions one after the other, and a
//! balancer that follows the load.

use crate::support::{Deployment, Via, any, config, private_dir};
use exec::DesignKind::{self, Conventional, Logical, PlpLeaf, PlpPartition, PlpRegular};
use instance::{Balance, Carried, Instance, InstanceConfig, Mode, RepartitionError};
use probe::{Measured, Rebalanced};
use std::ops::Range;
use std::time::{Duration, Instant};
use txn::Workload;
use wal::Durability;
use workload::AnyWorkload;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tatp::{Index, Kind, Mix, Popularity, Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Tpcc, TpccOptions};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

type Parts = Vec<(Range<u32>, usize)>;

/// Some partitions of `sites`; each worker has at least one.
fn parts(random: &mut Random, sites: u32, workers: usize) -> Parts {
    let mut starts: Vec<u32> = (0..6).map(|_| random.below(sites.into()) as u32).collect();
    starts.extend((0..workers as u32).map(|w| w * sites / workers as u32));
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([sites]).collect::<Vec<_>>();
    let first = random.below(workers as u64) as usize;
    let owner =
        |i: usize| if i < workers { (first + i) % workers } else { random.below(workers as u64) as usize };
    let owners: Vec<usize> = (0..starts.len()).map(owner).collect();
    starts.into_iter().zip(ends).zip(owners).map(|((start, end), owner)| (start..end, owner)).collect()
}

fn churn<W: Workload>(instance: &Instance<W>, random: &mut Random, workers: usize) -> Carried {
    let sites = instance.partitions().last().expect("owners").0.end;
    let wanted = parts(random, sites, workers);
    match instance.repartition(&wanted) {
        Ok(carried) => {
            let is =
                |(sites, worker): &(Range<u32>, usize)| sites.clone().map(|_| *worker).collect::<Vec<_>>();
            let owners = |parts: &Parts| parts.iter().flat_map(is).collect::<Vec<_>>();
            assert_eq!(owners(&instance.partitions()), owners(&wanted));
            carried
        }
        // On a machine with a few busy cores an owner may not become idle in time.
        Err(RepartitionError::Refused(exec::Refusal::Busy { .. })) => Carried::default(),
        Err(error) => panic!("{error}"),
    }
}

/// Whether the data shows how many transactions were committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Counts,
    Forgets,
}

fn run<W: Workload>(workload: W, data: Data, islands: u16, workers: usize) {
    for design in [Logical, PlpRegular, PlpPartition, PlpLeaf] {
        let (measured, carried) = run_under(design, workload.clone(), data, islands, workers);
        eprintln!(
            "{design} {} x{islands} w{workers}: {} committed, aborted {:?}, {carried:?}",
            workload.name(),
            measured.committed_total(),
            measured.aborted
        );
        assert!(measured.committed_total() > 20 && carried.changes > 10, "{carried:?}");
    }
}

fn run_under<W: Workload>(
    design: DesignKind,
    workload: W,
    data: Data,
    islands: u16,
    workers: usize,
) -> (Measured, Carried) {
    let dir = private_dir();
    let of = |i| config(&workload, dir.path(), design, Durability::Memory, (i, islands), workers, Via::Ring);
    let deployment = Deployment::start(workload.clone(), (0..islands).map(of).collect());
    deployment.load();
    deployment.measure();
    let mut random = Random(u64::from(islands) + workers as u64);
    let mut carried = Carried::default();
    for (i, instance) in deployment.instances.iter().enumerate() {
        instance.drive(4, 5 + ((i as u64) << 32));
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) || carried.changes <= 10 {
        deployment.instances.iter().for_each(|instance| carried.add(&churn(instance, &mut random, workers)));
        assert!(start.elapsed() < Duration::from_secs(60), "{carried:?}");
    }
    deployment.instances.iter().for_each(|instance| instance.halt().unwrap());
    let measured = deployment.measure();
    let counted = (data == Data::Counts).then(|| measured.committed_total());
    let verdict = deployment.workload.judge(deployment.audits(), counted);
    assert!(verdict.holds(), "{design}: {verdict:?}");
    deployment.stop();
    (measured, carried)
}

#[test]
fn micro_stays_consistent_while_keys_change_owners() {
    let options = MicroOptions { dataset: 4_000, op: Op::Update, multisite: 50.0, ..MicroOptions::new(16) };
    run(any(Micro::new(options.clone())), Data::Counts, 1, 2);
    run(any(Micro::new(MicroOptions { op: Op::Mixed, ..options.clone() })), Data::Counts, 1, 3);
    run(any(Micro::new(options)), Data::Counts, 2, 2);
}

#[test]
fn tpcb_stays_consistent_while_keys_change_owners() {
    for islands in [1, 2] {
        let options = TpcbOptions { accounts: 200, multisite: 50.0, ..TpcbOptions::new(12) };
        run(any(Tpcb::new(options)), Data::Counts, islands, 2);
    }
}

#[test]
fn tpcc_stays_consistent_while_keys_change_owners() {
    let options = TpccOptions { multisite: Some(50.0), items: 200, customers: 30, ..TpccOptions::new(6) };
    run(any(Tpcc::new(options)), Data::Forgets, 1, 2);
}

#[test]
fn tatp_stays_consistent_while_keys_change_owners() {
    for index in [Index::Aligned, Index::NonAligned] {
        let options = TatpOptions { subscribers: 50, index, ..TatpOptions::new(16) };
        run(any(Tatp::new(options)), Data::Forgets, 1, 2);
    }
}

fn micro(sites: u32) -> AnyWorkload {
    any(Micro::new(MicroOptions { dataset: 2_000, op: Op::Update, ..MicroOptions::new(sites) }))
}

#[test]
fn partitions_that_cannot_be_are_refused_and_nothing_changes() {
    let dir = private_dir();
    let workload = micro(10);
    let of = |design| config(&workload, dir.path(), design, Durability::Memory, (0, 1), 2, Via::Ring);
    let deployment = Deployment::start(workload.clone(), vec![of(Logical)]);
    deployment.load();
    let instance = &deployment.instances[0];
    let even = vec![(0..5, 0), (5..10, 1)];
    assert_eq!(instance.partitions(), even);
    let refused = |parts: &[(Range<u32>, usize)]| instance.repartition(parts).unwrap_err().to_string();
    assert!(refused(&[(0..5, 0), (6..10, 1)]).contains("keys 5..6 are in no range"));
    assert!(refused(&[(0..6, 0), (5..10, 1)]).contains("keys 5..6 are in two ranges"));
    assert!(refused(&[(0..5, 0), (5..11, 1)]).contains("past its 10"));
    assert!(refused(&[(0..10, 1)]).contains("would leave worker 0 without a partition"));
    assert!(refused(&[(0..5, 0), (5..10, 9)]).contains("worker 9 of 2"));
    let many: Vec<_> = (0..11).map(|i| (i..i + 1, i as usize % 2)).collect();
    assert!(refused(&many).contains("11 partitions for 10 keys"));
    assert_eq!(instance.partitions(), even);
    deployment.stop();
    let of = |design| InstanceConfig { dir: dir.path().join("other"), ..of(design) };
    let deployment = Deployment::start(workload.clone(), vec![of(Conventional)]);
    assert!(deployment.instances[0].partitions().is_empty());
    let refused = deployment.instances[0].repartition(&even).unwrap_err();
    assert_eq!(refused, RepartitionError::NoOwners);
    deployment.stop();
    let of = |design| InstanceConfig { dir: dir.path().join("third"), ..of(design) };
    let of = |design| of(design).with(|o| o.partitions = Some(11));
    std::fs::create_dir_all(dir.path().join("third")).unwrap();
    let refused = Instance::start(workload.clone(), of(PlpRegular)).err().expect("too many").to_string();
    assert!(refused.contains("--partitions 11") && refused.contains("10 sites"), "{refused}");
}

/// The balancer's decisions about a load of which one worker gets more than its share.
fn skewed(mode: Mode) -> (Vec<(Range<u32>, usize)>, Measured) {
    let dir = private_dir();
    let hot = "90/20".parse().unwrap();
    let options = MicroOptions { dataset: 4_000, rows: 2, hot: Some(hot), ..MicroOptions::new(40) };
    let workload = any(Micro::new(options));
    let config = config(&workload, dir.path(), Logical, Durability::Memory, (0, 1), 2, Via::Ring);
    let config = config.with(|o| o.balance = Balance { mode, every_ms: 20 });
    let deployment = Deployment::start(workload, vec![config]);
    deployment.load();
    let instance = &deployment.instances[0];
    instance.drive(4, 9);
    let (start, mut measured) = (Instant::now(), Measured::default());
    let decided = |measured: &Measured| match mode {
        Mode::Off => false,
        Mode::Advise => !measured.rebalances.is_empty(),
        Mode::On => measured.rebalances.iter().any(|r| r.outcome == Rebalanced::Done),
    };
    let patience = Duration::from_millis(if mode == Mode::Off { 300 } else { 30_000 });
    while !decided(&measured) && start.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
        measured.merge(&deployment.measure());
    }
    instance.halt().unwrap();
    measured.merge(&deployment.measure());
    let partitions = instance.partitions();
    let verdict = deployment.workload.judge(deployment.audits(), None);
    assert!(verdict.holds(), "{verdict:?}");
    deployment.stop();
    (partitions, measured)
}

#[test]
fn a_skewed_load_is_followed_advised_about_or_left_alone() {
    let even = vec![(0..20, 0), (20..40, 1)];
    let (partitions, measured) = skewed(Mode::Off);
    assert_eq!((partitions, measured.rebalances), (even.clone(), vec![]));
    let (partitions, measured) = skewed(Mode::Advise);
    let advice = &measured.rebalances[0];
    assert_eq!((partitions, &advice.outcome), (even, &Rebalanced::Advised));
    assert!(
        advice.why.contains("advise to repartition") && advice.why.contains("of the mean work"),
        "{advice:?}"
    );
    let (partitions, measured) = skewed(Mode::On);
    assert!(measured.rebalances[0].why.contains("1 splits, 1 merges"), "{:?}", measured.rebalances);
    // Nine tenths of the work lie in the first eight sites: half of it in less than five.
    let border = partitions[0].0.end;
    assert!((3..=8).contains(&border), "{partitions:?}, {:?}", measured.rebalances);
}

/// Without an aligned index a subscriber and the entry of its number lie half of the table apart.
/// With two workers on two islands every transaction visits both, until one worker owns the
/// partitions that meet.
#[test]
fn partitions_that_meet_come_to_one_island() {
    let dir = private_dir();
    let options = TatpOptions {
        subscribers: 50,
        mix: Mix::Only(Kind::UpdateLocation),
        index: Index::NonAligned,
        popularity: Popularity::Uniform,
        hot: Some("50/50".parse().unwrap()),
        ..TatpOptions::new(16)
    };
    let workload = any(Tatp::new(options));
    let config = config(&workload, dir.path(), Logical, Durability::Memory, (0, 1), 2, Via::Ring);
    // Long enough for a slow machine to see enough meetings in one period.
    let balance = Balance { mode: Mode::On, every_ms: 400 };
    let config = InstanceConfig { worker_islands: vec![0, 1], ..config };
    let config = config.with(|o| (o.balance, o.partitions) = (balance, Some(4)));
    let deployment = Deployment::start(workload, vec![config]);
    deployment.load();
    let instance = &deployment.instances[0];
    let owners = || instance.partitions().iter().map(|(_, worker)| *worker).collect::<Vec<_>>();
    assert_eq!(owners(), [0, 0, 1, 1]);
    instance.drive(4, 9);
    let start = Instant::now();
    let together = |o: &[usize]| o[0] == o[2] && o[1] == o[3] && o[0] != o[1];
    while !together(&owners()) && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    instance.halt().unwrap();
    let measured = deployment.measure();
    assert!(together(&owners()), "{:?}, {:?}", instance.partitions(), measured.rebalances);
    let told = measured.rebalances.iter().find(|made| made.why.contains("between islands"));
    assert!(told.is_some_and(|made| made.moves >= 2), "{:?}", measured.rebalances);
    let verdict = deployment.workload.judge(deployment.audits(), None);
    assert!(verdict.holds(), "{verdict:?}");
    deployment.stop();
}
