//! Where a dump comes from or goes to: a server, or a directory that this process serves meanwhile.

use crate::cli::{Cli, Command, ServeArgs};
use crate::failure::Failure;
use crate::serve_command::serve_here;
use clap::Parser;
use deploy::{Interrupt, MEMORY, Standing, standing};
use std::ffi::OsStr;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// How often a wait looks whether the command is interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How Unix sockets of servers are named, up to the port.
const SOCKET: &str = ".s.PGSQL.";
/// The database's name at a server, if none is given: Atoll takes any.
const DATABASE: &str = "atoll";

/// A place as typed.
pub enum Place {
    Directory(PathBuf),
    Server(Box<Config>),
}

impl Place {
    /// # Errors
    /// A connection string that is none.
    pub fn read(text: &str) -> Result<Place, Failure> {
        let is_connection = text.contains("://") || text.contains('=');
        if !is_connection || Path::new(text).exists() {
            return Ok(Place::Directory(text.into()));
        }
        let mut config: Config = text.parse().map_err(|error| {
            Failure::Usage(format!(
                "{text}: {error}; expected a directory, or a server such as \"host=127.0.0.1 port=5432\" or \
                 postgres://atoll@127.0.0.1:5432/atoll"
            ))
        })?;
        if config.get_user().is_none() {
            config.user(server::access::USER);
        }
        if config.get_dbname().is_none() {
            config.dbname(DATABASE);
        }
        if config.get_hosts().is_empty() {
            config.host("127.0.0.1");
        }
        Ok(Place::Server(Box::new(with_password(config))))
    }
}

/// The password of the environment, as other clients take it.
fn with_password(mut config: Config) -> Config {
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    config
}

/// A connection, and the server if it is this process.
pub struct Open<'i> {
    pub client: Client,
    runtime: Runtime,
    interrupt: &'i Interrupt,
    served: Option<Served>,
}

impl<'i> Open<'i> {
    /// Connects to a server.
    ///
    /// # Errors
    /// No server, or one that refuses.
    pub fn connect(config: &Config, interrupt: &'i Interrupt) -> Result<Open<'i>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::run)?;
        let connecting = async {
            let (client, connection) = config.connect(NoTls).await?;
            // Its end is seen by the client.
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        };
        let client = until_interrupted(&runtime, interrupt, connecting)
            .map_err(|failure| in_context("cannot connect", failure))?;
        Ok(Open { client, runtime, interrupt, served: None })
    }

    /// Opens the database in a directory: at the server that serves it, or else here.
    ///
    /// # Errors
    /// No database, one that is not of tables in SQL, or in use by another command.
    pub fn directory(dir: &Path, interrupt: &'i Interrupt) -> Result<Open<'i>, Failure> {
        let Standing::Database(manifest) = standing(dir)? else {
            let why = format!(
                "{} holds no database; expected the directory of one, or the connection string of a server",
                dir.display()
            );
            return Err(Failure::Usage(why));
        };
        for port in sockets(dir) {
            let at = socket_config(dir, port)?;
            if std::os::unix::net::UnixStream::connect(dir.join(format!("{SOCKET}{port}"))).is_ok() {
                return Open::connect(&at, interrupt);
            }
        }
        let design = if manifest.family == MEMORY { "occ" } else { "conventional" };
        Open::serve(dir, &["--design", design], interrupt)
    }

    /// Serves the database in a directory, a new one if there is none, to this process.
    ///
    /// # Errors
    /// The database is in use, damaged, or none of SQL.
    pub fn serve(dir: &Path, options: &[&str], interrupt: &'i Interrupt) -> Result<Open<'i>, Failure> {
        let args = serve_args(dir, options)?;
        let stop = Interrupt::default();
        let (ready, address) = channel();
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            serve_here(&args, &stopping, move |at: SocketAddr| {
                // A receiver that has gone asks for nothing any more.
                let _ = ready.send(at);
            })
        });
        let served = Served { stop, thread: Some(thread) };
        let at = loop {
            match address.recv_timeout(LOOK_EVERY) {
                Ok(at) => break at,
                Err(RecvTimeoutError::Timeout) if interrupt.is_set() => {
                    served.end()?;
                    return Err(Failure::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    served.end()?;
                    return Err(Failure::Run("the database ended while it was opened".into()));
                }
            }
        };
        let config = match dir.join(format!("{SOCKET}{}", at.port())).exists() {
            true => socket_config(dir, at.port())?,
            false => {
                let mut config = Config::new();
                config.host(at.ip().to_string()).port(at.port());
                with_password(named(config))
            }
        };
        let mut open = Open::connect(&config, interrupt)?;
        open.served = Some(served);
        Ok(open)
    }

    /// Waits for an answer, or for the interruption of the command.
    ///
    /// # Errors
    /// The server's error, [`Failure::Interrupted`].
    pub fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        until_interrupted(&self.runtime, self.interrupt, answer)
    }

    /// Runs statements and waits for their end.
    ///
    /// # Errors
    /// As [`Open::wait`].
    pub fn run(&self, text: &str) -> Result<(), Failure> {
        self.wait(self.client.batch_execute(text))
    }

    /// The rows of a query, as texts.
    ///
    /// # Errors
    /// As [`Open::wait`].
    pub fn rows(&self, text: &str) -> Result<Vec<SimpleQueryRow>, Failure> {
        let messages = self.wait(self.client.simple_query(text))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Disconnects, and closes the database if this process serves it.
    ///
    /// # Errors
    /// The database could not be closed in order.
    pub fn close(mut self) -> Result<(), Failure> {
        let served = self.served.take();
        drop(self);
        served.map_or(Ok(()), Served::end)
    }
}

/// A server in this process.
struct Served {
    stop: Interrupt,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Served {
    fn end(mut self) -> Result<(), Failure> {
        self.stop.set();
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(Failure::Run("the server has panicked".into())))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // The command has failed already, and says why.
            let _ = thread.join();
        }
    }
}

fn serve_args(dir: &Path, options: &[&str]) -> Result<ServeArgs, Failure> {
    let words =
        ["atoll", "serve", "--listen", "127.0.0.1:0", "--durability", "async", "--data"].map(OsStr::new);
    let words = words.into_iter().chain([dir.as_os_str()]).chain(options.iter().map(OsStr::new));
    match Cli::try_parse_from(words).map_err(Failure::run)?.command {
        Some(Command::Serve(args)) => Ok(*args),
        _ => Err(Failure::Run("the serve command has lost its options".into())),
    }
}

/// The ports of the Unix sockets in a directory.
fn sockets(dir: &Path) -> Vec<u16> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(SOCKET)?.parse().ok()).collect()
}

fn socket_config(dir: &Path, port: u16) -> Result<Config, Failure> {
    let dir = std::path::absolute(dir).map_err(Failure::run)?;
    let mut config = Config::new();
    config.host_path(dir).port(port);
    Ok(with_password(named(config)))
}

fn named(mut config: Config) -> Config {
    config.user(server::access::USER).dbname(DATABASE).application_name("atoll");
    config
}

fn until_interrupted<T>(
    runtime: &Runtime,
    interrupt: &Interrupt,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    runtime.block_on(async {
        tokio::pin!(answer);
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut answer).await {
                Ok(answer) => return answer.map_err(|error| Failure::Run(told(&error))),
                Err(_) if interrupt.is_set() => return Err(Failure::Interrupted),
                Err(_) => {}
            }
        }
    })
}

/// The same failure, with what was being done.
pub fn in_context(what: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Run(why) => Failure::Run(format!("{what}: {why}")),
        other => other,
    }
}

/// An error with all that the server says of it.
fn told(error: &tokio_postgres::Error) -> String {
    let Some(of_server) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
        return format!("{error}{cause}");
    };
    let mut text = format!("{} ({})", of_server.message(), of_server.code().code());
    for more in [of_server.detail(), of_server.hint()].into_iter().flatten() {
        text.push_str("; ");
        text.push_str(more);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_connection() {
        assert!(matches!(Place::read("bank"), Ok(Place::Directory(path)) if path == Path::new("bank")));
        for text in ["host=localhost port=5433", "postgres://me@localhost/bank", "port=1"] {
            let Ok(Place::Server(config)) = Place::read(text) else { panic!("{text}") };
            assert!(config.get_user().is_some() && config.get_dbname().is_some(), "{text}");
            assert_eq!(config.get_hosts().len(), 1, "{text}");
        }
        let refused = Place::read("host=a prot=5");
        assert!(matches!(refused, Err(Failure::Usage(why)) if why.contains("expected a directory")));
    }
}
