//! Requests drawn from a seed.

use super::{Mix, Place, RecordedKind, Rows, Transactions};
use fastrand::Rng;
use smallvec::SmallVec;
use std::ops::Range;
use txn::{Generator, Workload};
use workload::micro::{Micro, MicroGenerator, Op};
use workload::recording::Op as Touched;
use workload::replay::{Replay, ReplayGenerator};

/// One row of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// A number unique over all tables and sites; rows of one table and site are neighbours.
    pub key: u64,
    pub site: u32,
    pub update: bool,
    /// The phase that issues it, ascending within a request.
    pub phase: u8,
}

/// One request, with its rows in the order in which they are locked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Index of its kind; 0 for the microbenchmark.
    pub kind: u16,
    pub home_site: u32,
    pub rows: SmallVec<[Row; 16]>,
    /// Rows that are inserted at home.
    pub inserts: u32,
    pub row_weight: f64,
    pub log_bytes: Option<f64>,
}

impl Request {
    pub fn updates(&self) -> u32 {
        self.inserts + self.rows.iter().filter(|row| row.update).count() as u32
    }

    /// The number of its phases.
    pub fn phases(&self) -> u8 {
        self.rows.last().map_or(1, |row| row.phase + 1)
    }
}

/// Rows of one scan that are drawn: those of a longer one weigh more.
const MOST_SCANNED: u32 = 64;

/// A stream of requests, which follows from its seed.
pub enum Requests {
    Replay { replay: Replay, tables: Vec<Rows>, generator: Box<ReplayGenerator> },
    Micro { micro: Box<Micro>, generator: Box<MicroGenerator> },
    Mix { mix: Box<Mix>, bases: Vec<u64>, total: f64, homes: Range<u32>, random: Rng },
}

impl Requests {
    /// Requests with a home among `sites`; under skew the caller gives all sites and routes each
    /// request to its home.
    pub fn new(transactions: &Transactions, seed: u64, sites: Range<u32>) -> Requests {
        match transactions {
            Transactions::Micro(micro) => {
                let generator = Box::new(micro.generator(seed, sites));
                Requests::Micro { micro: micro.clone(), generator }
            }
            Transactions::Replay(replay) => {
                let generator = Box::new(replay.generator(seed, sites));
                Requests::Replay { replay: (**replay).clone(), tables: transactions.tables(), generator }
            }
            Transactions::Mix(mix) => {
                let bases = transactions.tables().iter().map(|table| table.first).collect();
                let total = mix.kinds.iter().map(|kind| kind.share).sum();
                let random = Rng::with_seed(base::hash64(&seed.to_le_bytes()));
                Requests::Mix { mix: mix.clone(), bases, total, homes: sites, random }
            }
        }
    }

    /// Draws the next request into `out`.
    pub fn draw(&mut self, out: &mut Request) {
        out.rows.clear();
        match self {
            Requests::Micro { micro, generator } => {
                let request = generator.next();
                (out.kind, out.inserts, out.row_weight, out.log_bytes) = (0, 0, 1.0, None);
                out.home_site = micro.site_of(request.home);
                // Rows ascend, so a site is computed only where one begins.
                let (mut site, mut end) = (0, 0);
                out.rows.extend(request.ids.iter().map(|&id| {
                    if id >= end {
                        site = micro.site_of(id);
                        end = micro.rows_of(site..site + 1).end;
                    }
                    let update = match request.op {
                        Op::Read => false,
                        Op::Update => true,
                        Op::Mixed => id == request.home,
                    };
                    Row { key: id, site, update, phase: 0 }
                }));
            }
            Requests::Replay { replay, tables, generator } => draw_replay(replay, tables, generator, out),
            Requests::Mix { mix, bases, total, homes, random } => {
                let number = pick(mix, *total, random);
                out.home_site = random.u32(homes.clone());
                draw_kind(mix, bases, number, random, out);
            }
        }
    }
}

/// A recorded transaction. A row that it touches again is there once, and its update counts.
fn draw_replay(replay: &Replay, tables: &[Rows], generator: &mut ReplayGenerator, out: &mut Request) {
    let request = generator.next();
    out.kind = replay.kind_of(&request);
    (out.home_site, out.inserts, out.log_bytes) = (replay.home(&request), 0, None);
    let mut touched = 0;
    for placed in replay.placed(&request) {
        if placed.op == Touched::Insert {
            out.inserts += 1;
            continue;
        }
        touched += placed.count;
        // The keys of a replay leave room between sites, those of a model none.
        let (space, table) = (replay.space(placed.table), tables[placed.table]);
        let key = table.first + placed.id / space * table.of_site + placed.id % space;
        let (site, phase, update) = (placed.site, placed.phase.min(255) as u8, placed.op.writes());
        for key in (key..).take(placed.count.min(MOST_SCANNED) as usize) {
            match out.rows.iter_mut().find(|row| row.key == key) {
                Some(row) => row.update |= update,
                None => out.rows.push(Row { key, site, update, phase }),
            }
        }
    }
    out.row_weight = f64::from(touched.max(1)) / out.rows.len().max(1) as f64;
}

/// The number of a kind, by share.
fn pick(mix: &Mix, total: f64, random: &mut Rng) -> usize {
    let mut left = random.f64() * total;
    let found = mix.kinds.iter().position(|kind| {
        left -= kind.share;
        left < 0.0
    });
    found.unwrap_or(mix.kinds.len() - 1)
}

fn draw_kind(mix: &Mix, bases: &[u64], number: usize, random: &mut Rng, out: &mut Request) {
    let kind: &RecordedKind = &mix.kinds[number];
    out.kind = number as u16;
    (out.inserts, out.row_weight, out.log_bytes) = (kind.inserts, kind.row_weight, kind.log_bytes);
    let mut decided: SmallVec<[(u8, u32); 4]> = SmallVec::new();
    for (phase, steps) in kind.phases.iter().enumerate() {
        for group in &steps.groups {
            let site = match group.place {
                Place::Home => out.home_site,
                Place::Remote { probability, decision } => {
                    let known = decided.iter().find(|(d, _)| *d == decision).map(|(_, site)| *site);
                    known.unwrap_or_else(|| {
                        let site = remote_site(mix, out.home_site, probability, random);
                        decided.push((decision, site));
                        site
                    })
                }
            };
            let per_site = mix.tables[group.table].rows_per_site;
            let first = bases[group.table] + u64::from(site) * per_site;
            for _ in 0..group.rows {
                let key = first + random.u64(0..per_site);
                out.rows.push(Row { key, site, update: group.update, phase: phase as u8 });
            }
        }
    }
}

fn remote_site(mix: &Mix, home: u32, probability: f64, random: &mut Rng) -> u32 {
    let Mix { sites, together, .. } = *mix;
    if sites < 2 || random.f64() >= probability {
        return home;
    }
    // Without another run, any other site.
    let run = if together < sites { together } else { 1 };
    let other = random.u32(0..sites - run);
    if other < home / run * run { other } else { other + run }
}
