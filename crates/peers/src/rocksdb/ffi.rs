//! The part of `rocksdb/c.h` (7.8) that is used here. Handles are opaque; every `errptr` is set to a message that
//! [`rocksdb_free`] frees, or left alone.

use std::ffi::{c_char, c_int, c_uchar, c_void};

macro_rules! opaque {
    ($($name:ident),+) => { $(#[repr(C)] pub struct $name { _opaque: [u8; 0] })+ };
}
opaque!(
    Db,
    DbOptions,
    TableOptions,
    Cache,
    TransactionDbOptions,
    TransactionOptions,
    WriteOptions,
    ReadOptions,
    Transaction,
    Slice,
    Iterator
);

/// `rocksdb_no_compression`.
pub const NO_COMPRESSION: c_int = 0;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub fn rocksdb_options_create() -> *mut DbOptions;
    pub fn rocksdb_options_destroy(options: *mut DbOptions);
    pub fn rocksdb_options_set_create_if_missing(options: *mut DbOptions, yes: c_uchar);
    pub fn rocksdb_options_set_write_buffer_size(options: *mut DbOptions, bytes: usize);
    pub fn rocksdb_options_set_max_write_buffer_number(options: *mut DbOptions, number: c_int);
    pub fn rocksdb_options_set_compression(options: *mut DbOptions, kind: c_int);
    pub fn rocksdb_options_set_block_based_table_factory(options: *mut DbOptions, table: *mut TableOptions);
    pub fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    pub fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    pub fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub fn rocksdb_cache_destroy(cache: *mut Cache);

    pub fn rocksdb_transactiondb_options_create() -> *mut TransactionDbOptions;
    pub fn rocksdb_transactiondb_options_destroy(options: *mut TransactionDbOptions);
    pub fn rocksdb_transaction_options_create() -> *mut TransactionOptions;
    pub fn rocksdb_transaction_options_destroy(options: *mut TransactionOptions);
    pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, yes: c_uchar);
    pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);

    pub fn rocksdb_transactiondb_open(
        options: *const DbOptions,
        txn_db_options: *const TransactionDbOptions,
        path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut Db;
    pub fn rocksdb_transactiondb_close(db: *mut Db);

    /// With an `old` transaction that has ended, reuses it.
    pub fn rocksdb_transaction_begin(
        db: *mut Db,
        write: *const WriteOptions,
        options: *const TransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;
    /// Null without an error: there is no such key.
    pub fn rocksdb_transaction_get_pinned_for_update(
        txn: *mut Transaction,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        exclusive: c_uchar,
        errptr: *mut *mut c_char,
    ) -> *mut Slice;
    pub fn rocksdb_transaction_put(
        txn: *mut Transaction,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        errptr: *mut *mut c_char,
    );
    pub fn rocksdb_transaction_commit(txn: *mut Transaction, errptr: *mut *mut c_char);
    pub fn rocksdb_transaction_rollback(txn: *mut Transaction, errptr: *mut *mut c_char);
    pub fn rocksdb_transaction_destroy(txn: *mut Transaction);

    pub fn rocksdb_pinnableslice_value(slice: *const Slice, len: *mut usize) -> *const c_char;
    pub fn rocksdb_pinnableslice_destroy(slice: *mut Slice);

    pub fn rocksdb_transaction_create_iterator(
        txn: *mut Transaction,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    pub fn rocksdb_iter_seek_to_first(iterator: *mut Iterator);
    pub fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    pub fn rocksdb_iter_next(iterator: *mut Iterator);
    pub fn rocksdb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_get_error(iterator: *const Iterator, errptr: *mut *mut c_char);
    pub fn rocksdb_iter_destroy(iterator: *mut Iterator);

    pub fn rocksdb_free(memory: *mut c_void);
}
