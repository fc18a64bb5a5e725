//! Bad news from object storage, in one line each, with the way out.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The longest text of a service that is passed on, in bytes.
const LONGEST: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The place is written wrongly, or this build cannot reach it.
    #[error("{0}")]
    Place(String),
    #[error("{url}: {what}")]
    Storage { url: String, what: String },
    #[error(
        "there is no base copy of log {log} at {url}; put one (atoll base put), or name the logs as the server does"
    )]
    Nothing { url: String, log: String },
    #[error(
        "base copy {id} of log {log} at {url} {what}; take another one (atoll base list shows them), or put a new one"
    )]
    Damaged { url: String, log: String, id: String, what: String },
    #[error("{path}: {what}")]
    Local { path: String, what: String },
    #[error("interrupted")]
    Interrupted,
}

/// A text of a service in one line.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > LONGEST {
        line.truncate(line.floor_char_boundary(LONGEST));
        line += "..";
    }
    line
}

fn io_kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        next = error.source();
    }
    None
}

/// The outcome of a request, and the way out.
pub(crate) fn in_words(error: &object_store::Error) -> String {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
    let credentials = "name credentials that may list, read, write and remove there (AWS_.., GOOGLE_.., AZURE_.. in the \
                       environment)";
    let (what, way) = match (error, io_kind(error)) {
        (_, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) => {
            ("no space is left there", "free some, or name another place")
        }
        (_, Some(ErrorKind::PermissionDenied)) => {
            ("permission denied", "change the permissions of the directory, or name another place")
        }
        (PermissionDenied { .. }, _) => ("permission denied", credentials),
        (Unauthenticated { .. }, _) => ("the credentials are not accepted", credentials),
        (NotFound { .. }, _) => {
            ("there is no such bucket, or the object was removed", "make the bucket, or name another place")
        }
        _ => ("the storage does not do what it was asked to", "check that it can be reached, then try again"),
    };
    format!("{what} ({}); {way}", one_line(&error.to_string()))
}

/// A file of this machine that cannot be read or written.
pub(crate) fn local(path: &Path) -> impl FnOnce(io::Error) -> CopyError + '_ {
    move |e| {
        let way = match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "; free some space, or name another directory"
            }
            _ => "",
        };
        CopyError::Local { path: path.display().to_string(), what: format!("{e}{way}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_services_say_becomes_one_line() {
        let source = || "<Error>\n  <Code>NoSuchBucket</Code>\n</Error>".into();
        let text = in_words(&object_store::Error::NotFound { path: "x".into(), source: source() });
        assert!(
            !text.contains('\n') && text.contains("no such bucket") && text.contains("NoSuchBucket"),
            "{text}"
        );
        let text = in_words(&object_store::Error::PermissionDenied { path: "x".into(), source: source() });
        assert!(text.contains("permission denied") && text.contains("AWS_"), "{text}");
        let full = io::Error::from(ErrorKind::StorageFull);
        let text = in_words(&object_store::Error::Generic { store: "s", source: full.into() });
        assert!(text.contains("no space"), "{text}");
        assert!(one_line(&"é ".repeat(500)).len() <= LONGEST + 2);
    }
}
