//! Shared lines, parts of a distributed transaction that run at once, and uneven parts.

use crate::{machines, run};
use deploysim::{
    Case, Channel, Clients, Deployment, EngineProfile, MachineModel, Outcome, Placement, RunOptions,
    Transactions, estimate,
};
use proptest::prelude::*;
use workload::micro::{MicroOptions, Op};

const SHORT: RunOptions = RunOptions { seed: 1, transactions: 3_000, warm_up: 0, most_ns: 60e9 };

fn papers_engine() -> EngineProfile {
    EngineProfile::builtin("shore-mt").unwrap()
}

/// The microbenchmark on the papers' quad-socket machine.
fn quad(
    islands: usize,
    channel: Channel,
    options: MicroOptions,
    clients: u32,
    run_for: &RunOptions,
) -> Outcome {
    let machine = MachineModel::parse(&machines("quad-socket-e7530.toml")).unwrap();
    let transactions = Transactions::micro(options).unwrap();
    let deployment = Deployment::new(&machine, "conventional", islands, 24, Placement::Island).unwrap();
    let deployment = deployment.over(channel).with_clients(Clients::Closed(clients));
    run(&machine, &papers_engine(), &transactions, &deployment, run_for)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Messages served between rows, waits that are given up, and aborts lose no message and no
    /// time, and the run goes on.
    #[test]
    fn parts_that_run_at_once_lose_nothing(
        islands in prop_oneof![Just(2_usize), Just(4), Just(24)],
        channel in prop_oneof![Just(Channel::Shm), Just(Channel::Uds)],
        multisite in 10.0..100.0,
        rows in 2_u32..20,
        skew in prop_oneof![Just(0.0), Just(0.75)],
        clients in 1_u32..4,
        seed in 0_u64..1_000,
    ) {
        let options = MicroOptions { op: Op::Update, rows, multisite, skew, ..MicroOptions::new(24) };
        let outcome = quad(islands, channel, options, clients, &SHORT.seeded(seed));
        prop_assert_eq!(outcome.committed, SHORT.transactions);
        prop_assert_eq!(outcome.messages.total(), outcome.received + outcome.on_the_way);
        let busy: f64 = outcome.workers.iter().map(|w| w.busy_ns).sum();
        let parts: f64 = outcome.components.iter().sum();
        prop_assert!((parts / busy - 1.0).abs() < 0.01, "components {}, busy {}", parts, busy);
        let all = f64::from(clients) * 24.0;
        prop_assert!((outcome.mean_in_flight / all - 1.0).abs() < 0.02, "{} of {}", outcome.mean_in_flight, all);
    }
}

/// Two messages for each reader and four for each writer, for any number of participants.
#[test]
fn messages_of_parts_that_run_at_once() {
    for (op, each) in [(Op::Read, 2.0), (Op::Update, 4.0)] {
        let options = MicroOptions { op, multisite: 100.0, ..MicroOptions::new(24) };
        let outcome = quad(24, Channel::Shm, options, 1, &RunOptions::default());
        let found = outcome.messages.protocol() as f64 / outcome.participants as f64;
        assert!((found / each - 1.0_f64).abs() < 0.02, "{op:?}: {found}");
    }
}

/// A hot line bounds an instance from above, the more the farther its cores lie apart.
#[test]
fn one_instance_saturates_where_islands_do_not() {
    let machine = MachineModel::parse(&machines("octo-socket-e7-l8867.toml")).unwrap();
    let (profile, transactions) = (papers_engine(), Transactions::micro(MicroOptions::new(80)).unwrap());
    let rate = |islands: usize, workers: usize| {
        let deployment = Deployment::new(&machine, "conventional", islands, workers, Placement::Island);
        let deployment = deployment.unwrap().with_clients(Clients::Closed(1));
        let outcome = run(&machine, &profile, &transactions, &deployment, &RunOptions::default());
        let quick = estimate(&Case::new(&machine, &profile, &transactions, &deployment).unwrap());
        assert!((quick.tps / outcome.tps - 1.0).abs() < 0.1, "{islands}: {} for {}", quick.tps, outcome.tps);
        (outcome.tps / workers as f64, outcome)
    };
    let (socket, _) = rate(1, 10);
    let (all, saturated) = rate(1, 80);
    let (islands, _) = rate(8, 80);
    assert!(all < 0.5 * socket && islands > 0.95 * socket, "{socket} {all} {islands}");
    assert!(matches!(saturated.limit, deploysim::Limit::HotLine { .. }), "{:?}", saturated.limit);
}

/// Readers of popular rows meet at the latch of the page: with a line each visit of which moves
/// further, or without skew, the throughput tells.
#[test]
fn readers_of_popular_rows_wait_for_the_line_of_their_page() {
    let machine = MachineModel::parse(&machines("quad-socket-e7530.toml")).unwrap();
    let rate = |skew: f64, transfers: f64| {
        let mut profile = papers_engine();
        profile.designs.get_mut("conventional").unwrap().runs[0].transfers = transfers;
        let options = MicroOptions { rows: 2, skew, ..MicroOptions::new(24) };
        let transactions = Transactions::micro(options).unwrap();
        let one = Deployment::new(&machine, "conventional", 1, 24, Placement::Island).unwrap();
        let one = one.with_clients(Clients::Closed(1));
        let exact = run(&machine, &profile, &transactions, &one, &RunOptions::default()).tps;
        let quick = estimate(&Case::new(&machine, &profile, &transactions, &one).unwrap()).tps;
        assert!((quick / exact - 1.0).abs() < 0.2, "skew {skew}, {transfers}: {quick} for {exact}");
        exact
    };
    let (even, popular, far) = (rate(0.0, 3.0), rate(1.0, 3.0), rate(1.0, 40.0));
    assert!(popular < 0.99 * even && far < 0.7 * popular, "{even} {popular} {far}");
    assert!((rate(0.0, 40.0) / even - 1.0).abs() < 0.01);
}

/// Bounds that divide evenly are the same as none; others move sites and load.
#[test]
fn bounds_divide_the_sites() {
    let machine = MachineModel::uniform(4, 60.0).unwrap();
    let profile = EngineProfile::builtin("atoll").unwrap();
    let options = MicroOptions { skew: 0.8, multisite: 20.0, ..MicroOptions::new(8) };
    let transactions = Transactions::micro(options).unwrap();
    let plain = Deployment::new(&machine, "conventional", 2, 4, Placement::Island).unwrap();
    let with = |bounds: &[u32]| plain.clone().with_bounds(bounds.to_vec());
    let go =
        |deployment: &Deployment| run(&machine, &profile, &transactions, deployment, &RunOptions::default());
    assert_eq!(go(&plain), go(&with(&[4])));
    let uneven = with(&[1]);
    assert_eq!((uneven.sites_of(0, 8), uneven.sites_of(1, 8)), (0..1, 1..8));
    for deployment in [&plain, &uneven] {
        for site in 0..8 {
            assert!(deployment.sites_of(deployment.owner_of(site, 8), 8).contains(&site));
        }
    }
    // The first site draws half of the requests.
    assert!(go(&uneven).tps > 1.05 * go(&plain).tps, "{} {}", go(&uneven).tps, go(&plain).tps);
    for wrong in [&[1, 2][..], &[0], &[8]] {
        let deployment = with(wrong);
        let error = Case::new(&machine, &profile, &transactions, &deployment).unwrap_err().to_string();
        assert!(error.contains("bounds"), "{error}");
    }
}
