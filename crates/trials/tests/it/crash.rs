//! Power cuts and kills by construction.

use trials::crash::{Effort, Subject, campaign};

/// Two chains of each kind (serial, conventional, the store alone with either durability), one of
/// them on heaps and one on clustered tables; 520 transactions each.
#[test]
fn two_hundred_disks_after_crashes() {
    let subject = Subject::Pages;
    let effort = Effort { subject, chains: 8, lives: 2, commits: 260, images: 13, threads: 2, lying: None };
    let outcome = campaign(4, effort, None);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(outcome.images >= 200 && outcome.distinct >= 180, "{outcome:?}");
}

/// The same for `occ`: every fourth chain under `async`.
#[test]
fn a_hundred_disks_after_crashes_of_an_engine_in_main_memory() {
    let subject = Subject::Memory;
    let effort = Effort { subject, chains: 4, lives: 2, commits: 200, images: 16, threads: 2, lying: None };
    let outcome = campaign(4, effort, None);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(outcome.images >= 120 && outcome.distinct >= 90, "{outcome:?}");
}

#[test]
fn a_device_that_lies_is_found_out_by_an_engine_in_main_memory() {
    for lying in ["log-", "checkpoint-", "control"] {
        let effort = Effort {
            subject: Subject::Memory,
            chains: 1,
            lives: 2,
            commits: 200,
            images: 60,
            threads: 1,
            lying: Some(lying),
        };
        let caught = (0..8).any(|n| !campaign(n * 4, effort, None).failures.is_empty());
        assert!(caught, "nobody noticed that syncs of {lying} do nothing");
    }
}

/// A campaign on a device that only pretends to sync one kind of file must fail: otherwise it would
/// not notice if the engine left that sync out.
#[test]
fn a_device_that_lies_is_found_out() {
    for lying in ["spare-segment", "data", "doublewrite", "control-"] {
        let subject = Subject::Pages;
        let effort = Effort {
            subject,
            chains: 1,
            lives: 2,
            commits: 120,
            images: 150,
            threads: 1,
            lying: Some(lying),
        };
        let caught = (0..8).any(|n| !campaign(2 + n * 4, effort, None).failures.is_empty());
        assert!(caught, "nobody noticed that syncs of {lying} do nothing");
    }
}
