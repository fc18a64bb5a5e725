//! Listeners: TCP addresses and a Unix socket. Each connection is a task.

use crate::access::Origin;
use crate::counters::Counters;
use crate::engine::Engine;
use crate::session::Stream;
use crate::session::startup::serve;
use crate::shared::{Shared, stopped};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Connections that wait in the kernel at most, while the server is busy.
const BACKLOG: u32 = 1024;
/// Connections during their start-up, besides those that the limit allows.
const STARTING: usize = 200;
/// A client of which nothing is heard for about two minutes is taken for lost.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMES: u32 = 6;

/// Bound listeners.
pub struct Listeners {
    tcp: TcpListener,
    unix: Option<(UnixListener, PathBuf)>,
}

impl Listeners {
    /// Binds a TCP address, and a Unix socket if there is a path for it.
    ///
    /// # Errors
    /// When an address is taken, or there is no such address here.
    pub async fn bind(tcp: SocketAddr, unix: Option<&Path>) -> io::Result<Listeners> {
        let socket =
            if tcp.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(tcp)?;
        let unix = match unix {
            None => None,
            Some(path) => {
                // The directory's lock says that no other server runs on this database.
                if let Err(error) = std::fs::remove_file(path)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    return Err(error);
                }
                Some((UnixListener::bind(path)?, path.to_owned()))
            }
        };
        Ok(Listeners { tcp: socket.listen(BACKLOG)?, unix })
    }

    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts and serves clients until the server stops; then waits for the sessions, at most
    /// [`crate::shared::Limits::stop`].
    pub async fn serve<E: Engine>(self, tls: Option<TlsAcceptor>, shared: Arc<Shared<E>>) {
        let mut sessions = JoinSet::new();
        let stops = stopped(shared.stopping.clone());
        tokio::pin!(stops);
        loop {
            tokio::select! {
                biased;
                () = &mut stops => break,
                accepted = self.tcp.accept() => match accepted {
                    // Clients that have not proved anything yet must not take all descriptors.
                    Ok(_) if sessions.len() >= shared.limits.connections + STARTING => {
                        Counters::add(&shared.counters.refused);
                    }
                    Ok((stream, peer)) => {
                        prepare(&stream);
                        let origin = Origin::Tcp(peer.ip().to_canonical());
                        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
                        place(&mut sessions, stream.into_std(), TcpStream::from_std, move |stream, shared| {
                            serve(stream, origin, tls, shared)
                        }, shared);
                    }
                    Err(error) => rest(&error).await,
                },
                accepted = accept_unix(self.unix.as_ref()) => match accepted {
                    Ok(stream) => {
                        let origin = Origin::Unix { same_user: is_same_user(&stream) };
                        place(&mut sessions, stream.into_std(), UnixStream::from_std, move |stream, shared| {
                            serve(stream, origin, None, shared)
                        }, Arc::clone(&shared));
                    }
                    Err(error) => rest(&error).await,
                },
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            }
        }
        // Clients that come now are refused by the system, and do not wait for the end.
        drop(self.tcp);
        let all = async { while sessions.join_next().await.is_some() {} };
        if tokio::time::timeout(shared.limits.stop, all).await.is_err() {
            tracing::warn!("transactions under way are rolled back, for the server stops");
        }
        sessions.shutdown().await;
        if let Some((_, path)) = &self.unix {
            // Another server may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Starts a session on the thread that the engine names, or on this runtime. A stream belongs to
/// the runtime in which it was made, so it is made again there.
fn place<E: Engine, T: Send + 'static, S: Stream, F: Future<Output = ()> + Send + 'static>(
    sessions: &mut JoinSet<()>,
    stream: io::Result<T>,
    remake: fn(T) -> io::Result<S>,
    session: impl FnOnce(S, Arc<Shared<E>>) -> F + Send + 'static,
    shared: Arc<Shared<E>>,
) {
    let station = shared.engine.station();
    let task = async move {
        match stream.and_then(remake) {
            Ok(stream) => session(stream, shared).await,
            Err(error) => tracing::warn!("a client's socket cannot be used: {error}"),
        }
    };
    match station {
        Some(station) => sessions.spawn_on(task, &station),
        None => sessions.spawn(task),
    };
}

/// Small messages go out at once; a client that is gone is found.
fn prepare(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TIMES);
    let set = stream.set_nodelay(true).and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = set {
        tracing::debug!("an option of a client's socket is not set: {error}");
    }
}

/// After an error of `accept`: the process may have no descriptor left, and will have one later.
async fn rest(error: &io::Error) {
    tracing::warn!("a client cannot be accepted: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn accept_unix(listener: Option<&(UnixListener, PathBuf)>) -> io::Result<UnixStream> {
    match listener {
        Some((listener, _)) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Whether the client runs as the owner of the server's end of the socket.
fn is_same_user(stream: &UnixStream) -> bool {
    let own = std::fs::metadata("/proc/self").map(|about| std::os::unix::fs::MetadataExt::uid(&about));
    matches!((stream.peer_cred(), own), (Ok(peer), Ok(own)) if peer.uid() == own)
}
