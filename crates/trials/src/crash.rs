//! Crash by construction. One recorded life yields the disk at every moment at which a crash can
//! happen. Each such disk is opened, and the result is compared with the ledger.
//!
//! A *chain* is a few lives, each beginning on a crash image of the one before. A life's record
//! therefore contains a restart too, and its images are restarts of restarts. A chain depends only
//! on its seed and on the scheduling of the log's flusher thread. The image of a failure is
//! therefore kept as files.

use crate::ledger::{Flaw, Ledger, Promise, Settled};
use crate::store_run::{Mix, StoreRun};
use crate::table::DIR;
use crate::workers::Crew;
use crate::{engine_run, memory_run, table, unwound};
use exec::{Conventional, Serial};
use fastrand::Rng;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use store::Store;
use txn::TableKind;
use wal::Durability;
use world::sim::{Disk, Tape};
use world::{Deed, Files, Intervention, Open};

/// The engine family under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The page-based designs, and their store alone.
    Pages,
    /// `occ`.
    Memory,
}

/// The size of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub subject: Subject,
    pub chains: u64,
    pub lives: usize,
    /// Committed transactions in each life.
    pub commits: usize,
    /// Disks opened for each life.
    pub images: usize,
    pub threads: usize,
    /// Syncs of files with this name prefix only pretend; the campaign must notice.
    pub lying: Option<&'static str>,
}

impl Effort {
    /// The effort for about `images` disks: chains of two lives of 500 transactions each.
    pub fn of_images(images: usize) -> Effort {
        let per_life = images.clamp(1, 500);
        let chains = images.div_ceil(per_life * 2).max(1) as u64;
        Effort {
            subject: Subject::Pages,
            chains,
            lives: 2,
            commits: 500,
            images: images.div_ceil(chains as usize * 2),
            threads: 2,
            lying: None,
        }
    }
}

/// A disk that broke a promise.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub subject: Subject,
    /// The life, and where it was cut.
    pub moment: String,
    pub flaw: Flaw,
    /// The failing disk's files, if they could be kept.
    pub kept: Option<PathBuf>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.moment, self.flaw)?;
        if let Some(dir) = &self.kept {
            writeln!(f, "  the files: {}", dir.display())?;
        }
        let occ = if self.subject == Subject::Memory { " --design occ" } else { "" };
        write!(f, "  again: cargo xtask crash{occ} --seed {} --chains 1", self.seed)
    }
}

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Disks opened and checked, and how many of them differed in their bytes.
    pub images: u64,
    pub distinct: u64,
    /// Cuts just before a sync; the others were drawn.
    pub sync_points: u64,
    pub transactions: u64,
    pub failures: Vec<Failure>,
}

/// Shared by the threads of a campaign.
struct Tally {
    images: AtomicU64,
    sync_points: AtomicU64,
    transactions: AtomicU64,
    seen: Mutex<HashSet<u64>>,
    failures: Mutex<Vec<Failure>>,
    keep_in: Option<PathBuf>,
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs chains with the seeds `seed`, `seed + 1`, ...; keeps the files of failing disks in
/// `keep_in`.
pub fn campaign(seed: u64, effort: Effort, keep_in: Option<&Path>) -> Outcome {
    let tally = Tally {
        images: AtomicU64::new(0),
        sync_points: AtomicU64::new(0),
        transactions: AtomicU64::new(0),
        seen: Mutex::default(),
        failures: Mutex::default(),
        keep_in: keep_in.map(Path::to_owned),
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..effort.threads.clamp(1, effort.chains as usize) {
            scope.spawn(|| {
                while let n = next.fetch_add(1, Ordering::Relaxed) as u64
                    && n < effort.chains
                {
                    Chain::new(seed + n, effort, &tally).run();
                }
            });
        }
    });
    let distinct = held(&tally.seen).len() as u64;
    Outcome {
        images: tally.images.into_inner(),
        distinct,
        sync_points: tally.sync_points.into_inner(),
        transactions: tally.transactions.into_inner(),
        failures: tally.failures.into_inner().unwrap_or_default(),
    }
}

/// A moment of a life at which it is cut.
struct Cut {
    position: usize,
    at_sync: bool,
}

/// A disk as a crash left it, and the promises that it must keep.
struct Image {
    disk: Disk,
    ledger: Ledger,
    promise: Promise,
    moment: String,
}

/// One chain; see the head of this file.
struct Chain<'a> {
    seed: u64,
    effort: Effort,
    durability: Durability,
    /// Where the rows lie.
    kind: TableKind,
    random: Rng,
    tally: &'a Tally,
}

impl<'a> Chain<'a> {
    fn new(seed: u64, effort: Effort, tally: &'a Tally) -> Chain<'a> {
        // Of four chains, one runs `serial`, one `conventional`, and two the store alone. The last
        // of them has an asynchronous log: it promises less, and shares its ring with the kernel,
        // so that the ring survives a kill.
        let durability = if seed % 4 == 3 { Durability::Async } else { Durability::Sync };
        // In one group of four the first and the third chain have clustered tables, in the next
        // group the others.
        let kind = TableKind::ALL[(seed / 4 + seed) as usize % 2];
        Chain { seed, effort, durability, kind, random: Rng::with_seed(seed), tally }
    }

    fn run(&mut self) {
        let (mut disk, mut ledger) = (Disk::new(), Ledger::default());
        let mut promise = Promise::Acknowledged(0);
        for life in 0..self.effort.lives {
            let lived = unwound(|| self.live(&disk.clone().recording(), &ledger, promise));
            let killed = match lived {
                Ok((after, killed)) => {
                    ledger = after;
                    killed
                }
                Err(flaw) => {
                    let moment = format!("life {life} of seed {}", self.seed);
                    return self.failed(&Image { disk, ledger, promise, moment }, flaw);
                }
            };
            let tape = disk.tape();
            let images = self.images(life, &tape, &ledger, killed);
            match images {
                Some(next) => (disk, ledger, promise) = (next.disk, next.ledger, next.promise),
                None => return,
            }
        }
    }

    /// One process: opens, works, and stops in the middle of its work.
    fn live(&mut self, disk: &Disk, before: &Ledger, promise: Promise) -> Result<(Ledger, Vec<Image>), Flaw> {
        if self.effort.subject == Subject::Memory {
            return self.live_in_memory(disk, before, promise).map(|ledger| (ledger, Vec::new()));
        }
        let frames = self.random.usize(24..80);
        let options = table::with_heap_form(table::options_of(self.kind, self.durability, frames), self.seed);
        let opened = Store::open(device(disk, self.effort.lying), Path::new(DIR), options);
        let (store, recovered) = opened.map_err(Flaw::Refused)?;
        store.create(&table::schema_of(self.kind))?;
        let Settled { mut ledger, in_doubt } = before.settle(&store, recovered, promise)?;
        let seed = self.random.u64(..);
        self.tally.transactions.fetch_add(self.effort.commits as u64, Ordering::Relaxed);
        if self.seed % 4 < 2 {
            // The transactions in doubt were compared; a dropped store leaves them in doubt for the
            // next opening.
            drop(in_doubt);
            return self.work_engine(store, disk, ledger, seed).map(|ledger| (ledger, Vec::new()));
        }
        let mix = Mix { keys: 300, commits: self.effort.commits, wait_one_in: 1 + self.seed % 4 };
        let mut killed = Vec::new();
        let mut draw = Rng::with_seed(seed ^ 1);
        let mut run = StoreRun::new((&store, disk), &mut ledger, in_doubt, (seed, mix));
        let chance = self.effort.commits * 40 / (self.effort.images / 8).max(1);
        run.run_with(|ledger| {
            if draw.usize(..chance.max(1)) == 0 {
                let position = disk.changes();
                let promise = Promise::Appended(position);
                // A killed process loses nothing that it appended. The image is taken between two
                // steps of the process.
                let moment = format!("seed {}: killed at change {position}", self.seed);
                killed.push(Image { disk: disk.killed(), ledger: ledger.clone(), promise, moment });
            }
        })?;
        drop(run);
        Ok((ledger, if self.durability == Durability::Async { killed } else { Vec::new() }))
    }

    fn live_in_memory(&mut self, disk: &Disk, before: &Ledger, promise: Promise) -> Result<Ledger, Flaw> {
        let crew = Crew { workers: 2, clients: 5 };
        let (commits, seed) = (self.effort.commits, self.random.u64(..));
        let mix = engine_run::Mix { crew, keys: 300, commits, prepares: 1, seed };
        self.tally.transactions.fetch_add(commits as u64, Ordering::Relaxed);
        let files = device(disk, self.effort.lying);
        memory_run::live((files, disk), before, promise, (self.durability, mix))
    }

    /// The chains with `seed % 4` below 2: many clients, under `serial` (0) or `conventional` (1).
    fn work_engine(&self, store: Store, disk: &Disk, ledger: Ledger, seed: u64) -> Result<Ledger, Flaw> {
        let crew = Crew { workers: 2, clients: 5 };
        let mix = engine_run::Mix { crew, keys: 300, commits: self.effort.commits, prepares: 0, seed };
        let (ledger, store) = if self.seed.is_multiple_of(4) {
            let mix = engine_run::Mix { crew: Crew { workers: 1, clients: 8 }, ..mix };
            engine_run::run::<Serial>(store, disk, ledger, mix)
        } else {
            engine_run::run::<Conventional>(store, disk, ledger, mix)
        };
        store?;
        Ok(ledger)
    }

    /// Where to cut: at syncs first, then anywhere.
    fn cuts(&mut self, tape: &Tape) -> Vec<Cut> {
        let syncs = tape.syncs();
        let mut cuts: Vec<Cut> = syncs.iter().map(|&position| Cut { position, at_sync: true }).collect();
        self.random.shuffle(&mut cuts);
        cuts.truncate(self.effort.images * 3 / 4);
        while cuts.len() < self.effort.images {
            let near = self.random.choice(&syncs).copied().unwrap_or(0);
            let anywhere = self.random.usize(..=tape.len());
            let at_sync = self.random.bool();
            cuts.push(Cut { position: if at_sync { near } else { anywhere }, at_sync });
        }
        cuts.sort_by_key(|c| c.position);
        cuts
    }

    /// Opens the disks of one life. Returns one of them for the next life, unless a promise is
    /// broken.
    fn images(&mut self, life: usize, tape: &Tape, ledger: &Ledger, killed: Vec<Image>) -> Option<Image> {
        let mut player = tape.player();
        let cuts = self.cuts(tape);
        let next = self.random.usize(..cuts.len());
        let mut chosen = None;
        for image in killed {
            self.examine(image)?;
        }
        for (n, cut) in cuts.iter().enumerate() {
            player.go_to(cut.position);
            let seed = self.random.u64(..);
            // In main memory, `async` acknowledges transactions that the operating system has.
            let has_files = self.effort.subject == Subject::Memory;
            let kill = (self.durability == Durability::Sync || has_files) && self.random.u32(..10) == 0;
            let promise = match self.durability {
                Durability::Sync => Promise::Acknowledged(cut.position),
                _ if kill => Promise::Acknowledged(cut.position),
                _ => Promise::Consistent,
            };
            let disk = if kill { player.killed() } else { player.crash_image(seed) };
            let how = if kill { "killed".to_owned() } else { format!("power cut, draw {seed}") };
            let moment =
                format!("seed {}, life {life}, change {} of {}: {how}", self.seed, cut.position, tape.len());
            self.tally.sync_points.fetch_add(u64::from(cut.at_sync), Ordering::Relaxed);
            let image =
                || Image { disk: disk.clone(), ledger: ledger.clone(), promise, moment: moment.clone() };
            if n == next {
                // Opening changes a disk, so the next life gets a copy.
                let disk = disk.killed();
                chosen = Some(Image { disk, ..image() });
            }
            self.examine(image())?;
        }
        chosen
    }

    /// Opens one disk and checks it; in one case of four also cuts that restart.
    fn examine(&mut self, image: Image) -> Option<()> {
        let fingerprint = image.disk.fingerprint();
        held(&self.tally.seen).insert(fingerprint);
        let again = self.random.u32(..4) == 0;
        let (place, draw) = (self.random.u64(..), self.random.u64(..));
        let pristine = image.disk.killed();
        let checked = unwound(|| {
            let disk = image.disk.clone().recording();
            let ledger = self.open(&disk, &image.ledger, image.promise)?;
            Ok((disk.tape(), ledger))
        });
        self.tally.images.fetch_add(1, Ordering::Relaxed);
        let (tape, ledger) = match checked {
            Ok(checked) => checked,
            Err(flaw) => {
                self.failed(&Image { disk: pristine, ..image }, flaw);
                return None;
            }
        };
        if again && !tape.is_empty() {
            let mut player = tape.player();
            player.go_to(place as usize % tape.len());
            let disk = player.crash_image(draw);
            let pristine = disk.killed();
            held(&self.tally.seen).insert(disk.fingerprint());
            let promise = Promise::Acknowledged(0);
            let moment =
                format!("{}; its restart cut at change {}, draw {draw}", image.moment, player.position());
            self.tally.images.fetch_add(1, Ordering::Relaxed);
            if let Err(flaw) = unwound(|| self.open(&disk, &ledger, promise)) {
                self.failed(&Image { disk: pristine, ledger, promise, moment }, flaw);
                return None;
            }
        }
        Some(())
    }

    fn open(&self, disk: &Disk, ledger: &Ledger, promise: Promise) -> Result<Ledger, Flaw> {
        match self.effort.subject {
            Subject::Pages => open_and_settle(disk, ledger, promise, (self.kind, self.durability)),
            Subject::Memory => memory_run::open_and_settle(disk, ledger, promise, self.durability),
        }
    }

    fn failed(&self, image: &Image, flaw: Flaw) {
        let keep = |dir: &PathBuf| {
            let dir = dir.join(format!("seed-{}", self.seed));
            keep(&image.disk, &dir).ok().map(|()| dir)
        };
        let kept = self.tally.keep_in.as_ref().and_then(keep);
        held(&self.tally.failures).push(Failure {
            seed: self.seed,
            subject: self.effort.subject,
            moment: image.moment.clone(),
            flaw,
            kept,
        });
    }
}

/// The disk as programs see it: unchanged, or ignoring the syncs of some files.
fn device(disk: &Disk, lying: Option<&'static str>) -> Arc<dyn Files> {
    let Some(prefix) = lying else { return disk.files() };
    world::watched(disk.files(), move |path, deed| {
        let meant = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        if meant && matches!(deed, Deed::Sync) { Intervention::Swallow } else { Intervention::Do }
    })
}

/// Opens the database on `disk` and compares it with the ledger; returns the ledger for the next
/// life.
///
/// # Errors
/// The promise that is broken.
pub fn open_and_settle(
    disk: &Disk,
    ledger: &Ledger,
    promise: Promise,
    (kind, durability): (TableKind, Durability),
) -> Result<Ledger, Flaw> {
    let options = table::options_of(kind, durability, 64);
    let (store, recovered) = Store::open(disk.files(), Path::new(DIR), options).map_err(Flaw::Refused)?;
    Ok(ledger.settle(&store, recovered, promise)?.ledger)
}

/// Writes the files of a simulated disk into a real folder.
fn keep(disk: &Disk, dir: &Path) -> std::io::Result<()> {
    let files = world::real();
    for (path, _) in disk.paths() {
        let to = dir.join(path.strip_prefix(DIR).unwrap_or(&path));
        files.create_dir_all(to.parent().unwrap_or(dir))?;
        let bytes = disk.bytes(&path).unwrap_or_default();
        let file = files.open(&to, Open::Create)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
    }
    Ok(())
}
