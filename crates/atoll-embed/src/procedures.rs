//! Procedures of the program, and instances in processes of their own.

use crate::{Error, Procedure, Step};
use sql::SqlError;
use sql::native::registry::{register_procedure, register_step};
use std::sync::atomic::{AtomicBool, Ordering};

/// The procedures and steps in Rust that a database can run.
///
/// A step travels by its name, so each is registered, also those of which a procedure of another
/// crate makes use. Registered types belong to the process: two databases in it may share them.
///
/// ```
/// use atoll::{Database, Failure, Options, Place, Procedure, Procedures, Rows, Step, Txn};
/// use serde::{Deserialize, Serialize};
///
/// /// Adds to one account.
/// #[derive(Serialize, Deserialize)]
/// struct Add {
///     account: i64,
///     amount: i64,
/// }
///
/// impl Step for Add {
///     const NAME: &'static str = "add";
///     type Output = ();
///
///     fn place(&self) -> Place {
///         Place::new("account", self.account)
///     }
///
///     async fn run(&self, rows: &mut Rows<'_>) -> Result<(), Failure> {
///         let changed = rows.update("account", self.account, |row| {
///             let balance: i64 = row.get("balance")?;
///             row.set("balance", balance + self.amount);
///             Ok(())
///         });
///         changed.await?.ok_or_else(|| Failure::refuse("there is no such account"))
///     }
/// }
///
/// /// Moves money between two accounts, wherever they are.
/// #[derive(Serialize, Deserialize)]
/// struct Transfer {
///     from: i64,
///     to: i64,
///     amount: i64,
/// }
///
/// impl Procedure for Transfer {
///     const NAME: &'static str = "transfer";
///     const TABLES: &'static [&'static str] = &["account"];
///     type Output = ();
///
///     async fn run(&self, txn: &mut Txn<'_>) -> Result<(), Failure> {
///         let from = Add { account: self.from, amount: -self.amount };
///         txn.last((from, Add { account: self.to, amount: self.amount })).await.map(drop)
///     }
/// }
///
/// # fn main() -> Result<(), atoll::Error> {
/// let procedures = Procedures::new().procedure::<Transfer>().step::<Add>();
/// let db = Options::new().islands(2).procedures(&procedures).open_in_memory()?;
/// let columns = "id int8 PRIMARY KEY, balance int8 CHECK (balance >= 0)";
/// db.execute(&format!("CREATE TABLE account ({columns})"), ())?;
/// db.execute("INSERT INTO account VALUES (1, 100), (2, 0)", ())?;
/// db.call(&Transfer { from: 1, to: 2, amount: 30 })?;
/// // The whole transaction has no effect if a step fails.
/// let refused = db.call(&Transfer { from: 1, to: 2, amount: 1000 }).unwrap_err();
/// assert_eq!(refused.sqlstate(), Some("23514"));
/// let row = db.query_one("SELECT balance FROM account WHERE id = $1", 2)?;
/// assert_eq!(row.get::<i64>("balance")?, 30);
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Procedures {
    register: Vec<fn() -> Result<(), SqlError>>,
}

impl Procedures {
    /// None.
    pub fn new() -> Procedures {
        Procedures::default()
    }

    /// With this procedure.
    #[must_use]
    pub fn procedure<P: Procedure>(mut self) -> Procedures {
        self.register.push(register_procedure::<P>);
        self
    }

    /// With this step.
    #[must_use]
    pub fn step<S: Step>(mut self) -> Procedures {
        self.register.push(register_step::<S>);
        self
    }

    pub(crate) fn register(&self) -> Result<(), Error> {
        Ok(self.register.iter().try_for_each(|register| register())?)
    }
}

/// Whether this program can host instances in processes of their own.
static HOSTS: AtomicBool = AtomicBool::new(false);

pub(crate) fn hosts_processes() -> bool {
    HOSTS.load(Ordering::Acquire)
}

/// Turns this process into an instance, if it was started as one: then it does not return. The
/// first call in the `main` of a program that opens a database with
/// [`Host::Processes`](crate::Host::Processes).
///
/// Such a database starts the program again, once for each instance, with the arguments `instance
/// --number N` and a socket as its standard input. The new process needs the program's procedures,
/// so they are given here, and it must not do what `main` does else. In all other cases this call
/// registers the procedures and returns.
///
/// ```no_run
/// use atoll::{Host, Options, Procedures};
///
/// fn main() -> Result<(), atoll::Error> {
///     let procedures = Procedures::new();
///     atoll::host_instance(&procedures)?;
///     let db = Options::new().host(Host::Processes).procedures(&procedures).open("./mydb")?;
///     db.close()
/// }
/// ```
///
/// # Errors
/// [`Error::Sql`] with `42710` if two types have one name.
pub fn host_instance(procedures: &Procedures) -> Result<(), Error> {
    procedures.register()?;
    HOSTS.store(true, Ordering::Release);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = match &args[..] {
        [word, option, number] => word == "instance" && option == "--number" && number.parse::<u16>().is_ok(),
        _ => false,
    };
    // Without the socket of a deployment these words are the program's own arguments.
    if is_asked && deploy::host_child().is_ok() {
        std::process::exit(0);
    }
    Ok(())
}
