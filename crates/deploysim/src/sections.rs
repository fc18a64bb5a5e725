//! One instance as its threads meet in it: critical sections by class, on hardware contexts.
//!
//! [`crate::simulate()`] follows messages between instances. This module follows the threads of one
//! instance of the papers' engine (Shore-MT with the prototypes of Tözün's thesis, chapters 3 to
//! 5) under designs with and without owners. A transaction is work between critical sections. A
//! section has one of three classes (thesis s3.2.1):
//!
//! | class | its entries wait for | here |
//! |---|---|---|
//! | unbounded | any thread | latch of a page, head of a row's lock, the tree while a page splits |
//! | fixed | a fixed few threads | the queue of an owner, a rendezvous point, the transaction |
//! | cooperative | one group, which all that wait join | the buffer of the log |
//!
//! # The designs
//!
//! **Conventional.** A thread runs a whole transaction. For each row it latches the pages from
//! the index root to the heap, and locks the row in the central lock manager until the commit.
//! Locks of tables are inherited (speculative lock inheritance), so the heads of these locks are
//! not visited. A transaction with more than 25 rows of a table locks the table instead. The
//! latch of a root is a word that every probe changes twice. An update holds the latch of its
//! heap page. A page split has its index alone, and all other visitors of the index wait.
//!
//! **Logical** (DORA). Each context owns one partition of every table. The client's thread cuts
//! the transaction into actions and puts them into the queues of their owners. The last action of
//! a phase to end meets a rendezvous point: its thread puts the next phase into queues, or
//! commits and tells the owners to release. An action that finds its lock taken parks, and the
//! owner goes on with the next one. Latches remain. An owner finds the data in its own cache as far
//! as it fits.
//!
//! **PLP.** As Logical, and each partition has a sub-tree of its own, which needs no latch and is
//! one level lower (MRBTree). *Regular* latches heap pages. *Partition* and *Leaf* do not, and
//! rows of two partitions never share a page.
//!
//! **MRBTree under Conventional and Logical.** Latches remain; each sub-tree has a root and a
//! split of its own.
//!
//! A scan hands each record that it finds to a rendezvous point, as a pointer. Where the index is
//! cut otherwise than the table (not aligned), the client's thread scans it with latches, sorts
//! the record ids, and the owners fetch the rows (thesis s3.4.7).
//!
//! # Costs
//!
//! No cost is of this module. Rows, locks and latches, lines, and the parts of an action come
//! from the profile's `conventional`: handing over an action costs what a reading part of a
//! distributed transaction costs over shared memory. The profile's `[sections]` divides these
//! costs ([`crate::costs::SectionCosts`]), and states the source of each share.
//!
//! # Contexts
//!
//! Hardware contexts of one core share its pipelines ([`crate::machine::Pipelines`]). A context
//! keeps a pipeline busy for a share of its time; that share stretches with the load of the
//! others. A waiter for a section spins, so it keeps its context. A waiter for a row lock does
//! not.
//!
//! # Left out
//!
//! Owners of several tables on one context are one thread, so that no context switch is
//! simulated. Page cleaning, the catalogue, free space, and the creation of pages beyond splits
//! are work.

mod case;
mod design;
mod load;
mod outcome;
mod program;
mod run;
mod station;

pub use case::SectionCase;
pub use design::{Access, DESIGNS, Design, Heap, Index};
pub use load::{Homes, Kind, Load, Rows, Site, Table, Touch, Way};
pub use outcome::{Class, Part, SectionOutcome};
pub use run::simulate;
