//! Data four times as large as the pool: the engine's use of its disk, compared with the speed of
//! the bare disk for the same reads and writes at the same depth, by turns.

use super::{Size, cpus};
use crate::deployment::{Deployment, Places, seconds};
use crate::fault::PeerFault;
use crate::mixed::{Disk, Mix};
use crate::rounds::{HEADS, Series, cells, thousands};
use exec::DesignKind;
use std::fmt;
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};

/// The size of the data as a multiple of the pool.
const TIMES: u64 = 4;
/// Pages of 8 KiB for a thousand rows, including the index.
const PAGES_PER_THOUSAND: u64 = 32;

/// The parameters of the figure.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub design: DesignKind,
    pub op: Op,
    /// Clients of the engine, and concurrent reads of the bare disk.
    pub depth: usize,
}

/// The results of both sides, by round.
#[derive(Clone, Debug)]
pub struct Larger {
    pub what: String,
    pub tps: Series,
    pub engine: Series,
    pub device: Series,
    /// Engine to disk, of each round.
    pub share: Series,
    /// In ms: the slowest transaction, and the slowest read of the disk.
    pub longest: [Series; 2],
    pub writes_per_read: f64,
    /// Frames of the pool, and pages in use.
    pub pages: (u64, u64),
}

impl fmt::Display for Larger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | {HEADS} |\n|---|---:|---:|---:|", self.what)?;
        for series in [&self.tps, &self.engine, &self.device] {
            writeln!(f, "| {} | {} |", series.name, cells(series, thousands))?;
        }
        writeln!(f, "| {} | {} |", self.share.name, cells(&self.share, |v| format!("{v:.2}")))?;
        for series in &self.longest {
            writeln!(f, "| {} | {} |", series.name, cells(series, |v| format!("{v:.1}")))?;
        }
        let (frames, pages) = self.pages;
        write!(
            f,
            "\n**{:.2} of what the disk gives; {:.2} pages written for each one read; {frames} frames for {pages} pages**",
            self.share.median(),
            self.writes_per_read
        )
    }
}

/// One instance with one worker. Its log is written, but commits do not wait for it.
///
/// # Errors
/// The instance or the disk fails, or the data are wrong afterwards.
pub fn larger(asked: Asked, size: &Size) -> Result<Larger, PeerFault> {
    let Asked { design, op, depth } = asked;
    let micro = Micro::new(MicroOptions { dataset: size.dataset, op, ..MicroOptions::new(1) })?;
    let frames = (size.dataset * PAGES_PER_THOUSAND / 1000 / TIMES).max(64);
    let places = Places { pool_pages: frames as usize, cpus: &[cpus(1)?] };
    let deployment = Deployment::load_in("larger", micro, design, Durability::Async, size.dir, places)?;
    let pages = deployment.instances[0].measure()?.pages;
    let disk = Disk::prepare(size.dir, pages)?;
    let mut figure = Larger {
        what: format!("{design}, 10 rows {op:?}, {depth} clients").to_lowercase(),
        tps: Series::new("transactions per second"),
        engine: Series::new("pages read per second by the engine"),
        device: Series::new("pages read per second by the bare disk, with as many writes"),
        share: Series::new("engine / disk"),
        longest: [Series::new("slowest transaction, ms"), Series::new("slowest read of the bare disk, ms")],
        writes_per_read: 0.0,
        pages: (frames, pages),
    };
    let mut committed = 0;
    let (mut read, mut written) = (0, 0);
    for round in 0..size.rounds {
        let seed = size.seed + u64::from(round);
        let driven = deployment.drive(depth, seed << 24, size.times)?;
        committed += driven.committed;
        let window = driven.window;
        let (reads, writes) = (window.page_reads.max(1) as f64, window.page_writes as f64);
        (read, written) = (read + window.page_reads, written + window.page_writes);
        let mix = Mix {
            depth,
            writes_per_read: writes / reads,
            log_per_write: window.log.bytes as f64 / writes.max(1.0),
        };
        let device = disk.run(&mix, size.times.window, seed)?;
        let ours = reads / seconds(&window);
        figure.tps.values.push(window.committed_total() as f64 / seconds(&window));
        figure.engine.values.push(ours);
        figure.device.values.push(device.reads_per_s);
        figure.share.values.push(ours / device.reads_per_s.max(1.0));
        figure.longest[0].values.push(window.latency.max() as f64 / 1e6);
        figure.longest[1].values.push(device.longest_read.as_secs_f64() * 1e3);
    }
    figure.writes_per_read = written as f64 / read.max(1) as f64;
    deployment.check((op == Op::Update).then_some(committed))?;
    deployment.stop()?;
    Ok(figure)
}
