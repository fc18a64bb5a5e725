//! Lock names and lock modes.
//!
//! A *table mode* is one of the six modes of multi-granularity locking. A *key mode* has two
//! independent parts (orthogonal key-range locking, Graefe 2010): the access to the row with this
//! key, and the access to the open gap between this key and the key before it. Two key modes are
//! compatible if both parts are. One byte holds either kind, so compatibility is a bit test: bit
//! `b` of `COMPATIBLE[a]`.
//!
//! ```text
//! keys of an index   10        20        30
//!                        gap   ^ a lock on 20 covers the row 20 and the gap (10, 20)
//! ```

use base::TableId;
use std::fmt;

/// The name of a lock: a *granule* (a table, or all keys with one prefix), a single key of an
/// index, or the gap after the last key. Granules take table modes. A name beneath a granule is
/// locked after an intention on the granule.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockName {
    pub(crate) space: u32,
    pub(crate) key: u64,
}

const KEY_SPACE: u32 = 1 << 16;
const END_SPACE: u32 = 2 << 16;
/// This and the seven spaces above it: one per length of the prefix.
const PREFIX_SPACE: u32 = 3 << 16;

impl LockName {
    /// A whole table; takes table modes.
    #[inline]
    pub const fn table(table: TableId) -> LockName {
        LockName { space: table.0 as u32, key: 0 }
    }

    /// The key of `index` (a table's primary key or a secondary index) that hashes to `hash`; takes
    /// key modes. Two keys with one hash share a lock: the cost is a false conflict, never lost
    /// isolation.
    #[inline]
    pub const fn key(index: TableId, hash: u64) -> LockName {
        LockName { space: KEY_SPACE | index.0 as u32, key: hash }
    }

    /// The gap after the last key of `index`; takes key modes with the row part `None`.
    #[inline]
    pub const fn end(index: TableId) -> LockName {
        LockName { space: END_SPACE | index.0 as u32, key: 0 }
    }

    /// All keys of `index` of which the first `parts` columns hash to `hash`; takes table modes. In
    /// the paths of [`acquire_below`](crate::LockTable::acquire_below) a prefix lies beneath the
    /// table and shorter prefixes, and above its keys.
    ///
    /// # Panics
    /// Unless `1 <= parts <= 8`.
    #[inline]
    pub const fn prefix(index: TableId, parts: u8, hash: u64) -> LockName {
        assert!(parts >= 1 && parts <= 8, "a prefix has one to eight columns");
        LockName { space: (PREFIX_SPACE + ((parts as u32 - 1) << 16)) | index.0 as u32, key: hash }
    }

    /// Whether this names a whole table.
    #[inline]
    pub const fn is_table(self) -> bool {
        self.space < KEY_SPACE
    }

    /// Whether this names a table or a prefix, and so takes table modes.
    #[inline]
    pub const fn is_granule(self) -> bool {
        self.space < KEY_SPACE || self.space >= PREFIX_SPACE
    }

    /// The table that it names, or the index (a table's primary key included) to which its key or
    /// gap belongs.
    pub const fn place(self) -> TableId {
        TableId(self.space as u16)
    }

    /// A hash of the name.
    #[inline]
    pub fn mix(self) -> u64 {
        (self.key ^ u64::from(self.space).wrapping_mul(0xd6e8_feb8_6659_fd93))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.space & 0xffff;
        match self.space & !0xffff {
            0 => write!(f, "table {of}"),
            KEY_SPACE => write!(f, "key {:016x} of index {of}", self.key),
            END_SPACE => write!(f, "end of index {of}"),
            prefix => {
                let parts = ((prefix - PREFIX_SPACE) >> 16) + 1;
                write!(f, "prefix {:016x} of {parts} columns of index {of}", self.key)
            }
        }
    }
}

/// The part of a key mode that concerns the row with the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    None,
    /// The row is read.
    S,
    /// The row is read and may be written later. Compatible with readers, not with another `U`.
    U,
    /// The row is written.
    X,
}

/// The part of a key mode that concerns the gap before the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    None,
    /// The gap was found empty and must stay empty.
    S,
    /// A key is being inserted into the gap. Compatible with other inserters.
    Insert,
    /// The gap is owned: excludes readers and inserters.
    X,
}

/// A table mode or a key mode. [`Mode::NONE`] holds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Mode(pub(crate) u8);

/// Key modes are `row * 4 + gap` (0..16), table modes follow.
const MODES: usize = 22;

impl Mode {
    pub const NONE: Mode = Mode(0);
    /// Rows will be read.
    pub const IS: Mode = Mode(16);
    /// Rows will be written.
    pub const IX: Mode = Mode(17);
    /// The table is read.
    pub const S: Mode = Mode(18);
    /// The table is read and some rows are written.
    pub const SIX: Mode = Mode(19);
    /// The table is read, and all of it may be written later.
    pub const U: Mode = Mode(20);
    /// The table is written.
    pub const X: Mode = Mode(21);

    /// All table modes, weakest first (`S` and `IX` are not comparable).
    pub const TABLE: [Mode; 6] = [Mode::IS, Mode::IX, Mode::S, Mode::U, Mode::SIX, Mode::X];

    /// A key mode.
    #[inline]
    pub const fn key(row: Row, gap: Gap) -> Mode {
        Mode(row as u8 * 4 + gap as u8)
    }

    /// Read of a row that is there.
    pub const ROW_S: Mode = Mode::key(Row::S, Gap::None);
    /// Read of a missing key: held on the next key.
    pub const GAP_S: Mode = Mode::key(Row::None, Gap::S);
    /// A key that a scan has met.
    pub const ROW_AND_GAP_S: Mode = Mode::key(Row::S, Gap::S);
    /// Read of a row that may be written later.
    pub const ROW_U: Mode = Mode::key(Row::U, Gap::None);
    /// A key that a scan has met and may write later.
    pub const ROW_U_AND_GAP_S: Mode = Mode::key(Row::U, Gap::S);
    /// Write of a row that is there.
    pub const ROW_X: Mode = Mode::key(Row::X, Gap::None);
    /// Held on the next key while a key is inserted before it.
    pub const GAP_INSERT: Mode = Mode::key(Row::None, Gap::Insert);
    /// Held on the key after a deleted one.
    pub const GAP_X: Mode = Mode::key(Row::None, Gap::X);
    /// An inserted or deleted key.
    pub const ROW_AND_GAP_X: Mode = Mode::key(Row::X, Gap::X);

    /// Whether two transactions may hold these modes on one name at once.
    #[inline]
    pub const fn compatible(self, other: Mode) -> bool {
        COMPATIBLE[self.0 as usize] & other.bit() != 0
    }

    /// The weakest mode that gives the rights of both. Both must be of one kind.
    #[inline]
    pub const fn with(self, other: Mode) -> Mode {
        Mode(SUPREMUM[self.0 as usize][other.0 as usize])
    }

    /// Whether a holder of this mode need not request `other`.
    #[inline]
    pub const fn covers(self, other: Mode) -> bool {
        self.with(other).0 == self.0
    }

    /// Whether this mode protects only reads. Such a lock may be released once the transaction
    /// acquires no more locks.
    pub const fn is_shared(self) -> bool {
        match self.0 {
            16 | 18 | 20 => true,
            17 | 19 | 21 => false,
            key => key / 4 < Row::X as u8 && key % 4 < Gap::Insert as u8,
        }
    }

    /// The least mode required on the granules above before this mode is taken beneath them.
    #[inline]
    pub const fn above(self) -> Mode {
        match self.0 {
            16 | 18 => Mode::IS,
            17 | 19 | 20 | 21 => Mode::IX,
            key if key / 4 <= Row::S as u8 && key % 4 <= Gap::S as u8 => Mode::IS,
            _ => Mode::IX,
        }
    }

    /// Whether a holder of this table mode on a granule need not request the mode `beneath` on a
    /// name inside it.
    ///
    /// `S` does not cover a row's `U`: two holders of `S` would each conclude that only they may go
    /// on to write.
    #[inline]
    pub const fn covers_beneath(self, beneath: Mode) -> bool {
        BENEATH[self.0 as usize] & beneath.bit() != 0
    }

    /// Whether the next transaction of the same locker may inherit this mode.
    #[inline]
    pub(crate) const fn is_inheritable(self) -> bool {
        self.0 == Mode::IS.0 || self.0 == Mode::IX.0 || self.0 == Mode::S.0
    }

    /// This key mode without `Insert` on the gap. `S` together with `Insert` has become `X`, and
    /// stays.
    pub(crate) const fn without_insert(self) -> Mode {
        match self.0 {
            key @ 0..16 if key % 4 == Gap::Insert as u8 => Mode(key - Gap::Insert as u8),
            _ => self,
        }
    }

    /// Whether this is `IS` or `IX`, which never conflict with one another.
    #[inline]
    pub(crate) const fn is_intention(self) -> bool {
        self.0 == Mode::IS.0 || self.0 == Mode::IX.0
    }

    /// Whether some intention mode conflicts with this table mode.
    #[inline]
    pub(crate) const fn is_strong(self) -> bool {
        self.0 >= Mode::S.0
    }

    #[inline]
    pub(crate) const fn bit(self) -> u32 {
        1 << self.0
    }

    /// The modes that conflict with this one, as bits.
    #[inline]
    pub(crate) const fn conflicts(self) -> u32 {
        !COMPATIBLE[self.0 as usize]
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            16 => write!(f, "IS"),
            17 => write!(f, "IX"),
            18 => write!(f, "S"),
            19 => write!(f, "SIX"),
            20 => write!(f, "U"),
            21 => write!(f, "X"),
            m => write!(
                f,
                "({},{})",
                ["-", "S", "U", "X"][m as usize / 4],
                ["-", "S", "I", "X"][m as usize % 4]
            ),
        }
    }
}

const fn rows_agree(a: u8, b: u8) -> bool {
    // S is compatible with S and U. U is compatible with S only, or two upgraders would deadlock.
    a == 0 || b == 0 || (a < 3 && b < 3 && !(a == 2 && b == 2))
}

const fn gaps_agree(a: u8, b: u8) -> bool {
    a == 0 || b == 0 || (a == b && a != 3)
}

const fn tables_agree(a: u8, b: u8) -> bool {
    // For each mode, the compatible modes as bits (IS, IX, S, SIX, U, X from bit 0).
    const WITH: [u8; 6] = [0b01_1111, 0b00_0011, 0b01_0101, 0b00_0001, 0b00_0101, 0];
    WITH[a as usize] & 1 << b != 0
}

const COMPATIBLE: [u32; 32] = {
    let mut all = [0u32; 32];
    let mut a = 0;
    while a < MODES as u8 {
        let mut b = 0;
        while b < MODES as u8 {
            let ok = if a == 0 || b == 0 {
                true
            } else if a < 16 && b < 16 {
                rows_agree(a / 4, b / 4) && gaps_agree(a % 4, b % 4)
            } else {
                a >= 16 && b >= 16 && tables_agree(a - 16, b - 16)
            };
            all[a as usize] |= (ok as u32) << b;
            b += 1;
        }
        a += 1;
    }
    all
};

/// For each mode of a granule, the modes that need not be requested beneath it.
const BENEATH: [u32; 32] = {
    const fn covered(granule: Mode, beneath: u8) -> bool {
        let (row, intent) = match granule.0 {
            21 => return true,
            19 | 20 => (Row::U as u8, Mode::U.0),
            18 => (Row::S as u8, Mode::S.0),
            _ => return beneath == 0,
        };
        match beneath {
            0..16 => beneath / 4 <= row && beneath % 4 <= Gap::S as u8,
            _ => beneath == Mode::IS.0 || beneath == Mode::S.0 || beneath == intent,
        }
    }
    let mut all = [0u32; 32];
    let mut granule = 0;
    while granule < MODES as u8 {
        let mut beneath = 0;
        while beneath < MODES as u8 {
            all[granule as usize] |= (covered(Mode(granule), beneath) as u32) << beneath;
            beneath += 1;
        }
        granule += 1;
    }
    all
};

const fn key_supremum(a: u8, b: u8) -> u8 {
    let (ra, rb, ga, gb) = (a / 4, b / 4, a % 4, b % 4);
    let row = if ra > rb { ra } else { rb };
    // S and Insert together are more than either: only X has both rights.
    let gap = if ga == gb || gb == 0 {
        ga
    } else if ga == 0 {
        gb
    } else {
        3
    };
    row * 4 + gap
}

const fn table_supremum(a: Mode, b: Mode) -> Mode {
    const fn rank(m: Mode) -> u8 {
        match m.0 {
            16 => 0,
            17 | 18 => 1,
            20 => 2,
            19 => 3,
            _ => 4,
        }
    }
    let (low, high) = if rank(a) <= rank(b) { (a, b) } else { (b, a) };
    match (low.0, high.0) {
        (17, 18) | (18, 17) | (17, 20) => Mode::SIX,
        _ => high,
    }
}

const SUPREMUM: [[u8; 32]; 32] = {
    let mut all = [[0u8; 32]; 32];
    let mut a = 0;
    while a < MODES as u8 {
        let mut b = 0;
        while b < MODES as u8 {
            all[a as usize][b as usize] = if a == 0 {
                b
            } else if b == 0 {
                a
            } else if a < 16 && b < 16 {
                key_supremum(a, b)
            } else if a >= 16 && b >= 16 {
                table_supremum(Mode(a), Mode(b)).0
            } else {
                // The kinds are never mixed on one name (asserted on each request).
                Mode::X.0
            };
            b += 1;
        }
        a += 1;
    }
    all
};
