//! Binding addresses, accepting connections, and making them.
//!
//! A unix socket is private from its first moment: its directory must belong to this user with mode
//! 0700 (a missing directory is created so), and the socket itself gets mode 0600. A socket file
//! that a killed process left behind refuses connections, which is how it is recognized; it is
//! replaced. A lock on the directory keeps two listeners that start at the same time apart.

use crate::address::{Address, check_socket_path};
use crate::error::{ChannelError, Doing};
use crate::fabric;
use crate::guard::{Guarding, Session};
use crate::handshake::{Deadline, Kind, introduce};
use crate::hello::Hello;
use crate::link::Link;
use crate::lobby::{HANDSHAKE_TIME, Lobby};
use crate::parker::{new_bell, ring_bell};
use crate::registry::{self, Door};
use crate::stream::Pipe;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with,
};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// First pause between two attempts to connect; doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A bound address. Dropping it frees the address (and removes the socket file); accepted links
/// live on.
pub struct Listener {
    address: Address,
    door: Entrance,
}

enum Entrance {
    Socket {
        socket: OwnedFd,
        kind: Kind,
        stop: Arc<OwnedFd>,
        file: Option<SocketFile>,
        /// Held by the thread that accepts.
        lobby: Mutex<Lobby>,
    },
    Ring(Arc<Door>),
}

/// Ends a listener's waiting from any thread: the running `accept` and all later ones return
/// [`ChannelError::Stopped`].
#[derive(Clone)]
pub struct Stopper(StopWay);

#[derive(Clone)]
enum StopWay {
    Bell(Arc<OwnedFd>),
    Door(Arc<Door>),
}

impl Stopper {
    pub fn stop(&self) {
        match &self.0 {
            StopWay::Bell(bell) => ring_bell(bell),
            StopWay::Door(door) => door.stop(),
        }
    }
}

impl Listener {
    /// Binds the address. TCP listens only at the given address; a plain port means loopback.
    ///
    /// # Errors
    /// [`ChannelError::InUse`] when another listener is there;
    /// [`ChannelError::DirectoryNotPrivate`], [`ChannelError::NotASocket`],
    /// [`ChannelError::PathTooLong`] for unix paths; [`ChannelError::NoFabric`],
    /// [`ChannelError::Fabric`] for RDMA; [`ChannelError::Io`] otherwise.
    pub fn bind(address: &Address) -> Result<Listener, ChannelError> {
        Listener::bind_guarded(address, &Guarding::default())
    }

    /// As [`Listener::bind`], with the guard that [`Address::Tls`] needs.
    ///
    /// # Errors
    /// As [`Listener::bind`]; [`ChannelError::NoGuard`].
    pub fn bind_guarded(address: &Address, guard: &Guarding) -> Result<Listener, ChannelError> {
        match address {
            Address::Shm(path) => Listener::bind_unix(address, path, Kind::Shm),
            Address::Uds(path) => Listener::bind_unix(address, path, Kind::Uds),
            Address::Tcp(place) => Listener::bind_tcp(*place, Kind::Tcp, Guarding::default()),
            Address::Tls(_) if guard.0.is_none() => Err(no_guard(address)),
            Address::Tls(place) => Listener::bind_tcp(*place, Kind::Tls, guard.clone()),
            Address::Rdma(place) => {
                fabric::check(place.ip())?;
                Listener::bind_tcp(*place, Kind::Rdma, Guarding::default())
            }
            Address::Ring(name) => {
                Ok(Listener { address: address.clone(), door: Entrance::Ring(registry::open(name)?) })
            }
        }
    }

    fn bind_unix(address: &Address, path: &Path, kind: Kind) -> Result<Listener, ChannelError> {
        check_socket_path(path)?;
        let _lock = private_directory(path)?;
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(address, path)?;
                UnixListener::bind(path)
            }
            other => other,
        };
        let socket = socket.doing("binding a unix socket")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).doing("making a socket private")?;
        let inode = fs::symlink_metadata(path).doing("looking at a socket")?.ino();
        let file = SocketFile { path: path.to_path_buf(), inode };
        Listener::over(address.clone(), socket.into(), kind, Some(file), Guarding::default())
    }

    fn bind_tcp(place: SocketAddr, kind: Kind, guard: Guarding) -> Result<Listener, ChannelError> {
        let named = |place| match kind {
            Kind::Tls => Address::Tls(place),
            Kind::Rdma => Address::Rdma(place),
            _ => Address::Tcp(place),
        };
        let socket = TcpListener::bind(place).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => ChannelError::InUse { address: named(place).to_string() },
            _ => ChannelError::Io { doing: "binding a TCP socket", source: error },
        })?;
        let place = socket.local_addr().doing("asking for the bound TCP address")?;
        Listener::over(named(place), socket.into(), kind, None, guard)
    }

    fn over(
        address: Address,
        socket: OwnedFd,
        kind: Kind,
        file: Option<SocketFile>,
        guard: Guarding,
    ) -> Result<Listener, ChannelError> {
        rustix::io::ioctl_fionbio(&socket, true).doing("making a socket non-blocking")?;
        let (stop, lobby) = (Arc::new(new_bell()?), Mutex::new(Lobby::guarded(guard)));
        Ok(Listener { address, door: Entrance::Socket { socket, kind, stop, file, lobby } })
    }

    /// The address at which this listener can be reached: the address it was given, with the actual
    /// port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(match &self.door {
            Entrance::Socket { stop, .. } => StopWay::Bell(stop.clone()),
            Entrance::Ring(door) => StopWay::Door(door.clone()),
        })
    }

    /// Waits for the next connector with a complete handshake. Silent or slow connectors do not
    /// hold up the others.
    ///
    /// # Errors
    /// [`ChannelError::Stopped`] after [`Stopper::stop`]. If [`goes_on`](ChannelError::goes_on)
    /// holds, one connector was refused, or there are no descriptors for now, and the next call
    /// goes on.
    pub fn accept(&self) -> Result<(Link, Hello), ChannelError> {
        match &self.door {
            Entrance::Ring(door) => door.accept(),
            Entrance::Socket { socket, kind, stop, lobby, .. } => {
                // After a panic inside, the lobby may have lost some connectors; these may connect
                // again.
                let mut lobby = lobby.lock().unwrap_or_else(PoisonError::into_inner);
                lobby.next(socket, *kind, stop)
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        match &self.door {
            Entrance::Ring(door) => registry::close(door),
            Entrance::Socket { file, .. } => {
                if let Some(file) = file {
                    file.remove();
                }
            }
        }
    }
}

/// The file of a bound unix socket.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Removes the file unless another listener has taken the name meanwhile.
    fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a socket's directory, or checks that it is private; the directory is locked until the
/// returned file is dropped.
fn private_directory(socket: &Path) -> Result<File, ChannelError> {
    let path = match socket.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !path.exists() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .doing("making the directory of a socket")?;
    }
    let directory = File::open(path).doing("opening the directory of a socket")?;
    let found = directory.metadata().doing("looking at the directory of a socket")?;
    let mode = found.mode() & 0o7777;
    if found.uid() != rustix::process::geteuid().as_raw() || mode & 0o077 != 0 {
        return Err(ChannelError::DirectoryNotPrivate { path: path.to_path_buf(), mode, owner: found.uid() });
    }
    flock(&directory, FlockOperation::LockExclusive).doing("locking the directory of a socket")?;
    Ok(directory)
}

/// Removes a socket file that no process listens on.
fn remove_stale(address: &Address, path: &Path) -> Result<(), ChannelError> {
    let found = fs::symlink_metadata(path).doing("looking at an existing socket")?;
    if !found.file_type().is_socket() {
        return Err(ChannelError::NotASocket { path: path.to_path_buf() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).doing("removing a dead process' socket")
        }
        _ => Err(ChannelError::InUse { address: address.to_string() }),
    }
}

/// Connects to a listener. While no listener is there it tries again until `timeout`, because
/// instances start in any order; with a timeout of zero it tries once.
///
/// # Errors
/// [`ChannelError::Timeout`] when no listener answered; [`ChannelError::Version`],
/// [`ChannelError::Kind`], [`ChannelError::WrongUser`] or [`ChannelError::Protocol`] when the
/// listener does not fit or is foreign; [`ChannelError::NoFabric`] and [`ChannelError::Fabric`] for
/// RDMA.
pub fn connect(address: &Address, hello: Hello, timeout: Duration) -> Result<Link, ChannelError> {
    connect_guarded(address, hello, timeout, &Guarding::default())
}

/// As [`connect`], with the guard that [`Address::Tls`] needs.
///
/// # Errors
/// As [`connect`]; [`ChannelError::NoGuard`]; [`ChannelError::Refused`] when one end does not
/// accept the other's certificate.
pub fn connect_guarded(
    address: &Address,
    hello: Hello,
    timeout: Duration,
    guard: &Guarding,
) -> Result<Link, ChannelError> {
    if hello.0.len() > Hello::MOST_BYTES {
        return Err(ChannelError::HelloTooLong { length: hello.0.len(), most: Hello::MOST_BYTES });
    }
    let deadline = Deadline::after(timeout);
    let mut pause = FIRST_PAUSE;
    loop {
        let attempt = match address {
            Address::Shm(path) => connect_unix(path)?.map(|s| (s, Kind::Shm)),
            Address::Uds(path) => connect_unix(path)?.map(|s| (s, Kind::Uds)),
            Address::Tcp(place) => connect_tcp(*place, deadline)?.map(|s| (s, Kind::Tcp)),
            Address::Tls(_) if guard.0.is_none() => return Err(no_guard(address)),
            Address::Tls(place) => connect_tcp(*place, deadline)?.map(|s| (s, Kind::Tls)),
            Address::Rdma(place) => connect_tcp(*place, deadline)?.map(|s| (s, Kind::Rdma)),
            Address::Ring(name) => match registry::knock(name, &hello)? {
                Some(link) => return Ok(link),
                None => None,
            },
        };
        if let Some((socket, kind)) = attempt {
            let allowed = deadline.left().unwrap_or_default().max(HANDSHAKE_TIME);
            let session = session(address, guard)?;
            return introduce(Pipe::new(socket, session), kind, &hello, Deadline::after(allowed));
        }
        let Some(left) = deadline.left() else { return Err(deadline.missed(&address.to_string())) };
        std::thread::sleep(pause.min(left));
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

fn no_guard(address: &Address) -> ChannelError {
    ChannelError::NoGuard { address: address.to_string() }
}

/// The session of a caller, if the connection is to be sealed.
fn session(address: &Address, guard: &Guarding) -> Result<Option<Box<dyn Session>>, ChannelError> {
    let (Address::Tls(place), Some(guard)) = (address, &guard.0) else { return Ok(None) };
    guard.call(*place).map(Some).map_err(|why| ChannelError::Refused { why })
}

/// `None`: no listener is there at the moment.
fn connect_unix(path: &Path) -> Result<Option<OwnedFd>, ChannelError> {
    check_socket_path(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).doing("creating a unix socket")?;
    let place = SocketAddrUnix::new(path).doing("naming a unix socket")?;
    match connect_socket(&socket, &place) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(other) => Err(other).doing("connecting to a unix socket"),
    }
}

fn connect_tcp(place: SocketAddr, deadline: Deadline) -> Result<Option<OwnedFd>, ChannelError> {
    let allowed = deadline.left().unwrap_or_default().max(Duration::from_millis(1));
    match TcpStream::connect_timeout(&place, allowed) {
        Ok(stream) => {
            stream.set_nodelay(true).doing("switching off Nagle's delay")?;
            stream.set_nonblocking(true).doing("making a socket non-blocking")?;
            Ok(Some(stream.into()))
        }
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error).doing("connecting by TCP"),
    }
}
