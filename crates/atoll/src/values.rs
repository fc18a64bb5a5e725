//! The words that options take, each with its help line, and the values that they stand for in the
//! crates below.

use clap::ValueEnum;
use deploy::engine::{HeapForm, Mode, TableKind, TreeKind};
use deploy::{ChannelKind, Host};

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DesignArg {
    /// Pages with latches, and one lock table for all workers of an instance
    Conventional,
    /// Each worker owns a range of the keys and has a lock table of its own; pages have latches
    /// (DORA)
    Logical,
    /// As logical; each worker also owns the index pages of its keys, which need no latches then
    /// (PLP)
    PlpRegular,
    /// As plp-regular; each worker also owns the heap pages with the rows of its keys
    PlpPartition,
    /// As plp-partition; each heap page belongs to one leaf of the index, so dividing a partition
    /// moves few rows
    PlpLeaf,
    /// One worker per instance, one transaction at a time: no latches, and locks only for
    /// distributed transactions
    Serial,
    /// Rows in main memory with optimistic concurrency control: a transaction is checked for
    /// conflicts when it commits
    Occ,
}

/// Whether keys change owners while transactions run, so that every worker has about the same load.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceArg {
    /// Keys stay where they are
    Off,
    /// Rows say when keys should move and why; they do not move
    Advise,
    /// Keys move
    On,
}

impl From<BalanceArg> for Mode {
    fn from(arg: BalanceArg) -> Mode {
        match arg {
            BalanceArg::Off => Mode::Off,
            BalanceArg::Advise => Mode::Advise,
            BalanceArg::On => Mode::On,
        }
    }
}

/// How a transaction of `occ` reacts to a row that another transaction has prepared.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccConflictArg {
    /// Waits for the decision of the other one; transactions that keep failing run one after the
    /// other
    Wait,
    /// Aborts at once and is tried again, as in Silo
    Abort,
}

/// How far ahead `occ` prefetches rows.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccAheadArg {
    /// When a request arrives: the rows that it names
    Requests,
    /// When a step begins: the rows that it is about to use
    Steps,
}

/// How a read-only transaction of `occ` reads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccReadsArg {
    /// The newest rows; at the end it is checked that they have not changed
    Validate,
    /// The rows as they were when the transaction began: nothing is checked, and nothing aborts
    Snapshot,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurabilityArg {
    /// After the log is on the device: survives a power cut
    Sync,
    /// After the system has the log, which it writes soon: survives kill -9; a power cut takes the
    /// last moments
    Async,
    /// At once; the log stays in memory: survives nothing
    Memory,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablesArg {
    /// In a heap; every index holds the addresses of rows
    Heap,
    /// In the leaves of the index of the primary key
    Clustered,
}

impl From<TableKind> for TablesArg {
    fn from(kind: TableKind) -> TablesArg {
        match kind {
            TableKind::Heap => TablesArg::Heap,
            TableKind::Clustered => TablesArg::Clustered,
        }
    }
}

impl From<TablesArg> for TableKind {
    fn from(arg: TablesArg) -> TableKind {
        match arg {
            TablesArg::Heap => TableKind::Heap,
            TablesArg::Clustered => TableKind::Clustered,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeArg {
    /// One tree with one root
    Btree,
    /// Multi-rooted: a tree of its own for each range of the keys
    Mrbtree,
}

impl From<TreeKind> for TreeArg {
    fn from(kind: TreeKind) -> TreeArg {
        match kind {
            TreeKind::BTree => TreeArg::Btree,
            TreeKind::MultiRooted => TreeArg::Mrbtree,
        }
    }
}

impl From<TreeArg> for TreeKind {
    fn from(arg: TreeArg) -> TreeKind {
        match arg {
            TreeArg::Btree => TreeKind::BTree,
            TreeArg::Mrbtree => TreeKind::MultiRooted,
        }
    }
}

/// Which rows of a table with a key share a heap page.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapArg {
    /// Any rows
    Shared,
    /// Rows of one partition
    Partition,
    /// Rows that one leaf of the index of the primary key points to
    Leaf,
}

impl From<HeapForm> for HeapArg {
    fn from(form: HeapForm) -> HeapArg {
        match form {
            HeapForm::Shared => HeapArg::Shared,
            HeapForm::ByPartition => HeapArg::Partition,
            HeapForm::ByLeaf => HeapArg::Leaf,
        }
    }
}

impl From<HeapArg> for HeapForm {
    fn from(arg: HeapArg) -> HeapForm {
        match arg {
            HeapArg::Shared => HeapForm::Shared,
            HeapArg::Partition => HeapForm::ByPartition,
            HeapArg::Leaf => HeapForm::ByLeaf,
        }
    }
}

/// How readers of pages keep out of the way of writers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatchingArg {
    /// A reader takes no latch; it compares the version of the page before and after
    Optimistic,
    /// A reader latches each page before it releases the parent (latch coupling)
    Coupled,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SliArg {
    /// A worker keeps its table locks until another worker needs one of them
    On,
    /// Every transaction takes its table locks anew
    Off,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostArg {
    /// Each instance is a process
    Process,
    /// All instances are threads of one process
    Thread,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelArg {
    /// Ring buffers in shared memory
    Shm,
    /// Unix socket
    Uds,
    /// TCP
    Tcp,
    /// Ring buffers within one process: only with --host thread
    Ring,
    /// Pipe: only with `bench ipc`
    Pipe,
    /// Named pipe: only with `bench ipc`
    Fifo,
    /// POSIX message queue: only with `bench ipc`
    Mqueue,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpArg {
    /// All rows are read
    Read,
    /// All rows are updated
    Update,
    /// One row is updated, the others are read; in a multisite transaction they are in other sites
    Mixed,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadModelArg {
    /// A client sends its next request when it has the answer to the last one
    Closed,
    /// Requests come at --rate and wait for no answer; latency counts from the time when a request
    /// was due
    Open,
}

impl From<HostArg> for Host {
    fn from(arg: HostArg) -> Host {
        match arg {
            HostArg::Process => Host::Process,
            HostArg::Thread => Host::Thread,
        }
    }
}

impl ChannelArg {
    /// `None` for a mechanism that instances do not use.
    pub fn kind(self) -> Option<ChannelKind> {
        match self {
            ChannelArg::Shm => Some(ChannelKind::Shm),
            ChannelArg::Uds => Some(ChannelKind::Uds),
            ChannelArg::Tcp => Some(ChannelKind::Tcp),
            ChannelArg::Ring => Some(ChannelKind::Ring),
            ChannelArg::Pipe | ChannelArg::Fifo | ChannelArg::Mqueue => None,
        }
    }
}
