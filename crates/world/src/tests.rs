//! The same script on the real file system and on the one in memory: users must see no difference.

use crate::{Files, Open, entropy, memory, now_ns, real, sim};
use std::io::ErrorKind;
use std::path::Path;

fn on_both(script: impl Fn(&dyn Files, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    script(&*real(), folder.path());
    script(&*memory(), Path::new("somewhere"));
    script(&sim::Disk::new(), Path::new("somewhere"));
}

#[test]
fn bytes_are_where_they_were_put() {
    on_both(|files, dir| {
        files.create_dir_all(&dir.join("a/b")).unwrap();
        let path = dir.join("a/b/file");
        let file = files.open(&path, Open::Create).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        file.sync().unwrap();
        let mut buf = [9u8; 10];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 8);
        assert_eq!(&buf[..8], b"\0\0\0hello");
        assert_eq!(file.read_at(&mut buf, 100).unwrap(), 0);
        file.allocate(4096).unwrap();
        assert_eq!(file.len().unwrap(), 4096);
        file.set_len(4).unwrap();
        let again = files.open(&path, Open::Read).unwrap();
        assert_eq!(again.len().unwrap(), 4);
    });
}

#[test]
fn names_come_and_go() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        assert!(files.list(dir).unwrap().is_empty());
        files.open(&dir.join("b"), Open::Create).unwrap().write_all_at(b"b", 0).unwrap();
        files.open(&dir.join("a"), Open::Create).unwrap();
        assert_eq!(files.list(dir).unwrap(), ["a", "b"]);
        files.rename(&dir.join("b"), &dir.join("a")).unwrap();
        assert_eq!(files.list(dir).unwrap(), ["a"]);
        assert_eq!(files.open(&dir.join("a"), Open::Read).unwrap().len().unwrap(), 1);
        files.remove(&dir.join("a")).unwrap();
        files.sync_dir(dir).unwrap();
        assert!(files.list(dir).unwrap().is_empty());
    });
}

#[test]
fn errors_name_the_file_and_keep_their_kind() {
    on_both(|files, dir| {
        for path in [dir.join("absent"), dir.join("no/folder")] {
            let failed = [
                files.open(&path, Open::ReadWrite).map(drop),
                files.remove(&path),
                files.rename(&path, &dir.join("x")),
                files.list(&path).map(drop),
            ];
            for error in failed.map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
            }
        }
    });
}

#[test]
fn a_lock_is_held_once_and_ends_with_its_holder() {
    on_both(|files, dir| {
        files.create_dir_all(dir).unwrap();
        let path = dir.join("lock");
        let held = files.lock(&path).unwrap();
        let error = files.lock(&path).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains("in use"), "{error}");
        drop(held);
        files.lock(&path).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let _held = real().lock(&path).unwrap();
    let error = real().lock(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
}

#[test]
fn shared_memory_is_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let shared = real().share(&path, 8192).unwrap().unwrap();
    assert_eq!(shared.bytes(), 8192);
    // SAFETY: the offset is inside the mapping and no other code uses it.
    unsafe { shared.start().add(5000).write(7) };
    let mut byte = [0];
    real().open(&path, Open::Read).unwrap().read_at(&mut byte, 5000).unwrap();
    assert_eq!(byte, [7]);
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    real().open(&folder.path().join("f"), Open::Create).unwrap();
    real().create_dir_all(&folder.path().join("d")).unwrap();
    let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().mode() & 0o077;
    assert_eq!((mode("f"), mode("d")), (0, 0));
}

#[test]
fn time_grows_and_randomness_varies() {
    let times: Vec<u64> = (0..100).map(|_| now_ns()).collect();
    assert!(times.is_sorted());
    assert_ne!(entropy(), entropy());
}
