//! The functions of qemu that the plugin calls: declarations of version 1 of its interface. They
//! are found in the qemu executable when the plugin is loaded.

use std::ffi::{c_int, c_uint, c_void};

/// A callback reads and writes no register of the guest.
pub const NO_REGISTERS: c_int = 0;
pub const READS_AND_WRITES: c_int = 3;

pub type OnExecution = extern "C" fn(c_uint, *mut c_void);
pub type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: extern "C" fn(u64, *mut c_void));
    pub fn qemu_plugin_register_atexit_cb(id: u64, call: extern "C" fn(u64, *mut c_void), user: *mut c_void);
    pub fn qemu_plugin_reset(id: u64, call: extern "C" fn(u64));
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut c_void,
        call: OnExecution,
        flags: c_int,
        user: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        call: OnExecution,
        flags: c_int,
        user: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        call: OnAccess,
        flags: c_int,
        which: c_int,
        user: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    pub fn qemu_plugin_tb_get_insn(block: *const c_void, i: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_data(instruction: *const c_void) -> *const u8;
    pub fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const c_void) -> u64;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn _exit(code: c_int) -> !;
}
