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

const CREDENTIALS: &str = "name credentials that may list, read, write and remove there (AWS_.., GOOGLE_.., AZURE_.. in \
                           the environment)";
const NOT_ACCEPTED: (&str, &str) = ("the credentials are not accepted", CREDENTIALS);
const DENIED: (&str, &str) = ("permission denied", CREDENTIALS);
const NO_BUCKET: (&str, &str) =
    ("there is no such bucket, or the object was removed", "make the bucket, or name another place");

/// What a text of the library or of a service tells, which has no kind of its own: parts of it,
/// with the outcome and the way out. The first one that matches is taken.
const TOLD: &[(&str, (&str, &str))] = &[
    ("169.254.169.254", ("no credentials are named", CREDENTIALS)),
    (
        "Account must be specified",
        ("no account is named", "name it (AZURE_STORAGE_ACCOUNT_NAME in the environment)"),
    ),
    ("NoSuchBucket", NO_BUCKET),
    ("404 Not Found", NO_BUCKET),
    ("SignatureDoesNotMatch", NOT_ACCEPTED),
    ("InvalidAccessKeyId", NOT_ACCEPTED),
    ("401 Unauthorized", NOT_ACCEPTED),
    ("403 Forbidden", DENIED),
    (
        "builder error",
        (
            "its address is not https",
            "name one that is, or permit http (AWS_ALLOW_HTTP=true in the environment)",
        ),
    ),
    (
        "error sending request",
        ("it cannot be reached", "check its address (AWS_ENDPOINT, ..) and the network, then try again"),
    ),
];

/// The outcome of a request, and the way out.
pub(crate) fn in_words(error: &object_store::Error) -> String {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
    let whole = error.to_string();
    let (what, way) = match (error, io_kind(error)) {
        (_, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) => {
            ("no space is left there", "free some, or name another place")
        }
        (_, Some(ErrorKind::PermissionDenied)) => {
            ("permission denied", "change the permissions of the directory, or name another place")
        }
        (PermissionDenied { .. }, _) => DENIED,
        (Unauthenticated { .. }, _) => NOT_ACCEPTED,
        (NotFound { .. }, _) => NO_BUCKET,
        _ => {
            let told = TOLD.iter().find(|(part, _)| whole.contains(part)).map(|(_, told)| *told);
            told.unwrap_or((
                "the storage does not do what it was asked to",
                "check that it can be reached, then try again",
            ))
        }
    };
    format!("{what} ({}); {way}", one_line(&whole))
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
        let generic =
            |text: &'static str| in_words(&object_store::Error::Generic { store: "S3", source: text.into() });
        for (text, what) in [
            ("status code: 404 Not Found: <Code>NoSuchBucket</Code>", "no such bucket"),
            (
                "status code: 403 Forbidden: <Code>SignatureDoesNotMatch</Code>",
                "credentials are not accepted",
            ),
            ("status code: 403 Forbidden: <Code>AccessDenied</Code>", "permission denied"),
            ("PUT http://169.254.169.254/latest/api/token: 403 Forbidden", "no credentials are named"),
            ("HTTP error: builder error", "AWS_ALLOW_HTTP"),
            ("after 5 retries - HTTP error: error sending request", "cannot be reached"),
            ("something else", "does not do what it was asked to"),
        ] {
            assert!(generic(text).contains(what), "{}", generic(text));
        }
        let full = io::Error::from(ErrorKind::StorageFull);
        let text = in_words(&object_store::Error::Generic { store: "s", source: full.into() });
        assert!(text.contains("no space"), "{text}");
        assert!(one_line(&"é ".repeat(500)).len() <= LONGEST + 2);
    }
}
