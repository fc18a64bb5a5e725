//! The hardware that the schedulers need, in bits per core (thesis, Tables 7.1 and 8.2).

/// The parts of a scheduler's hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// What watches accesses.
    pub monitor: u64,
    /// Queues, phases and points.
    pub scheduler: u64,
    /// The table of the threads of each team.
    pub teams: u64,
}

impl Bits {
    pub fn total(self) -> u64 {
        self.monitor + self.scheduler + self.teams
    }

    pub fn bytes(self) -> f64 {
        self.total() as f64 / 8.0
    }
}

/// A thread's id and the place where its state is saved.
const ID: u64 = 12;
const STATE: u64 = 48;
/// The address of a line.
const LINE: u64 = 58;
/// An entry of a team table: id, stamp, type, team, index.
const MEMBER: u64 = ID + 32 + 4 + 4 + 8;

/// SLICC on `cores`, with an MTQ of `matched` entries and a signature of so many bits. The miss
/// counter is not in the table of the thesis, and not here.
pub fn slicc(cores: u64, matched: u64, signature: u64) -> Bits {
    let mtq = (cores - 1) * matched;
    Bits { monitor: mtq + 100 + signature, scheduler: 30 * (ID + STATE + 4), teams: 60 * MEMBER }
}

/// STREX with teams of up to 20 and an L1-I of `lines`.
pub fn strex(lines: u64) -> Bits {
    Bits { monitor: 0, scheduler: 20 * (ID + STATE + 1) + 8 + lines * 8, teams: 30 * MEMBER }
}

/// ADDICT with a table of `points`: three lines and a core each.
pub fn addict(points: u64) -> Bits {
    Bits { monitor: 2 * LINE, scheduler: points * (3 * LINE + 8), teams: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_thesis() {
        let of = slicc(16, 4, 2048);
        assert_eq!((of.monitor, of.scheduler, of.teams), (2208, 1920, 3600));
        assert_eq!((of.total(), of.bytes()), (7728, 966.0));
        let of = strex(512);
        assert_eq!((of.monitor, of.scheduler, of.teams), (0, 5324, 1800));
        assert_eq!(of.bytes(), 890.5);
        let of = addict(40);
        assert_eq!((of.monitor, of.scheduler, of.total(), of.bytes()), (116, 7280, 7396, 924.5));
    }
}
