//! What qemu asks when it translates a block: which of its instructions are marks, and what is
//! called when it runs.

use crate::calls::*;
use crate::recorder::{self, BlockInfo};
use crate::{FULL, output};
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use trace::code::MAGIC;

/// Registers the plugin's callbacks, at its start and after a reset, which forgets them.
pub extern "C" fn register(id: u64) {
    // SAFETY: `id` is this plugin's number, and the callbacks live as long as it.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
}

extern "C" fn on_exit(_id: u64, _user: *mut c_void) {
    output::finish();
}

extern "C" fn on_translation(_id: u64, block: *mut c_void) {
    let full = FULL.load(Relaxed);
    // SAFETY: qemu passes a block that is valid during this call, as its instructions are; their
    // bytes are as many as their size. What is passed as user data is a number, or leaked.
    unsafe {
        let n = qemu_plugin_tb_n_insns(block);
        if full {
            let info: &'static BlockInfo = Box::leak(Box::new(describe(block, n)));
            let user = std::ptr::from_ref(info).cast_mut().cast();
            qemu_plugin_register_vcpu_tb_exec_cb(block, recorder::on_block, NO_REGISTERS, user);
        }
        for i in 0..n {
            let instruction = qemu_plugin_tb_get_insn(block, i);
            let size = qemu_plugin_insn_size(instruction);
            let bytes = std::slice::from_raw_parts(qemu_plugin_insn_data(instruction), size);
            match mark(bytes) {
                Some((Mark::Place, code)) => qemu_plugin_register_vcpu_insn_exec_cb(
                    instruction,
                    recorder::on_place,
                    NO_REGISTERS,
                    code as *mut c_void,
                ),
                Some((Mark::Value, code)) => qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    recorder::on_value,
                    NO_REGISTERS,
                    READS_AND_WRITES,
                    code as *mut c_void,
                ),
                None if full => qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    recorder::on_access,
                    NO_REGISTERS,
                    READS_AND_WRITES,
                    std::ptr::null_mut(),
                ),
                None => {}
            }
        }
    }
}

/// # Safety
/// `block` is a block of `n` instructions that is being translated.
unsafe fn describe(block: *mut c_void, n: usize) -> BlockInfo {
    // SAFETY: the caller's promise.
    unsafe {
        let address = qemu_plugin_tb_vaddr(block);
        let first = qemu_plugin_tb_get_insn(block, 0);
        let last = qemu_plugin_tb_get_insn(block, n - 1);
        let end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) as u64;
        let bytes = std::slice::from_raw_parts(qemu_plugin_insn_data(first), qemu_plugin_insn_size(first));
        BlockInfo {
            number: output::add_block(address, (end - address) as u16, n as u16),
            instructions: n as u64,
            repeats: n == 1 && is_string_operation(bytes),
        }
    }
}

/// Whether an instruction has a `rep` prefix and works on a string.
fn is_string_operation(bytes: &[u8]) -> bool {
    let [0xf2 | 0xf3, rest @ ..] = bytes else { return false };
    let operation = match rest {
        [0x40..=0x4f, operation, ..] | [operation, ..] => *operation,
        [] => return false,
    };
    matches!(operation, 0xa4..=0xa7 | 0xaa..=0xaf)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Place,
    Value,
}

/// The mark that an instruction is, and its code.
fn mark(bytes: &[u8]) -> Option<(Mark, usize)> {
    let (head, displacement) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let (code, magic) = displacement.split_at(2);
    if magic != MAGIC.to_le_bytes() {
        return None;
    }
    let mark = match head {
        [0x0f, 0x1f, 0x84, 0x00] => Mark::Place,
        [0x48..=0x4f, 0x89, ..] => Mark::Value,
        _ => return None,
    };
    Some((mark, usize::from(code[0]) | usize::from(code[1]) << 8))
}
