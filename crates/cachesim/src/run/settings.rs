//! The parameters of the schedulers. The defaults are those of the thesis.

/// Which transaction runs where, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// A transaction starts and ends on one core.
    Baseline,
    /// The same, with a next-line prefetcher (tagged) for instructions.
    NextLine,
    /// The same, and no instruction miss stalls: the bound for any instruction prefetcher. The
    /// misses still use the caches below.
    Pif,
    Strex,
    Slicc,
    Addict,
}

impl Scheduler {
    pub const ALL: [Scheduler; 6] = [
        Scheduler::Baseline,
        Scheduler::NextLine,
        Scheduler::Pif,
        Scheduler::Strex,
        Scheduler::Slicc,
        Scheduler::Addict,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Baseline => "baseline",
            Scheduler::NextLine => "next-line",
            Scheduler::Pif => "pif",
            Scheduler::Strex => "strex",
            Scheduler::Slicc => "slicc",
            Scheduler::Addict => "addict",
        }
    }
}

/// How SLICC knows the types of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Types {
    /// It does not.
    None,
    /// The software names them.
    Software,
    /// A core of its own finds them, and runs nothing else.
    Scout,
}

/// The choice of STREX when a miss would drive out a block of the current phase (section 7.4 is
/// open here).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protect {
    /// It switches first: the block stays, and the miss is taken after resuming.
    Refuse,
    /// It fills the line in, and then switches.
    Fill,
}

/// When SLICC lets a core take up new code, besides the end of a team (section 7.3.1 says: when its
/// thread queue becomes empty; section 7.5.2 says that only the first migration from a core has to
/// wait for a full cache, which holds only if that is rare).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// Whenever the core becomes idle.
    Idle,
    /// Only then.
    Team,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    pub scheduler: Scheduler,
    /// A power of two.
    pub cores: usize,
    /// Hardware threads of a core.
    pub contexts: usize,
    /// Cycles for which a context runs before another one that is behind it.
    pub slice: f64,
    /// STREX: the most transactions in a team.
    pub team: usize,
    /// STREX: the oldest waiting transactions, among which a team is formed.
    pub window: usize,
    pub protect: Protect,
    /// SLICC: misses after which an L1-I counts as full.
    pub fill_up: u32,
    /// SLICC: recent misses that another core's cache must have had.
    pub matched: usize,
    /// SLICC: misses among the last 100 accesses from which on it looks for another core.
    pub dilution: u32,
    /// SLICC: bits of a signature; 0 for one that never errs.
    pub signature: usize,
    pub types: Types,
    pub reset: Reset,
    /// SLICC: contexts in the pool of transactions, for each hardware thread of a core: the most of
    /// a team, and of all that wait at cores (Table 7.4: a queue of 30). Twice as many
    /// transactions are looked at when a team is formed (60 entries).
    pub pool: usize,
    /// SLICC: transactions that may wait in the queue of a core (section 7.5.1: up to ten); none
    /// moves to a core with more.
    pub queue: usize,
    /// SLICC: bytes of an instruction fetch.
    pub fetch_bytes: u64,
    /// ADDICT: transactions in a batch; 0 for one per context. SLICC: the transactions of one type
    /// that run at once on all cores, as in chapter 8; 0 for the teams of section 7.3.3.
    pub batch: usize,
    /// ADDICT: transactions of the trace that are profiled; 0 for those that run.
    pub profile: usize,
    /// ADDICT: whether a transaction may follow each one that ends, as long as it is of the type of
    /// the batch. Otherwise the next batch begins when all of the last one have ended.
    pub refill: bool,
    /// ADDICT: transactions that a place's context must have before an idle one of another place is
    /// taken in its stead.
    pub patience: usize,
    /// Transactions that only warm the caches: counts begin when so many have ended.
    pub warm: usize,
}

impl Settings {
    /// The transactions in a batch of ADDICT.
    pub fn in_batch(&self) -> usize {
        if self.batch == 0 { self.cores * self.contexts } else { self.batch }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            scheduler: Scheduler::Baseline,
            cores: 16,
            contexts: 1,
            slice: 200.0,
            team: 10,
            window: 30,
            protect: Protect::Refuse,
            fill_up: 256,
            matched: 4,
            dilution: 10,
            signature: 2048,
            types: Types::Software,
            reset: Reset::Team,
            pool: 30,
            queue: 10,
            fetch_bytes: 16,
            batch: 0,
            profile: 0,
            refill: true,
            patience: 2,
            warm: 0,
        }
    }
}
