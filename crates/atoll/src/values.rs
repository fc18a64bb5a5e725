//! The words that options take, each with its line in the help, and what they mean to the rooms below.

use clap::ValueEnum;
use deploy::engine::{HeapForm, Mode, TableKind, TreeKind};
use deploy::{ChannelKind, Host};

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DesignArg {
    /// Latched pages and a central lock manager
    Conventional,
    /// Each worker owns a run of the sites, runs their steps and locks them for itself; pages are latched (DORA)
    Logical,
    /// As logical, and each worker owns the index pages that lead to its keys and latches none of them (PLP)
    PlpRegular,
    /// As plp-regular, and each worker owns the heap pages with its keys' rows, each of one partition
    PlpPartition,
    /// As plp-partition, with heap pages each of one leaf, so that dividing a partition moves next to no rows
    PlpLeaf,
    /// One worker per instance: no latches, and locks only while distributed transactions exist
    Serial,
    /// Rows in main memory, optimistic concurrency control
    Occ,
}

/// Whether keys change owners while transactions run, so that every worker has about as much to do.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceArg {
    /// Everybody keeps what he has
    Off,
    /// It is said when they should, and why
    Advise,
    /// They do
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

/// What a transaction of `occ` does on meeting a row that another one has prepared.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccConflictArg {
    /// Waits for the other's decision, and for its turn where transactions keep failing; looks again at leaves that have changed
    Wait,
    /// Aborts at once in all these cases, as Silo does
    Abort,
}

/// How far ahead `occ` asks memory for rows.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccAheadArg {
    /// For those that a request names, while others are run before it
    Requests,
    /// For those that a step is about to ask for
    Steps,
}

/// How a transaction of `occ` reads that writes nothing.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OccReadsArg {
    /// The present, and what it has seen is checked at its end
    Validate,
    /// Everything as it was when the transaction began: nothing is checked, and nothing aborts
    Snapshot,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurabilityArg {
    /// Acknowledged after the device has the log
    Sync,
    /// The log is written and not waited for
    Async,
    /// The log is kept in memory only
    Memory,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablesArg {
    /// In a heap, and every index leads to the row's address
    Heap,
    /// In the leaves of the primary key's index
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
    /// Of one root
    Btree,
    /// Multi-rooted: a sub-tree for each partition of the keys
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
    /// Any
    Shared,
    /// Those of one partition of the primary key's index
    Partition,
    /// Those that one leaf of the primary key's index leads to
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
    /// They look without a latch, and at the page's version before and after
    Optimistic,
    /// They latch each page before they let go of the one that led there
    Coupled,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SliArg {
    /// Table locks stay with the worker until somebody else wants what they exclude
    On,
    /// Every transaction asks anew
    Off,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostArg {
    /// Each instance is a child process
    Process,
    /// Instances are threads of this process
    Thread,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelArg {
    /// Ring in shared memory
    Shm,
    /// Unix socket
    Uds,
    /// TCP
    Tcp,
    /// Ring inside one process (--host thread)
    Ring,
    /// Only `bench ipc`
    Pipe,
    /// Only `bench ipc`
    Fifo,
    /// POSIX message queue; only `bench ipc`
    Mqueue,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpArg {
    Read,
    Update,
    /// One row, which fixes the home site, is updated, the others are read: in a multisite transaction in other sites
    Mixed,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadModelArg {
    /// Each client sends its next request when the answer to the last one is there
    Closed,
    /// Requests come at --rate; latency counts from when they were due
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
    /// `None` for a mechanism that instances do not speak.
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
