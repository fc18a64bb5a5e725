//! A job of a context as a list of steps: work, and entries into sections that may be taken.

use super::case::{Prices, SectionCase};
use super::design::{Heap, Index};
use super::load::{Rows, Touch, Way};
use super::outcome::{Class, PARTS, Part};
use super::station::Name;
use fastrand::Rng;

/// An access of many rows goes in at most so many batches.
pub(super) const MOST_BATCHES: u32 = 32;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Step {
    Work([f64; PARTS]),
    Enter(Entry),
    /// Waits while a page of this index splits.
    Visit {
        tree: (u16, u32),
    },
    /// Has this index alone, for so many ns.
    Split {
        tree: (u16, u32),
        ns: f64,
    },
    /// Locks a row of a small table until the commit.
    Lock {
        row: u32,
        is_exclusive: bool,
    },
}

/// An entry into a section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    pub name: Name,
    pub class: Class,
    /// The parts that its inside and its waiting count for.
    pub part: Part,
    pub wait: Part,
    pub ns: f64,
    /// Lines that it moves from the last one inside.
    pub lines: f64,
    /// Whether the inside is time of its own; otherwise the work that follows covers it.
    pub is_own_time: bool,
}

/// Accesses of a table at one site.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Action {
    pub rows: Rows,
    pub site: u32,
    /// The context that owns the site.
    pub owner: usize,
    /// The first row, over all sites; of small tables only.
    pub row: Option<u32>,
}

/// Sections that programs enter, with those that are only work.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Tally {
    pub entries: [f64; 3],
    pub latches: [f64; 2],
    pub row_locks: f64,
}

/// Builds programs of one case.
pub(super) struct Builder<'c> {
    case: &'c SectionCase<'c>,
    /// By table: the levels of its index, whether anything is inserted, and the number of its first
    /// small row.
    tables: Vec<(u32, bool, u32)>,
    pub tally: Tally,
    pub steps: Vec<Step>,
    parts: [f64; PARTS],
}

impl<'c> Builder<'c> {
    pub fn new(case: &'c SectionCase<'c>) -> Builder<'c> {
        let load = case.load;
        let grows = |at: usize| {
            let mut accesses = load.kinds.iter().flat_map(|kind| kind.phases.iter().flatten());
            accesses.any(|rows| rows.table == at && rows.touch == Touch::Insert)
        };
        let mut first = 0;
        let mut tables = Vec::new();
        for (at, table) in load.tables.iter().enumerate() {
            tables.push((case.levels(table), table.is_indexed && grows(at), first));
            if table.is_small {
                first += table.rows_per_site as u32 * load.sites;
            }
        }
        Builder { case, tables, tally: Tally::default(), steps: Vec::new(), parts: [0.0; PARTS] }
    }

    /// Rows of all small tables.
    pub fn small_rows(&self) -> u32 {
        let tables = self.case.load.tables.iter().filter(|table| table.is_small);
        tables.map(|table| table.rows_per_site as u32 * self.case.load.sites).sum()
    }

    fn prices(&self) -> &'c Prices {
        &self.case.prices
    }

    pub fn pay(&mut self, part: Part, ns: f64) {
        self.parts[part as usize] += ns;
    }

    /// The work so far becomes a step.
    pub fn flush(&mut self) {
        if self.parts.iter().any(|ns| *ns > 0.0) {
            self.steps.push(Step::Work(std::mem::take(&mut self.parts)));
        }
    }

    fn enter(&mut self, entry: Entry) {
        self.flush();
        self.steps.push(Step::Enter(entry));
    }

    /// A section that no simulated entry meets, or that its steps count themselves.
    fn count(&mut self, class: Class, entries: f64) {
        self.tally.entries[class as usize] += entries;
    }

    /// The begin or the commit of a transaction, of which one serialises on its own state.
    pub fn half(&mut self) {
        self.pay(Part::Work, self.prices().begin);
        self.count(Class::Fixed, 1.0);
    }

    /// A record enters the log's buffer.
    pub fn log(&mut self, records: f64) {
        let p = self.prices();
        self.count(Class::Cooperative, 1.0);
        self.enter(Entry {
            name: Name::Log,
            class: Class::Cooperative,
            part: Part::Log,
            wait: Part::LogWait,
            ns: p.log_entry * records,
            lines: p.log_lines,
            is_own_time: true,
        });
    }

    /// A thread puts an action into the queue of its owner.
    pub fn hand_over(&mut self, owner: usize) {
        self.pay(Part::Message, self.prices().hand_over);
        self.queue(owner);
    }

    /// The owner takes an action out of its queue.
    pub fn take_action(&mut self, owner: usize) {
        self.queue(owner);
        self.pay(Part::Message, self.prices().action);
    }

    fn queue(&mut self, owner: usize) {
        let p = self.prices();
        self.count(Class::Fixed, 1.0);
        self.enter(Entry {
            name: Name::Queue { context: owner as u16 },
            class: Class::Fixed,
            part: Part::Message,
            wait: Part::MessageWait,
            ns: p.queue_entry,
            lines: p.queue_lines,
            is_own_time: true,
        });
    }

    /// An action reports to its rendezvous point.
    pub fn rendezvous(&mut self) {
        self.pay(Part::Message, self.prices().rendezvous);
        self.count(Class::Fixed, 1.0);
    }

    pub fn release(&mut self) {
        self.pay(Part::Message, self.prices().release);
    }

    /// Updates of the access histogram of a partition, one for each row.
    pub fn histogram(&mut self, rows: f64) {
        let Some(sub_buckets) = self.case.histogram else { return };
        let terms = self.case.machine.terms();
        let missing = (1.0 - terms.l2_bytes / (8.0 * f64::from(sub_buckets))).max(0.0);
        let ns = self.prices().histogram + missing * terms.l3_ns;
        self.pay(Part::Histogram, rows * ns);
    }

    /// The rows of an action. `locked` holds the row locks of the transaction by table.
    pub fn access(&mut self, action: &Action, locked: &mut Vec<u32>, random: &mut Rng) {
        let rows = action.rows;
        let batches = rows.count.min(MOST_BATCHES);
        let each = f64::from(rows.count) / f64::from(batches);
        for batch in 0..batches {
            let is_scan = rows.way != Way::Probe;
            let descents = if !is_scan {
                each
            } else if batch == 0 {
                1.0
            } else {
                0.0
            };
            self.descend(action, descents);
            let locks = self.row_locks(action, each, locked);
            self.lock(action, batch, locks);
            self.page(action, batch);
            self.rows(action, each, random);
            self.changes(action, each, random);
        }
    }

    /// The descents of a batch: its latches and the section of the root.
    fn descend(&mut self, action: &Action, descents: f64) {
        if descents == 0.0 {
            return;
        }
        let (p, table) = (self.prices(), action.rows.table);
        let (levels, grows, _) = self.tables[table];
        let design = self.case.design;
        let partition = if design.index == Index::OneRoot { 0 } else { action.site };
        let tree = (table as u16, partition);
        let below = f64::from(levels - 1);
        // A sub-tree begins where the pages below the root did.
        let has_root = design.index == Index::OneRoot || levels == 1;
        if grows && design.index != Index::Owned {
            self.flush();
            self.steps.push(Step::Visit { tree });
        }
        let work = below * p.page + if has_root { p.root } else { 0.0 };
        self.pay(Part::Work, descents * work);
        if design.index == Index::Owned {
            return;
        }
        let pages = below + f64::from(u8::from(has_root));
        self.latch(0, descents * pages);
        self.enter(Entry {
            name: Name::Root { table: table as u16, partition },
            class: Class::Unbounded,
            part: Part::Latch,
            wait: Part::LatchWait,
            ns: descents * p.root_entry,
            lines: descents * p.root_lines,
            is_own_time: true,
        });
    }

    /// Latches of index pages (0) or heap pages (1).
    fn latch(&mut self, kind: usize, pages: f64) {
        let p = self.prices();
        self.pay(Part::Latch, pages * (p.latch + p.cold_latch));
        self.tally.latches[kind] += pages;
        self.count(Class::Unbounded, pages);
    }

    /// Rows of a batch that the transaction locks one by one.
    fn row_locks(&mut self, action: &Action, each: f64, locked: &mut Vec<u32>) -> f64 {
        if self.case.design.has_owners() {
            return 0.0;
        }
        locked.resize(self.tables.len(), 0);
        let so_far = &mut locked[action.rows.table];
        let left = self.prices().shares.escalation.saturating_sub(*so_far);
        let locks = each.min(f64::from(left));
        *so_far = so_far.saturating_add(each.ceil() as u32);
        locks
    }

    /// The lock of a small row: its head, and the wait for it.
    fn lock(&mut self, action: &Action, batch: u32, locks: f64) {
        let p = self.prices();
        self.tally.row_locks += locks;
        self.count(Class::Unbounded, locks);
        self.pay(Part::Lock, locks * (p.lock + p.cold_lock));
        let Some(row) = self.lock_of(action, batch).filter(|_| locks > 0.0) else { return };
        self.enter(Entry {
            name: Name::Head { row },
            class: Class::Unbounded,
            part: Part::Lock,
            wait: Part::LockHead,
            ns: p.root_entry,
            lines: p.root_lines,
            is_own_time: true,
        });
        self.steps.push(Step::Lock { row, is_exclusive: action.rows.touch != Touch::Read });
    }

    /// The number of the small row that a batch locks.
    pub fn lock_of(&self, action: &Action, batch: u32) -> Option<u32> {
        let table = &self.case.load.tables[action.rows.table];
        let rows = table.rows_per_site as u32 * self.case.load.sites;
        action.row.map(|row| self.tables[action.rows.table].2 + (row + batch) % rows)
    }

    /// The heap page of a small row.
    fn page(&mut self, action: &Action, batch: u32) {
        let p = self.prices();
        let Some(row) = action.row.filter(|_| self.case.design.heap == Heap::Latched) else { return };
        let (table, rows) = (action.rows.table, if self.is_padded(action) { 1 } else { p.page_rows });
        let is_read = action.rows.touch == Touch::Read;
        self.enter(Entry {
            name: Name::Page { table: table as u16, page: (row + batch) / rows as u32 },
            class: Class::Unbounded,
            part: Part::Latch,
            wait: Part::LatchWait,
            ns: if is_read { p.page_entry } else { p.page_held },
            lines: p.page_lines,
            is_own_time: false,
        });
    }

    fn is_padded(&self, action: &Action) -> bool {
        self.case.load.tables[action.rows.table].is_padded
    }

    /// The rows themselves, with the latches of their leaf and heap pages.
    fn rows(&mut self, action: &Action, each: f64, random: &mut Rng) {
        let (p, design, rows) = (self.prices(), self.case.design, action.rows);
        // Equal work would let threads fall into step.
        let work = each * p.row * (0.5 + random.f64());
        let is_scan = rows.way != Way::Probe;
        let is_fetch = rows.way == Way::RangeNotAligned && design.has_owners();
        self.pay(Part::Work, if is_fetch { work / 2.0 } else { work });
        if is_scan && !is_fetch && design.index != Index::Owned {
            self.latch(0, each);
        }
        if design.heap == Heap::Latched {
            self.latch(1, each);
        }
        // A scan leaves out the descent, and with it half of the lines.
        let cold = each * p.cold_data * if is_scan { 0.5 } else { 1.0 };
        if !design.has_owners() {
            self.pay(Part::Work, cold);
            return;
        }
        let among = rows.among.unwrap_or(self.case.load.tables[rows.table].rows_per_site);
        let owned = among as f64 * f64::from(self.case.load.sites) / self.case.contexts.len() as f64;
        let is_cached = (p.cache_rows / owned).min(1.0);
        self.pay(Part::Work, cold * (1.0 - is_cached));
        if rows.way == Way::Range || is_fetch {
            self.pay(Part::Message, each * p.record);
        }
    }

    /// Updates and inserts: their work, their log records, and splits.
    fn changes(&mut self, action: &Action, each: f64, random: &mut Rng) {
        let (p, rows) = (self.prices(), action.rows);
        let pages = match rows.touch {
            Touch::Read => return,
            Touch::Update => 1.0,
            Touch::Insert => 2.0,
        };
        self.pay(Part::Work, each * pages * p.update);
        self.pay(Part::Log, each * pages * p.log);
        self.log(each * pages);
        let (_, grows, _) = self.tables[rows.table];
        // A page that has split is half full.
        let inserted = if rows.touch == Touch::Insert && grows { each } else { 0.0 };
        if random.f64() < inserted / (p.shares.entries as f64 / 2.0) {
            let partition = if self.case.design.index == Index::OneRoot { 0 } else { action.site };
            self.flush();
            self.steps.push(Step::Split { tree: (rows.table as u16, partition), ns: p.split });
        }
    }

    /// The client's scan of an index that is not cut like its table.
    pub fn scan_index(&mut self, action: &Action, random: &mut Rng) {
        let p = self.prices();
        let records = f64::from(action.rows.count);
        let levels = self.tables[action.rows.table].0;
        self.pay(Part::Work, p.root + f64::from(levels - 1) * p.page);
        self.pay(Part::Work, records * p.row / 2.0 * (0.5 + random.f64()));
        self.latch(0, f64::from(levels) + records);
        self.enter(Entry {
            name: Name::Root { table: action.rows.table as u16, partition: 0 },
            class: Class::Unbounded,
            part: Part::Latch,
            wait: Part::LatchWait,
            ns: p.root_entry,
            lines: p.root_lines,
            is_own_time: true,
        });
        self.pay(Part::Work, records * records.max(1.0).log2() * p.compare);
        self.pay(Part::Message, records * p.record);
    }
}
