//! Why a connection was refused, with the way out.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

const NEW: &str =
    "make new ones with `atoll cluster certificates DIR --hosts FILE`, and start the agents again";

/// An error of the protocol in words.
pub(crate) fn of(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::NoCertificatesPresented
        | Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            "the other end has no certificate: give it --tls with a directory of this cluster".into()
        }
        Error::InvalidMessage(_) | Error::PeerMisbehaved(_) => {
            format!("the other end does not speak TLS ({error}): give both ends --tls")
        }
        other => format!("TLS failed: {other}"),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the other end's certificate has expired: {NEW}")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the other end's certificate is not valid yet: set the clocks of both machines".into()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the other end's certificate is of another cluster: give both ends certificates that one `atoll cluster \
             certificates` made"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the other end's certificate is not for the address that was called: {NEW}")
        }
        other => format!("the other end's certificate cannot be used ({other}): {NEW}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => {
            format!("the other end refused this end's certificate, which has expired: {NEW}")
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the other end refused this end's certificate, which is of another cluster: give both ends certificates that \
             one `atoll cluster certificates` made"
                .into()
        }
        AlertDescription::CertificateRequired => {
            "the other end asks for a certificate: give this end --tls with a directory of this cluster".into()
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            format!("the other end refused this end's certificate: {NEW}")
        }
        other => format!("the other end ended TLS ({other:?})"),
    }
}
