//! A server from its options to its end.

use crate::access::Access;
use crate::emptying;
use crate::engine::{Engine, RunError, refusal};
use crate::listening::Listeners;
use crate::shared::{Limits, Shared};
use crate::tls::{Certificate, TlsError};
use sql::catalog::Catalog;
use sql::database::{Answer, Request};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    /// Where metrics are served over HTTP.
    pub metrics: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen at {at}: {why}")]
    Listen { at: String, why: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot read the password: {0}")]
    Password(std::io::Error),
    #[error("the catalog cannot be read: {0}")]
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
    let metrics = match options.metrics {
        Some(address) => Some(TcpListener::bind(address).await.map_err(at(address.to_string()))?),
        None => None,
    };
    let catalog = read_catalog(&engine).await.map_err(ServeError::Catalog)?;
    let shared = Arc::new(Shared::new(engine, access, options.limits, (catalog, options.stores), stopping));
    let address = listeners.address().map_err(at(options.listen.to_string()))?;
    if let Some(metrics) = metrics {
        tokio::spawn(serve_metrics(metrics, Arc::clone(&shared)));
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

/// Answers `GET /metrics`, one request a connection.
async fn serve_metrics<E: Engine>(listener: TcpListener, shared: Arc<Shared<E>>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let mut request = [0; 1024];
        let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut request)).await;
        let length = read.ok().and_then(Result::ok).unwrap_or(0);
        let (status, body) = match request[..length].starts_with(b"GET /metrics ") {
            true => ("200 OK", shared.counters.text(shared.sessions())),
            false => ("404 Not Found", "expected GET /metrics\n".into()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        // The reader may have gone.
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(answer.as_bytes())).await;
    }
}
