//! Pinning threads to CPUs and binding memory to NUMA nodes. Only this file of the project does
//! either.
//!
//! Pinning can be checked, so failing to pin is an error. Binding memory is best effort: containers
//! commonly forbid the calls, and the engine runs correctly without them. So its outcome is a value
//! ([`Binding`]) for the log and the result row.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cpu::{CpuId, NodeId, cpu_list};
use crate::error::PinError;

/// The CPUs that the calling thread may run on, ascending. (Linux' fixed-size mask: CPUs 0 to
/// 1023.)
pub fn allowed_cpus() -> Vec<CpuId> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| CpuId(cpu as u32)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The CPU does not exist or is outside the process' cpuset, or the system refuses. The affinity is
/// then unchanged.
pub fn pin_thread(cpu: CpuId) -> Result<(), PinError> {
    set_affinity(None, "this thread".to_owned(), &[cpu])
}

/// Lets the calling thread run on any of `cpus` (to undo a pin, or to confine a helper thread to an
/// island).
///
/// # Errors
/// As [`pin_thread`].
pub fn pin_thread_to(cpus: &[CpuId]) -> Result<(), PinError> {
    set_affinity(None, "this thread".to_owned(), cpus)
}

/// Confines all present threads of process `pid` to `cpus`; threads that it starts later inherit
/// from theirs. Meant for a child that was just started.
///
/// # Errors
/// As [`pin_thread`], and if the process is gone.
pub fn pin_process(pid: u32, cpus: &[CpuId]) -> Result<(), PinError> {
    let who = || format!("process {pid}");
    let refuse = |reason: String| refused(who(), cpus, reason);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| refuse(e.to_string()))?;
    for task in tasks.flatten() {
        let tid = task.file_name().to_str().and_then(|name| name.parse::<i32>().ok()).and_then(Pid::from_raw);
        let Some(tid) = tid else { continue };
        match set_affinity(Some(tid), who(), cpus) {
            Err(_) if !task.path().exists() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn set_affinity(tid: Option<Pid>, who: String, cpus: &[CpuId]) -> Result<(), PinError> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if cpu.0 as usize >= CpuSet::MAX_CPU {
            return Err(refused(who, cpus, format!("CPU numbers end at {}", CpuSet::MAX_CPU - 1)));
        }
        set.set(cpu.0 as usize);
    }
    sched_setaffinity(tid, &set).map_err(|e| {
        let reason = match e {
            rustix::io::Errno::INVAL => "no such CPU in its cpuset".to_owned(),
            other => io::Error::from(other).to_string(),
        };
        refused(who, cpus, reason)
    })
}

fn refused(who: String, cpus: &[CpuId], reason: String) -> PinError {
    PinError { who, cpus: cpu_list(cpus), reason, allowed: cpu_list(&allowed_cpus()) }
}

/// The outcome of a request for memory on a node.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// New pages come from this node while it has room.
    Bound(NodeId),
    /// The machine has one node or names none, so there is no choice.
    OneNode,
    /// The system refuses; the reason is a clause for a message. A page then comes from the node of
    /// the thread that first touches it, which for pinned workers is the same node.
    Refused(String),
}

/// Requests that pages which the calling thread (and threads that it starts) touches first come
/// from `node`. `None` means that the machine names no node.
///
/// The node is preferred, not demanded. If it is full, remote memory is slower, but with a demanded
/// node the kernel would kill the process.
pub fn bind_thread_memory(node: Option<NodeId>) -> Binding {
    let Some(node) = node else { return Binding::OneNode };
    let Some(mask) = NodeMask::of(node) else { return Binding::Refused(too_large(node)) };
    // SAFETY: set_mempolicy reads `bits()` bits from the mask and keeps no pointer. The mask is
    // live and that long.
    let code =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, mask.ptr(), mask.bits()) };
    answer(code, node)
}

/// Calls `f` with the calling thread [bound](bind_thread_memory) to `node`; threads that `f` starts
/// are bound too. Then restores the thread's policy.
pub fn with_memory_of<R>(node: Option<NodeId>, f: impl FnOnce() -> R) -> R {
    let (mut mode, mut mask): (libc::c_int, _) = (libc::MPOL_DEFAULT, NodeMask([0; MASK_WORDS]));
    // SAFETY: get_mempolicy writes the mode and at most `bits()` bits of the mask, which is that
    // long. Both are live.
    let known = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.0.as_mut_ptr(), mask.bits() - 1, 0, 0)
    };
    if known != 0 || !matches!(bind_thread_memory(node), Binding::Bound(_)) {
        return f();
    }
    let result = f();
    // SAFETY: set_mempolicy reads `bits()` bits from the mask and keeps no pointer. The mask is
    // live and that long.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.ptr(), mask.bits()) };
    result
}

/// Requests that the pages of `area` come from `node`, and moves those already there. Only whole
/// pages inside `area` are affected: the bytes at its ends share pages with their neighbours, and
/// stay with them. `None` means that the machine names no node.
pub fn bind_area(area: &mut [u8], node: Option<NodeId>) -> Binding {
    let Some(node) = node else { return Binding::OneNode };
    let Some(mask) = NodeMask::of(node) else { return Binding::Refused(too_large(node)) };
    let page = rustix::param::page_size();
    let start = (area.as_mut_ptr() as usize).next_multiple_of(page);
    let end = (area.as_mut_ptr() as usize + area.len()) / page * page;
    if start >= end {
        return Binding::Refused("the area holds no whole page".to_owned());
    }
    // SAFETY: the range lies inside `area`, which is borrowed mutably. mbind changes the place of
    // its pages and not their content, reads `bits()` bits from the live mask, and keeps no
    // pointer.
    let code = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            end - start,
            libc::MPOL_PREFERRED,
            mask.ptr(),
            mask.bits(),
            MPOL_MF_MOVE,
        )
    };
    answer(code, node)
}

/// From linux/mempolicy.h (the `libc` crate has the modes but not the flags): also move existing
/// pages.
const MPOL_MF_MOVE: libc::c_uint = 1 << 1;

/// A node mask in the kernel's format. The kernel uses one bit less than it is told, hence `bits()
/// = len + 1`.
struct NodeMask([libc::c_ulong; MASK_WORDS]);

/// 1024 nodes: the kernel's largest MAX_NUMNODES.
const MASK_WORDS: usize = 1024 / libc::c_ulong::BITS as usize;

impl NodeMask {
    fn of(node: NodeId) -> Option<NodeMask> {
        let mut words = [0; MASK_WORDS];
        let bits = libc::c_ulong::BITS;
        *words.get_mut((node.0 / bits) as usize)? |= 1 << (node.0 % bits);
        Some(NodeMask(words))
    }

    fn ptr(&self) -> *const libc::c_ulong {
        self.0.as_ptr()
    }

    fn bits(&self) -> libc::c_ulong {
        (MASK_WORDS * libc::c_ulong::BITS as usize) as libc::c_ulong + 1
    }
}

fn too_large(node: NodeId) -> String {
    format!("node {node} does not fit the kernel's node masks")
}

fn answer(code: libc::c_long, node: NodeId) -> Binding {
    if code == 0 {
        return Binding::Bound(node);
    }
    let error = io::Error::last_os_error();
    let reason = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "memory binding is forbidden here (containers need CAP_SYS_NICE for it)".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel has no memory policies".to_owned(),
        Some(libc::EINVAL) => format!("node {node} is unknown or outside this process' set of nodes"),
        _ => error.to_string(),
    };
    Binding::Refused(reason)
}
