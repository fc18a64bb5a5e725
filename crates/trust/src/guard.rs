//! Sessions of rustls behind [`channel::Guard`].

use crate::make::name_of;
use crate::{AUTHORITY, KEY, OWN, TrustError, words};
use channel::{Guard, Role, Session};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The guard of the holder of the three files in `dir`.
///
/// # Errors
/// A file is missing or damaged, or certificate and key do not belong together.
pub fn guard(dir: &Path) -> Result<Arc<dyn Guard>, TrustError> {
    let unusable = |why: rustls::Error| TrustError::Unusable { path: dir.into(), why: words::of(&why) };
    let unfit = |why: String| TrustError::Unusable { path: dir.into(), why };
    let mut roots = RootCertStore::empty();
    for authority in certificates(&dir.join(AUTHORITY))? {
        roots.add(authority).map_err(unusable)?;
    }
    let roots = Arc::new(roots);
    let chain = certificates(&dir.join(OWN))?;
    let key_file = dir.join(KEY);
    let key = PrivateKeyDer::from_pem_file(&key_file)
        .map_err(|e| TrustError::Read { path: key_file.clone(), why: e.to_string() })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|e| unfit(e.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(unusable)?;
    // A link lasts: nothing is kept to resume it.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(unusable)?;
    client.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(Certified { server: Arc::new(server), client: Arc::new(client) }))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|e| TrustError::Read { path: path.into(), why: e.to_string() })
}

/// The holder of a certificate.
struct Certified {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Guard for Certified {
    fn answer(&self) -> Result<Box<dyn Session>, String> {
        let connection = ServerConnection::new(self.server.clone()).map_err(|e| words::of(&e))?;
        Ok(Box::new(TlsSession::new(connection.into(), Wanted::Any)))
    }

    fn call(&self, at: SocketAddr) -> Result<Box<dyn Session>, String> {
        let name = ServerName::IpAddress(at.ip().into());
        let connection = ClientConnection::new(self.client.clone(), name).map_err(|e| words::of(&e))?;
        Ok(Box::new(TlsSession::new(connection.into(), Wanted::Machine)))
    }
}

/// The roles that an end accepts. The owner of an answered link decides by the link's role.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    Machine,
}

struct TlsSession {
    connection: Connection,
    wanted: Wanted,
    peer: Option<Role>,
    /// Opened bytes; the first `read` have been taken.
    opened: Vec<u8>,
    read: usize,
}

impl TlsSession {
    fn new(mut connection: Connection, wanted: Wanted) -> TlsSession {
        // The link bounds what it holds.
        connection.set_buffer_limit(None);
        TlsSession { connection, wanted, peer: None, opened: Vec::new(), read: 0 }
    }

    /// Once the handshake is over: the peer's role.
    fn recognise(&mut self) -> Result<(), String> {
        if self.peer.is_some() || self.connection.is_handshaking() {
            return Ok(());
        }
        let own = self.connection.peer_certificates().and_then(<[_]>::first);
        let role =
            own.and_then(role_of).ok_or("the other end's certificate has no role in an atoll cluster")?;
        if self.wanted == Wanted::Machine && role != Role::Machine {
            return Err(format!(
                "the other end has the certificate of a {}: expected that of a machine",
                role.name()
            ));
        }
        self.peer = Some(role);
        Ok(())
    }

    /// Moves opened bytes out of the connection, which keeps few.
    fn draw(&mut self, bytes: usize) -> Result<(), String> {
        if self.read == self.opened.len() {
            (self.read, _) = (0, self.opened.clear());
        }
        let from = self.opened.len();
        self.opened.resize(from + bytes, 0);
        self.connection.reader().read_exact(&mut self.opened[from..]).map_err(|e| e.to_string())
    }
}

/// The role that a certificate names.
fn role_of(certificate: &CertificateDer<'_>) -> Option<Role> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let has = |role: &Role| {
        let name = ServerName::try_from(name_of(*role));
        name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
    };
    Role::ALL.into_iter().find(has)
}

impl Session for TlsSession {
    fn take(&mut self, mut sealed: &[u8]) -> Result<(), String> {
        while !sealed.is_empty() {
            if self.connection.read_tls(&mut sealed).map_err(|e| e.to_string())? == 0 {
                return Err("TLS takes no more bytes".into());
            }
            let state = self.connection.process_new_packets().map_err(|e| words::of(&e))?;
            let opened = state.plaintext_bytes_to_read();
            if opened > 0 {
                self.draw(opened)?;
            }
        }
        self.recognise()
    }

    fn open(&mut self, space: &mut [u8]) -> usize {
        // Nothing is believed before the peer's role is known.
        if self.peer.is_none() {
            return 0;
        }
        let count = space.len().min(self.opened.len() - self.read);
        space[..count].copy_from_slice(&self.opened[self.read..self.read + count]);
        self.read += count;
        count
    }

    fn has_opened(&self) -> bool {
        self.read < self.opened.len()
    }

    fn seal(&mut self, plain: &[u8]) -> Result<(), String> {
        self.connection.writer().write_all(plain).map_err(|e| e.to_string())
    }

    fn give(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to memory does not fail.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }

    fn peer(&self) -> Option<Role> {
        self.peer
    }
}
