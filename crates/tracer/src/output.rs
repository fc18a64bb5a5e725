//! The files: blocks, kinds, and the chunks of each thread.

use crate::{BEGUN, CHOSEN, ENDED, settings};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace::chunk::{CHUNK, pack};

/// The events of a thread's ended transactions that are not in its file yet.
pub struct Done {
    state: Mutex<(Vec<u8>, File)>,
}

static THREADS: Mutex<Vec<Arc<Done>>> = Mutex::new(Vec::new());
static BLOCKS: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// The kinds that were seen, with the transactions still to choose of each.
static KINDS: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a block in the file.
const BLOCK_BYTES: usize = 16;

/// Adds a block and returns its number.
pub fn add_block(address: u64, bytes: u16, instructions: u16) -> u32 {
    let mut blocks = locked(&BLOCKS);
    let number = blocks.len() / BLOCK_BYTES;
    blocks.extend(address.to_le_bytes());
    blocks.extend(bytes.to_le_bytes());
    blocks.extend(instructions.to_le_bytes());
    blocks.extend(0u32.to_le_bytes());
    number as u32
}

/// The number of a kind, if a transaction of it is to be recorded.
pub fn choose(kind: &str) -> Option<u32> {
    let mut kinds = locked(&KINDS);
    let number = kinds.iter().position(|(known, _)| known == kind).unwrap_or_else(|| {
        let quota = settings().quota.iter().find(|(of, _)| of == kind);
        let left = if settings().quota.is_empty() { u64::MAX } else { quota.map_or(0, |(_, n)| *n) };
        kinds.push((kind.to_owned(), left));
        kinds.len() - 1
    });
    let left = &mut kinds[number].1;
    if *left == 0 || CHOSEN.load(Relaxed) >= settings().count {
        return None;
    }
    *left -= 1;
    CHOSEN.fetch_add(1, Relaxed);
    Some(number as u32)
}

pub fn new_thread() -> Arc<Done> {
    let mut threads = locked(&THREADS);
    let path = format!("{}.{}", settings().out, threads.len());
    let file = File::create(&path).unwrap_or_else(|problem| give_up(&path, &problem));
    let done = Arc::new(Done { state: Mutex::new((Vec::new(), file)) });
    threads.push(Arc::clone(&done));
    done
}

impl Done {
    /// Takes the events of a transaction.
    pub fn add(&self, events: &mut Vec<u8>) {
        let mut state = locked(&self.state);
        state.0.append(events);
        if state.0.len() >= CHUNK {
            flush(&mut state);
        }
    }
}

fn flush(state: &mut (Vec<u8>, File)) {
    let (events, file) = state;
    for piece in events.chunks(CHUNK) {
        file.write_all(&pack(piece)).unwrap_or_else(|problem| give_up(&settings().out, &problem));
    }
    events.clear();
}

/// Writes all that is left, once.
pub fn finish() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if ONCE.swap(true, Relaxed) {
        return;
    }
    for thread in locked(&THREADS).iter() {
        flush(&mut locked(&thread.state));
    }
    let kinds: String = locked(&KINDS).iter().map(|(kind, _)| format!("{kind}\n")).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    write("blocks", &locked(&BLOCKS));
    write("kinds", kinds.as_bytes());
    write("maps", maps.as_bytes());
    write("done", format!("{} {}\n", BEGUN.load(Relaxed), ENDED.load(Relaxed)).as_bytes());
}

fn write(name: &str, content: &[u8]) {
    let path = format!("{}.{name}", settings().out);
    std::fs::write(&path, content).unwrap_or_else(|problem| give_up(&path, &problem));
}

fn give_up(path: &str, problem: &std::io::Error) -> ! {
    eprintln!("tracer: cannot write {path}: {problem}");
    // SAFETY: ends the process at once; a trace without its files is of no use.
    unsafe { crate::calls::_exit(1) }
}
