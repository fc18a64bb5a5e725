//! Bad news from a relay.

use crate::entry::Term;

/// A service did not do what it was asked to: for the caller to try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// Nothing more counts in this log. For its owner this is what a failed sync is for a local log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A successor has sealed the log.
    #[error("another owner, of term {by}, has taken over this log (own term {own}); this instance must stop")]
    Deposed { own: Term, by: Term },
    /// The claimed term is not higher than that of a seal on the tape.
    #[error(
        "the term {own} is not above {found}, which the relay has already; claim a new term and open again"
    )]
    OldTerm { own: Term, found: Term },
    /// An entry that its owner had counted is not on the tape.
    #[error(
        "the relay lost entries that had counted: {have} are there, {counted} had counted (seen at position \
         {position}); restore the relay's data, or open with --accept-loss to go on without the {} after entry {have}",
        counted - have
    )]
    Hole { have: u64, counted: u64, position: u64 },
    /// The tape ends before an entry that is known to have counted.
    #[error(
        "the relay has {have} entries, and {counted} are known to have counted; restore the relay's data, or open \
         with --accept-loss to go on without the last {}",
        counted - have
    )]
    Short { have: u64, counted: u64 },
    /// Bytes on the tape that no owner can have written there.
    #[error("the relay is damaged at position {position}: {what}; restore the relay's data, or a backup")]
    Damaged { position: u64, what: String },
    /// The log was trimmed behind a base copy, and the reader needs more of it.
    #[error(
        "the relay's log begins at position {first}, because it was trimmed behind a base copy; this folder has it up to \
         position {have} only. Begin with {}",
        if note.is_empty() { "a newer base copy" } else { note.as_str() }
    )]
    Trimmed { have: u64, first: u64, note: String },
    /// The folder and the tape do not belong together.
    #[error("{0}")]
    Stranger(String),
    /// The service does not answer, or does not have the log any more.
    #[error("{0}")]
    Gone(String),
}
