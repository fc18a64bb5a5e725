//! The numbers of marks, as the machine code has them (`probe::mark`; a test of `atoll` compares
//! the two lists).

/// The upper half of the displacement in the instruction of every mark.
pub const MAGIC: u16 = 0x4174;
/// The end of what a code begins has this bit, too.
pub const END: u16 = 0x100;

pub const TRANSACTION: u16 = 0x01;
pub const COMMIT: u16 = 0x02;
pub const TASK: u16 = 0x03;

pub const READ: u16 = 0x10;
pub const UPDATE: u16 = 0x11;
pub const INSERT: u16 = 0x12;
pub const APPEND: u16 = 0x13;
pub const DELETE: u16 = 0x14;
pub const SCAN: u16 = 0x15;
pub const AHEAD: u16 = 0x16;

pub const LOOKUP: u16 = 0x20;
pub const LOCK: u16 = 0x21;
pub const CREATE_RECORD: u16 = 0x22;
pub const CREATE_ENTRY: u16 = 0x23;
pub const RESTRUCTURE: u16 = 0x24;
pub const ALLOCATE: u16 = 0x25;
pub const CURSOR: u16 = 0x26;
pub const FETCH: u16 = 0x27;
pub const CHANGE: u16 = 0x28;

/// Operations of a transaction, with the words of the thesis (section 6.6.1).
pub const OPERATIONS: [(u16, &str); 8] = [
    (READ, "probe"),
    (SCAN, "scan"),
    (UPDATE, "update"),
    (INSERT, "insert"),
    (APPEND, "append"),
    (DELETE, "delete"),
    (AHEAD, "ahead"),
    (COMMIT, "commit"),
];

/// Parts of operations.
pub const PARTS: [(u16, &str); 9] = [
    (LOOKUP, "lookup"),
    (LOCK, "lock"),
    (CREATE_RECORD, "create record"),
    (CREATE_ENTRY, "create index entry"),
    (RESTRUCTURE, "structure modification"),
    (ALLOCATE, "allocate page"),
    (CURSOR, "initialize cursor"),
    (FETCH, "fetch next"),
    (CHANGE, "change"),
];

/// Whether an operation begins with this mark.
pub fn is_operation(code: u16) -> bool {
    code == COMMIT || (READ..=AHEAD).contains(&code)
}

/// The word for an operation or a part of one.
pub fn name(code: u16) -> Option<&'static str> {
    OPERATIONS.iter().chain(&PARTS).find(|(known, _)| *known == code).map(|(_, name)| *name)
}
