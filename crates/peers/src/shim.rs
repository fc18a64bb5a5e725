//! Engines with a C interface, through the common interface of `engines/peer.h`.

use crate::contestant::Commits;
use crate::fault::PeerFault;
use crate::peer::{self, Intent};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use txn::{Flow, Inserted};

#[repr(C)]
#[derive(Clone, Copy)]
struct Bytes {
    at: *const u8,
    len: usize,
}

type Visit = unsafe extern "C" fn(*mut c_void, Bytes, Bytes) -> c_int;

/// `struct peer_ops`.
#[repr(C)]
pub struct Ops {
    open: unsafe extern "C" fn(*const c_char, c_uint, c_int, *mut *mut c_void) -> c_int,
    close: unsafe extern "C" fn(*mut c_void),
    session: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    end: unsafe extern "C" fn(*mut c_void),
    begin: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    get: unsafe extern "C" fn(*mut c_void, c_uint, Bytes, c_int, *mut Bytes) -> c_int,
    put: unsafe extern "C" fn(*mut c_void, c_uint, Bytes, Bytes, c_int) -> c_int,
    scan: unsafe extern "C" fn(*mut c_void, c_uint, Visit, *mut c_void) -> c_int,
    commit: unsafe extern "C" fn(*mut c_void) -> c_int,
    rollback: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    static peer_lmdb: Ops;
    static peer_wiredtiger: Ops;
    static peer_berkeleydb: Ops;
    static peer_sqlite: Ops;
    static peer_rocksdb: Ops;
    fn peer_reason() -> *const c_char;
}

/// The engine's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Lmdb,
    WiredTiger,
    BerkeleyDb,
    Sqlite,
    RocksDb,
}

impl Kind {
    fn ops(self) -> &'static Ops {
        // SAFETY: constants of the C files, never written.
        unsafe {
            match self {
                Kind::Lmdb => &peer_lmdb,
                Kind::WiredTiger => &peer_wiredtiger,
                Kind::BerkeleyDb => &peer_berkeleydb,
                Kind::Sqlite => &peer_sqlite,
                Kind::RocksDb => &peer_rocksdb,
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Lmdb => "lmdb",
            Kind::WiredTiger => "wiredtiger",
            Kind::BerkeleyDb => "berkeleydb",
            Kind::Sqlite => "sqlite",
            Kind::RocksDb => "rocksdb",
        }
    }
}

/// The result of a call that may find no row, or a row too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Yes,
    No,
    Exists,
}

/// Converts a result code of `peer.h`.
fn outcome(kind: Kind, code: c_int) -> Result<Found, PeerFault> {
    match code {
        0 => Ok(Found::Yes),
        1 => Ok(Found::No),
        2 => Ok(Found::Exists),
        3 => Err(PeerFault::Conflict),
        // SAFETY: a NUL-terminated string of this thread, copied before its next call.
        _ => Err(fault(kind, unsafe { CStr::from_ptr(peer_reason()) }.to_string_lossy().into_owned())),
    }
}

fn fault(kind: Kind, what: String) -> PeerFault {
    PeerFault::Engine { engine: kind.name(), what }
}

/// An open engine.
pub struct Shim {
    kind: Kind,
    raw: *mut c_void,
}

// SAFETY: `peer.h` requires each engine to be usable by several threads, and not only by the thread
// that opened it.
unsafe impl Send for Shim {}
// SAFETY: as above.
unsafe impl Sync for Shim {}

impl Shim {
    /// Opens (or creates) a database in `dir`.
    ///
    /// # Errors
    /// The engine's own message.
    pub fn open(kind: Kind, dir: &Path, tables: usize, commits: Commits) -> Result<Shim, PeerFault> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|e| fault(kind, e.to_string()))?;
        let mut shim = Shim { kind, raw: null_mut() };
        // SAFETY: a NUL-terminated path and a place for the engine, both valid for the call.
        let code = unsafe {
            (kind.ops().open)(
                path.as_ptr(),
                tables as c_uint,
                c_int::from(commits == Commits::Synced),
                &mut shim.raw,
            )
        };
        outcome(kind, code).map(|_| shim)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: closed once; every session borrowed the engine and has ended.
            unsafe { (self.kind.ops().close)(self.raw) }
        }
    }
}

impl peer::Engine for Shim {
    type Session<'a> = Session<'a>;

    fn session(&self) -> Result<Session<'_>, PeerFault> {
        let mut session = Session { kind: self.kind, raw: null_mut(), row: Vec::new(), engine: PhantomData };
        // SAFETY: an open engine and a place for the session.
        let code = unsafe { (self.kind.ops().session)(self.raw, &mut session.raw) };
        outcome(self.kind, code).map(|_| session)
    }
}

/// One thread's session.
pub struct Session<'a> {
    kind: Kind,
    raw: *mut c_void,
    /// Buffer for the row being updated.
    row: Vec<u8>,
    engine: PhantomData<&'a Shim>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: ended once, while its engine is open.
            unsafe { (self.kind.ops().end)(self.raw) }
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes { at: bytes.as_ptr(), len: bytes.len() }
    }
}

impl Bytes {
    /// # Safety
    /// The bytes must stay valid and unchanged for as long as the caller uses the slice.
    unsafe fn slice<'a>(self) -> &'a [u8] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl Session<'_> {
    /// The row stays valid until the session's next call. The result borrows the session mutably,
    /// so there is no such call meanwhile.
    fn get(&mut self, table: usize, key: &[u8], intent: Intent) -> Result<Option<&[u8]>, PeerFault> {
        let mut row = Bytes { at: std::ptr::null(), len: 0 };
        let for_update = c_int::from(intent == Intent::Writes);
        // SAFETY: a live session with a transaction; key and row are valid for the call.
        let code =
            unsafe { (self.kind.ops().get)(self.raw, table as c_uint, key.into(), for_update, &mut row) };
        match outcome(self.kind, code)? {
            // SAFETY: `peer.h`: valid until the next call.
            Found::Yes => Ok(Some(unsafe { row.slice() })),
            _ => Ok(None),
        }
    }

    fn put(&mut self, table: usize, key: &[u8], row: &[u8], fresh: c_int) -> Result<Found, PeerFault> {
        // SAFETY: a live session with a transaction; engines copy key and row.
        let code = unsafe { (self.kind.ops().put)(self.raw, table as c_uint, key.into(), row.into(), fresh) };
        outcome(self.kind, code)
    }
}

impl Session<'_> {
    fn visit_all<F: FnMut(&[u8], &[u8]) -> Flow>(&mut self, table: usize, mut f: F) -> Result<(), PeerFault> {
        /// # Safety
        /// `context` is the `F` of the scan under way; key and row are valid for the call.
        unsafe extern "C" fn visit<F: FnMut(&[u8], &[u8]) -> Flow>(
            context: *mut c_void,
            key: Bytes,
            row: Bytes,
        ) -> c_int {
            // SAFETY: this function's conditions.
            let (f, key, row) = unsafe { (&mut *context.cast::<F>(), key.slice(), row.slice()) };
            c_int::from(f(key, row) == Flow::Enough)
        }
        let context = (&raw mut f).cast();
        // SAFETY: a live session with a transaction; `f` lives until the call returns, and has no
        // other use meanwhile.
        let code = unsafe { (self.kind.ops().scan)(self.raw, table as c_uint, visit::<F>, context) };
        outcome(self.kind, code).map(drop)
    }
}

impl peer::Session for Session<'_> {
    fn begin(&mut self, intent: Intent) -> Result<(), PeerFault> {
        // SAFETY: a live session without a transaction.
        let code = unsafe { (self.kind.ops().begin)(self.raw, c_int::from(intent == Intent::Writes)) };
        outcome(self.kind, code).map(drop)
    }

    fn read<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PeerFault> {
        Ok(self.get(table, key, Intent::Reads)?.map(f))
    }

    fn update<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<Option<R>, PeerFault> {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        match self.get(table, key, Intent::Writes)? {
            Some(found) => row.extend_from_slice(found),
            None => return Ok(None),
        }
        let out = f(&mut row);
        let put = self.put(table, key, &row, 0);
        self.row = row;
        put.map(|_| Some(out))
    }

    fn insert(&mut self, table: usize, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault> {
        Ok(match self.put(table, key, row, 1)? {
            Found::Exists => Inserted::Exists,
            Found::Yes | Found::No => Inserted::Done,
        })
    }

    fn scan(&mut self, table: usize, f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault> {
        self.visit_all(table, f)
    }

    fn commit(&mut self) -> Result<(), PeerFault> {
        // SAFETY: a live session with a transaction.
        outcome(self.kind, unsafe { (self.kind.ops().commit)(self.raw) }).map(drop)
    }

    fn rollback(&mut self) -> Result<(), PeerFault> {
        // SAFETY: a live session with a transaction.
        outcome(self.kind, unsafe { (self.kind.ops().rollback)(self.raw) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Engine, Session};

    const ALL: [Kind; 5] = [Kind::Lmdb, Kind::WiredTiger, Kind::BerkeleyDb, Kind::Sqlite, Kind::RocksDb];

    fn key(n: i64) -> base::Key {
        base::Key::new().i64(n)
    }

    fn rows(session: &mut impl Session, table: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = vec![];
        session.begin(Intent::Reads).unwrap();
        session
            .scan(table, |key, row| {
                rows.push((key.to_vec(), row.to_vec()));
                Flow::More
            })
            .unwrap();
        session.commit().unwrap();
        rows
    }

    #[test]
    fn what_is_committed_stays_and_what_is_rolled_back_does_not() {
        for kind in ALL {
            for commits in [Commits::Unsynced, Commits::Synced] {
                let dir = tempfile::tempdir().unwrap();
                let engine = Shim::open(kind, dir.path(), 2, commits).unwrap();
                let mut s = engine.session().unwrap();
                s.begin(Intent::Writes).unwrap();
                assert_eq!(s.insert(0, &key(1), b"one").unwrap(), Inserted::Done, "{kind:?}");
                assert_eq!(s.insert(1, &key(1), b"other").unwrap(), Inserted::Done, "{kind:?}");
                s.commit().unwrap();
                s.begin(Intent::Writes).unwrap();
                assert_eq!(s.insert(0, &key(1), b"two").unwrap(), Inserted::Exists, "{kind:?}");
                s.update(0, &key(1), |row| row[0] = b'x').unwrap();
                assert_eq!(s.update(0, &key(-1), |_| ()).unwrap(), None, "{kind:?}");
                s.rollback().unwrap();
                s.begin(Intent::Writes).unwrap();
                assert_eq!(s.read(0, &key(1), <[u8]>::to_vec).unwrap().unwrap(), b"one", "{kind:?}");
                s.update(0, &key(1), |row| row[0] = b'O').unwrap();
                s.insert(0, &key(-7), b"minus").unwrap();
                s.commit().unwrap();
                drop(s);
                drop(engine);
                let engine = Shim::open(kind, dir.path(), 2, commits).unwrap();
                let mut s = engine.session().unwrap();
                let kept = [(-7, b"minus".to_vec()), (1, b"One".to_vec())].map(|(k, r)| (key(k).to_vec(), r));
                assert_eq!(rows(&mut s, 0), kept, "{kind:?}");
                assert_eq!(rows(&mut s, 1).len(), 1, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_place_that_is_no_directory_is_an_error_with_a_reason() {
        for kind in ALL {
            let file = tempfile::NamedTempFile::new().unwrap();
            let Err(PeerFault::Engine { what, .. }) =
                Shim::open(kind, &file.path().join("x/y"), 1, Commits::Unsynced)
            else {
                panic!("{kind:?} opened a file's child")
            };
            assert!(what.len() > 10, "{kind:?}: {what}");
        }
    }
}
