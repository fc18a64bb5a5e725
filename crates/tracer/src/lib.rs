//! A plugin of qemu's user mode that records the blocks and data accesses of transactions. It knows
//! transactions by the marks in the machine code (`probe::mark`). `atoll trace` starts it and makes
//! the file from what it leaves.
//!
//! ```text
//!   qemu-x86_64 -plugin libtracer.so,out=PREFIX,skip=N,count=N,quota=KIND:N  PROGRAM ...
//!   PREFIX.0, .1, ...   the chunks of each thread
//!   PREFIX.blocks       blocks: u64 address, u16 bytes, u16 instructions, u32 0
//!   PREFIX.kinds        the kinds of transactions, a line each
//!   PREFIX.maps         the files that are mapped, as in /proc/self/maps
//!   PREFIX.done         begun and recorded transactions
//! ```
//!
//! Until `skip` transactions have begun, only marks are instrumented; then everything is, once.
//! After `count` recorded transactions the process ends here: another change of instrumentation
//! fails in qemu 7.2.
//!
//! Callbacks run on the guest's own thread, so a thread's `Recorder` is its alone. What it has
//! recorded of ended transactions goes to `Done`, under a mutex, where the last thread finds it.

mod calls;
mod output;
mod recorder;
mod settings;
mod translation;

use settings::Settings;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The version of the interface: registers cannot be read in it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// The number under which qemu knows this plugin.
static SELF: AtomicU64 = AtomicU64::new(0);
/// Registers the callbacks anew after a reset.
static AGAIN: OnceLock<extern "C" fn(u64)> = OnceLock::new();
/// Whether blocks and accesses are instrumented.
static FULL: AtomicBool = AtomicBool::new(false);
/// The transactions that have begun, those chosen for recording, and those of them that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static CHOSEN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Called by qemu when it loads the plugin.
///
/// # Safety
/// `argv` points to `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let typed = unsafe { settings::typed(argc, argv) };
    match Settings::parse(&typed) {
        Ok(settings) => _ = SETTINGS.set(settings),
        Err(wrong) => {
            eprintln!("tracer: {wrong}");
            return 1;
        }
    }
    SELF.store(id, std::sync::atomic::Ordering::Relaxed);
    FULL.store(settings().skip == 0, std::sync::atomic::Ordering::Relaxed);
    let _ = AGAIN.set(translation::register);
    translation::register(id);
    0
}

fn settings() -> &'static Settings {
    SETTINGS.get().expect("qemu installs the plugin before it calls it")
}
