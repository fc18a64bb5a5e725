//! RocksDB's pessimistic transactions (`TransactionDB`), through the C interface of the system's library.
//!
//! Serialisable by strict two-phase locking: a read is a `GetForUpdate` with a shared lock, an update one with an
//! exclusive lock followed by a `Put`; all locks are held to the commit, and no key is looked up that does not exist. Its
//! log is written at every commit and never synced. It is set up to shine: everything in memtables and block cache, no
//! compression, transaction objects reused, values read in place. Tried and slower here, so left out: the preset for point
//! look-ups (its filter costs a reader more than it saves while all keys exist), small memtables, single-writer memtables.
//!
//! Who may do what: [`Rocks`] owns every handle and has one user at a time (`&mut`); RocksDB's own threads touch none
//! of them but the database itself.

mod ffi;

use crate::fault::PeerFault;
use crate::peer::{Peer, PeerTxn};
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use txn::{Flow, Inserted};

const MEMTABLE_BYTES: usize = 256 << 20;
const MEMTABLES: i32 = 4;
const BLOCK_CACHE_BYTES: usize = 1 << 30;

pub struct Rocks {
    db: NonNull<ffi::Db>,
    write: NonNull<ffi::WriteOptions>,
    read: NonNull<ffi::ReadOptions>,
    options: NonNull<ffi::TransactionOptions>,
    /// A transaction that has ended, to be begun again.
    spare: *mut ffi::Transaction,
    /// The row being updated.
    row: Vec<u8>,
}

// SAFETY: no handle is tied to the thread that made it: a database is safe to share, options are plain values, and a
// transaction asks only that one thread at a time uses it, which `&mut` gives.
unsafe impl Send for Rocks {}

fn fault(what: String) -> PeerFault {
    PeerFault::Engine { engine: "rocksdb", what }
}

fn handle<T>(raw: *mut T, what: &str) -> Result<NonNull<T>, PeerFault> {
    NonNull::new(raw).ok_or_else(|| fault(format!("no memory for {what}")))
}

/// Calls `f` with a place for an error message; an error if it was filled.
fn checked<T>(f: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, PeerFault> {
    let mut message = null_mut();
    let out = f(&mut message);
    if message.is_null() {
        return Ok(out);
    }
    // SAFETY: RocksDB sets a message to a NUL-terminated string that it allocated for us.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: the string came from RocksDB's allocator, and nothing refers to it any more.
    unsafe { ffi::rocksdb_free(message.cast()) };
    Err(fault(text))
}

/// # Safety
/// `data` must be valid for reads of `len` bytes, unchanged, for as long as the caller uses the slice.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

impl Rocks {
    /// Opens (or creates) a database in `dir`.
    ///
    /// # Errors
    /// RocksDB's message.
    pub fn open(dir: &Path) -> Result<Rocks, PeerFault> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|e| fault(e.to_string()))?;
        // SAFETY: creates values with RocksDB's defaults, each checked for null before it is used.
        let (options, table, cache, locking, write, read, transaction) = unsafe {
            (
                handle(ffi::rocksdb_options_create(), "options")?,
                handle(ffi::rocksdb_block_based_options_create(), "options")?,
                handle(ffi::rocksdb_cache_create_lru(BLOCK_CACHE_BYTES), "the block cache")?,
                handle(ffi::rocksdb_transactiondb_options_create(), "options")?,
                handle(ffi::rocksdb_writeoptions_create(), "options")?,
                handle(ffi::rocksdb_readoptions_create(), "options")?,
                handle(ffi::rocksdb_transaction_options_create(), "options")?,
            )
        };
        // SAFETY: live handles of the right kinds; the path ends with NUL. The database copies its options, those copy
        // the table's, and the cache is counted by who uses it, so all may be destroyed whether or not it was opened.
        let db = unsafe {
            let raw = options.as_ptr();
            ffi::rocksdb_options_set_create_if_missing(raw, 1);
            ffi::rocksdb_options_set_write_buffer_size(raw, MEMTABLE_BYTES);
            ffi::rocksdb_options_set_max_write_buffer_number(raw, MEMTABLES);
            ffi::rocksdb_options_set_compression(raw, ffi::NO_COMPRESSION);
            ffi::rocksdb_block_based_options_set_block_cache(table.as_ptr(), cache.as_ptr());
            ffi::rocksdb_options_set_block_based_table_factory(raw, table.as_ptr());
            ffi::rocksdb_block_based_options_destroy(table.as_ptr());
            ffi::rocksdb_cache_destroy(cache.as_ptr());
            ffi::rocksdb_writeoptions_set_sync(write.as_ptr(), 0);
            let db = checked(|e| ffi::rocksdb_transactiondb_open(raw, locking.as_ptr(), path.as_ptr(), e));
            ffi::rocksdb_options_destroy(raw);
            ffi::rocksdb_transactiondb_options_destroy(locking.as_ptr());
            db
        };
        let db = handle(db?, "a database")?;
        Ok(Rocks { db, write, read, options: transaction, spare: null_mut(), row: Vec::new() })
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: each handle is live and destroyed once, the transaction before its database.
        unsafe {
            if !self.spare.is_null() {
                ffi::rocksdb_transaction_destroy(self.spare);
            }
            ffi::rocksdb_transactiondb_close(self.db.as_ptr());
            ffi::rocksdb_writeoptions_destroy(self.write.as_ptr());
            ffi::rocksdb_readoptions_destroy(self.read.as_ptr());
            ffi::rocksdb_transaction_options_destroy(self.options.as_ptr());
        }
    }
}

impl Peer for Rocks {
    type Txn<'a> = RocksTxn<'a>;

    fn begin(&mut self) -> Result<RocksTxn<'_>, PeerFault> {
        let old = std::mem::replace(&mut self.spare, null_mut());
        let (db, write, options) = (self.db.as_ptr(), self.write.as_ptr(), self.options.as_ptr());
        // SAFETY: live handles; `old` is null or a transaction of this database that has ended.
        let raw = unsafe { ffi::rocksdb_transaction_begin(db, write, options, old) };
        Ok(RocksTxn { raw: handle(raw, "a transaction")?, rocks: self, state: State::Open })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
}

/// A transaction under way; rolled back when it is dropped uncommitted.
pub struct RocksTxn<'a> {
    raw: NonNull<ffi::Transaction>,
    rocks: &'a mut Rocks,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    Shared,
    Exclusive,
}

/// A value that RocksDB keeps in place for us.
struct Pinned(NonNull<ffi::Slice>);

impl Pinned {
    fn bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: a live slice; what it points to stays pinned and unchanged until it is destroyed.
        unsafe {
            let data = ffi::rocksdb_pinnableslice_value(self.0.as_ptr(), &mut len);
            bytes(data, len)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: a live slice, destroyed once.
        unsafe { ffi::rocksdb_pinnableslice_destroy(self.0.as_ptr()) }
    }
}

impl RocksTxn<'_> {
    fn get(&mut self, key: &[u8], lock: Lock) -> Result<Option<Pinned>, PeerFault> {
        let (txn, read) = (self.raw.as_ptr(), self.rocks.read.as_ptr());
        let exclusive = u8::from(lock == Lock::Exclusive);
        // SAFETY: live handles, an open transaction, a key valid for its length.
        let found = checked(|e| unsafe {
            ffi::rocksdb_transaction_get_pinned_for_update(
                txn,
                read,
                key.as_ptr().cast(),
                key.len(),
                exclusive,
                e,
            )
        });
        Ok(NonNull::new(found?).map(Pinned))
    }

    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<(), PeerFault> {
        let txn = self.raw.as_ptr();
        // SAFETY: an open transaction; key and row are valid for their lengths and copied before the call returns.
        checked(|e| unsafe {
            ffi::rocksdb_transaction_put(
                txn,
                key.as_ptr().cast(),
                key.len(),
                row.as_ptr().cast(),
                row.len(),
                e,
            );
        })
    }
}

impl PeerTxn for RocksTxn<'_> {
    fn read<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PeerFault> {
        Ok(self.get(key, Lock::Shared)?.map(|row| f(row.bytes())))
    }

    fn update<R>(&mut self, key: &[u8], f: impl FnOnce(&mut Vec<u8>) -> R) -> Result<Option<R>, PeerFault> {
        let Some(found) = self.get(key, Lock::Exclusive)? else { return Ok(None) };
        let mut row = std::mem::take(&mut self.rocks.row);
        row.clear();
        row.extend_from_slice(found.bytes());
        drop(found);
        let out = f(&mut row);
        let put = self.put(key, &row);
        self.rocks.row = row;
        put.map(|()| Some(out))
    }

    fn insert(&mut self, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault> {
        if self.get(key, Lock::Exclusive)?.is_some() {
            return Ok(Inserted::Exists);
        }
        self.put(key, row).map(|()| Inserted::Done)
    }

    fn scan(&mut self, mut f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault> {
        // SAFETY: live handles; the iterator is used only while the transaction is open, keys and values only until it
        // moves, and it is destroyed once.
        unsafe {
            let raw = ffi::rocksdb_transaction_create_iterator(self.raw.as_ptr(), self.rocks.read.as_ptr());
            let iterator = handle(raw, "an iterator")?.as_ptr();
            ffi::rocksdb_iter_seek_to_first(iterator);
            while ffi::rocksdb_iter_valid(iterator) != 0 {
                let (mut key_len, mut row_len) = (0, 0);
                let key = ffi::rocksdb_iter_key(iterator, &mut key_len);
                let row = ffi::rocksdb_iter_value(iterator, &mut row_len);
                if f(bytes(key, key_len), bytes(row, row_len)) == Flow::Enough {
                    break;
                }
                ffi::rocksdb_iter_next(iterator);
            }
            let outcome = checked(|e| ffi::rocksdb_iter_get_error(iterator, e));
            ffi::rocksdb_iter_destroy(iterator);
            outcome
        }
    }

    fn commit(mut self) -> Result<(), PeerFault> {
        let txn = self.raw.as_ptr();
        // SAFETY: an open transaction.
        checked(|e| unsafe { ffi::rocksdb_transaction_commit(txn, e) })?;
        self.state = State::Ended;
        Ok(())
    }
}

impl Drop for RocksTxn<'_> {
    fn drop(&mut self) {
        let txn = self.raw.as_ptr();
        let ended = match self.state {
            State::Ended => Ok(()),
            // SAFETY: an open transaction.
            State::Open => checked(|e| unsafe { ffi::rocksdb_transaction_rollback(txn, e) }),
        };
        match ended {
            Ok(()) => self.rocks.spare = txn,
            // SAFETY: a live transaction that nobody refers to after this.
            Err(_) => unsafe { ffi::rocksdb_transaction_destroy(txn) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_stays_and_what_is_dropped_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut rocks = Rocks::open(dir.path()).unwrap();
        let mut txn = rocks.begin().unwrap();
        assert_eq!(txn.insert(b"a", b"1").unwrap(), Inserted::Done);
        assert_eq!(txn.insert(b"a", b"2").unwrap(), Inserted::Exists);
        txn.commit().unwrap();
        let mut txn = rocks.begin().unwrap();
        txn.update(b"a", |row| row.push(b'x')).unwrap();
        assert_eq!(txn.update(b"b", |_| ()).unwrap(), None);
        drop(txn);
        let mut txn = rocks.begin().unwrap();
        assert_eq!(txn.read(b"a", <[u8]>::to_vec).unwrap().unwrap(), b"1");
        txn.update(b"a", |row| row[0] = b'3').unwrap();
        txn.commit().unwrap();
        drop(rocks);
        let mut rocks = Rocks::open(dir.path()).unwrap();
        let mut rows = vec![];
        let mut txn = rocks.begin().unwrap();
        txn.scan(|key, row| {
            rows.push((key.to_vec(), row.to_vec()));
            Flow::More
        })
        .unwrap();
        assert_eq!(rows, [(b"a".to_vec(), b"3".to_vec())]);
    }

    #[test]
    fn a_database_that_is_open_elsewhere_is_an_error_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Rocks::open(dir.path()).unwrap();
        let second = Rocks::open(dir.path());
        assert!(second.is_err_and(|e| e.to_string().contains("lock")));
    }
}
