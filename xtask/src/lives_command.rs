//! `cargo xtask lives`: rounds of [`crate::lives`] over every design and channel, several of them
//! at a time.

use crate::lives::{Bank, Business, CHANNELS, DESIGNS, Tally};
use crate::{Failed, cargo, root};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

struct Options {
    business: Business,
    rounds: u64,
    design: Option<String>,
    channel: Option<String>,
    seed: u64,
    jobs: u64,
    /// The program; `None` to build it.
    atoll: Option<PathBuf>,
}

impl Options {
    fn read(args: &[String]) -> Result<Options, Failed> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (business, design, channel, atoll) = (Business::Bank, None, None, None);
        let mut options = Options { business, rounds: 300, design, channel, seed: now, jobs: 4, atoll };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let usage = |what: &str| Failed::Usage(format!("lives {arg}: {what}"));
            if arg == "tpce" {
                options.business = Business::Brokerage;
                continue;
            }
            if let Ok(rounds) = arg.parse() {
                options.rounds = rounds;
                continue;
            }
            let value = args.next().ok_or_else(|| usage("a value is missing"))?;
            let number = || value.parse::<u64>().map_err(|_| usage("expected a number"));
            let named = |names: &[&str]| match names.contains(&value.as_str()) {
                true => Ok(Some(value.clone())),
                false => Err(usage(&format!("expected one of {}", names.join(", ")))),
            };
            match arg.as_str() {
                "--design" => options.design = named(&DESIGNS)?,
                "--channel" => options.channel = named(&CHANNELS)?,
                "--seed" => options.seed = number()?,
                "--atoll" => options.atoll = Some(value.into()),
                "--jobs" => options.jobs = number()?.max(1),
                _ => {
                    let known = "[tpce] [N] [--design D] [--channel C] [--seed S] [--jobs N] [--atoll FILE]";
                    return Err(usage(&format!("expected {known}")));
                }
            }
        }
        Ok(options)
    }

    fn places(&self) -> Vec<(&'static str, &'static str)> {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let all = DESIGNS.into_iter().flat_map(|design| CHANNELS.map(|channel| (design, channel)));
        all.filter(|(design, channel)| is(&self.design, design) && is(&self.channel, channel)).collect()
    }
}

/// Fails at the first round that breaks a promise; the files of its database are kept.
pub fn lives(args: &[String]) -> Result<(), Failed> {
    let options = Options::read(args)?;
    let atoll = match &options.atoll {
        Some(atoll) => atoll.clone(),
        None => {
            cargo(&["build", "--profile", "quick", "--package", "atoll"], &[])?;
            root().join("target/quick/atoll")
        }
    };
    let scratch = root().join("target/lives").join(options.seed.to_string());
    let places = options.places();
    eprintln!("seed {}; {} rounds over {} designs and channels", options.seed, options.rounds, places.len());
    let campaign = Campaign {
        atoll: &atoll,
        scratch: &scratch,
        begun: Instant::now(),
        options: &options,
        next: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        tally: Mutex::default(),
        failure: Mutex::default(),
    };
    std::thread::scope(|scope| {
        (0..options.jobs).for_each(|_| _ = scope.spawn(|| campaign.work(&places)));
    });
    let tally = *held(&campaign.tally);
    println!(
        "{} rounds, {} kills, {} transactions found in doubt after kills in {} rounds",
        tally.rounds, tally.kills, tally.doubts, tally.doubtful
    );
    match held(&campaign.failure).take() {
        Some(what) => Err(Failed::Lives(format!("{what}\nthe files: {}", scratch.display()))),
        None => {
            let _ = std::fs::remove_dir_all(&scratch); // the next run clears it
            Ok(())
        }
    }
}

struct Campaign<'a> {
    atoll: &'a Path,
    scratch: &'a Path,
    begun: Instant,
    options: &'a Options,
    next: AtomicUsize,
    done: AtomicU64,
    tally: Mutex<Tally>,
    failure: Mutex<Option<String>>,
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Campaign<'_> {
    fn work(&self, places: &[(&'static str, &'static str)]) {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = places.get(n) else { return };
            if let Err(what) = self.at(n as u64, places.len() as u64, *place) {
                held(&self.failure).get_or_insert(what);
            }
        }
    }

    fn at(&self, n: u64, places: u64, place: (&'static str, &'static str)) -> Result<(), String> {
        let Options { rounds, seed, business, .. } = *self.options;
        // The first places get the remaining rounds.
        let own = rounds / places + u64::from(n < rounds % places);
        let dir = self.scratch.join(n.to_string());
        let _ = std::fs::remove_dir_all(&dir); // files of an interrupted run
        let again = format!(
            "again: cargo xtask lives {}{own} --seed {} --design {} --channel {}",
            if business == Business::Brokerage { "tpce " } else { "" },
            seed + n,
            place.0,
            place.1
        );
        let mut bank = Bank::load(self.atoll, &dir, place, business, seed + n)?;
        for _ in 0..own {
            if held(&self.failure).is_some() {
                break;
            }
            let what = bank.round().map_err(|what| format!("{what}\n{again}"))?;
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            let left = self.begun.elapsed().as_secs_f64() / done as f64 * (rounds - done) as f64 / 60.0;
            println!("{done}/{rounds} ({left:.0} min left) {}: {what}", bank.describe());
        }
        let (tally, mut all) = (bank.tally(), held(&self.tally));
        all.rounds += tally.rounds;
        all.kills += tally.kills;
        all.doubts += tally.doubts;
        all.doubtful += tally.doubtful;
        let _ = std::fs::remove_dir_all(&dir);
        Ok(())
    }
}
