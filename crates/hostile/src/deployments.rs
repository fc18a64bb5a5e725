//! Files about whole deployments: phase scripts, manifests, result rows.

use crate::words::{split, with_head};
use crate::{Pace, Target};
use driver::{LoadModel, Phases, ResultRow, Subject};
use report::{Report, Rows};
use std::cell::RefCell;
use tempfile::TempDir;
use traffic::{Arrivals, Rate};
use workload::WorkloadSpec;

/// Phase scripts, and the changes of a workload that they describe.
pub const PHASES: Target = Target { name: "phases", seeds: scripts, run: script, pace: Pace::Brisk };
/// The description in a data directory.
pub const MANIFEST: Target = Target { name: "manifest", seeds: manifests, run: manifest, pace: Pace::Brisk };
/// The description of a backup, and backups that are one file.
pub const BACKUP: Target = Target { name: "backup", seeds: backups, run: backup, pace: Pace::Slow };
/// Result rows, and reports of them.
pub const RESULTS: Target = Target { name: "results", seeds: results, run: result, pace: Pace::Slow };

fn scripts() -> Vec<Vec<u8>> {
    let lines = "# head\n\n0 multisite 5\n10s hot 50% of requests to 30% of keys # Fig 4.1\n10s rate 5..9/1s\n\
                 20.5s hot off\n30s skew 0.9\n2m rate 10\n";
    let mix = "1s mix tpcc-payment\n2s mix tpcc\n3s mix tatp\n";
    (0..8).flat_map(|head| [with_head(head, lines), with_head(head, mix)]).collect()
}

fn script(bytes: &[u8]) {
    let (head, text) = split(bytes);
    let Ok(phases) = Phases::parse("phases.txt", &text) else { return };
    let name = ["micro", "tpcb", "tpcc", "tatp"][usize::from(head % 4)];
    let subject = Subject::new(WorkloadSpec::new(name, 1)).expect("a workload of the list");
    let open = Rate::constant(10.0).map(|rate| LoadModel::Open { rate, arrivals: Arrivals::Poisson });
    let model = if head & 4 == 0 { open.expect("a rate") } else { LoadModel::Closed };
    if let Ok(changes) = phases.changes(&subject, &model) {
        assert!(changes.windows(2).all(|two| two[0].at_ns < two[1].at_ns), "changes of one time are one");
        for spec in changes.into_iter().filter_map(|change| change.requests) {
            let _ = (Subject::new(spec).map(|s| (s.labels(), s.data_bytes()))).is_ok();
        }
    }
}

thread_local! {
    /// The folder in which readers of directories find their input.
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// Calls `look` with a folder that has the file `name`.
fn in_folder(name: &str, bytes: &[u8], look: impl FnOnce(&std::path::Path)) {
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().expect("a folder for scratch files"));
        std::fs::write(folder.path().join(name), bytes).expect("a scratch file is written");
        look(folder.path());
    });
}

fn manifests() -> Vec<Vec<u8>> {
    let manifest = |name: &str| {
        let workload = WorkloadSpec::new(name, 2);
        deploy::Manifest {
            format: deploy::FORMAT,
            data: "micro, 240000 rows, 24 sites".into(),
            islands: 2,
            family: "pages".into(),
            tables: txn::TableKind::Clustered,
            trees: deploy::engine::TreeKind::MultiRooted,
            heaps: deploy::engine::HeapForm::ByLeaf,
            partitions: 4,
            schema: 7,
            workload: WorkloadSpec { skew: Some(0.9), hot: "50/30@40".parse().ok(), ..workload },
        }
    };
    let written = |name: &&str| {
        let mut value = serde_json::to_value(manifest(name)).unwrap_or_default();
        value["effects"] = 12.into();
        value["streams"] = 3.into();
        value.to_string().into_bytes()
    };
    ["micro", "tpcc"].iter().map(written).collect()
}

fn manifest(bytes: &[u8]) {
    in_folder("deployment.json", bytes, |folder| match deploy::look(folder) {
        Ok(look) => {
            let _ = (look.manifest.describe(), look.manifest.fits(&look.manifest));
            if let Ok(subject) = Subject::new(look.manifest.workload) {
                let _ = (subject.data_name(), subject.data_bytes(), subject.sites());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

/// The files of a backup, and the description of them.
fn backed_up() -> Vec<(&'static str, Vec<u8>)> {
    let files = vec![
        ("deployment.json", manifests().remove(0)),
        ("0/data", vec![7; 100]),
        ("1/data", b"rows".to_vec()),
        ("1/log/segment", vec![]),
    ];
    let entry = |(path, bytes): &(&str, Vec<u8>)| serde_json::json!({ "path": path, "bytes": bytes.len(), "crc32c": base::crc32c(bytes) });
    let entries: Vec<serde_json::Value> = files.iter().map(entry).collect();
    let description =
        serde_json::json!({ "format": 1, "version": "0.1.0", "taken": 5, "data": "micro", "files": entries });
    let inside = files.into_iter().map(|(path, bytes)| match path {
        "deployment.json" => ("database/deployment.json", bytes),
        "0/data" => ("database/0/data", bytes),
        "1/data" => ("database/1/data", bytes),
        _ => ("database/1/log/segment", bytes),
    });
    inside.chain([("backup.json", description.to_string().into_bytes())]).collect()
}

/// A file of a tar archive, in POSIX format.
fn archived(path: &str, bytes: &[u8]) -> Vec<u8> {
    let mut head = [0; 512];
    head[..path.len()].copy_from_slice(path.as_bytes());
    head[100..107].copy_from_slice(b"0000600");
    head[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    head[148..156].fill(b' ');
    head[156] = b'0';
    head[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let padding = bytes.len().next_multiple_of(512) - bytes.len();
    [&head, bytes, &vec![0; padding]].concat()
}

/// First byte 0: the description follows; 1: a whole backup in one file.
fn backups() -> Vec<Vec<u8>> {
    let files = backed_up();
    let description = files.last().map(|(_, bytes)| bytes.clone()).unwrap_or_default();
    let archive: Vec<u8> = files.iter().flat_map(|(path, bytes)| archived(path, bytes)).collect();
    vec![[&[0], &description[..]].concat(), [&[1], &archive[..], &[0; 1024]].concat()]
}

fn backup(bytes: &[u8]) {
    let (head, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let dir = tempfile::tempdir().expect("a folder for scratch files");
    let from = match head % 2 {
        0 => dir.path().join("backup"),
        _ => dir.path().join("backup.tar"),
    };
    let put = |at: std::path::PathBuf, bytes: &[u8]| {
        std::fs::create_dir_all(at.parent().unwrap_or(&at)).expect("a scratch folder is made");
        std::fs::write(at, bytes).expect("a scratch file is written");
    };
    if head % 2 == 0 {
        let files = backed_up().into_iter();
        files.for_each(|(path, bytes)| put(from.join(path), &bytes));
        put(from.join("backup.json"), bytes);
    } else {
        put(from.clone(), bytes);
    }
    let to = dir.path().join("again");
    let interrupt = deploy::Interrupt::default();
    let watch = deploy::Copying { interrupt: &interrupt, progress: &mut |_, _| {} };
    match deploy::restore(&from, &to, watch) {
        Ok(_) => assert!(to.join("deployment.json").exists(), "a database was made"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!to.exists(), "half a database was made: {error}");
        }
    }
    let beside = std::fs::read_dir(dir.path()).expect("the folder is there").count();
    assert_eq!(beside, 1 + usize::from(to.exists()), "nothing else was made");
}

fn results() -> Vec<Vec<u8>> {
    let row = ResultRow { version: driver::VERSION.into(), ..ResultRow::default() };
    let value = serde_json::to_value(&row).unwrap_or_default();
    let mut seeds = Vec::new();
    for tps in [0.0, 1234.5, 1e300] {
        let mut value = value.clone();
        value["experiment"] = "pvldb-3".into();
        value["tps"] = tps.into();
        seeds.push(with_head(0, &value.to_string()));
        value["islands"] = 4.into();
        let second = value.to_string();
        value["islands"] = 1.into();
        seeds.push(with_head(1, &format!("{second}\nnonsense\n{value}\n")));
        seeds.push(with_head(2, &second));
    }
    seeds
}

fn result(bytes: &[u8]) {
    let (head, text) = split(bytes);
    match head % 3 {
        0 => drop(claims::rows::parse("rows.jsonl", &text, driver::VERSION)),
        1 => drop(rows_of(&text)),
        _ => {
            let html = Report { rows: rows_of(&text).rows, ..Report::default() }.html();
            assert!(html.ends_with("</html>\n") || html.ends_with("</html>"));
        }
    }
}

fn rows_of(text: &str) -> Rows {
    let mut rows = Rows::default();
    rows.add("rows.jsonl", text.as_bytes());
    rows.complaints.iter().for_each(|complaint| drop(complaint.to_string()));
    rows
}
