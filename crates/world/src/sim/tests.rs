//! The data that the simulated disk keeps, loses, tears and refuses.

use super::*;
use crate::{File, Open};
use std::collections::BTreeSet;

const SEEDS: u64 = 300;

fn dir() -> &'static Path {
    Path::new("/d")
}

fn path() -> PathBuf {
    dir().join("file")
}

/// A disk with a file of `bytes` that is surely there.
fn with(bytes: &[u8]) -> (Disk, Arc<dyn File>) {
    let disk = Disk::new();
    disk.create_dir_all(dir()).unwrap();
    let file = disk.open(&path(), Open::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(dir()).unwrap();
    (disk, file)
}

fn outcomes(disk: &Disk, path: &Path) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS).map(|seed| disk.crash_image(seed).bytes(path)).collect()
}

/// One byte per sector of 512: a fingerprint of each sector's content.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(512).map(|s| s[0]).collect()
}

#[test]
fn what_was_synced_is_there_after_every_crash() {
    let (disk, _file) = with(b"synced");
    assert_eq!(outcomes(&disk, &path()), [Some(b"synced".to_vec())].into());
}

#[test]
fn what_was_not_synced_is_kept_lost_or_torn() {
    let (disk, file) = with(&[1; 1536]);
    file.write_all_at(&[2; 1536], 0).unwrap();
    file.write_all_at(&[3; 512], 0).unwrap();
    let seen: BTreeSet<Vec<u8>> =
        outcomes(&disk, &path()).iter().map(|b| sectors(b.as_ref().unwrap())).collect();
    for whole in [[1, 1, 1], [2, 2, 2], [3, 2, 2], [3, 1, 1]] {
        assert!(seen.contains(whole.as_slice()), "{whole:?} never drawn: {seen:?}");
    }
    for torn in [[1, 2, 1], [1, 1, 2], [3, 1, 2], [2, 1, 1]] {
        assert!(seen.contains(torn.as_slice()), "{torn:?} never drawn: {seen:?}");
    }
    assert_eq!(disk.bytes(&path()).unwrap()[0], 3, "the original goes on as it was");
}

#[test]
fn a_length_is_lost_apart_from_the_bytes() {
    let (disk, file) = with(b"");
    file.write_all_at(&[7; 1024], 0).unwrap();
    let lengths: BTreeSet<usize> =
        outcomes(&disk, &path()).iter().map(|b| b.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [0, 1024].into());
    let holes = outcomes(&disk, &path()).into_iter().flatten().filter(|b| b.len() == 1024 && b[0] != b[512]);
    assert!(holes.count() > 0, "the length without all of the bytes");
}

#[test]
fn a_file_cut_and_lengthened_again_reads_zeros_or_what_it_had() {
    let (disk, file) = with(&[1; 1024]);
    file.set_len(0).unwrap();
    file.set_len(1024).unwrap();
    assert_eq!(disk.bytes(&path()).unwrap(), [0; 1024]);
    let full = outcomes(&disk, &path()).into_iter().flatten().filter(|b| b.len() == 1024);
    let seen: BTreeSet<Vec<u8>> = full.map(|b| sectors(&b)).collect();
    assert!(seen.contains([0, 0].as_slice()) && seen.contains([1, 1].as_slice()), "{seen:?}");
}

#[test]
fn a_fingerprint_tells_disks_apart() {
    let ((one, _), (two, file)) = (with(b"same"), with(b"same"));
    assert_eq!(one.fingerprint(), two.fingerprint());
    assert_eq!(one.fingerprint(), one.crash_image(7).fingerprint());
    file.set_len(5).unwrap();
    assert_ne!(one.fingerprint(), two.fingerprint());
    file.set_len(4).unwrap();
    two.flip(&path(), 3, 2);
    assert_ne!(one.fingerprint(), two.fingerprint());
}

#[test]
fn names_are_durable_by_their_folder_only() {
    let disk = Disk::new();
    disk.create_dir_all(dir()).unwrap();
    let file = disk.open(&path(), Open::Create).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, &path()), [None, Some(b"x".to_vec())].into());
    disk.sync_dir(dir()).unwrap();
    assert_eq!(outcomes(&disk, &path()), [Some(b"x".to_vec())].into());
    disk.remove(&path()).unwrap();
    assert_eq!(outcomes(&disk, &path()), [None, Some(b"x".to_vec())].into());
    disk.sync_dir(dir()).unwrap();
    assert_eq!(outcomes(&disk, &path()), [None].into());
    file.write_all_at(b"y", 0).unwrap();
    assert!(disk.paths().is_empty(), "a removed file may be used on, without coming back");
}

#[test]
fn removals_reach_the_device_in_any_order() {
    let (disk, _file) = with(b"");
    let names = ["a", "b", "c"].map(|n| dir().join(n));
    names.iter().for_each(|n| drop(disk.open(n, Open::Create).unwrap()));
    disk.sync_dir(dir()).unwrap();
    names.iter().for_each(|n| disk.remove(n).unwrap());
    let left = |seed| disk.crash_image(seed).paths().len() - 1;
    let seen: BTreeSet<usize> = (0..SEEDS).map(left).collect();
    assert_eq!(seen, [0, 1, 2, 3].into());
    let hole = |seed| {
        let image = disk.crash_image(seed);
        image.bytes(&names[0]).is_some()
            && image.bytes(&names[1]).is_none()
            && image.bytes(&names[2]).is_some()
    };
    assert!((0..SEEDS).any(hole));
}

#[test]
fn a_rename_is_whole_and_durable_when_it_returns() {
    let (disk, _file) = with(b"old");
    let new = disk.open(&dir().join("new"), Open::Create).unwrap();
    new.write_all_at(b"new", 0).unwrap();
    new.sync().unwrap();
    let before = disk.clone().recording();
    disk.rename(&dir().join("new"), &path()).unwrap();
    let tape = before.tape();
    let mut player = tape.player();
    // After the rename, before the sync of its folder.
    player.go_to(1);
    for seed in 0..SEEDS {
        let image = player.crash_image(seed);
        let content = image.bytes(&path()).unwrap();
        assert!(content == b"old" || (content == b"new" && image.bytes(&dir().join("new")).is_none()));
    }
    assert_eq!(outcomes(&disk, &path()), [Some(b"new".to_vec())].into());
}

#[test]
fn after_a_failed_sync_the_bytes_never_come_to_the_device() {
    let (disk, file) = with(&[1; 512]);
    file.write_all_at(&[2; 512], 0).unwrap();
    file.write_all_at(&[3; 512], 512).unwrap();
    disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Once, at: 1, only: Some(Operation::Sync) });
    assert!(file.sync().unwrap_err().to_string().contains("/d/file"));
    file.sync().unwrap();
    assert_eq!(sectors(&disk.bytes(&path()).unwrap()), [2, 3], "programs go on seeing what they wrote");
    let durable = outcomes(&disk, &path());
    assert_eq!(durable.len(), 1, "what is on the device was decided when the sync failed");
    let many = (0..30).map(|n| {
        let (disk, file) = with(&[1; 512]);
        (0..n).for_each(|_| drop(file.len()));
        file.write_all_at(&[2; 512], 0).unwrap();
        disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Once, at: 1, only: Some(Operation::Sync) });
        assert!(file.sync().is_err());
        file.sync().unwrap();
        disk.crash_image(0).bytes(&path()).unwrap()[0]
    });
    assert_eq!(many.collect::<BTreeSet<u8>>(), [1, 2].into(), "lost, but not always");
}

#[test]
fn a_tape_has_every_moment() {
    let (disk, file) = with(&[0; 4096]);
    let disk = disk.recording();
    let mut moments = Vec::new();
    for n in 1..50u8 {
        file.write_all_at(&[n; 700], u64::from(n) * 50).unwrap();
        if n % 7 == 0 {
            file.sync().unwrap();
        }
        let images: Vec<_> = (0..5).map(|seed| disk.crash_image(seed).bytes(&path())).collect();
        moments.push((disk.changes(), images, disk.killed().bytes(&path())));
    }
    let tape = disk.tape();
    assert_eq!((tape.len(), tape.syncs().len()), (disk.changes(), 7));
    let mut player = tape.player();
    for (position, images, killed) in moments {
        player.go_to(position);
        let played: Vec<_> = (0..5).map(|seed| player.crash_image(seed).bytes(&path())).collect();
        assert_eq!(played, images);
        assert_eq!(player.killed().bytes(&path()), killed);
    }
}

#[test]
fn every_operation_can_fail_once_or_for_ever() {
    let script = |disk: &Disk| -> io::Result<()> {
        disk.create_dir_all(dir())?;
        let _lock = disk.lock(&dir().join("lock"))?;
        let file = disk.open(&path(), Open::Create)?;
        file.allocate(100)?;
        file.write_all_at(b"abc", 0)?;
        file.sync()?;
        file.len()?;
        let mut buf = [0; 3];
        file.read_at(&mut buf, 0)?;
        disk.sync_dir(dir())?;
        disk.rename(&path(), &dir().join("other"))?;
        disk.list(dir())?;
        disk.remove(&dir().join("other"))
    };
    let disk = Disk::new();
    script(&disk).unwrap();
    let operations = disk.operations();
    assert_eq!(operations, 13, "each is counted, the sync within the rename too");
    for at in 1..=operations {
        for lasts in [Lasts::Once, Lasts::Forever] {
            let disk = Disk::new();
            disk.plan(Plan { trouble: Trouble::Error, lasts, at, only: None });
            let text = script(&disk).unwrap_err().to_string();
            assert!(text.starts_with("/d"), "an error names its file: {text}");
            assert_eq!((disk.operations(), disk.struck()), (at, 1));
            let again = disk.sync_dir(dir());
            assert_eq!(again.is_ok(), lasts == Lasts::Once);
        }
    }
}

#[test]
fn a_full_disk_takes_what_needs_no_room() {
    let (disk, file) = with(&[1; 1000]);
    disk.set_capacity(Some(1500));
    file.write_all_at(&[2; 1000], 0).unwrap();
    file.allocate(1500).unwrap();
    assert_eq!(file.write_all_at(&[3], 1500).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.allocate(1501).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.set_capacity(None);
    file.write_all_at(&[3], 1500).unwrap();
    disk.plan(Plan { trouble: Trouble::Full, lasts: Lasts::Forever, at: 1, only: None });
    file.write_all_at(&[4], 0).unwrap();
    assert_eq!(
        disk.open(&dir().join("new"), Open::Create).map(drop).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    disk.heal();
    disk.open(&dir().join("new"), Open::Create).unwrap();
}

#[test]
fn reads_can_be_short_and_bits_can_turn() {
    let (disk, file) = with(b"12345678");
    disk.plan(Plan { trouble: Trouble::Short, lasts: Lasts::Once, at: 1, only: Some(Operation::Read) });
    let mut buf = [0; 8];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 4);
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 8);
    disk.flip(&path(), 0, 1);
    assert_eq!(disk.bytes(&path()).unwrap(), b"32345678");
    assert_eq!(disk.crash_image(1).bytes(&path()).unwrap(), b"32345678");
    disk.flip(&path(), 8, 0);
    assert_eq!(file.len().unwrap(), 8, "there is nothing to flip behind the end");
}

#[test]
fn shared_memory_survives_a_kill_and_partly_a_power_cut() {
    let disk = Disk::new();
    disk.create_dir_all(dir()).unwrap();
    let shared = disk.share(&path(), 8192).unwrap().expect("it can");
    disk.sync_dir(dir()).unwrap();
    assert_eq!(shared.bytes(), 8192);
    // SAFETY: 8192 bytes are ours from the start, and no other code stores there.
    unsafe { shared.start().write_bytes(7, 8192) };
    let file = disk.open(&path(), Open::ReadWrite).unwrap();
    file.write_all_at(&[8; 3], 8189).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { shared.start().add(8189).read() }, 8, "a write to the file is seen in the memory");
    file.write_all_at(&[7; 3], 8189).unwrap();
    let killed = disk.killed();
    assert_eq!(killed.bytes(&path()).unwrap(), [7; 8192]);
    let cut: BTreeSet<Option<(u8, u8)>> = outcomes(&disk, &path())
        .into_iter()
        .map(|b| b.filter(|b| b.len() == 8192).map(|b| (b[0], b[4096])))
        .collect();
    assert!(
        cut.contains(&Some((7, 0))) && cut.contains(&Some((0, 7))) && cut.contains(&Some((7, 7))),
        "{cut:?}"
    );
    drop(shared);
    assert_eq!(disk.killed().bytes(&path()).unwrap(), [7; 8192]);
}
