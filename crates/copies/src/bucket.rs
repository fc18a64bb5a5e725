//! Clients of object storage, one for each kind that the build has. Their settings come from the
//! environment.

use crate::CopyError;
use crate::error::in_words;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreScheme};
use std::sync::Arc;

type Opened = Result<Arc<dyn ObjectStore>, object_store::Error>;

/// The variables of the environment that begin with the prefix of a service. The builders take
/// names without it too, and `TOKEN` or `REGION` are for other programs.
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
fn settings(prefix: &str) -> impl Iterator<Item = (String, String)> {
    let named = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(named).filter(move |(name, _)| name.starts_with(prefix))
}

/// Refuses an address of a service that is none: the client would end the program.
fn require_address(url: &str) -> Result<(), CopyError> {
    let names = [
        "AWS_ENDPOINT",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AZURE_STORAGE_ENDPOINT",
        "AZURE_ENDPOINT",
    ];
    for name in names {
        let Ok(value) = std::env::var(name) else { continue };
        if !url::Url::parse(&value).is_ok_and(|at| matches!(at.scheme(), "http" | "https") && at.has_host()) {
            let what = format!(
                "{url}: {name} in the environment is '{value}': expected https://HOST or http://HOST:PORT"
            );
            return Err(CopyError::Place(what));
        }
    }
    Ok(())
}

/// A service that does not answer is asked again for some seconds, which an operator waits for.
#[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
fn retry() -> object_store::RetryConfig {
    let retry_timeout = std::time::Duration::from_secs(30);
    object_store::RetryConfig { max_retries: 5, retry_timeout, ..Default::default() }
}

/// A function that opens buckets of one service; `None` if the build has no client for it.
macro_rules! service {
    ($name:ident, $feature:literal, $prefix:literal, $($builder:tt)+) => {
        #[cfg(feature = $feature)]
        fn $name(url: &str) -> Option<Opened> {
            let mut builder = $($builder)+::new().with_url(url).with_retry(retry());
            for (name, value) in settings($prefix) {
                if let Ok(key) = name.to_ascii_lowercase().parse() {
                    builder = builder.with_config(key, value);
                }
            }
            Some(builder.build().map(|client| Arc::new(client) as Arc<dyn ObjectStore>))
        }

        #[cfg(not(feature = $feature))]
        fn $name(_: &str) -> Option<Opened> {
            None
        }
    };
}

service!(s3, "s3", "AWS_", object_store::aws::AmazonS3Builder);
service!(gcs, "gcs", "GOOGLE_", object_store::gcp::GoogleCloudStorageBuilder);
service!(azure, "azure", "AZURE_", object_store::azure::MicrosoftAzureBuilder);

/// A place that cannot be used as it is written.
pub(crate) fn place(url: &str, what: &str) -> CopyError {
    CopyError::Place(format!(
        "{url}: {what}; expected a directory, s3://BUCKET/.., gs://BUCKET/.. or az://CONTAINER/.."
    ))
}

/// The client of a bucket, and the prefix in it.
pub(crate) fn open(url: &str) -> Result<(Arc<dyn ObjectStore>, Key), CopyError> {
    let parsed = url::Url::parse(url).map_err(|e| place(url, &e.to_string()))?;
    require_address(url)?;
    let (feature, opened) = match parsed.scheme() {
        "s3" | "s3a" => ("copies-s3", s3(url)),
        "gs" => ("copies-gcs", gcs(url)),
        "az" | "azure" | "abfs" | "abfss" | "adl" => ("copies-azure", azure(url)),
        _ => return Err(place(url, "this kind of place is not known")),
    };
    let Some(opened) = opened else {
        let what = format!("{url}: this build has no client for it; build with `--features {feature}`");
        return Err(CopyError::Place(what));
    };
    let (_, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|e| place(url, &e.to_string()))?;
    let client = opened.map_err(|e| CopyError::Storage { url: url.into(), what: in_words(&e) })?;
    Ok((client, prefix))
}
