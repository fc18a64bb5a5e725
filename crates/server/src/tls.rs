//! TLS: the certificate and key of the server.

use crate::access::write_private;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Where certificate and key come from, both in PEM.
#[derive(Clone, Debug)]
pub enum Certificate {
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    /// Signed by itself, made in this directory at the first start.
    Own(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {why}; expected a file in PEM form", .path.display())]
    Read { path: PathBuf, why: String },
    #[error("cannot make a certificate in {}: {why}", .path.display())]
    Make { path: PathBuf, why: String },
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Certificate {
    /// # Errors
    /// When a file cannot be read or made, or certificate and key do not belong together.
    pub fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let (certificate, key) = match self {
            Certificate::Files { certificate, key } => (certificate.clone(), key.clone()),
            Certificate::Own(dir) => own(dir)?,
        };
        let read = |path: &Path, why: rustls::pki_types::pem::Error| TlsError::Read {
            path: path.into(),
            why: why.to_string(),
        };
        let chain = CertificateDer::pem_file_iter(&certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|why| read(&certificate, why))?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|why| read(&key, why))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // A client that starts with TLS at once must name the protocol inside.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The server's own certificate, made if it is not there.
fn own(dir: &Path) -> Result<(PathBuf, PathBuf), TlsError> {
    let (certificate, key) = (dir.join("server.crt"), dir.join("server.key"));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    let make = |why: String| TlsError::Make { path: dir.into(), why };
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|e| make(e.to_string()))?;
    write_private(&key, made.signing_key.serialize_pem().as_bytes()).map_err(|e| make(e.to_string()))?;
    write_private(&certificate, made.cert.pem().as_bytes()).map_err(|e| make(e.to_string()))?;
    Ok((certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_certificate_is_made_once_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let own = Certificate::Own(dir.path().into());
        assert!(own.acceptor().is_ok());
        let first = std::fs::read(dir.path().join("server.crt")).unwrap();
        assert!(own.acceptor().is_ok());
        assert_eq!(std::fs::read(dir.path().join("server.crt")).unwrap(), first);
        let wrong = Certificate::Files {
            certificate: dir.path().join("server.key"),
            key: dir.path().join("server.crt"),
        };
        assert!(wrong.acceptor().is_err());
    }
}
