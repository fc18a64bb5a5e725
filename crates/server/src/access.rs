//! Which clients get in.
//!
//! Without a password, clients of this machine are trusted and all others are refused. With one,
//! every client over TCP proves that it knows the password (SCRAM-SHA-256), and so does a client of
//! the Unix socket that runs as another user.

use crate::scram::Verifier;
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The one user.
pub const USER: &str = "atoll";

/// Where a client comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    Tcp(IpAddr),
    /// The Unix socket; whether the client runs as the server's user.
    Unix {
        same_user: bool,
    },
}

/// What a client must do to get in.
pub enum Demand {
    Nothing,
    Prove(Verifier),
}

/// The password, and wrong attempts.
pub struct Access {
    /// The verifier's text lies here; the directory of the database is private.
    file: PathBuf,
    verifier: RwLock<Option<Verifier>>,
    attempts: Mutex<HashMap<Origin, Attempts>>,
}

struct Attempts {
    wrong: u32,
    last: Instant,
}

/// Wrong passwords from one address until it has to wait.
const FREE_ATTEMPTS: u32 = 5;
/// The wait after the next one; it doubles with each more.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Addresses remembered at most.
const MOST_ADDRESSES: usize = 10_000;

impl Access {
    /// Reads the password of the database in `dir`, if one is set.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of this server's.
    pub fn open(dir: &Path) -> std::io::Result<Access> {
        let file = dir.join("password");
        let verifier = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
            Ok(text) => Some(Verifier::from_text(text.trim()).ok_or_else(|| {
                let why = format!("{} is damaged; remove it and set the password again", file.display());
                std::io::Error::new(std::io::ErrorKind::InvalidData, why)
            })?),
        };
        Ok(Access { file, verifier: RwLock::new(verifier), attempts: Mutex::default() })
    }

    /// Sets the password: in clear, or a verifier's text as `\password` of psql sends it. `None`
    /// removes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_password(&self, password: Option<&str>) -> std::io::Result<()> {
        let verifier = match password {
            None => match std::fs::remove_file(&self.file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => None,
            },
            Some(password) => {
                let verifier = match Verifier::from_text(password) {
                    Some(verifier) => verifier,
                    None => Verifier::of_password(password)
                        .map_err(|_| std::io::Error::other("the system gives no random bytes"))?,
                };
                write_private(&self.file, verifier.to_text().as_bytes())?;
                Some(verifier)
            }
        };
        *self.verifier.write().unwrap_or_else(PoisonError::into_inner) = verifier;
        Ok(())
    }

    /// # Errors
    /// 28000 for a client that gets in by no means, 28P01 if its address has tried too often.
    pub fn demand(&self, origin: Origin, user: &str) -> Result<Demand, SqlError> {
        if user != USER {
            let message = format!("role \"{user}\" does not exist");
            let hint = format!("The only user is \"{USER}\".");
            return Err(SqlError::new(SqlState(*b"28000"), message).with_hint(hint));
        }
        let verifier = self.verifier.read().unwrap_or_else(PoisonError::into_inner).clone();
        match (verifier, origin) {
            (_, Origin::Unix { same_user: true }) => Ok(Demand::Nothing),
            (None, Origin::Unix { .. }) => Ok(Demand::Nothing),
            (None, Origin::Tcp(address)) if address.to_canonical().is_loopback() => Ok(Demand::Nothing),
            (None, Origin::Tcp(_)) => {
                let message = "no password is set, so only clients of the server's own machine get in";
                let hint = format!("Set one there: ALTER USER {USER} PASSWORD '...'");
                Err(SqlError::new(SqlState(*b"28000"), message).with_hint(hint))
            }
            (Some(verifier), _) => self.may_try(origin).map(|()| Demand::Prove(verifier)),
        }
    }

    fn may_try(&self, origin: Origin) -> Result<(), SqlError> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = attempts.get(&origin) else { return Ok(()) };
        let wait = wait_after(known.wrong);
        if known.last.elapsed() >= LONGEST_WAIT {
            attempts.remove(&origin);
            return Ok(());
        }
        match wait.checked_sub(known.last.elapsed()) {
            Some(left) if !left.is_zero() => Err(SqlError::new(
                SqlState(*b"28P01"),
                format!("too many wrong passwords; try again in {} s", left.as_secs() + 1),
            )),
            _ => Ok(()),
        }
    }

    /// Counts an attempt.
    pub fn tried(&self, origin: Origin, is_right: bool) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if is_right {
            attempts.remove(&origin);
            return;
        }
        if attempts.len() >= MOST_ADDRESSES {
            attempts.retain(|_, known| known.last.elapsed() < LONGEST_WAIT);
        }
        let known = attempts.entry(origin).or_insert(Attempts { wrong: 0, last: Instant::now() });
        *known = Attempts { wrong: known.wrong.saturating_add(1), last: Instant::now() };
    }
}

fn wait_after(wrong: u32) -> Duration {
    match wrong.checked_sub(FREE_ATTEMPTS) {
        None => Duration::ZERO,
        Some(more) => FIRST_WAIT.saturating_mul(1 << more.min(10)).min(LONGEST_WAIT),
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_here_until_a_password_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::open(dir.path()).unwrap();
        let here = Origin::Tcp("127.0.0.1".parse().unwrap());
        let there = Origin::Tcp("192.0.2.1".parse().unwrap());
        assert!(matches!(access.demand(here, USER), Ok(Demand::Nothing)));
        assert!(access.demand(there, USER).is_err() && access.demand(here, "postgres").is_err());
        access.set_password(Some("secret")).unwrap();
        let access = Access::open(dir.path()).unwrap();
        assert!(matches!(access.demand(here, USER), Ok(Demand::Prove(_))));
        assert!(matches!(access.demand(there, USER), Ok(Demand::Prove(_))));
        assert!(matches!(access.demand(Origin::Unix { same_user: true }, USER), Ok(Demand::Nothing)));
        access.set_password(None).unwrap();
        assert!(matches!(access.demand(here, USER), Ok(Demand::Nothing)));
    }

    #[test]
    fn an_address_with_many_wrong_passwords_waits() {
        let dir = tempfile::tempdir().unwrap();
        let access = Access::open(dir.path()).unwrap();
        access.set_password(Some("secret")).unwrap();
        let here = Origin::Tcp("127.0.0.1".parse().unwrap());
        (0..FREE_ATTEMPTS).for_each(|_| access.tried(here, false));
        assert_eq!(access.demand(here, USER).err().unwrap().state, SqlState(*b"28P01"));
        access.tried(here, true);
        assert!(access.demand(here, USER).is_ok());
    }
}
