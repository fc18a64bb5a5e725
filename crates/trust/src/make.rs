//! Makes an authority and the certificates that it signs.

use crate::{AUTHORITY, AUTHORITY_KEY, KEY, OWN, TrustError};
use channel::Role;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use time::{Duration, OffsetDateTime};

/// Clocks of machines differ: a certificate is valid from a little before it is made.
const EARLIER: Duration = Duration::hours(1);

/// One who gets a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Also the name of its directory.
    pub name: String,
    pub role: Role,
    /// Where a machine is called.
    pub address: Option<IpAddr>,
}

/// The work of [`make`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Whether the authority is new; else certificates of earlier calls stay valid.
    pub new_authority: bool,
    /// The directories that were written.
    pub directories: Vec<String>,
}

/// The name by which a certificate of this role is known.
pub(crate) fn name_of(role: Role) -> String {
    format!("{}.role.atoll.internal", role.name())
}

/// Writes a certificate for each holder below `dir`, signed by the authority there. The authority is
/// made if it is missing. All are valid for `days`.
///
/// # Errors
/// The directory cannot be written; the authority in it is damaged.
pub fn make(dir: &Path, cluster: &str, holders: &[Holder], days: u32) -> Result<Made, TrustError> {
    private_dir(dir)?;
    let (key_file, authority_file) = (dir.join(AUTHORITY_KEY), dir.join(AUTHORITY));
    let new_authority = !key_file.exists();
    let key = if new_authority { new_key(cluster)? } else { read_key(&key_file)? };
    let params = authority(cluster, days)?;
    if new_authority {
        let made = params.self_signed(&key).map_err(failed(cluster))?;
        write_private(&authority_file, made.pem().as_bytes())?;
        write_private(&key_file, key.serialize_pem().as_bytes())?;
    }
    let authority = fs::read(&authority_file)
        .map_err(|e| TrustError::Read { path: authority_file.clone(), why: e.to_string() })?;
    let issuer = Issuer::new(params, key);
    for holder in holders {
        let own = dir.join(&holder.name);
        private_dir(&own)?;
        let key = new_key(&holder.name)?;
        let made =
            params_of(holder, cluster, days)?.signed_by(&key, &issuer).map_err(failed(&holder.name))?;
        write_private(&own.join(AUTHORITY), &authority)?;
        write_private(&own.join(OWN), made.pem().as_bytes())?;
        write_private(&own.join(KEY), key.serialize_pem().as_bytes())?;
    }
    let directories = holders.iter().map(|holder| holder.name.clone()).collect();
    Ok(Made { new_authority, directories })
}

fn failed(name: &str) -> impl Fn(rcgen::Error) -> TrustError {
    let name = name.to_owned();
    move |error| TrustError::Make { name: name.clone(), why: error.to_string() }
}

fn new_key(name: &str) -> Result<KeyPair, TrustError> {
    KeyPair::generate().map_err(failed(name))
}

fn read_key(path: &Path) -> Result<KeyPair, TrustError> {
    let why = |why: String| TrustError::Read { path: path.into(), why };
    let text = fs::read_to_string(path).map_err(|e| why(e.to_string()))?;
    KeyPair::from_pem(&text).map_err(|e| why(e.to_string()))
}

fn dated(mut params: CertificateParams, name: &str, days: u32) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - EARLIER, now + Duration::days(days.into()));
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority(cluster: &str, days: u32) -> Result<CertificateParams, TrustError> {
    let name = format!("atoll cluster {cluster}");
    let mut params = dated(CertificateParams::new(Vec::new()).map_err(failed(&name))?, &name, days);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

fn params_of(holder: &Holder, cluster: &str, days: u32) -> Result<CertificateParams, TrustError> {
    let mut names = vec![name_of(holder.role)];
    names.extend(holder.address.map(|address| address.to_string()));
    let params = CertificateParams::new(names).map_err(failed(&holder.name))?;
    let mut params = dated(params, &format!("{} of atoll cluster {cluster}", holder.name), days);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if holder.role == Role::Machine {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    Ok(params)
}

fn private_dir(path: &Path) -> Result<(), TrustError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| TrustError::Write { path: path.into(), why: e.to_string() })
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), TrustError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .map_err(|e| TrustError::Write { path: path.into(), why: e.to_string() })
}
