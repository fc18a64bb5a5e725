//! An open database.

use crate::calls::Calls;
use crate::connection::{Connection, Transaction};
use crate::options::{Durability, Host, Options};
use crate::pipe::Pipe;
use crate::procedures::hosts_processes;
use crate::rooms::Rooms;
use crate::row::Row;
use crate::table::Table;
use crate::wait::wait;
use crate::{Error, Procedure, Values};
use deploy::{Standing, standing};
use server::access::{Access, Origin};
use server::deployed::Deployed;
use server::listening::Listeners;
use server::serving::read_catalog;
use server::session::startup;
use server::shared::{Limits, Shared};
use server::station::Stations;
use server::tls::Certificate;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use txn::Placement;
use workload::benchmark::Benchmark;

/// Threads on which the sessions of connections run.
const SESSION_THREADS: usize = 2;
/// Idle connections that are kept for the next statement.
const MOST_IDLE: usize = 16;
/// How long transactions under way may take when the database closes.
const CLOSE: Duration = Duration::from_secs(10);
/// How often a transaction is tried again, at most.
const TRIES: u32 = 20;

/// An open database. All threads may use it at the same time; each statement borrows a connection,
/// and [`Database::connect`] gives one to keep. Dropping it closes it in order, and ignores errors;
/// a process that dies leaves a database that opens again with all that was acknowledged.
///
/// ```
/// use atoll::Database;
///
/// # fn main() -> Result<(), atoll::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let db = Database::open(&path)?;
/// db.execute("CREATE TABLE t (id int8 PRIMARY KEY, name text)", ())?;
/// db.execute("INSERT INTO t VALUES ($1, $2)", (1, "one"))?;
/// db.close()?;
///
/// let db = Database::open(&path)?;
/// for row in db.query("SELECT id, name FROM t ORDER BY id", ())? {
///     assert_eq!((row.get::<i64>("id")?, row.get::<String>("name")?), (1, "one".to_owned()));
/// }
/// # db.close()
/// # }
/// ```
pub struct Database {
    shared: Option<Arc<Shared<Deployed>>>,
    runtime: Option<Runtime>,
    rooms: Rooms,
    database: sql::Database,
    stop: watch::Sender<bool>,
    idle: Mutex<Vec<Connection>>,
    calls: Calls,
    /// The database's directory, if it has one.
    path: Option<PathBuf>,
    /// A private place for what else lies there.
    _place: Option<TempDir>,
}

impl Options {
    /// Opens the database in a directory, or creates it if the directory is empty or missing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the options do not fit each other or the database, or if another process
    /// has it open; [`Error::Failed`] if it cannot be read or written.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database, Error> {
        if self.durability == Durability::Memory {
            return Err(Error::Usage(
                "durability memory: nothing would stay in the directory; expected sync or async, or \
                 open_in_memory"
                    .into(),
            ));
        }
        Database::start(self, Some(path.as_ref()))
    }

    /// Opens an empty database that is gone with the [`Database`].
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_in_memory(&self) -> Result<Database, Error> {
        Database::start(&self.clone().durability(Durability::Memory), None)
    }
}

impl Database {
    /// Opens the database in a directory with the default options, or creates it there.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database, Error> {
        Options::new().open(path)
    }

    /// An empty database that is gone with this value.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn in_memory() -> Result<Database, Error> {
        Options::new().open_in_memory()
    }

    fn start(options: &Options, path: Option<&Path>) -> Result<Database, Error> {
        options.procedures.register()?;
        if options.host == Host::Processes && !hosts_processes() {
            return Err(Error::Usage(
                "host Processes: the program starts itself again for each instance; expected a call of \
                 atoll::host_instance at the start of its main"
                    .into(),
            ));
        }
        let deployment = options.deployment(path)?;
        deployment.check()?;
        let is_new = match path {
            Some(path) => !matches!(standing(path)?, Standing::Database(_)),
            None => true,
        };
        let spec = deployment.spec.clone();
        let database = sql::Database::from_spec(&spec).map_err(|why| Error::Failed(why.to_string()))?;
        let (placement, number) = (Placement::even(deployment.sites, deployment.islands), deployment.number);
        let rooms = Rooms::start(deployment, is_new)?;
        let failed = |why: std::io::Error| Error::Failed(format!("cannot serve the database: {why}"));
        let instances = (number, rooms.addresses.clone());
        let stations = Arc::new(Stations::default());
        let engine = Deployed::new(database, placement, instances, stations).map_err(failed)?;
        let runtime = Builder::new_multi_thread()
            .thread_name("atoll-session")
            .worker_threads(SESSION_THREADS)
            .enable_all()
            .build()
            .map_err(failed)?;
        let place = if path.is_none() { Some(tempfile::tempdir().map_err(failed)?) } else { None };
        let dir = path.or(place.as_ref().map(TempDir::path)).unwrap_or(Path::new("."));
        let access = Access::open(dir).map_err(failed)?;
        let (stop, stopping) = watch::channel(false);
        let limits = Limits { connections: options.most_connections(), stop: CLOSE, ..Limits::default() };
        let catalog = {
            let _entered = runtime.enter();
            wait(read_catalog(&engine))?
        };
        let shared = Arc::new(Shared::new(engine, access, limits, (catalog, database.stores), stopping));
        runtime.spawn(server::emptying::empty(Arc::clone(&shared)));
        Ok(Database {
            shared: Some(shared),
            runtime: Some(runtime),
            rooms,
            database,
            stop,
            idle: Mutex::default(),
            calls: Calls::default(),
            path: path.map(Into::into),
            _place: place,
        })
    }

    fn open_parts(&self) -> Result<(&Arc<Shared<Deployed>>, &Handle), Error> {
        if let Some(fault) = self.rooms.fault() {
            return Err(Error::Failed(fault));
        }
        match (&self.shared, &self.runtime) {
            (Some(shared), Some(runtime)) => Ok((shared, runtime.handle())),
            _ => Err(Error::Closed),
        }
    }

    /// A connection of one's own: for transactions, and for a thread that runs many statements.
    ///
    /// # Errors
    /// `53300` if there are too many, [`Error::Failed`] if the database has failed.
    pub fn connect(&self) -> Result<Connection, Error> {
        let (shared, handle) = self.open_parts()?;
        let failed = |why: std::io::Error| Error::Failed(format!("cannot connect: {why}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        let _entered = handle.enter();
        let theirs = tokio::net::UnixStream::from_std(theirs).map_err(failed)?;
        handle.spawn(startup::serve(theirs, Origin::Unix { same_user: true }, None, Arc::clone(shared)));
        Pipe::begin(ours).map(Connection::new)
    }

    /// Lends a connection to `f`.
    fn with<R>(&self, f: impl FnOnce(&mut Connection) -> Result<R, Error>) -> Result<R, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let outcome = f(&mut connection);
        if !matches!(outcome, Err(Error::Closed)) && !connection.is_in_transaction() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MOST_IDLE {
                idle.push(connection);
            }
        }
        outcome
    }

    /// See [`Connection::execute`]. The statement is a transaction of its own.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn execute(&self, text: &str, params: impl Values) -> Result<u64, Error> {
        self.with(|connection| connection.execute(text, params))
    }

    /// See [`Connection::query`]. The statement is a transaction of its own.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn query(&self, text: &str, params: impl Values) -> Result<Vec<Row>, Error> {
        self.with(|connection| connection.query(text, params))
    }

    /// See [`Connection::query_one`].
    ///
    /// # Errors
    /// As [`Connection::query_one`].
    pub fn query_one(&self, text: &str, params: impl Values) -> Result<Row, Error> {
        self.with(|connection| connection.query_one(text, params))
    }

    /// Creates a table.
    ///
    /// # Errors
    /// `42P07` if there is one of this name; others of the definition.
    pub fn create_table(&self, table: &Table) -> Result<(), Error> {
        self.execute(&table.to_sql(), ()).map(drop)
    }

    /// Runs `f` as a transaction and commits it. If the transaction meets another one and ends
    /// without effect, `f` runs again, up to 20 times in all, so it must change nothing else. If
    /// `f` returns an error, the transaction is rolled back.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// db.execute("CREATE TABLE account (id int8 PRIMARY KEY, balance int8)", ())?;
    /// db.execute("INSERT INTO account VALUES (1, 100), (2, 0)", ())?;
    /// let left: i64 = db.transaction(|transaction| {
    ///     let text = "UPDATE account SET balance = balance + $2 WHERE id = $1 RETURNING balance";
    ///     transaction.execute(text, (2, 30))?;
    ///     transaction.query_one(text, (1, -30))?.at(0)
    /// })?;
    /// assert_eq!(left, 70);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `f`, and of the commit.
    pub fn transaction<R>(
        &self,
        mut f: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.repeated(|connection| {
            let mut transaction = connection.begin()?;
            let result = f(&mut transaction)?;
            transaction.commit().map(|()| result)
        })
    }

    /// As [`Database::transaction`], for reading: all statements see one state of the database. See
    /// [`Connection::snapshot`].
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// db.execute("CREATE TABLE t (id int8 PRIMARY KEY)", ())?;
    /// let (count, greatest): (i64, Option<i64>) = db.snapshot(|snapshot| {
    ///     let count = snapshot.query_one("SELECT count(*) FROM t", ())?.at(0)?;
    ///     Ok((count, snapshot.query_one("SELECT max(id) FROM t", ())?.at(0)?))
    /// })?;
    /// assert_eq!((count, greatest), (0, None));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn snapshot<R>(
        &self,
        mut f: impl FnMut(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.repeated(|connection| {
            let mut snapshot = connection.snapshot()?;
            let result = f(&mut snapshot)?;
            snapshot.commit().map(|()| result)
        })
    }

    fn repeated<R>(&self, mut f: impl FnMut(&mut Connection) -> Result<R, Error>) -> Result<R, Error> {
        self.with(|connection| {
            let mut tries = 0;
            loop {
                tries += 1;
                match f(connection) {
                    Err(error) if error.is_transient() && tries < TRIES => {
                        sleep(Duration::from_micros(50 << tries.min(8)));
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    /// Calls a procedure: one transaction, in one round trip to the engine. It is tried again, up
    /// to 20 times in all, if it meets another transaction and ends without effect. See
    /// [`Procedures`](crate::Procedures).
    ///
    /// # Errors
    /// Those of its steps and statements; `P0001` for [`Failure::refuse`](crate::Failure::refuse);
    /// `42883` if it is not registered.
    pub fn call<P: Procedure>(&self, procedure: &P) -> Result<P::Output, Error> {
        let (shared, handle) = self.open_parts()?;
        let _entered = handle.enter();
        wait(self.calls.call(shared, &self.database, procedure))
    }

    /// Serves clients of PostgreSQL's protocol at this address, besides this process: user `atoll`,
    /// any database name. With port 0 at any free port. Returns the address.
    ///
    /// A database in a directory offers TLS. Clients of this machine get in without a password
    /// until one is set (`ALTER USER atoll PASSWORD '...'`), others only with one.
    ///
    /// ```
    /// # fn main() -> Result<(), atoll::Error> {
    /// let db = atoll::Database::in_memory()?;
    /// let address = db.listen("127.0.0.1:0".parse().unwrap())?;
    /// assert_ne!(address.port(), 0);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Failed`] if the address is taken, or is none of this machine.
    pub fn listen(&self, address: SocketAddr) -> Result<SocketAddr, Error> {
        let (shared, handle) = self.open_parts()?;
        let failed = |why: String| Error::Failed(format!("cannot listen at {address}: {why}"));
        let certificate = self.path.clone().map(Certificate::Own);
        let tls = certificate.map(|own| own.acceptor()).transpose().map_err(|why| failed(why.to_string()))?;
        let _entered = handle.enter();
        let listeners = wait(Listeners::bind(address, None)).map_err(|why| failed(why.to_string()))?;
        let bound = listeners.address().map_err(|why| failed(why.to_string()))?;
        let shared = Arc::clone(shared);
        handle.spawn(async move { listeners.serve(tls, shared).await });
        Ok(bound)
    }

    /// The processes of the instances as they were started first; none with [`Host::Threads`].
    pub fn pids(&self) -> &[u32] {
        &self.rooms.pids
    }

    /// Closes the database: connections end, transactions under way have ten seconds, and
    /// everything is written to the directory.
    ///
    /// # Errors
    /// [`Error::Failed`] if an instance could not be stopped in order. What was acknowledged is in
    /// the directory all the same, unless the database is in memory.
    pub fn close(mut self) -> Result<(), Error> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), Error> {
        let Some(shared) = self.shared.take() else { return Ok(()) };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // Sessions listen for it as long as there are any.
        let _ = self.stop.send(true);
        self.calls.end(&shared);
        let end = Instant::now() + CLOSE;
        while shared.sessions() > 0 && Instant::now() < end {
            sleep(Duration::from_millis(1));
        }
        drop(shared);
        if let Some(runtime) = self.runtime.take() {
            // Not here: this thread may belong to another runtime, which must not be blocked so.
            let shut = std::thread::spawn(move || runtime.shutdown_timeout(CLOSE));
            // A panic in there has been reported.
            let _ = shut.join();
        }
        self.rooms.stop()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`.
        let _ = self.shut();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}
