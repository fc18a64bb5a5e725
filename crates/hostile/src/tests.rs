use crate::{Pace, TARGETS};
use fastrand::Rng;

/// Draws a change of `bytes`: what a fuzzer does, without looking where it leads.
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

fn drawn(pace: Pace) {
    for target in TARGETS.iter().filter(|target| target.pace == pace) {
        let (seeds, mut random) = ((target.seeds)(), Rng::with_seed(11));
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        let (whole, changes) = if pace == Pace::Slow { (12, 40) } else { (usize::MAX, 3000) };
        for n in 0..seeds.len().min(whole) {
            (target.run)(&seeds[n * seeds.len() / seeds.len().min(whole)]);
        }
        for _ in 0..changes {
            let (seed, other) = (random.choice(&seeds), random.choice(&seeds));
            let (Some(seed), Some(other)) = (seed, other) else { continue };
            (target.run)(&changed(&mut random, seed, other));
        }
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
