//! Options of a lock table: number of buckets, inheritance, escalation, choice of victims. Plain
//! values, so that they can cross a process boundary.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Whether granules in shared or intention modes are left to the locker's next transaction (see
/// `inherit`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Inheritance {
    On,
    Off,
}

impl Inheritance {
    pub const ALL: [Inheritance; 2] = [Inheritance::On, Inheritance::Off];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Inheritance::On => "on",
            Inheritance::Off => "off",
        }
    }
}

impl fmt::Display for Inheritance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The transaction that gives up when waiting transactions form a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Victim {
    /// The transaction that closes the cycle by its request: it learns that at once, and no wake-up
    /// is needed.
    Requester,
    /// The one that began last ([`Locker::begun_ns`](crate::Locker::begun_ns)), so that an old
    /// transaction gets through in the end.
    Youngest,
}

/// The number of keys of a table that one transaction locks before it locks the table itself (see
/// `escalate`).
///
/// As text: `off`, `R` or `R:W`. `R` alone allows forty times as many writes, since a table locked
/// to be written stops all other transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Escalation {
    /// Keys locked to read; `None` for no limit.
    pub reads: Option<u32>,
    /// Keys locked to write; `None` for no limit.
    pub writes: Option<u32>,
}

impl Escalation {
    pub const OFF: Escalation = Escalation { reads: None, writes: None };

    /// After this many keys read, or forty times as many written.
    pub const fn after(reads: u32) -> Escalation {
        Escalation { reads: Some(reads), writes: Some(reads.saturating_mul(40)) }
    }
}

impl fmt::Display for Escalation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |n: Option<u32>| n.map_or("off".to_owned(), |n| n.to_string());
        match *self {
            Escalation::OFF => f.write_str("off"),
            Escalation { reads: Some(n), .. } if *self == Escalation::after(n) => write!(f, "{n}"),
            Escalation { reads, writes } => write!(f, "{}:{}", part(reads), part(writes)),
        }
    }
}

impl FromStr for Escalation {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let number = |text: &str| {
            match text {
            "off" => Ok(None),
            n => n.parse::<u32>().ok().filter(|n| *n > 0).map(Some).ok_or_else(|| {
                format!(
                    "'{s}' is no escalation threshold; expected off, a number of keys read such as 25, or keys read and \
                     written such as 25:1000"
                )
            }),
        }
        };
        match s.split_once(':') {
            Some((reads, writes)) => Ok(Escalation { reads: number(reads)?, writes: number(writes)? }),
            None => Ok(number(s)?.map_or(Escalation::OFF, Escalation::after)),
        }
    }
}

/// Behaviour of the lock manager beyond plain locking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockTuning {
    pub inheritance: Inheritance,
    pub escalation: Escalation,
    pub victim: Victim,
}

impl LockTuning {
    /// Exactly the requested locks, and none after the transaction's end.
    pub const PLAIN: LockTuning =
        LockTuning { inheritance: Inheritance::Off, escalation: Escalation::OFF, victim: Victim::Requester };
}

impl Default for LockTuning {
    /// Inheritance, and escalation after 25 keys read: the baseline of the papers' conventional
    /// system.
    fn default() -> LockTuning {
        LockTuning {
            inheritance: Inheritance::On,
            escalation: Escalation::after(25),
            victim: Victim::Requester,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOptions {
    /// Number of buckets, rounded up to a power of two; a bucket is a cache line.
    pub buckets: usize,
    pub tuning: LockTuning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_as_text() {
        let of = |reads, writes| Escalation { reads, writes };
        for (text, want) in [
            ("off", Escalation::OFF),
            ("25", of(Some(25), Some(1000))),
            ("25:100", of(Some(25), Some(100))),
            ("off:100", of(None, Some(100))),
            ("25:off", of(Some(25), None)),
        ] {
            let parsed: Escalation = text.parse().expect(text);
            assert_eq!((parsed, parsed.to_string().as_str()), (want, text));
        }
        for bad in ["", "0", "-1", "25:", ":25", "on", "25:0", "4294967296"] {
            let said = bad.parse::<Escalation>().unwrap_err();
            assert!(said.contains("expected off"), "{said}");
        }
    }
}
