use super::*;
use crate::cli::{Cli, Command};
use clap::Parser;
use deploy::engine::DesignKind;
use deploy::engine::{Mode, TableKind, TreeKind};
use std::path::Path;

fn plan(args: &[&str]) -> Result<Sweep, Failure> {
    let cli = Cli::try_parse_from([&["atoll", "bench"], args].concat()).unwrap();
    let Some(Command::Bench(bench)) = cli.command else { panic!("bench") };
    Sweep::plan(&bench, &Machine::parse("package:2 l3:1 core:2").unwrap(), &Interrupt::default())
}

fn refusal(args: &[&str]) -> String {
    let failure = plan(args).err().expect("refused");
    assert_eq!(failure.code(), 2);
    failure.to_string()
}

#[test]
fn every_combination_in_order_and_one_load_per_deployment() {
    let sweep = plan(&[
        "micro",
        "--islands",
        "1,2",
        "--design",
        "conventional,serial",
        "--op",
        "read,update",
        "--multisite",
        "0,20,100",
        "--channel",
        "shm,uds",
    ])
    .unwrap();
    assert_eq!((sweep.stops.len(), sweep.rows()), (8, 48));
    let order: Vec<_> = sweep
        .stops
        .iter()
        .map(|s| (s.deployment.design, s.deployment.islands, s.deployment.channel))
        .collect();
    assert_eq!(order[0], (DesignKind::Conventional, 1, ChannelKind::Shm));
    assert_eq!(order[1], (DesignKind::Conventional, 1, ChannelKind::Uds));
    assert_eq!(order[7], (DesignKind::Serial, 2, ChannelKind::Uds));
    let multisite: Vec<_> = sweep.stops[0].mixes.iter().map(|(s, _)| s.labels().multisite.unwrap()).collect();
    assert_eq!(multisite, [0.0, 20.0, 100.0, 0.0, 20.0, 100.0]);
    assert!(sweep.stops.iter().all(|s| s.deployment.design != DesignKind::Serial
        || s.deployment.workers == usize::from(s.deployment.islands)));
    assert!(sweep.remarks.iter().any(|r| r.contains("serial")));
}

#[test]
fn defaults_follow_the_machine() {
    let sweep = plan(&["tpcb"]).unwrap();
    let islands: Vec<_> = sweep.stops.iter().map(|s| s.deployment.islands).collect();
    assert_eq!(islands, [1, 2, 4]);
    assert!(sweep.stops.iter().all(|s| s.deployment.workers == 4 && s.deployment.sites == 4));
    let small = plan(&["tatp", "--scale", "1"]).unwrap();
    assert_eq!(small.stops.iter().map(|s| s.deployment.islands).collect::<Vec<_>>(), [1]);
    assert!(small.remarks.iter().any(|r| r.contains("--islands 2")), "{:?}", small.remarks);
}

#[test]
fn a_listener_that_strangers_reach_is_warned_of() {
    let warns = |args: &[&str]| {
        let sweep = plan(args).unwrap();
        sweep.remarks.iter().filter(|r| r.contains("--listen 0.0.0.0") && r.contains("in clear")).count()
    };
    let far = ["micro", "--channel", "shm,tcp", "--islands", "1,2", "--listen", "0.0.0.0"];
    assert_eq!(warns(&far), 1);
    assert_eq!(warns(&["micro", "--channel", "shm", "--listen", "0.0.0.0"]), 0);
    assert_eq!(warns(&["micro", "--channel", "tcp"]), 0);
}

#[test]
fn time_outs_and_bounds_travel_with_the_deployment() {
    let of = |args: &[&str]| {
        let sweep = plan(&[&["micro"], args].concat()).unwrap();
        let deployment = &sweep.stops[0].deployment;
        let options = &deployment.options;
        (options.lock_timeout_ms, options.distributed_timeout_ms, options.most_requests)
    };
    assert_eq!(of(&[]), (100, None, 1024));
    let all = ["--lock-timeout", "7", "--distributed-timeout", "9s", "--max-requests", "16"];
    assert_eq!(of(&all), (7, Some(9000), 16));
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    assert!(refusal(&["micro", "--islands", "5"]).contains('5'));
    assert!(refusal(&["micro", "--islands", "2", "--memory", "7M"]).contains("8M"));
    assert!(refusal(&["tpcb", "--islands", "4", "--scale", "2"]).contains("2 sites"));
    assert!(refusal(&["tpce", "--islands", "3", "--scale", "1"]).contains("multiple of 3"));
    assert!(refusal(&["micro", "--channel", "ring", "--host", "process"]).contains("thread"));
    assert!(refusal(&["tpcb", "--rows", "3"]).contains("--rows"));
    let large = ["tpcc", "--islands", "1", "--scale", "60000", "--durability"];
    let text = refusal(&[&large[..], &["sync,memory"]].concat());
    assert!(
        text.contains("--durability memory") && text.contains("MiB") && text.contains("--scale"),
        "{text}"
    );
    let text = refusal(&[&large[..], &["sync", "--memory", "4000G"]].concat());
    assert!(text.contains("4096000M") && text.contains("MiB are free"), "{text}");
    let keep = ["tpcb", "--data", "d", "--keep", "--durability", "sync,memory"];
    assert!(refusal(&keep).contains("--keep"));
    assert!(refusal(&["micro", "--kill", "3"]).contains("tpcb"));
    assert!(refusal(&["tpcb", "--kill", "3", "--durability", "memory"]).contains("memory"));
    assert!(refusal(&["tpcb", "--kill", "3", "--profile"]).contains("--profile"));
    assert!(refusal(&["micro", "--op", "update", "--rows", "9000", "--dataset", "100"]).contains("rows"));
}

/// The kill campaign may use only options that `bench` has.
#[test]
fn the_kill_campaign_asks_for_what_bench_takes() {
    let deployments = include_str!("../../../../xtask/src/kill.txt");
    for line in deployments.lines() {
        let words: Vec<&str> = ["tpcb"].into_iter().chain(line.split(' ')).chain(["--kill", "9"]).collect();
        assert!(!plan(&words).unwrap_or_else(|why| panic!("{line}: {why}")).stops.is_empty());
    }
}

#[test]
fn what_comes_in_is_refused_where_it_contradicts_itself() {
    let open = ["micro", "--load-model", "open", "--rate", "1000,5000,1..9/2s"];
    let sweep = plan(&open).unwrap();
    let repeats: Vec<u32> = sweep.stops[0].mixes.iter().map(|(_, s)| s.repeat).collect();
    assert_eq!(repeats, [3, 3, 1]);
    assert!(sweep.stops[0].mixes.iter().all(|(_, s)| s.traffic.clients == 64));
    assert!(refusal(&["micro", "--load-model", "open"]).contains("--rate"));
    assert!(refusal(&["micro", "--rate", "5"]).contains("--load-model open"));
    assert!(refusal(&["micro", "--arrivals", "uniform"]).contains("--load-model open"));
    assert!(refusal(&["micro", "--think", "standard"]).contains("tpcc"));
    assert!(refusal(&["tpcc", "--think", "x2", "--load-model", "open", "--rate", "1"]).contains("--think"));
    assert!(refusal(&["tpcb", "--kill", "3", "--load-model", "open", "--rate", "1"]).contains("closed"));
    assert!(refusal(&["micro", "--phases", "/nowhere/at.all"]).contains("/nowhere/at.all"));
    let sweep = plan(&["tpcc", "--think", "standard", "--scale", "4", "--islands", "1"]).unwrap();
    let model = sweep.stops[0].mixes[0].1.traffic.model;
    assert!(matches!(model, driver::LoadModel::Terminals { terminals: 40, .. }), "{model:?}");
}

#[test]
fn a_ring_lives_in_one_process_and_is_left_out_beside_others() {
    let sweep = plan(&["micro", "--islands", "2", "--channel", "ring,shm"]).unwrap();
    assert_eq!(sweep.stops[0].deployment.host, Host::Thread);
    assert_eq!(sweep.stops[1].deployment.host, Host::Process);
    let sweep = plan(&["micro", "--islands", "2", "--channel", "ring,shm", "--host", "process"]).unwrap();
    assert_eq!(sweep.stops.len(), 1);
    assert!(sweep.remarks[0].contains("ring"));
}

#[test]
fn databases_of_a_sweep_do_not_meet() {
    let one = plan(&["micro", "--islands", "2", "--data", "d"]).unwrap();
    assert_eq!(one.stops[0].deployment.data.as_deref(), Some(Path::new("d")));
    let directories = |args: &[&str]| -> Vec<_> {
        let sweep = plan(&[&["micro", "--data", "d"], args].concat()).unwrap();
        sweep.stops.into_iter().map(|s| s.deployment.data.unwrap().display().to_string()).collect()
    };
    assert_eq!(directories(&["--islands", "1,2"]), ["d/01-1-islands", "d/02-2-islands"]);
    let designs = ["--islands", "1,2", "--channel", "shm,uds"];
    assert_eq!(
        directories(&designs),
        ["d/01-1-islands", "d/01-1-islands", "d/02-2-islands", "d/02-2-islands"]
    );
    assert_eq!(directories(&["--islands", "2", "--durability", "sync,async"]), ["d", "d"]);
    let kept = directories(&["--islands", "2", "--durability", "sync,async", "--keep"]);
    assert_eq!(kept, ["d/01-conventional-2-islands", "d/02-conventional-2-islands"]);
    let kinds = directories(&["--islands", "1", "--tables", "heap,clustered"]);
    assert_eq!(kinds, ["d/01-1-islands", "d/02-1-islands"]);
    let kinds = plan(&["micro", "--islands", "1", "--tables", "heap,clustered"]).unwrap();
    let tables: Vec<_> = kinds.stops.iter().map(|s| s.deployment.options.tables).collect();
    assert_eq!(tables, TableKind::ALL);
}

#[test]
fn trees_have_partitions_only_where_they_are_multi_rooted() {
    let trees = |args: &[&str]| -> Vec<_> {
        let sweep = plan(&[&["micro", "--islands", "1", "--workers", "2"], args].concat()).unwrap();
        let of =
            |s: &Stop| (s.deployment.design.name(), s.deployment.options.trees, s.deployment.partitions());
        sweep.stops.iter().map(of).collect()
    };
    use TreeKind::{BTree, MultiRooted};
    assert_eq!(trees(&["--tree", "mrbtree"]), [("conventional", MultiRooted, 2)]);
    let both = trees(&["--tree", "btree,mrbtree", "--partitions", "3,8"]);
    let conventional = |trees, parts| ("conventional", trees, parts);
    assert_eq!(both, [conventional(BTree, 2), conventional(MultiRooted, 3), conventional(MultiRooted, 8)]);
    let occ = ["--design", "occ,logical", "--durability", "memory", "--tree", "btree,mrbtree"];
    let expected = [("occ", BTree, 2), ("logical", BTree, 2), ("logical", MultiRooted, 2)];
    assert_eq!(trees(&occ), expected, "no trees, no difference");
    let plp = trees(&["--design", "plp-regular,logical"]);
    assert_eq!(plp, [("plp-regular", MultiRooted, 2), ("logical", BTree, 2)]);
    let refused = plan(&["micro", "--design", "plp-regular", "--tree", "btree"]).err().unwrap();
    assert!(refused.to_string().contains("expected --tree mrbtree"), "{refused}");
    let refused = plan(&["micro", "--partitions", "4"]).err().unwrap();
    assert!(refused.to_string().contains("--tree mrbtree"), "{refused}");
}

#[test]
fn only_owners_of_keys_have_anything_to_balance() {
    let sweep = |args: &[&str]| -> Vec<_> {
        let sweep = plan(&[&["micro", "--islands", "1", "--scale", "20"], args].concat()).unwrap();
        sweep.stops.iter().map(|s| (s.deployment.design.name(), s.deployment.options.balance.mode)).collect()
    };
    let both = sweep(&["--design", "conventional,logical", "--balance", "off,on"]);
    assert_eq!(both, [("conventional", Mode::Off), ("logical", Mode::Off), ("logical", Mode::On)]);
    let plp = ["micro", "--islands", "1", "--scale", "20", "--design", "plp-regular"];
    let given = |args: &[&str]| plan(&[&plp[..], args].concat());
    let stop = given(&["--balance", "advise", "--balance-every", "1s", "--partitions", "16"]).unwrap();
    let deployment = &stop.stops[0].deployment;
    assert_eq!((deployment.options.balance.every_ms, deployment.partitions()), (1000, 16));
    let refused = |sweep: Result<Sweep, Failure>| sweep.err().unwrap().to_string();
    let text = refused(given(&["--partitions", "21"]));
    assert!(text.contains("--partitions 21") && text.contains("20 sites"), "{text}");
    let text = refused(plan(&["micro", "--islands", "1", "--balance", "on"]));
    assert!(text.contains("--balance on") && text.contains("--design logical"), "{text}");
}
