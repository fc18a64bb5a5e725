//! Terms of the machine that take less than a second to measure: a load from memory, and a flush.

use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Cells of the chase, of 64 bytes each: 64 MiB, more than the caches of a core and its share of an
/// L3.
const LINES: usize = 1 << 20;
/// Loads that are timed.
const LOADS: usize = 1 << 20;
/// Bytes of a flush: a block of the log.
const BLOCK: usize = 4096;
/// The time in which flushes are counted.
const FLUSHING: Duration = Duration::from_millis(300);

/// A line of memory that names the next one.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Cell(u32);

/// ns of a load that no cache holds. Each load needs the result of the one before it, in an order
/// in which the processor cannot fetch ahead.
pub fn memory_ns() -> f64 {
    let mut cells: Vec<Cell> = (0..LINES as u32).map(Cell).collect();
    // Sattolo's algorithm: one cycle over all cells.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for at in (1..LINES).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = ((state >> 33) as usize) % at;
        cells.swap(at, other);
    }
    let begun = Instant::now();
    let mut at = 0_u32;
    for _ in 0..LOADS {
        at = cells[at as usize].0;
    }
    black_box(at);
    begun.elapsed().as_secs_f64() * 1e9 / LOADS as f64
}

/// ns of writing 4 KiB to a file in `dir` and flushing it: the median. `None` if the directory
/// takes no file.
pub fn flush_ns(dir: &Path) -> Option<f64> {
    let mut file = tempfile::tempfile_in(dir).ok()?;
    let block = [7_u8; BLOCK];
    let mut all = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < FLUSHING || all.len() < 3 {
        let before = Instant::now();
        file.seek(SeekFrom::Start((all.len() % 256 * BLOCK) as u64)).ok()?;
        file.write_all(&block).ok()?;
        file.sync_data().ok()?;
        all.push(before.elapsed().as_secs_f64() * 1e9);
    }
    Some(advisor::race::median(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_time_and_so_does_a_flush() {
        let load = memory_ns();
        assert!(load > 0.5 && load < 1e5, "{load}");
        let dir = tempfile::tempdir().unwrap();
        assert!(flush_ns(dir.path()).unwrap() > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(flush_ns(&dir.path().join("missing")), None);
    }
}
