//! A server from its options to its end.

use crate::access::Access;
use crate::emptying;
use crate::engine::{Engine, RunError, refusal};
use crate::listening::Listeners;
use crate::shared::{Limits, Shared};
use crate::status::{self, Status};
use crate::tls::{Certificate, TlsError};
use sql::catalog::Catalog;
use sql::database::{Answer, Request};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What a server needs besides its engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// With port 0 any free port.
    pub listen: SocketAddr,
    /// The path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// A private directory for the password and the server's own certificate.
    pub dir: PathBuf,
    /// `None` for no TLS.
    pub certificate: Option<Certificate>,
    pub limits: Limits,
    /// The number of physical tables of the database.
    pub stores: u16,
    /// What is told over HTTP, and where.
    pub status: Option<Status>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen at {at}: {why}")]
    Listen { at: String, why: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot read the password: {0}")]
    Password(std::io::Error),
    #[error("the database cannot be served: {0}")]
    Catalog(RunError),
}

/// How long the engine may take until it answers for the first time.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// Serves clients until `stopping` becomes true. `ready` is told the address, once clients can
/// connect.
///
/// # Errors
/// When the server cannot start.
pub async fn serve<E: Engine>(
    engine: E,
    options: Options,
    stopping: watch::Receiver<bool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let at = |at: String| move |why| ServeError::Listen { at, why };
    let access = Access::open(&options.dir).map_err(ServeError::Password)?;
    let tls = options.certificate.as_ref().map(Certificate::acceptor).transpose()?;
    let listeners = Listeners::bind(options.listen, options.unix.as_deref())
        .await
        .map_err(at(options.listen.to_string()))?;
    let status = match options.status {
        Some(status) => {
            let bound = TcpListener::bind(status.listen).await;
            Some((bound.map_err(at(status.listen.to_string()))?, status))
        }
        None => None,
    };
    let catalog = read_catalog(&engine).await.map_err(ServeError::Catalog)?;
    let shared = Arc::new(Shared::new(engine, access, options.limits, (catalog, options.stores), stopping));
    let address = listeners.address().map_err(at(options.listen.to_string()))?;
    if let Some((listener, status)) = status {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "the status page is ready");
        }
        tokio::spawn(status::serve(listener, status, Arc::clone(&shared)));
    }
    // What an earlier server has left.
    tokio::spawn(emptying::empty(Arc::clone(&shared)));
    ready(address);
    listeners.serve(tls, shared).await;
    Ok(())
}

/// The catalog as it is stored. Waits for an engine that is about to start.
///
/// # Errors
/// When the engine does not answer, or not with a catalog.
pub async fn read_catalog<E: Engine>(engine: &E) -> Result<Catalog, RunError> {
    let end = Instant::now() + FIRST_ANSWER;
    loop {
        match engine.once(Request::ReadCatalog).await {
            Ok(Answer::Catalog(catalog)) => return Ok(*catalog),
            Ok(other) => return Err(refusal(other)),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(RunError::Unreachable(_) | RunError::Abort(_)) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error),
        }
    }
}
