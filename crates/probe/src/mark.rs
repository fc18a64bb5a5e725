//! Marks in the machine code: where a transaction, an operation, a commit or the turn of a task
//! begins and ends, for a trace of instructions (`atoll trace`).
//!
//! ```text
//!   a place   nop  [rax + rax + 0x4174_cccc]     8 bytes: 0f 1f 84 00, then the displacement
//!   a value   mov  [reg + 0x4174_cccc], reg      8 bytes: REX.W 89 /r, then the displacement
//! ```
//!
//! The displacement holds the code `cccc` of the mark. A tracer recognises a mark by its bytes, so
//! a trace is taken of the very binary that is measured. Untraced, a place is one no-operation and
//! a value one store to the stack. A transaction passes some sixty of them in ten thousand
//! instructions or more. Other processors than x86-64 have no marks.

#![allow(unsafe_code)]

/// The upper half of the displacement of every mark: `At`.
pub const MAGIC: u32 = 0x4174_0000;
/// The end of what a code begins has this bit, too.
pub const END: u32 = 0x100;

/// A transaction; the value is the address of its kind, a `&str`.
pub const TRANSACTION: u32 = 0x01;
/// From the procedure's end to the end of the log records.
pub const COMMIT: u32 = 0x02;
/// A poll of a task; the value is the task's number.
pub const TASK: u32 = 0x03;

/// The row with a key: an index probe.
pub const READ: u32 = 0x10;
pub const UPDATE: u32 = 0x11;
pub const INSERT: u32 = 0x12;
/// A row without a key.
pub const APPEND: u32 = 0x13;
pub const DELETE: u32 = 0x14;
pub const SCAN: u32 = 0x15;
/// Descents for the reads that follow (`Access::prefetch` of `txn`).
pub const AHEAD: u32 = 0x16;

/// Inside an operation: a look-up in the primary index.
pub const LOOKUP: u32 = 0x20;
/// A request to the lock table.
pub const LOCK: u32 = 0x21;
/// The row of an insert gets its place.
pub const CREATE_RECORD: u32 = 0x22;
/// The key of an insert gets its entry in an index.
pub const CREATE_ENTRY: u32 = 0x23;
/// A page of an index is split.
pub const RESTRUCTURE: u32 = 0x24;
/// A heap gets another page.
pub const ALLOCATE: u32 = 0x25;
/// A scan finds the first rows of its range.
pub const CURSOR: u32 = 0x26;
/// A scan goes on from there.
pub const FETCH: u32 = 0x27;
/// A row is changed in its page.
pub const CHANGE: u32 = 0x28;

/// A part of a transaction between two marks: the drop sets the second one.
#[must_use]
#[derive(Debug)]
pub struct Marked<const CODE: u32>;

impl<const CODE: u32> Drop for Marked<CODE> {
    #[inline(always)]
    fn drop(&mut self) {
        end_of::<CODE>();
    }
}

impl<const CODE: u32> Marked<CODE> {
    /// Ends this part and begins another one.
    #[inline(always)]
    pub fn then<const NEXT: u32>(self) -> Marked<NEXT> {
        drop(self);
        marked::<NEXT>()
    }
}

/// Begins a part of a transaction.
#[inline(always)]
pub fn marked<const CODE: u32>() -> Marked<CODE> {
    place::<CODE>();
    Marked
}

/// Begins a transaction of a kind.
#[inline(always)]
pub fn transaction(kind: &'static str) -> Marked<TRANSACTION> {
    value::<TRANSACTION>(std::ptr::from_ref(&kind).addr());
    Marked
}

/// Begins the poll of a task.
#[inline(always)]
pub fn task(number: usize) -> Marked<TASK> {
    value::<TASK>(number);
    Marked
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn place<const CODE: u32>() {
    // SAFETY: a no-operation, which reads and writes nothing.
    unsafe {
        std::arch::asm!(
            "nop dword ptr [rax + rax + {c}]",
            c = const MAGIC | CODE,
            options(nomem, nostack, preserves_flags)
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn end_of<const CODE: u32>() {
    // SAFETY: as for `place`.
    unsafe {
        std::arch::asm!(
            "nop dword ptr [rax + rax + {c}]",
            c = const MAGIC | CODE | END,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Stores a value to a word of the stack, with an instruction that names the mark. The tracer reads
/// the word where it was stored.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn value<const CODE: u32>(value: usize) {
    let mut word = 0usize;
    let base = std::ptr::from_mut(&mut word).addr().wrapping_sub((MAGIC | CODE) as usize);
    // SAFETY: the displacement and `base` add up to the address of `word`.
    unsafe {
        std::arch::asm!(
            "mov qword ptr [{base} + {c}], {value}",
            base = in(reg) base,
            value = in(reg) value,
            c = const MAGIC | CODE,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn place<const CODE: u32>() {}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn end_of<const CODE: u32>() {}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn value<const CODE: u32>(_: usize) {}
