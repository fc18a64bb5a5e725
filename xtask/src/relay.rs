//! `cargo xtask relay` and `cargo xtask trial-cluster`: the replicated logs over real services.

use crate::{Failed, cargo, root, run};
use std::path::PathBuf;

const SERVICES: [&str; 2] = ["nats", "kafka"];

/// The contract of `crates/relay/tests/contract.rs`, for all services or the named one.
pub fn contract(args: &[String]) -> Result<(), Failed> {
    let asked = match args {
        [] => SERVICES.join(","),
        [one] if SERVICES.contains(&one.as_str()) => one.clone(),
        _ => return Err(Failed::Usage("relay: expected nats, kafka or nothing".into())),
    };
    run("scripts/relay-services", &["install"])?;
    let test = ["test", "--package", "relay", "--features", "nats,kafka", "--test", "contract"];
    let asked = format!("memory,{asked}");
    cargo(&[&test[..], &["--", "--nocapture", "--test-threads", "1"]].concat(), &[("ATOLL_RELAY", &asked)])
}

/// The trials of `crates/atoll/tests/serve`: `takeovers.rs` and `bases.rs`, or
/// `hosts.rs`.
pub fn trial(args: &[String]) -> Result<(), Failed> {
    let (mut services, mut rounds, mut seed, mut atoll) = (SERVICES.to_vec(), 6, 1, None);
    let processes = (&["takeovers::", "bases::"][..], "ATOLL_RELAY");
    let (mut over, mut design) = (processes, "conventional".to_owned());
    let mut minutes = String::new();
    let mut words = args.iter();
    while let Some(option) = words.next() {
        let usage = |what: &str| Failed::Usage(format!("trial-cluster {option}: {what}"));
        let value = words.next().ok_or_else(|| usage("a value is missing"))?;
        let number = || value.parse::<u64>().map_err(|_| usage("expected a number"));
        match option.as_str() {
            "--relay" => {
                services = SERVICES.into_iter().filter(|s| s == value).collect();
                if services.is_empty() {
                    return Err(usage("expected nats or kafka"));
                }
            }
            "--over" => {
                over = match value.as_str() {
                    "processes" => processes,
                    "hosts" => (&["hosts::"][..], "TRIAL_HOSTS"),
                    _ => return Err(usage("expected processes or hosts")),
                }
            }
            "--design" => design.clone_from(value),
            "--rounds" => rounds = number()?,
            "--minutes" => minutes = number()?.to_string(),
            "--seed" => seed = number()?,
            "--atoll" => atoll = Some(PathBuf::from(value)),
            _ => {
                return Err(usage(
                    "expected --over, --relay, --design, --rounds, --minutes, --seed or --atoll",
                ));
            }
        }
    }
    run("scripts/relay-services", &["install"])?;
    let atoll = match atoll {
        Some(atoll) => atoll,
        None => {
            cargo(&["build", "--release", "--package", "atoll", "--features", "cluster"], &[])?;
            root().join("target/release/atoll")
        }
    };
    let program = std::path::absolute(&atoll).unwrap_or(atoll);
    let (services, rounds, seed) = (services.join(","), rounds.to_string(), seed.to_string());
    let test = ["test", "--package", "atoll", "--test", "serve", "--", "--nocapture"];
    let env = [
        ("ATOLL_PROGRAM", &*program.to_string_lossy()),
        (over.1, &services),
        ("TAKEOVER_DESIGN", &design),
        ("TAKEOVER_ROUNDS", &rounds),
        ("TAKEOVER_MINUTES", &minutes),
        ("TAKEOVER_SEED", &seed),
    ];
    cargo(&[&test[..], over.0].concat(), &env)
}
