//! Folders through a log: after power cuts and kills, and on another machine.

use super::*;
use crate::memory::{Line, Service, Shelf};
use std::collections::BTreeMap;
use world::sim::Disk;

pub(super) const DIR: &str = "/db";

pub(super) fn line(shelf: &Arc<Shelf>) -> Arc<Line> {
    Arc::new(Line::new(shelf, Service::Prompt))
}

pub(super) fn open(disk: &Disk, shelf: &Arc<Shelf>) -> Result<Replicated, Fault> {
    Replicated::open(disk.files(), Path::new(DIR), line(shelf), &Opening::new(Part::All))
}

/// The files with content, without the marks.
pub(super) fn state(disk: &Disk) -> BTreeMap<PathBuf, Vec<u8>> {
    let content = |(path, _): (PathBuf, u64)| disk.bytes(&path).map(|bytes| (path, bytes));
    let mut all: BTreeMap<PathBuf, Vec<u8>> = disk.paths().into_iter().filter_map(content).collect();
    all.retain(|path, bytes| !bytes.is_empty() && !path.to_str().unwrap().contains("relay-mark"));
    all
}

fn path(random: &mut fastrand::Rng) -> PathBuf {
    Path::new(DIR).join(["a", "b", "sub/c", "d"][random.usize(..4)])
}

/// Some changes. Returns the content of the files that are as they were at their last sync.
pub(super) fn life(files: &Replicated, random: &mut fastrand::Rng) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut open: BTreeMap<PathBuf, Arc<dyn File>> = BTreeMap::new();
    let mut sure: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    files.create_dir_all(&Path::new(DIR).join("sub")).unwrap();
    for _ in 0..random.usize(..60) {
        let name = path(random);
        match random.u32(..12) {
            0 => {
                let to = path(random);
                // The engine renames within a folder.
                if let Some(file) = open.get(&name).cloned()
                    && name != to
                    && name.parent() == to.parent()
                {
                    let was_sure = sure.remove(&name);
                    file.sync().unwrap();
                    files.rename(&name, &to).unwrap();
                    open.remove(&name);
                    open.insert(to.clone(), file);
                    sure.remove(&to);
                    sure.extend(was_sure.map(|bytes| (to, bytes)));
                }
            }
            1 if open.remove(&name).is_some() => {
                files.remove(&name).unwrap();
                sure.remove(&name);
            }
            n => {
                let how = || files.open(&name, Open::Create).unwrap();
                let file = open.entry(name.clone()).or_insert_with(how);
                if n < 5 {
                    file.sync().unwrap();
                    let mut bytes = vec![0; file.len().unwrap() as usize];
                    file.read_at(&mut bytes, 0).unwrap();
                    sure.insert(name, bytes);
                    continue;
                }
                sure.remove(&name);
                match n {
                    5 => file.set_len(random.u64(..9000)).unwrap(),
                    6 => file.write_all_at(&[0; 5000], random.u64(..5000)).unwrap(),
                    7 => file.allocate(random.u64(1..9000)).unwrap(),
                    _ => {
                        let bytes: Vec<u8> = (0..random.usize(1..3000)).map(|_| random.u8(..)).collect();
                        file.write_all_at(&bytes, random.u64(..5000)).unwrap();
                    }
                }
            }
        }
    }
    // The names of new files.
    for folder in ["", "sub"] {
        files.sync_dir(&Path::new(DIR).join(folder)).unwrap();
    }
    sure
}

#[test]
fn a_folder_is_what_the_log_says_after_power_cuts_and_on_another_machine() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
        for life_number in 0..5 {
            let files = open(&disk, &shelf).unwrap();
            let sure = life(&files, &mut random);
            let crashed = if random.bool() { disk.crash_image(seed + life_number) } else { disk.killed() };
            drop(files);
            disk = crashed;
            drop(open(&disk, &shelf).unwrap());
            let found = state(&disk);
            for (path, bytes) in sure.iter().filter(|(_, bytes)| !bytes.is_empty()) {
                assert!(
                    found.get(path) == Some(bytes),
                    "seed {seed}, life {life_number}: {}",
                    path.display()
                );
            }
            let elsewhere = Disk::new();
            drop(open(&elsewhere, &shelf).unwrap());
            assert!(state(&elsewhere) == found, "seed {seed}, life {life_number}: the copy differs");
        }
    }
}

#[test]
fn nothing_reaches_a_file_before_the_log_has_it() {
    let (disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
    let line = line(&shelf);
    let files =
        Replicated::open(disk.files(), Path::new(DIR), line.clone(), &Opening::new(Part::All)).unwrap();
    let file = files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    file.sync().unwrap();
    line.set_cut(true);
    file.write_all_at(b"other", 0).unwrap();
    let synced = std::thread::spawn({
        let file = file.clone();
        move || file.sync()
    });
    assert_eq!(disk.bytes(&Path::new(DIR).join("a")).unwrap(), b"first");
    // A successor, which the owner learns of when its line is joined again.
    let successor = Disk::new();
    let other = open(&successor, &shelf).unwrap();
    assert_eq!(successor.bytes(&Path::new(DIR).join("a")).unwrap(), b"first");
    line.set_cut(false);
    let fault = synced.join().unwrap().unwrap_err().to_string();
    assert!(fault.contains("another owner"), "{fault}");
    assert!(matches!(files.log().fault(), Some(Fault::Deposed { .. })));
    assert!(file.write_all_at(b"more", 0).is_err() && file.sync().is_err());
    assert_eq!(other.log().fault(), None);
}

#[test]
fn a_folder_and_a_log_that_do_not_belong_together_are_refused() {
    let refusal = |disk: &Disk, shelf: &Arc<Shelf>| open(disk, shelf).map(drop).unwrap_err().to_string();
    let (disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
    drop(open(&disk, &shelf).unwrap());
    // The relay has lost everything, or is another one.
    assert!(refusal(&disk, &Arc::default()).contains("no entry"));
    let other = Arc::new(Shelf::default());
    drop(open(&Disk::new(), &other).unwrap());
    assert!(refusal(&disk, &other).contains("another relay's log"));
    // A folder with files that no mark belongs to.
    let unknown = Disk::new();
    unknown.files().create_dir_all(Path::new(DIR)).unwrap();
    unknown.files().open(&Path::new(DIR).join("x"), Open::Create).unwrap();
    assert!(refusal(&unknown, &shelf).contains("does not follow it"));
    // A log that began as a copy of such a folder cannot be rebuilt from nothing.
    let begun = Arc::new(Shelf::default());
    drop(open(&unknown, &begun).unwrap());
    assert!(refusal(&Disk::new(), &begun).contains("a copy of the folder"));
    // The end of the log is lost.
    let file = |files: &Replicated| files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
    let files = open(&disk, &shelf).unwrap();
    file(&files).write_all_at(b"x", 0).unwrap();
    file(&files).sync().unwrap();
    files.rename(&Path::new(DIR).join("a"), &Path::new(DIR).join("b")).unwrap();
    drop(files);
    shelf.cut(3);
    assert!(refusal(&disk, &shelf).contains("lost its data"));
}

#[test]
fn a_hole_is_refused_and_accepted_only_by_name() {
    let (disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
    let files = open(&disk, &shelf).unwrap();
    let file = files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
    for n in 0..5 {
        file.write_all_at(&[n + 1], u64::from(n)).unwrap();
        file.sync().unwrap();
    }
    drop((file, files));
    // Position 1 is the seal; the second entry gets lost.
    shelf.close_up(3);
    let elsewhere = Disk::new();
    let refused = open(&elsewhere, &shelf).map(drop).unwrap_err();
    assert!(matches!(refused, Fault::Hole { have: 1, counted: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("--accept-loss"));
    let how = Opening { loss: Loss::Accept, ..Opening::new(Part::All) };
    let opened = Replicated::open(elsewhere.files(), Path::new(DIR), line(&shelf), &how).unwrap();
    assert!(opened.lost.as_ref().unwrap().contains("lost entries"), "{:?}", opened.lost);
    assert_eq!(elsewhere.bytes(&Path::new(DIR).join("a")).unwrap(), [1]);
    drop(opened);
    // The owner that goes on leaves a log that opens by itself from its folder.
    drop(open(&elsewhere, &shelf).unwrap());
    // An end that is known to have counted.
    let how = Opening { at_least: 9, ..Opening::new(Part::All) };
    let short =
        Replicated::open(elsewhere.files(), Path::new(DIR), line(&shelf), &how).map(drop).unwrap_err();
    assert!(matches!(short, Fault::Short { have: 1, counted: 9 }), "{short}");
}

#[test]
fn how_far_a_log_reaches_is_read_without_a_seal() {
    let (disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
    let reached = || reaches(&*disk.files(), Path::new(DIR), &*line(&shelf), Duration::from_secs(30));
    let files = open(&disk, &shelf).unwrap();
    assert_eq!(reached(), Ok(0));
    let file = files.open(&Path::new(DIR).join("a"), Open::Create).unwrap();
    for n in 0..5 {
        file.write_all_at(&[n + 1], u64::from(n)).unwrap();
        file.sync().unwrap();
    }
    assert_eq!((reached(), files.log().kept()), (Ok(5), 5));
    // Its owner was not disturbed.
    file.write_all_at(&[7], 0).unwrap();
    file.sync().unwrap();
    assert_eq!((reached(), files.log().fault()), (Ok(6), None));
    drop((file, files));
    shelf.cut(4);
    assert_eq!(reached(), Ok(2), "the seal and two entries are left");
    shelf.cut(1);
    assert!(reached().unwrap_err().to_string().contains("lost its data"));
}

#[test]
fn a_claimed_term_must_be_a_new_one() {
    let (disk, shelf) = (Disk::new(), Arc::new(Shelf::default()));
    let with = |claim| {
        let how = Opening { claim: Some(Term(claim)), ..Opening::new(Part::All) };
        Replicated::open(disk.files(), Path::new(DIR), line(&shelf), &how)
    };
    assert_eq!(with(7).unwrap().log().term(), Term(7));
    assert_eq!(with(7).map(drop).unwrap_err(), Fault::OldTerm { own: Term(7), found: Term(7) });
    assert_eq!(with(3).map(drop).unwrap_err(), Fault::OldTerm { own: Term(3), found: Term(7) });
    assert_eq!(with(8).unwrap().log().term(), Term(8));
    assert_eq!(open(&disk, &shelf).unwrap().log().term(), Term(9));
}

#[test]
fn a_relay_that_does_not_answer_is_named() {
    let line = line(&Arc::default());
    line.set_cut(true);
    let how = Opening { patience: Duration::from_millis(50), ..Opening::new(Part::All) };
    let fault = Replicated::open(Disk::new().files(), Path::new(DIR), line, &how).map(drop).unwrap_err();
    assert!(fault.to_string().contains("quorum"), "{fault}");
}
