//! Requests drawn from a seed.

use super::{Mix, Place, RecordedKind, Transactions};
use fastrand::Rng;
use smallvec::SmallVec;
use std::ops::Range;
use txn::{Generator, Workload};
use workload::micro::{Micro, MicroGenerator, Op};

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

/// A stream of requests, which follows from its seed.
pub enum Requests {
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
            Transactions::Mix(mix) => {
                let mut bases = Vec::with_capacity(mix.tables.len());
                let mut next = 0;
                for table in &mix.tables {
                    bases.push(next);
                    next += table.rows_per_site * u64::from(mix.sites);
                }
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
            Requests::Mix { mix, bases, total, homes, random } => {
                let number = pick(mix, *total, random);
                out.home_site = random.u32(homes.clone());
                draw_kind(mix, bases, number, random, out);
            }
        }
    }
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
