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
//! | catalog | none | the new tables and their root pages (`postcard`) |

pub(crate) const COMMIT: u8 = 32;
pub(crate) const END: u8 = 33;
pub(crate) const PREPARE: u8 = 34;
pub(crate) const NOTE: u8 = 35;
pub(crate) const FORGET: u8 = 36;
pub(crate) const CATALOG: u8 = 37;
pub(crate) const NOTED_COMMIT: u8 = 38;

const _: () = assert!(COMMIT > access::Kind::LAST);
