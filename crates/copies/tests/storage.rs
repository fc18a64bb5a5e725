//! Copies in a directory: put, listed, fetched, and refused when something is wrong with them.

#![cfg(feature = "store")]

use copies::{CopyError, Found, Go, Head, Listed, Storage};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LOG: &str = "bank-0";

/// A place, a folder with files, and room for fetched ones.
struct Ground {
    dir: TempDir,
}

impl Ground {
    fn new() -> Ground {
        let ground = Ground { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(ground.at("place")).unwrap();
        fs::create_dir_all(ground.at("folder/log")).unwrap();
        fs::write(ground.at("folder/data"), vec![7; 100_000]).unwrap();
        fs::write(ground.at("folder/log/1"), [vec![0; 200_000], vec![1; 5]].concat()).unwrap();
        fs::write(ground.at("folder/log/empty"), "").unwrap();
        fs::write(ground.at("folder/lock"), "17").unwrap();
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn storage(&self) -> Storage {
        Storage::open(self.at("place").to_str().unwrap()).unwrap()
    }

    fn put(&self, next: u64) -> Result<Found, CopyError> {
        let head = Head { log: LOG.into(), stream: Some(5), next, ..Head::default() };
        self.storage().put(&self.at("folder"), &["lock"], head, next as u32, &mut |_, _| Go::On)
    }

    fn fetch(&self, found: &Found) -> Result<PathBuf, CopyError> {
        let to = self.at("fetched");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        self.storage().fetch(found, &to, &mut |_, _| Go::On).map(|()| to)
    }

    /// Where a file of a copy lies.
    fn object(&self, found: &Found, name: &str) -> PathBuf {
        self.at("place").join(LOG).join(&found.id).join(name)
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    all.sort();
    all
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let ground = Ground::new();
    let found = ground.put(3).unwrap();
    assert_eq!(ground.storage().find(LOG, None).unwrap(), found);
    assert_eq!(ground.storage().numbers("bank").unwrap(), [0]);
    let fetched = ground.fetch(&found).unwrap();
    fs::remove_file(ground.at("folder/lock")).unwrap();
    let relative = |dir: &Path| {
        let of = |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(dir).unwrap().to_owned(), bytes);
        files(dir).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(relative(&fetched), relative(&ground.at("folder")));
}

#[test]
fn large_files_go_in_parts() {
    let ground = Ground::new();
    let mut random = fastrand::Rng::with_seed(1);
    for length in [(8 << 20) - 1, 8 << 20, (8 << 20) + 1, (17 << 20) + 3] {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        fs::write(ground.at("folder/data"), &bytes).unwrap();
        let found = ground.put(length as u64).unwrap();
        let fetched = ground.fetch(&found).unwrap();
        assert!(fs::read(fetched.join("data")).unwrap() == bytes, "{length} bytes");
    }
}

#[test]
fn the_newest_is_that_with_most_of_the_log() {
    let ground = Ground::new();
    let ids: Vec<String> = [9, 100, 10].map(|next| ground.put(next).unwrap().id).to_vec();
    let storage = ground.storage();
    assert_eq!(storage.find(LOG, None).unwrap().id, ids[1]);
    let listed: Vec<String> = storage.whole(LOG).unwrap().into_iter().map(|found| found.id).collect();
    assert_eq!(listed, [ids[0].clone(), ids[2].clone(), ids[1].clone()]);
    storage.remove(LOG, &ids[1]).unwrap();
    assert_eq!(storage.find(LOG, None).unwrap().id, ids[2]);
    assert!(!ground.at("place").join(LOG).join(&ids[1]).exists());
}

#[test]
fn of_copies_of_one_position_the_last_one_put_is_the_newest() {
    let ground = Ground::new();
    let put = |number| {
        let head = Head { log: LOG.into(), next: 7, ..Head::default() };
        ground.storage().put(&ground.at("folder"), &[], head, number, &mut |_, _| Go::On).unwrap().id
    };
    let mut ids = vec![put(0xffff_ffff)];
    // As an earlier version named it.
    let earlier = format!("{:020}-f0000000", 7);
    let place = ground.at("place").join(LOG);
    fs::rename(place.join(&ids[0]), place.join(&earlier)).unwrap();
    ids[0] = earlier;
    ids.extend([0x8000_0000, 9, 0x7000_0000, 1].map(put));
    let storage = ground.storage();
    let listed: Vec<String> = storage.whole(LOG).unwrap().into_iter().map(|found| found.id).collect();
    assert_eq!(listed, ids);
    assert_eq!(storage.find(LOG, None).unwrap().id, ids[4]);
    // The turn of a copy that is removed is not given again while a later one is there.
    storage.remove(LOG, &ids[2]).unwrap();
    ids.push(put(0));
    assert_eq!(storage.find(LOG, None).unwrap().id, ids[5]);
}

#[test]
fn damaged_and_half_copies_are_refused_by_name() {
    let ground = Ground::new();
    let found = ground.put(3).unwrap();
    let refused = |what: &str| {
        let error = ground.fetch(&found).unwrap_err().to_string();
        assert!(error.contains(&found.id) && error.contains(what), "{error}");
        assert!(error.contains("atoll base list") && !error.contains('\n'), "{error}");
    };
    let data = ground.object(&found, "folder/data");
    let mut bytes = fs::read(&data).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&data, &bytes).unwrap();
    refused("has a damaged file, data");
    fs::write(&data, &bytes[1..]).unwrap();
    refused("has 99999 bytes of data, and had 100000");
    fs::remove_file(&data).unwrap();
    refused("lacks data");
    assert!(ground.storage().require_whole(&found).is_err());
    let manifest = ground.object(&found, "manifest");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("bank-0", "bank-7")).unwrap();
    let error = ground.storage().find(LOG, Some(&found.id)).unwrap_err().to_string();
    assert!(error.contains("damaged manifest"), "{error}");
    fs::write(&manifest, text.replacen(" 1 ", " 2 ", 1)).unwrap();
    let error = ground.storage().find(LOG, Some(&found.id)).unwrap_err().to_string();
    assert!(error.contains("format 2, and this version of Atoll reads format 1"), "{error}");
    // Nothing that can be used: not taken by default either.
    assert!(matches!(ground.storage().find(LOG, None), Err(CopyError::Nothing { .. })));
    fs::remove_file(&manifest).unwrap();
    let error = ground.storage().find(LOG, Some(&found.id)).unwrap_err().to_string();
    assert!(error.contains("no manifest: it is not complete"), "{error}");
    assert!(
        matches!(&ground.storage().list(LOG).unwrap()[..], [Listed::Half { changed, .. }] if *changed > 0)
    );
    let error = ground.storage().find(LOG, Some("other")).unwrap_err().to_string();
    assert!(error.contains("is not there"), "{error}");
}

#[test]
fn an_interrupted_putting_leaves_nothing() {
    let ground = Ground::new();
    fs::write(ground.at("folder/data"), vec![7; 20 << 20]).unwrap();
    for limit in [1, 9 << 20, 20 << 20] {
        let head = Head { log: LOG.into(), ..Head::default() };
        let mut watch = |done, _| if done >= limit { Go::End } else { Go::On };
        let put = ground.storage().put(&ground.at("folder"), &[], head, 1, &mut watch);
        assert!(matches!(put, Err(CopyError::Interrupted)), "{limit}");
        assert!(files(&ground.at("place")).is_empty(), "{limit}");
    }
    let found = ground.put(1).unwrap();
    let to = ground.at("part");
    fs::create_dir(&to).unwrap();
    let fetched = ground.storage().fetch(&found, &to, &mut |_, _| Go::End);
    assert!(matches!(fetched, Err(CopyError::Interrupted)));
}

#[test]
fn places_that_cannot_be_used_are_named() {
    let ground = Ground::new();
    let refused = |url: &str| Storage::open(url).map(drop).unwrap_err().to_string();
    assert!(refused("/no/such/place").contains("make it first"));
    assert!(refused(ground.at("folder/data").to_str().unwrap()).contains("no directory"));
    assert!(refused("ftp://x/y").contains("expected a directory, s3://"));
    if !cfg!(feature = "s3") {
        assert!(refused("s3://bucket/x").contains("--features copies-s3"));
    }
    let file = format!("file://{}", ground.at("place").display());
    assert!(Storage::open(&file).is_ok());
    let nothing = ground.storage().find(LOG, None).unwrap_err().to_string();
    assert!(nothing.contains("no base copy of log bank-0"), "{nothing}");
}
