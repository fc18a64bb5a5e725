//! The one list of everything that is timed and counted. The columns of result rows, the tables of
//! the measuring page and the shape of [`crate::Profile`] follow from it: a counter that is added
//! here appears everywhere.

use serde::{Deserialize, Serialize};

/// Defines an enum. Each variant has a name for result rows and a meaning for the documents.
macro_rules! list {
    ($(#[$about:meta])* $name:ident { $($variant:ident $text:literal $meaning:literal)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $meaning] $variant),*
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];
            pub const COUNT: usize = $name::ALL.len();

            /// The spelling in result rows.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            pub const fn meaning(self) -> &'static str {
                match self { $($name::$variant => $meaning),* }
            }
        }
    };
}

list! {
    /// The components among which a worker's working time is divided.
    Component {
        Execution "execution" "procedures and steps, index and heap operations, waits for page latches excepted"
        Locking "locking" "asking for locks and giving them back; waiting for one is `waiting`"
        Latching "latching" "taking and leaving page latches, spinning included"
        Logging "logging" "building log records and putting them into the log buffer"
        Communication "communication" "encoding, sending, polling for and decoding messages"
        Management "management" "begin, commit, prepare, rollback, two-phase commit, tasks, the worker's loop"
    }
}

list! {
    /// The reasons for which a transaction is parked. A wait lasts until the transaction runs
    /// again, including the time until its turn.
    Wait {
        Turn "turn" "its worker, which runs another transaction"
        Lock "lock" "a lock that another transaction holds"
        Log "log" "its log records to be as safe as the durability mode promises"
        Reply "reply" "the results of steps at another instance or another worker"
        Decision "decision" "votes and decisions of two-phase commit beyond those that rode on replies"
        Page "page" "a page that is being read"
        Retry "retry" "the next try, after an instance was down"
    }
}

list! {
    /// The growth of a critical section's contention with the hardware (thesis, section 3.2.1).
    Kind {
        Fixed "fixed" "a fixed number of threads can meet there, on every machine"
        Unbounded "unbounded" "every worker of the instance may meet there"
        Cooperative "cooperative" "a worker that waits there can have its work done by another"
    }
}

/// Defines a list of which each variant also belongs to a place in the result row.
macro_rules! placed {
    ($(#[$about:meta])* $name:ident { $($variant:ident $text:literal $($place:ident::$in:ident)+ ; $meaning:literal)* }
     $($field:ident: $type:ident),+) => {
        list! { $(#[$about])* $name { $($variant $text $meaning)* } }
        placed!(@fields $name [$([$variant $($place::$in)+])*] $($field: $type),+);
    };
    (@fields $name:ident [$([$variant:ident $first:ident::$a:ident $second:ident::$b:ident])*] $f:ident: $t:ident, $g:ident: $u:ident) => {
        impl $name {
            pub const fn $f(self) -> $t { match self { $($name::$variant => $first::$a),* } }
            pub const fn $g(self) -> $u { match self { $($name::$variant => $second::$b),* } }
        }
    };
    (@fields $name:ident [$([$variant:ident $first:ident::$a:ident])*] $f:ident: $t:ident) => {
        impl $name {
            pub const fn $f(self) -> $t { match self { $($name::$variant => $first::$a),* } }
        }
    };
}

placed! {
    /// Code that only one thread at a time may run (or some threads at a time, for shared latches).
    Section {
        LockBucket "lock_bucket" Component::Locking Kind::Unbounded; "a bucket of a lock table shared by workers"
        LockSlot "lock_slot" Component::Locking Kind::Fixed; "a list in a locker's own slot: the locker, and one that grants it a lock or wants a parked one away"
        LockDetector "lock_detector" Component::Locking Kind::Unbounded; "the search for a cycle of waiting transactions"
        PageLatch "page_latch" Component::Latching Kind::Unbounded; "a page of a pool shared by workers"
        LogReserve "log_reserve" Component::Logging Kind::Unbounded; "a place in the log buffer"
        LogGroup "log_group" Component::Logging Kind::Cooperative; "joining a group that reserves a place in the log together"
        LogExtent "log_extent" Component::Logging Kind::Fixed; "a worker's own run of the log: the worker and the flusher"
        LogWaiters "log_waiters" Component::Logging Kind::Cooperative; "the queue for the next flush of the log"
        PageSpace "page_space" Component::Management Kind::Unbounded; "the free pages and free frames of the pool"
        TransactionSlot "transaction_slot" Component::Management Kind::Fixed; "a transaction's state: its worker and the checkpoint"
        TransactionIds "transaction_ids" Component::Management Kind::Unbounded; "the next run of transaction numbers"
        Link "link" Component::Communication Kind::Fixed; "one end of a channel: one sender, one receiver"
        Mailbox "mailbox" Component::Communication Kind::Fixed; "the ring from one worker of an instance to one other: a letter put in, or taken out"
    }
    component: Component, kind: Kind
}

list! {
    /// An object of the result row in which counters appear.
    Group {
        Accesses "accesses_per_txn" "what transactions asked for"
        Latches "latches_per_txn" "page latches taken, by what the page holds"
        LockCalls "lock_calls_per_txn" "requests to the lock manager, by what answered them"
        Log "log_per_txn" "what the log did"
        Messages "traffic_per_txn" "messages to other instances and to clients"
    }
}

placed! {
    /// The counters.
    Counter {
        Records "records" Group::Accesses; "records read, changed, inserted, deleted or scanned"
        RowLocks "row_locks" Group::Accesses; "locks on keys and gaps taken"
        HigherLocks "higher_locks" Group::Accesses; "locks on tables taken"
        HeapPages "heap_pages" Group::Accesses; "heap pages visited, each visit"
        IndexPages "index_pages" Group::Accesses; "index pages visited, each visit"
        UniqueHeapPages "unique_heap_pages" Group::Accesses; "different heap pages visited by one transaction"
        UniqueIndexPages "unique_index_pages" Group::Accesses; "different index pages visited by one transaction"
        AllocatedPages "allocated_pages" Group::Accesses; "pages taken into use"
        IndexLatches "index" Group::Latches; "pages of B+trees"
        HeapLatches "heap" Group::Latches; "pages of rows"
        CatalogLatches "catalog" Group::Latches; "pages of the catalog"
        FreeSpaceLatches "free_space" Group::Latches; "heap roots and directories, which tell where there is room"
        LockRequests "requests" Group::LockCalls; "locks asked for"
        LockRepeats "repeated" Group::LockCalls; "held already: answered from the transaction's own list"
        LockInherited "inherited" Group::LockCalls; "passed on by the worker's previous transaction (speculative lock inheritance)"
        LockFast "fast" Group::LockCalls; "intention locks noted in the locker's own slot"
        LockTableVisits "table" Group::LockCalls; "requests that went to a bucket of the lock table"
        LogRecords "records" Group::Log; "log records appended"
        LogBytes "bytes" Group::Log; "bytes appended"
        LogFlushes "flushes" Group::Log; "writes of the log buffer to the file"
        LogSyncs "fsyncs" Group::Log; "waits for the device"
        MessagesSent "messages" Group::Messages; "frames sent"
        MessageBytes "bytes" Group::Messages; "bytes of frames sent"
    }
    group: Group
}

list! {
    /// Events that the processor counts on the workers while they run in user mode, for all
    /// transactions: in the order of [`world::Event::ALL`].
    Event {
        Cycles "cycles" "core cycles, which pass faster or slower as the processor's clock does"
        Instructions "instructions" "instructions retired"
        L1dMisses "l1d_misses" "reads that the first-level data cache could not answer"
        LlcMisses "llc_misses" "accesses that the last-level cache could not answer"
        BranchMisses "branch_misses" "branches that went elsewhere than was predicted"
    }
}

const _: () = assert!(Event::COUNT == world::Event::COUNT, "the list is that of the room below");

/// The content of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    Index,
    Heap,
    Catalog,
    FreeSpace,
}

impl PageKind {
    /// By the number in the page's header. A page without a kind so far is about to become a heap
    /// page.
    #[inline]
    pub const fn of(number: u8) -> PageKind {
        match number {
            1 => PageKind::Index,
            2 | 3 => PageKind::FreeSpace,
            _ => PageKind::Heap,
        }
    }

    pub(crate) const fn latches(self) -> Counter {
        match self {
            PageKind::Index => Counter::IndexLatches,
            PageKind::Heap => Counter::HeapLatches,
            PageKind::Catalog => Counter::CatalogLatches,
            PageKind::FreeSpace => Counter::FreeSpaceLatches,
        }
    }

    /// The counter for a visit. Pages that only hold free space or the catalog are not data.
    pub(crate) const fn visits(self) -> Option<Counter> {
        match self {
            PageKind::Index => Some(Counter::IndexPages),
            PageKind::Heap => Some(Counter::HeapPages),
            PageKind::Catalog | PageKind::FreeSpace => None,
        }
    }
}

/// Whether a worker profiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Profiling {
    #[default]
    Off,
    /// Everything is counted. One in this many polls of a task (at least 1) has its time split
    /// among the components. Where polls are rare, every poll has.
    OneIn(u32),
    /// As `OneIn`, but rare polls are drawn like all others: for a simulated processor, since
    /// all polls are rare by its clock.
    Drawn(u32),
}

impl Profiling {
    /// A timestamp costs some 10 ns, and a transaction of 2 µs would take a hundred of them. In one
    /// poll of 64 they cost less than 2 %.
    pub const ON: Profiling = Profiling::OneIn(64);
}

/// The tables of the measuring page, generated from the lists above.
pub fn markdown() -> String {
    let table = |head: [&str; 2], rows: Vec<[String; 2]>| {
        let rows: String = rows.iter().map(|[a, b]| format!("| `{a}` | {b} |\n")).collect();
        format!("| {} | {} |\n|---|---|\n{rows}", head[0], head[1])
    };
    let row = |name: &str, meaning: &str| [name.to_string(), meaning.to_string()];
    let mut components: Vec<_> = Component::ALL.iter().map(|c| row(c.name(), c.meaning())).collect();
    components.push(row("waiting", "parked: the sum of `waiting_ns_per_txn`"));
    let section = |s: &Section| {
        let where_to = format!("{}, {}: {}", s.component().name(), s.kind().name(), s.meaning());
        row(s.name(), &where_to)
    };
    let counter = |c: &Counter| row(&format!("{}.{}", c.group().name(), c.name()), c.meaning());
    [
        table(["component", "time spent in"], components),
        table(["wait", "for"], Wait::ALL.iter().map(|w| row(w.name(), w.meaning())).collect()),
        table(
            ["kind of section", "contention"],
            Kind::ALL.iter().map(|k| row(k.name(), k.meaning())).collect(),
        ),
        table(["critical section", "counted as"], Section::ALL.iter().map(section).collect()),
        table(["counter", "counts"], Counter::ALL.iter().map(counter).collect()),
        table(
            ["hardware counter", "counts"],
            Event::ALL.iter().map(|e| row(&format!("hardware.{}", e.name()), e.meaning())).collect(),
        ),
    ]
    .join("\n")
}
