//! Every target on its seeds, and on random changes of them.

use crate::{Pace, TARGETS, Target};
use fastrand::Rng;

/// Makes a random change of `bytes`, as a fuzzer does, without coverage to guide it.
fn changed(random: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=bytes.len());
        match random.u32(..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            2 => bytes.extend_from_slice(&other[random.usize(..=other.len())..]),
            3 if at < bytes.len() => bytes[at] ^= 1 << random.u32(..8),
            4 if at < bytes.len() => bytes[at] = random.choice([0, 1, 0x7f, 0x80, 0xff, b'9']).unwrap_or(0),
            _ if at < bytes.len() => drop(bytes.remove(at)),
            _ => {}
        }
    }
    bytes
}

/// A number from the environment, for longer runs by hand: `HOSTILE_SEED`, `HOSTILE_CHANGES`.
fn told(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn drawn(pace: Pace) {
    let (only, seed) = (std::env::var("HOSTILE_TARGET").ok(), told("HOSTILE_SEED", 11));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    for target in TARGETS.iter().filter(|target| target.pace == pace && wanted(target.name)) {
        let (seeds, mut random) = ((target.seeds)(), Rng::with_seed(seed));
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        let (whole, changes) = if pace == Pace::Slow { (12, 40) } else { (usize::MAX, 3000) };
        for n in 0..seeds.len().min(whole) {
            tried(target, &seeds[n * seeds.len() / seeds.len().min(whole)]);
        }
        for _ in 0..told("HOSTILE_CHANGES", changes) {
            let (seed, other) = (random.choice(&seeds), random.choice(&seeds));
            let (Some(seed), Some(other)) = (seed, other) else { continue };
            tried(target, &changed(&mut random, seed, other));
        }
    }
}

/// Names the input if it ends in a panic.
fn tried(target: &Target, input: &[u8]) {
    let run = std::panic::AssertUnwindSafe(|| (target.run)(input));
    if std::panic::catch_unwind(run).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{} does not take {hex}", target.name);
    }
}

#[test]
fn readers_of_bytes_take_what_nobody_wrote() {
    drawn(Pace::Brisk);
}

#[test]
fn databases_with_files_that_nobody_wrote_are_refused_or_lived_with() {
    drawn(Pace::Slow);
}

#[test]
fn names_are_told_apart() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
}
