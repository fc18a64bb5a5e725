//! Base copies and trimming under random histories: an owner that writes, dies and is followed by
//! others; a keeper that follows the log, keeps copies and trims behind them.

use super::tests::{DIR, life, line, open, state};
use super::*;
use crate::memory::Shelf;
use crate::signs::Signs;
use world::sim::Disk;

const PATIENCE: Duration = Duration::from_secs(30);

/// A bug of the keeper, for the tests that look for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    Right,
    /// It trims behind its copies, and forgets the folder of the owner.
    ForgetsTheOwner,
    /// It trims behind its newest copy, and forgets the others.
    ForgetsOldCopies,
}

fn followed(disk: &Disk, shelf: &Arc<Shelf>, known: Signs) -> Result<Followed, Fault> {
    follow(disk.files(), Path::new(DIR), (&*line(shelf), known), Part::All, PATIENCE)
}

struct Copy {
    image: Disk,
    next: u64,
}

/// One log with all that is known of it.
struct World {
    shelf: Arc<Shelf>,
    owner: Disk,
    keeper: Disk,
    copies: Vec<Copy>,
    dropped: Vec<Copy>,
    milestones: Vec<u64>,
    signs: Signs,
    trims: u32,
}

impl World {
    fn follow(&self) -> Result<Followed, Fault> {
        followed(&self.keeper, &self.shelf, self.signs)
    }

    /// A round of the keeper: a milestone, a copy, perhaps a trim.
    fn keep(&mut self, random: &mut fastrand::Rng, how: Keeper) {
        let tape = line(&self.shelf);
        milestone(&*tape, "the copy", PATIENCE).unwrap();
        let followed = self.follow().unwrap();
        if random.u32(..3) == 0 {
            self.keeper = self.keeper.crash_image(random.u64(..));
        }
        self.milestones.extend(followed.milestones);
        // Another keeper that begins later knows less, and is right too.
        let knows = how != Keeper::Right || random.u32(..5) > 0;
        self.signs = if knows { followed.signs } else { Signs::default() };
        self.copies.push(Copy { image: self.keeper.killed(), next: followed.place.next });
        let keep = random.usize(1..4);
        let old = self.copies.len().saturating_sub(keep);
        self.dropped.extend(self.copies.drain(..old));
        let copies = self.copies.iter().map(|copy| copy.next);
        let limit = match how {
            Keeper::Right => copies.min().unwrap().min(followed.signs.floor),
            Keeper::ForgetsTheOwner => copies.min().unwrap(),
            Keeper::ForgetsOldCopies => copies.max().unwrap().min(followed.signs.floor),
        };
        if let Some(to) = self.milestones.iter().rev().find(|at| **at <= limit) {
            self.trims += u32::from(trim(&*tape, *to, "the copy", PATIENCE).unwrap() > 0);
        }
    }

    /// The folder of a machine with a copy after it took the log over.
    fn rebuilt(&self, copy: &Copy) -> Result<Disk, Fault> {
        let elsewhere = copy.image.killed();
        open(&elsewhere, &self.shelf).map(|_| elsewhere)
    }
}

/// One random history. Returns how often the log was trimmed, or the first copy or folder that
/// cannot be used.
fn history(seed: u64, how: Keeper) -> Result<u32, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World {
        shelf: Arc::default(),
        owner: Disk::new(),
        keeper: Disk::new(),
        copies: Vec::new(),
        dropped: Vec::new(),
        milestones: Vec::new(),
        signs: Signs::default(),
        trims: 0,
    };
    for life_number in 0..6 {
        let at = |what: &str| format!("seed {seed}, life {life_number}: {what}");
        let files = open(&world.owner, &world.shelf).map_err(|f| at(&format!("the owner: {f}")))?;
        for _ in 0..random.usize(1..5) {
            life(&files, &mut random);
            if random.bool() {
                world.keep(&mut random, how);
                assert_eq!(files.log().fault(), None, "{}", at("the owner goes on"));
            }
        }
        let crashed =
            if random.bool() { world.owner.crash_image(random.u64(..)) } else { world.owner.killed() };
        drop(files);
        world.owner = crashed;
        drop(open(&world.owner, &world.shelf).map_err(|f| at(&format!("the owner's folder: {f}")))?);
        let truth = state(&world.owner);
        for copy in &world.copies {
            let rebuilt = world.rebuilt(copy).map_err(|fault| at(&format!("a copy: {fault}")))?;
            assert!(state(&rebuilt) == truth, "{}", at("a copy differs"));
        }
        for copy in &world.dropped {
            match world.rebuilt(copy) {
                Ok(rebuilt) => assert!(state(&rebuilt) == truth, "{}", at("an old copy differs")),
                Err(Fault::Trimmed { have, first, note }) => {
                    assert!(have + 1 == copy.next && first > copy.next && note == "the copy");
                }
                Err(fault) => panic!("{}", at(&format!("an old copy: {fault}"))),
            }
        }
        if let (1, Some(copy)) = (random.u32(..3), world.copies.last()) {
            // Another machine goes on.
            world.owner = world.rebuilt(copy).map_err(|fault| at(&format!("a copy: {fault}")))?;
        }
    }
    Ok(world.trims)
}

const SEEDS: u64 = 60;

#[test]
fn each_copy_and_the_owner_can_go_on_behind_a_log_that_is_trimmed() {
    let trims: u32 = (0..SEEDS).map(|seed| history(seed, Keeper::Right).unwrap()).sum();
    assert!(trims > SEEDS as u32, "only {trims} trims");
}

#[test]
fn a_keeper_that_trims_too_far_is_found() {
    for how in [Keeper::ForgetsTheOwner, Keeper::ForgetsOldCopies] {
        let refused: Vec<String> = (0..SEEDS).filter_map(|seed| history(seed, how).err()).collect();
        assert!(!refused.is_empty(), "the planted bug shows in no history");
        assert!(refused.iter().all(|why| why.contains("trimmed behind a base copy")), "{refused:?}");
    }
}

/// An owner and a copy, with a milestone in the middle: (shelf, owner, copy, milestone).
fn written() -> (Arc<Shelf>, Disk, Disk, u64) {
    let (shelf, owner, copy) = (Arc::new(Shelf::default()), Disk::new(), Disk::new());
    let files = open(&owner, &shelf).unwrap();
    let write = |n: u8| {
        let file = files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
        file.write_all_at(&[n], n.into()).unwrap();
        file.sync().unwrap();
    };
    (0..5).for_each(write);
    let at = milestone(&*line(&shelf), "elsewhere", PATIENCE).unwrap();
    (5..10).for_each(write);
    let followed = followed(&copy, &shelf, Signs::default()).unwrap();
    assert_eq!((followed.milestones, followed.signs.floor, followed.place.counted), (vec![at], 2, 10));
    (shelf, owner, copy, at)
}

fn refusal(disk: &Disk, shelf: &Arc<Shelf>) -> Fault {
    open(disk, shelf).map(drop).unwrap_err()
}

/// A keeper that calls after each rename of an owner, and after each opening: none of its calls
/// sees two renames, or a seal with an entry. Returns the shelf, its copy, and the positions that
/// were trimmed.
fn kept_often(remembers: bool, trims: bool) -> (Arc<Shelf>, Disk, Vec<u64>) {
    let (shelf, mut owner, copy) = (Arc::new(Shelf::default()), Disk::new(), Disk::new());
    let (mut signs, mut milestones, mut trimmed) = (Signs::default(), Vec::new(), Vec::new());
    let mut keep = || {
        milestone(&*line(&shelf), "the copy", PATIENCE).unwrap();
        let known = if remembers { signs } else { Signs::default() };
        let followed = followed(&copy, &shelf, known).unwrap();
        signs = followed.signs;
        milestones.extend(followed.milestones);
        if let Some(to) = milestones.iter().rev().find(|at| trims && **at <= signs.floor) {
            trimmed.push(trim(&*line(&shelf), *to, "the copy", PATIENCE).unwrap());
        }
    };
    let path = |name: &str| Path::new(DIR).join(name);
    for round in 0..4_u8 {
        let files = open(&owner, &shelf).unwrap();
        keep();
        for n in 0..3 {
            let file = files.open(&path("new"), Open::Create).unwrap();
            file.write_all_at(&[round, n], n.into()).unwrap();
            file.sync().unwrap();
            files.rename(&path("new"), &path("old")).unwrap();
            keep();
        }
        let killed = owner.killed();
        drop(files);
        owner = killed;
    }
    drop(open(&owner, &shelf).expect("the owner needs nothing that was trimmed"));
    (shelf, copy, trimmed)
}

#[test]
fn renames_and_seals_count_that_were_seen_in_earlier_calls() {
    let (shelf, copy, trimmed) = kept_often(true, true);
    // Each call moves the beginning, but for those right after an opening.
    assert_eq!(trimmed.iter().filter(|gone| **gone > 0).count(), 12, "{trimmed:?}");
    let (whole, other, _) = kept_often(true, false);
    assert_eq!(whole.first(), 1);
    for (disk, log) in [(&copy, &shelf), (&other, &whole)] {
        drop(open(disk, log).unwrap());
    }
    assert_eq!(state(&copy), state(&other), "as from a log that was never trimmed");
    let (_, _, forgetful) = kept_often(false, true);
    assert!(forgetful.iter().all(|gone| *gone == 0), "{forgetful:?}");
}

#[test]
fn a_lost_beginning_is_no_trimmed_one() {
    for gone in 1..12 {
        let (shelf, owner, copy, at) = written();
        shelf.behead(gone + 1);
        let fresh = refusal(&Disk::new(), &shelf);
        assert!(matches!(fresh, Fault::Damaged { .. }), "{gone} gone: {fresh}");
        // From the milestone on all is there that the copy needs. Nothing says that it was trimmed.
        if gone + 1 == at {
            drop(open(&copy, &shelf).unwrap());
            assert!(matches!(refusal(&owner, &shelf), Fault::Damaged { .. }));
        } else {
            let fault = refusal(&copy, &shelf);
            assert!(fault.to_string().contains("no milestone"), "{gone} gone: {fault}");
        }
    }
}

#[test]
fn a_trim_of_which_a_part_was_done_or_undone_is_no_loss() {
    // Kafka removes whole files of its log, and forgets a beginning if all brokers die.
    let at = written().3;
    for first in 1..=at {
        let (shelf, owner, copy, _) = written();
        super::follow::announce(&*line(&shelf), "elsewhere", at, PATIENCE).unwrap();
        shelf.behead(first);
        for disk in [owner, Disk::new()] {
            match open(&disk, &shelf).map(drop) {
                Ok(()) => assert!(first <= 2, "begins at {first}"),
                Err(fault) => assert!(matches!(fault, Fault::Trimmed { .. }), "begins at {first}: {fault}"),
            }
        }
        drop(open(&copy, &shelf).unwrap());
    }
    // The announcement reaches as far as it says.
    let (shelf, _, copy, at) = written();
    super::follow::announce(&*line(&shelf), "elsewhere", at, PATIENCE).unwrap();
    shelf.behead(at + 1);
    assert!(matches!(refusal(&copy, &shelf), Fault::Damaged { .. }));
}

#[test]
fn a_trimmed_log_names_the_copy_to_begin_with_and_deposes_no_one() {
    let (shelf, owner, copy, at) = written();
    let tape = line(&shelf);
    assert_eq!(trim(&*tape, at, "elsewhere", PATIENCE), Ok(at - 1));
    assert_eq!(trim(&*tape, at, "elsewhere", PATIENCE), Ok(0));
    assert_eq!(shelf.first(), at);
    let end = shelf.len();
    for disk in [&owner, &Disk::new()] {
        let fault = refusal(disk, &shelf).to_string();
        assert!(fault.contains("Begin with elsewhere") && fault.contains("position 7"), "{fault}");
    }
    assert_eq!(shelf.len(), end, "no seal was appended");
    drop(open(&copy, &shelf).unwrap());
    assert!(matches!(refusal(&written().2, &shelf), Fault::Stranger(_)), "a copy of another log");
}

#[test]
fn only_a_milestone_of_the_log_can_become_its_beginning() {
    let (shelf, _, copy, at) = written();
    let tape = line(&shelf);
    for to in [at - 1, at + 1, shelf.len() + 5] {
        let fault = trim(&*tape, to, "", PATIENCE).unwrap_err().to_string();
        assert!(fault.contains("no milestone") && fault.contains("nothing was removed"), "{fault}");
    }
    assert_eq!(shelf.first(), 1);
    drop(open(&copy, &shelf).unwrap());
    let empty = milestone(&*line(&Arc::default()), "", PATIENCE).unwrap_err().to_string();
    assert!(empty.contains("no log of this name"), "{empty}");
}

#[test]
fn a_folder_that_follows_does_not_disturb_the_owner() {
    let (disk, shelf, copy) = (Disk::new(), Arc::new(Shelf::default()), Disk::new());
    let files = open(&disk, &shelf).unwrap();
    let file = files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
    for n in 0..20 {
        file.write_all_at(&[n], n.into()).unwrap();
        if n % 5 == 0 {
            milestone(&*line(&shelf), "", PATIENCE).unwrap();
        }
        file.sync().unwrap();
        followed(&copy, &shelf, Signs::default()).unwrap();
        assert_eq!(state(&copy), state(&disk));
    }
    assert_eq!(files.log().fault(), None);
    // The log has lost its end: the copy is ahead, and says so.
    shelf.cut(4);
    let ahead = followed(&copy, &shelf, Signs::default()).unwrap_err();
    assert!(ahead.to_string().contains("lost its data"), "{ahead}");
}
