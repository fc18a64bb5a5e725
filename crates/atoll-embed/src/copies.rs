//! Backups.

use crate::Error;
use deploy::{Copying, Interrupt};
use std::path::Path;

/// Copies the database in the directory `path`, which must be closed, to `to`: with checksums, into
/// a tar file if the name ends in `.tar`, else into a directory. Returns the number of bytes.
///
/// ```
/// use atoll::Database;
///
/// # fn main() -> Result<(), atoll::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let (path, copy) = (dir.path().join("db"), dir.path().join("db.tar"));
/// # let other = dir.path().join("other");
/// let db = Database::open(&path)?;
/// db.execute("CREATE TABLE t (id int8 PRIMARY KEY)", ())?;
/// assert!(atoll::back_up(&path, &copy).is_err(), "it is open");
/// db.close()?;
/// atoll::back_up(&path, &copy)?;
/// atoll::restore(&copy, &other)?;
/// let db = Database::open(&other)?;
/// assert!(db.query("SELECT id FROM t", ())?.is_empty());
/// # db.close()
/// # }
/// ```
///
/// # Errors
/// [`Error::Usage`] if there is no database, or if `to` exists; [`Error::Failed`] if the database
/// is open, damaged, or cannot be copied. Nothing is left at `to` then.
pub fn back_up(path: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64, Error> {
    watched(|watch| Ok(deploy::back_up(path.as_ref(), to.as_ref(), watch)?.bytes))
}

/// Makes a database of a backup, in a directory that is missing or empty. Every file's checksum is
/// compared first. Returns the number of bytes.
///
/// ```no_run
/// # fn main() -> Result<(), atoll::Error> {
/// atoll::restore("mydb.tar", "./mydb2")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Usage`] if `from` is no backup, or if `path` is taken; [`Error::Failed`] if the backup
/// is damaged, or cannot be copied. Nothing is left at `path` then.
pub fn restore(from: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<u64, Error> {
    watched(|watch| Ok(deploy::restore(from.as_ref(), path.as_ref(), watch)?.bytes))
}

fn watched(copy: impl FnOnce(Copying<'_>) -> Result<u64, Error>) -> Result<u64, Error> {
    copy(Copying { interrupt: &Interrupt::default(), progress: &mut |_, _| {} })
}
