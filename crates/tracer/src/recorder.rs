//! What happens when the guest runs: the events of each thread.

use crate::calls::*;
use crate::output::{self, Done};
use crate::{AGAIN, BEGUN, CHOSEN, ENDED, FULL, SELF, settings};
use std::cell::UnsafeCell;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use trace::code::{END, TASK, TRANSACTION};
use trace::event::{Counts, Encoder, Event};

/// What a callback knows about a block.
pub struct BlockInfo {
    pub number: u32,
    pub instructions: u64,
    /// It is one `rep` instruction.
    pub repeats: bool,
}

/// One thread of the guest. It records while a task runs of which the transaction was chosen.
#[derive(Default)]
struct Recorder {
    events: Encoder,
    on: bool,
    task: u32,
    /// The tasks of chosen transactions that have not ended, with their counts.
    open: Vec<(u32, Counts)>,
    /// The counts of the transaction that runs.
    counts: Counts,
    /// The block before.
    block: Option<u32>,
    done: Option<Arc<Done>>,
}

thread_local! {
    static RECORDER: UnsafeCell<Recorder> = UnsafeCell::default();
}

/// Runs `f` on the thread's recorder. Callbacks do not nest, so there is no other reference to it.
#[inline(always)]
fn with(f: impl FnOnce(&mut Recorder)) {
    // SAFETY: the recorder is the thread's own, and `f` never calls `with`.
    RECORDER.with(|recorder| f(unsafe { &mut *recorder.get() }));
}

pub extern "C" fn on_block(_cpu: c_uint, user: *mut c_void) {
    // SAFETY: the user data of this callback is a leaked `BlockInfo`.
    let block = unsafe { &*user.cast::<BlockInfo>() };
    with(|r| {
        if !r.on {
            return;
        }
        if block.repeats && r.block == Some(block.number) {
            r.counts.repeats += 1;
            return;
        }
        r.block = Some(block.number);
        r.counts.instructions += block.instructions;
        r.events.push(Event::Block(block.number));
    });
}

pub extern "C" fn on_access(_cpu: c_uint, info: u32, address: u64, _user: *mut c_void) {
    with(|r| {
        if !r.on {
            return;
        }
        // SAFETY: `info` is what qemu passed to this callback.
        let (store, shift) = unsafe { (qemu_plugin_mem_is_store(info), qemu_plugin_mem_size_shift(info)) };
        let (first, last) = (address >> 6, (address + (1 << shift) - 1) >> 6);
        *(if store { &mut r.counts.stores } else { &mut r.counts.loads }) += 1;
        let event = |line| if store { Event::Store(line) } else { Event::Load(line) };
        r.events.push(event(first));
        if last != first {
            r.events.push(event(last));
        }
    });
}

/// A mark without a value.
pub extern "C" fn on_place(_cpu: c_uint, user: *mut c_void) {
    let code = user.addr() as u16;
    with(|r| match code {
        code if code == TASK | END => r.leave(),
        code if code == TRANSACTION | END => r.end(),
        code if r.on => r.events.push(Event::Mark(code)),
        _ => {}
    });
}

/// A mark with a value, which was just stored at `address`.
pub extern "C" fn on_value(_cpu: c_uint, _info: u32, address: u64, user: *mut c_void) {
    // SAFETY: the guest has just stored a word there, and its addresses are those of this process.
    let value = unsafe { (address as *const u64).read_unaligned() };
    with(|r| match user.addr() as u16 {
        TASK => r.enter(value as u32),
        TRANSACTION => {
            // SAFETY: the mark's value is the address of a `&'static str`.
            let kind = unsafe { *(value as *const &'static str) };
            r.begin(kind, address >> 6);
        }
        _ => {}
    });
}

impl Recorder {
    /// A task is polled.
    fn enter(&mut self, task: u32) {
        self.task = task;
        let Some((_, counts)) = self.open.iter().find(|(open, _)| *open == task) else { return };
        self.counts = *counts;
        self.block = None;
        self.on = true;
        self.events.push(Event::Task(task));
    }

    /// The poll ends.
    fn leave(&mut self) {
        if self.on
            && let Some((_, counts)) = self.open.iter_mut().find(|(open, _)| *open == self.task)
        {
            *counts = self.counts;
        }
        self.on = false;
    }

    fn begin(&mut self, kind: &'static str, stack: u64) {
        let before = BEGUN.fetch_add(1, Relaxed);
        if !FULL.load(Relaxed) {
            if before + 1 == settings().skip
                && let Some(again) = AGAIN.get()
            {
                FULL.store(true, Relaxed);
                // SAFETY: the number is this plugin's; this is the only reset, out of code without
                // callbacks for accesses.
                unsafe { qemu_plugin_reset(SELF.load(Relaxed), *again) };
            }
            return;
        }
        let Some(kind) = output::choose(kind) else { return };
        self.done.get_or_insert_with(output::new_thread);
        self.open.retain(|(task, _)| *task != self.task);
        self.open.push((self.task, Counts::default()));
        self.counts = Counts::default();
        self.block = None;
        self.on = true;
        self.events.push(Event::Task(self.task));
        self.events.push(Event::Begin { kind, stack });
    }

    fn end(&mut self) {
        if !self.on {
            return;
        }
        self.on = false;
        self.open.retain(|(task, _)| *task != self.task);
        self.events.push(Event::End(self.counts));
        if let Some(done) = &self.done {
            done.add(&mut self.events.bytes);
        }
        if ENDED.fetch_add(1, Relaxed) + 1 == settings().count && CHOSEN.load(Relaxed) >= settings().count {
            output::finish();
            // SAFETY: ends the process at once, without the exit handlers of qemu or the guest.
            unsafe { _exit(0) };
        }
    }
}
