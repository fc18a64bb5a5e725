//! The kinds of log records that this room writes; kinds up to [`access::Kind::LAST`] are the access methods'.
//!
//! | kind | transaction | body |
//! |---|---|---|
//! | commit | its last record | empty |
//! | noted commit | its last record | the note that stays until forgotten |
//! | end | the last record of one rolled back | empty |
//! | prepare | from here on only a decision ends it | the note |
//! | note | none | the note |
//! | forget | none | u64: the lsn where the note's record ends, which is its name |
//!
//! 37 was a catalog record in a format before this one.

use base::TableId;

pub(crate) const COMMIT: u8 = 32;
pub(crate) const END: u8 = 33;
pub(crate) const PREPARE: u8 = 34;
pub(crate) const NOTE: u8 = 35;
pub(crate) const FORGET: u8 = 36;
pub(crate) const NOTED_COMMIT: u8 = 38;

/// The table of tables: whose name the pages and records of the catalog's heap bear.
pub(crate) const CATALOG: TableId = TableId(u16::MAX);

const _: () = assert!(COMMIT > access::Kind::LAST);
