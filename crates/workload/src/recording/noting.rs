//! The transactions of this process are noted while they run.
//!
//! **Protocol.** One recorder is there at a time; [`Recorder::start`] puts it into `RECORDER` and
//! then sets `IS_ON`. A worker reads `IS_ON` before each transaction (relaxed: a transaction more
//! or less changes nothing) and takes the lock of `RECORDER` only if it is set: when a transaction
//! begins, and when it has ended, to give its note. Notes belong to their transaction until then,
//! so no lock is held over an await.

use super::note::{Note, Recorded};
use super::ranks::recording;
use super::{Op, Recording};
use base::{Key, TableId};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use txn::erased::ErasedTransaction;
use txn::{
    Abort, Access, Clients, Direction, Effect, Flow, Inserted, Placement, Range, Route, Row, RowMut, StepId,
    Steps, Transaction, Workload,
};

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<Arc<Notes>>> = Mutex::new(None);

/// The run that is recorded, and its notes.
#[derive(Debug)]
struct Notes {
    of: Arc<Recorded>,
    wanted: usize,
    done: Mutex<Vec<Note>>,
}

/// Notes transactions from its start to its end.
#[derive(Debug)]
pub struct Recorder(Arc<Notes>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A note is one push: it is whole, or not there.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether transactions are noted.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The note of a transaction that begins; `None` if it is of another deployment, or the recording
/// has ended since.
pub(crate) fn note<W: Workload>(workload: &W, request: &W::Request) -> Option<Rc<RefCell<Note>>> {
    let notes = lock(&RECORDER).clone()?;
    if notes.of.name != workload.name() {
        return None;
    }
    let (mut home, of) = (None, Arc::clone(&notes.of));
    workload.routes(request, &mut |route| home = home.or(of.site(route)));
    let kind = workload.kind(request);
    Some(Rc::new(RefCell::new(Note { kind, home, phases: Vec::new(), site: None, of })))
}

/// Gives the note of a transaction that has ended well to its recorder.
pub(crate) fn keep(note: Rc<RefCell<Note>>) {
    // The steps of a transaction that has ended are gone, and their hold on the note with them.
    let Some(note) = Rc::into_inner(note).map(RefCell::into_inner) else { return };
    let notes = lock(&RECORDER).clone().filter(|notes| Arc::ptr_eq(&notes.of, &note.of));
    let Some(notes) = notes.filter(|_| note.phases.iter().any(|phase| !phase.is_empty())) else { return };
    let mut done = lock(&notes.done);
    if done.len() < notes.wanted {
        done.push(note);
    }
    if done.len() >= notes.wanted {
        IS_ON.store(false, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Notes the next `wanted` transactions of deployments of `workload` in this process that end
    /// well, without their accesses to the tables `besides`. `None` if another recorder is there.
    pub fn start<W: Workload>(
        workload: &W,
        source: &str,
        wanted: usize,
        besides: &[TableId],
    ) -> Option<Recorder> {
        let of = Arc::new(Recorded {
            name: workload.name(),
            source: source.to_owned(),
            schema: workload.schema(),
            placement: Placement::even(workload.sites(), 1),
            is_routed: workload.clients() == Clients::Routed,
            besides: besides.to_vec(),
        });
        let notes = Arc::new(Notes { of, wanted, done: Mutex::default() });
        let mut present = lock(&RECORDER);
        if present.is_some() {
            return None;
        }
        *present = Some(Arc::clone(&notes));
        IS_ON.store(true, Ordering::Relaxed);
        Some(Recorder(notes))
    }

    /// Transactions that were noted.
    pub fn noted(&self) -> usize {
        lock(&self.0.done).len()
    }

    pub fn is_full(&self) -> bool {
        self.noted() >= self.0.wanted
    }

    /// Ends the recording. `None` if not one transaction that touches a row was noted.
    pub fn finish(self) -> Option<Recording> {
        let notes = std::mem::take(&mut *lock(&self.0.done));
        (!notes.is_empty()).then(|| recording(&self.0.of, &notes))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        IS_ON.store(false, Ordering::Relaxed);
        *lock(&RECORDER) = None;
    }
}

/// A transaction of which the phases are noted.
pub(crate) struct Noting<'a> {
    inner: ErasedTransaction<'a>,
    note: Rc<RefCell<Note>>,
}

impl<'a> Noting<'a> {
    pub(crate) fn new(inner: &'a mut dyn txn::erased::AnyTransaction, note: Rc<RefCell<Note>>) -> Noting<'a> {
        Noting { inner: ErasedTransaction(inner), note }
    }

    fn phase<S: Steps>(&self, steps: S) -> Noted<S> {
        self.note.borrow_mut().phases.push(Vec::new());
        Noted { steps, note: Rc::clone(&self.note) }
    }
}

impl Transaction for Noting<'_> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let noted = self.phase(steps);
        pin!(self.inner.all(noted)).await
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let noted = self.phase(steps);
        pin!(self.inner.last(noted)).await
    }

    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let noted = self.phase(steps);
        pin!(self.inner.last_elsewhere(noted)).await
    }

    async fn hear(&mut self, said: Vec<u8>) -> Result<Vec<u8>, Abort> {
        self.inner.hear(said).await
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }
}

/// The steps of a phase, noted as they run.
struct Noted<S> {
    steps: S,
    note: Rc<RefCell<Note>>,
}

impl<S: Steps> Steps for Noted<S> {
    type Outputs = S::Outputs;
    type Partial = S::Partial;

    fn count(&self) -> usize {
        self.steps.count()
    }

    fn effect(&self) -> Effect {
        self.steps.effect()
    }

    fn effect_of(&self, i: usize) -> Effect {
        self.steps.effect_of(i)
    }

    fn route(&self, i: usize) -> Route {
        self.steps.route(i)
    }

    fn id(&self, i: usize) -> StepId {
        self.steps.id(i)
    }

    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        self.steps.encode(i, out);
    }

    fn partial(&self) -> S::Partial {
        self.steps.partial()
    }

    async fn run<A: Access>(&self, i: usize, access: &mut A, into: &mut S::Partial) -> Result<(), Abort> {
        {
            let mut note = self.note.borrow_mut();
            note.site = note.of.site(self.steps.route(i));
        }
        let mut noting = NotingAccess { inner: access, note: &self.note };
        pin!(self.steps.run(i, &mut noting, into)).await
    }

    fn accept(&self, i: usize, bytes: &[u8], into: &mut S::Partial) -> Result<(), Abort> {
        self.steps.accept(i, bytes, into)
    }

    fn finish(partial: S::Partial) -> S::Outputs {
        S::finish(partial)
    }

    async fn run_all<A: Access>(&self, access: &mut A) -> Result<S::Outputs, Abort> {
        // One by one, so that the site of each is known.
        let mut partial = self.steps.partial();
        for i in 0..self.steps.count() {
            pin!(self.run(i, access, &mut partial)).await?;
        }
        Ok(S::finish(partial))
    }
}

/// Access to rows, noted.
struct NotingAccess<'a, A> {
    inner: &'a mut A,
    note: &'a RefCell<Note>,
}

impl<A> NotingAccess<'_, A> {
    /// A row of so many bytes, or none with this key.
    fn see(&self, op: Op, table: TableId, key: &[u8], bytes: Option<usize>) {
        self.note.borrow_mut().see(op, table, bytes.map(|_| key), (1, bytes));
    }
}

/// The rows of a scan as it goes on.
#[derive(Default)]
struct Visited {
    first: Option<Box<[u8]>>,
    count: u32,
    bytes: usize,
}

impl Visited {
    fn add(&mut self, key: &[u8], bytes: usize) {
        self.first.get_or_insert_with(|| key.into());
        self.count = self.count.saturating_add(1);
        self.bytes = bytes;
    }

    /// An empty scan looks at one place all the same.
    fn note(self, note: &RefCell<Note>, index: TableId) {
        let bytes = self.first.is_some().then_some(self.bytes);
        note.borrow_mut().see(Op::Scan, index, self.first.as_deref(), (self.count.max(1), bytes));
    }
}

/// The scans that visit rows.
macro_rules! scans {
    ($($scan:ident),+) => {
        $(async fn $scan(
            &mut self,
            index: TableId,
            range: Range<'_>,
            direction: Direction,
            mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
        ) -> Result<(), Abort> {
            let mut visited = Visited::default();
            let visit = |key: &[u8], row: Row<'_>| {
                visited.add(key, row.as_bytes().len());
                f(key, row)
            };
            pin!(self.inner.$scan(index, range, direction, visit)).await?;
            visited.note(self.note, index);
            Ok(())
        })+
    };
}

/// The scans that visit keys.
macro_rules! scans_of_keys {
    ($($scan:ident),+) => {
        $(async fn $scan(
            &mut self,
            index: TableId,
            range: Range<'_>,
            direction: Direction,
            mut f: impl FnMut(&[u8]) -> Flow,
        ) -> Result<(), Abort> {
            let mut visited = Visited::default();
            let visit = |key: &[u8]| {
                visited.add(key, 0);
                f(key)
            };
            pin!(self.inner.$scan(index, range, direction, visit)).await?;
            visited.note(self.note, index);
            Ok(())
        })+
    };
}

impl<A: Access> Access for NotingAccess<'_, A> {
    fn enter(&mut self, route: Route) -> Result<(), Abort> {
        self.inner.enter(route)
    }

    fn within(&mut self, sites: Option<std::ops::Range<u32>>) -> Result<(), Abort> {
        self.inner.within(sites)
    }

    fn expect(&mut self, rows: usize) {
        self.inner.expect(rows);
    }

    fn wait_for_locks(&mut self, waits: bool) {
        self.inner.wait_for_locks(waits);
    }

    fn prefetch(&mut self, table: TableId, keys: &[Key]) {
        self.inner.prefetch(table, keys);
    }

    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let mut bytes = None;
        let read = |row: Row<'_>| {
            bytes = Some(row.as_bytes().len());
            f(row)
        };
        let found = pin!(self.inner.read(table, key, read)).await?;
        self.see(Op::Read, table, key, bytes);
        Ok(found)
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        let mut bytes = None;
        let change = |row: &mut RowMut<'_>| {
            bytes = Some(row.row().as_bytes().len());
            f(row)
        };
        let found = pin!(self.inner.update(table, key, change)).await?;
        self.see(Op::Update, table, key, bytes);
        Ok(found)
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let inserted = pin!(self.inner.insert(table, key, row)).await?;
        match inserted {
            Inserted::Done => self.note.borrow_mut().see_change(Op::Insert, table, None, Some(row.len())),
            Inserted::Exists => self.see(Op::Read, table, key, Some(row.len())),
        }
        Ok(inserted)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        pin!(self.inner.append(table, row)).await?;
        self.note.borrow_mut().see_change(Op::Insert, table, None, Some(row.len()));
        Ok(())
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let was_there = pin!(self.inner.delete(table, key)).await?;
        match was_there {
            true => self.note.borrow_mut().see_change(Op::Delete, table, Some(key), None),
            false => self.see(Op::Read, table, key, None),
        }
        Ok(was_there)
    }

    scans!(scan, scan_for_update, look);
    scans_of_keys!(scan_keys, scan_keys_for_update);
}
