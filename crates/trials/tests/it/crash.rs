//! Power cuts and kills by construction.

use trials::crash::{Effort, campaign};

/// Two chains of each kind (serial, conventional, the store alone with either durability), one of them on heaps and one on
/// clustered tables; 520 transactions each.
#[test]
fn two_hundred_disks_after_crashes() {
    let effort = Effort { chains: 8, lives: 2, commits: 260, images: 13, threads: 2, lying: None };
    let outcome = campaign(4, effort, None);
    let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(outcome.images >= 200 && outcome.distinct >= 180, "{outcome:?}");
}

/// A campaign on a device that only pretends to sync one kind of file must fail: otherwise it would not notice if the
/// engine left that sync out.
#[test]
fn a_device_that_lies_is_found_out() {
    for lying in ["spare-segment", "data", "doublewrite", "control-"] {
        let effort =
            Effort { chains: 1, lives: 2, commits: 120, images: 150, threads: 1, lying: Some(lying) };
        let caught = (0..8).any(|n| !campaign(2 + n * 4, effort, None).failures.is_empty());
        assert!(caught, "nobody noticed that syncs of {lying} do nothing");
    }
}
