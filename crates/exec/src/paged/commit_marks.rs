//! How much of the log must be durable before a transaction that wrote nothing is answered.
//!
//! Locks are released before their transaction's commit record is durable. A reader must not tell
//! what a crash could still undo, so its answer waits for the commits that it has seen. With
//! key-range locks each of them has held a lock that conflicts with one of the reader's, on the
//! same name. So names carry the dependency:
//!
//! ```text
//!   writer   append commit record -> raise the mark of each of its locks to c, up to which the log
//!            must be durable for the commit to count -> release the locks
//!   reader   acquire locks -> read -> the largest mark of its locks = its horizon -> release
//! ```
//!
//! | reader's lock | commits that it may have seen |
//! |---|---|
//! | on a key, a gap or the end of an index | those that held X on the row or the gap: its mark |
//! | IS or IX on a table | those that held X on the whole table: its mark |
//! | S, U, SIX or X on a table | also those with IX on it, which leave no mark: the whole log |
//!
//! Why no commit is missed: a deleter holds X on the gap of the next key. If another key comes
//! into that gap later, or the next key goes, the later transaction leaves its own, later mark
//! where the reader will look. A commit counts no sooner than each commit before it (`wal`).
//!
//! Access rules: names share marks by their hash, so a mark may be higher than its names need, and
//! the reader waits longer. Marks never fall. The lock table orders the writer's mark before the
//! reader's look, as it orders the release before the grant.

use base::Lsn;
use locks::{LockName, Locker, Mode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Marks of an instance; 512 KiB.
const MARKS: usize = 1 << 16;

pub(super) struct CommitMarks {
    /// By the hash of a lock's name: the position up to which the log must be durable for the last
    /// commit to count. Empty where answers do not wait, or where transactions run without locks.
    marks: Box<[AtomicU64]>,
    /// The same for the last commit that left no marks.
    floor: AtomicU64,
}

impl CommitMarks {
    pub(super) fn new(kept: bool) -> CommitMarks {
        let marks = if kept { MARKS } else { 0 };
        CommitMarks { marks: (0..marks).map(|_| AtomicU64::new(0)).collect(), floor: AtomicU64::new(0) }
    }

    /// Whether horizons can be told from locks.
    pub(super) fn are_kept(&self) -> bool {
        !self.marks.is_empty()
    }

    fn mark(&self, name: LockName) -> &AtomicU64 {
        &self.marks[(name.mix() >> 32) as usize % MARKS]
    }

    /// To be called between a commit and the release of its locks. The commit counts once the log
    /// is durable up to `commit`.
    pub(super) fn raise(&self, held: &Locker, commit: Lsn) {
        for (name, mode) in held.held() {
            let is_beneath = name.is_granule() && matches!(mode, Mode::IS | Mode::IX);
            if !is_beneath && !mode.is_shared() {
                self.mark(name).fetch_max(commit.0, Relaxed);
            }
        }
    }

    /// To be called in place of [`CommitMarks::raise`] for a commit without locks, or if other
    /// lockers hold its locks.
    pub(super) fn raise_all(&self, commit: Lsn) {
        self.floor.fetch_max(commit.0, Relaxed);
    }

    /// The position up to which the log must be durable for all commits to count that the holder of
    /// these locks can have seen; `None` if that does not follow from its locks.
    pub(super) fn seen(&self, held: &Locker) -> Option<Lsn> {
        let mut seen = self.floor.load(Relaxed);
        for (name, mode) in held.held() {
            if name.is_granule() && !matches!(mode, Mode::IS | Mode::IX) {
                return None;
            }
            seen = seen.max(self.mark(name).load(Relaxed));
        }
        Some(Lsn(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{TableId, hash64};
    use locks::{Acquired, LockTable};

    const TABLE: TableId = TableId(3);

    fn holder(table: &LockTable<latch::SpinRaw>, locks: &[(LockName, Mode)]) -> Locker {
        let mut locker = table.locker();
        for (name, mode) in locks {
            assert!(matches!(table.acquire(&mut locker, *name, *mode), Acquired::Granted), "{name:?}");
        }
        locker
    }

    fn seen_by(
        table: &LockTable<latch::SpinRaw>,
        marks: &CommitMarks,
        locks: &[(LockName, Mode)],
    ) -> Option<Lsn> {
        let mut reader = holder(table, locks);
        let seen = marks.seen(&reader);
        table.release_all(&mut reader);
        seen
    }

    fn key(of: &str) -> LockName {
        LockName::key(TABLE, hash64(of.as_bytes()))
    }

    #[test]
    fn a_reader_has_seen_the_commits_that_held_what_it_holds() {
        let (table, marks) = (LockTable::new(16), CommitMarks::new(true));
        let whole = LockName::table(TABLE);
        let mut writer = holder(
            &table,
            &[(whole, Mode::IX), (key("a"), Mode::ROW_X), (key("b"), Mode::GAP_X), (key("c"), Mode::ROW_S)],
        );
        marks.raise(&writer, Lsn(70));
        table.release_all(&mut writer);
        let seen = |locks: &[(LockName, Mode)]| seen_by(&table, &marks, locks);
        assert_eq!(seen(&[(whole, Mode::IS)]), Some(Lsn(0)));
        assert_eq!(seen(&[(whole, Mode::IS), (key("a"), Mode::ROW_S)]), Some(Lsn(70)));
        assert_eq!(seen(&[(whole, Mode::IS), (key("b"), Mode::ROW_AND_GAP_S)]), Some(Lsn(70)));
        assert_eq!(seen(&[(whole, Mode::IS), (key("c"), Mode::ROW_S)]), Some(Lsn(0)), "it was only read");
        assert_eq!(seen(&[(whole, Mode::S)]), None, "rows of all writers");
    }

    #[test]
    fn a_lock_on_a_whole_table_marks_the_table() {
        let (table, marks) = (LockTable::new(16), CommitMarks::new(true));
        let whole = LockName::table(TABLE);
        let mut writer = holder(&table, &[(whole, Mode::X)]);
        marks.raise(&writer, Lsn(70));
        table.release_all(&mut writer);
        let reader = [(whole, Mode::IS), (key("a"), Mode::ROW_S)];
        assert_eq!(seen_by(&table, &marks, &reader), Some(Lsn(70)));
    }

    #[test]
    fn a_commit_without_locks_counts_for_each_reader_and_marks_never_fall() {
        let (table, marks) = (LockTable::new(16), CommitMarks::new(true));
        marks.raise_all(Lsn(70));
        marks.raise_all(Lsn(60));
        let mut reader = holder(&table, &[(LockName::table(TABLE), Mode::IX), (key("a"), Mode::ROW_X)]);
        assert_eq!(marks.seen(&reader), Some(Lsn(70)));
        marks.raise(&reader, Lsn(90));
        marks.raise(&reader, Lsn(80));
        assert_eq!(marks.seen(&reader), Some(Lsn(90)));
        table.release_all(&mut reader);
    }
}
