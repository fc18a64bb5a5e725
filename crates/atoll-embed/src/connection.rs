//! Connections and transactions.

use crate::pipe::{Outcome, Pipe};
use crate::row::Row;
use crate::{Error, Values};
use sql::{SqlError, SqlState};

/// A session of an open database: SQL statements, one after the other. Each call blocks until its
/// statement has been carried out.
///
/// ```
/// # fn main() -> Result<(), atoll::Error> {
/// let db = atoll::Database::in_memory()?;
/// let mut connection = db.connect()?;
/// connection.batch("CREATE TABLE t (id int8 PRIMARY KEY, name text)")?;
/// connection.execute("INSERT INTO t VALUES (1, 'one')", ())?;
/// let changed = connection.execute("UPDATE t SET name = $2 WHERE id = $1", (1, "uno"))?;
/// assert_eq!(changed, 1);
/// assert_eq!(connection.query_one("SELECT name FROM t", ())?.get::<String>("name")?, "uno");
/// # db.close()
/// # }
/// ```
pub struct Connection {
    pipe: Pipe,
}

impl Connection {
    pub(crate) fn new(pipe: Pipe) -> Connection {
        Connection { pipe }
    }

    /// Runs a statement with its parameters (`$1`, `$2`, ...), and returns the number of rows that
    /// it selected or changed. A statement outside of a transaction is one of its own.
    ///
    /// # Errors
    /// Those of the statement, and `40001` and `40P01` if it met another transaction: see
    /// [`Error::is_transient`].
    pub fn execute(&mut self, text: &str, params: impl Values) -> Result<u64, Error> {
        Ok(self.pipe.run(text, &params.into_values())?.count)
    }

    /// As [`Connection::execute`]; returns the rows.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn query(&mut self, text: &str, params: impl Values) -> Result<Vec<Row>, Error> {
        Ok(rows(self.pipe.run(text, &params.into_values())?))
    }

    /// As [`Connection::query`], for a statement that has exactly one row.
    ///
    /// # Errors
    /// As [`Connection::execute`]; `P0002` if there is no row, `P0003` if there are several.
    pub fn query_one(&mut self, text: &str, params: impl Values) -> Result<Row, Error> {
        let mut found = self.query(text, params)?;
        match (found.pop(), found.len()) {
            (Some(row), 0) => Ok(row),
            (None, _) => Err(SqlError::new(SqlState(*b"P0002"), "query returned no rows").into()),
            (_, more) => {
                let message = format!("query returned {} rows, expected one", more + 1);
                Err(SqlError::new(SqlState(*b"P0003"), message).into())
            }
        }
    }

    /// As [`Connection::query`]; returns also the columns of a result without rows, and the count.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// let outcome = db.connect()?.run("SELECT 1 AS one LIMIT 0", ())?;
    /// assert_eq!((outcome.count, outcome.columns[0].name.as_str()), (0, "one"));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn run(&mut self, text: &str, params: impl Values) -> Result<Outcome, Error> {
        self.pipe.run(text, &params.into_values())
    }

    /// Whether a transaction is open, also one that has failed: by [`Connection::begin`], or by a
    /// statement.
    pub fn is_in_transaction(&self) -> bool {
        self.pipe.is_in_transaction()
    }

    /// Runs several statements, separated by semicolons, as one transaction unless they say
    /// otherwise.
    ///
    /// # Errors
    /// The first error; then none of them has an effect.
    pub fn batch(&mut self, text: &str) -> Result<(), Error> {
        self.pipe.batch(text)
    }

    /// Begins a transaction. Its locks stay between its statements.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// let mut connection = db.connect()?;
    /// connection.batch("CREATE TABLE t (id int8 PRIMARY KEY)")?;
    /// let mut transaction = connection.begin()?;
    /// transaction.execute("INSERT INTO t VALUES ($1)", 1)?;
    /// transaction.rollback()?;
    /// assert!(connection.query("SELECT id FROM t", ())?.is_empty());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the database is closed.
    pub fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        self.pipe.batch("BEGIN")?;
        Ok(Transaction { connection: self, is_over: false })
    }

    /// Begins a transaction that only reads: all its statements see one state of the database, as
    /// it was at one moment. Where the design has locks, it holds up those that want to change the
    /// rows it has read, until it ends.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// let mut connection = db.connect()?;
    /// connection.batch("CREATE TABLE t (id int8 PRIMARY KEY)")?;
    /// let mut snapshot = connection.snapshot()?;
    /// assert_eq!(snapshot.query_one("SELECT count(*) FROM t", ())?.at::<i64>(0)?, 0);
    /// let refused = snapshot.execute("INSERT INTO t VALUES (1)", ()).unwrap_err();
    /// assert_eq!(refused.sqlstate(), Some("25006"));
    /// drop(snapshot);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the database is closed.
    pub fn snapshot(&mut self) -> Result<Transaction<'_>, Error> {
        self.pipe.batch("BEGIN READ ONLY")?;
        Ok(Transaction { connection: self, is_over: false })
    }
}

fn rows(outcome: Outcome) -> Vec<Row> {
    let columns = outcome.columns;
    outcome.rows.into_iter().map(|values| Row { columns: columns.clone(), values }).collect()
}

/// A transaction of several statements. Dropping it rolls it back.
///
/// ```
/// # fn main() -> Result<(), atoll::Error> {
/// let db = atoll::Database::in_memory()?;
/// let mut connection = db.connect()?;
/// connection.batch("CREATE TABLE t (id int8 PRIMARY KEY, n int8)")?;
/// let mut transaction = connection.begin()?;
/// transaction.execute("INSERT INTO t VALUES ($1, $2)", (1, 10))?;
/// let row = transaction.query_one("UPDATE t SET n = n + 1 RETURNING n", ())?;
/// transaction.commit()?;
/// assert_eq!(row.get::<i64>("n")?, 11);
/// # db.close()
/// # }
/// ```
pub struct Transaction<'c> {
    connection: &'c mut Connection,
    is_over: bool,
}

impl Transaction<'_> {
    /// See [`Connection::execute`]. After an error only a rollback is possible, of all or to a
    /// savepoint.
    ///
    /// # Errors
    /// As [`Connection::execute`]; `25P02` after an earlier error.
    pub fn execute(&mut self, text: &str, params: impl Values) -> Result<u64, Error> {
        self.connection.execute(text, params)
    }

    /// See [`Connection::query`].
    ///
    /// # Errors
    /// As [`Transaction::execute`].
    pub fn query(&mut self, text: &str, params: impl Values) -> Result<Vec<Row>, Error> {
        self.connection.query(text, params)
    }

    /// See [`Connection::query_one`].
    ///
    /// # Errors
    /// As [`Connection::query_one`].
    pub fn query_one(&mut self, text: &str, params: impl Values) -> Result<Row, Error> {
        self.connection.query_one(text, params)
    }

    /// Commits.
    ///
    /// # Errors
    /// When the transaction could not be committed. It had no effect then, unless
    /// [`Error::is_outcome_unknown`].
    pub fn commit(mut self) -> Result<(), Error> {
        self.is_over = true;
        let failed = self.connection.pipe.has_failed();
        self.connection.pipe.batch("COMMIT")?;
        match failed {
            false => Ok(()),
            // COMMIT of a failed transaction is a rollback.
            true => Err(SqlError::new(
                SqlState(*b"25P02"),
                "the transaction had failed before, and has been rolled back",
            )
            .into()),
        }
    }

    /// Ends the transaction without effect.
    ///
    /// # Errors
    /// When the database is closed.
    pub fn rollback(mut self) -> Result<(), Error> {
        self.is_over = true;
        self.connection.pipe.batch("ROLLBACK")
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // A connection that is closed has rolled back.
            let _ = self.connection.pipe.batch("ROLLBACK");
        }
    }
}
