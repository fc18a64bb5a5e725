//! Takes over the islands of machines that are gone, without an operator, where a copy of them is
//! here and their log is at a relay.
//!
//! ```text
//!   copy-I/
//!     | the registry: island I is machine b's, and b's lease is over
//!     | the relay: the log has all entries that are known to have counted
//!     | the registry: claim I. Of several agents with a copy one gets it (compare-and-put)
//!     v
//!   I/
//! ```
//!
//! A machine that has ended in order keeps its islands: their data is whole, and it comes back or
//! an operator moves them. An island that would lose commits stays as it is, and the status of the
//! agent says why; an operator may accept the loss.

use crate::lease::{Lease, Logs};
use crate::moving;
use crate::protocol::{Kind, RefusedStatus, TakenStatus};
use base::InstanceId;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use world::tell;

/// How long an island that was refused is left alone: its log may be long to read.
const PAUSE: Duration = Duration::from_secs(2);
/// How many islands that were taken over the status shows.
const SHOWN: usize = 64;

pub(crate) struct Heir {
    logs: Box<dyn Logs>,
    news: Mutex<News>,
}

#[derive(Default)]
struct News {
    taken: Vec<Taken>,
    refused: BTreeMap<(String, InstanceId), Refused>,
}

struct Taken {
    database: String,
    island: InstanceId,
    from: String,
    when: Instant,
}

struct Refused {
    from: String,
    why: String,
    when: Instant,
}

impl Heir {
    pub fn new(logs: Box<dyn Logs>) -> Heir {
        Heir { logs, news: Mutex::default() }
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all copies below the agent's directory `data` once. `is_idle`: nothing runs on this
    /// database here.
    pub fn look(&self, data: &Path, lease: &dyn Lease, is_idle: &dyn Fn(&str) -> bool) {
        for database in moving::databases(data) {
            let dir = data.join(&database);
            let own = moving::islands(&dir, Kind::Island);
            let copies = moving::islands(&dir, Kind::Copy);
            for island in copies.into_iter().filter(|island| !own.contains(island)) {
                self.look_at(&dir, (&database, island), lease, is_idle);
            }
        }
    }

    fn look_at(
        &self,
        dir: &Path,
        (database, island): (&str, InstanceId),
        lease: &dyn Lease,
        is_idle: &dyn Fn(&str) -> bool,
    ) {
        let key = (database.to_owned(), island);
        let from = match lease.left(database, island) {
            Ok(Some(machine)) => machine,
            Ok(None) => return drop(self.news().refused.remove(&key)),
            // It answers later, and knows then.
            Err(_) => return,
        };
        if !is_idle(database) || self.news().refused.get(&key).is_some_and(|old| old.when.elapsed() < PAUSE) {
            return;
        }
        match self.take(dir, (database, island), lease) {
            Ok(true) => {
                tell(format_args!(
                    "atoll agent: machine {from} is gone: island {island} of {database} is here now"
                ));
                let mut news = self.news();
                news.refused.remove(&key);
                let excess = (news.taken.len() + 1).saturating_sub(SHOWN);
                news.taken.drain(..excess);
                let (database, island) = key;
                news.taken.push(Taken { database, island, from, when: Instant::now() });
            }
            // Another agent has it, or its machine is back.
            Ok(false) => {}
            Err(why) => {
                let refused = Refused { from, why, when: Instant::now() };
                let text = refused.why.clone();
                let before = self.news().refused.insert(key, refused);
                if before.is_none_or(|before| before.why != text) {
                    tell(format_args!(
                        "atoll agent: island {island} of {database} is not taken over: {text}"
                    ));
                }
            }
        }
    }

    /// Returns whether the island is here now.
    ///
    /// # Errors
    /// Commits would be lost, and what to do.
    fn take(
        &self,
        dir: &Path,
        (database, island): (&str, InstanceId),
        lease: &dyn Lease,
    ) -> Result<bool, String> {
        self.require_whole(dir, (database, island), lease)?;
        match lease.inherit(database, island)? {
            true => moving::promote(dir, island).map(|()| true),
            false => Ok(false),
        }
    }

    /// # Errors
    /// A copy and its log at the relay would lack commits, and what to do.
    pub fn require_whole(
        &self,
        dir: &Path,
        (database, island): (&str, InstanceId),
        lease: &dyn Lease,
    ) -> Result<(), String> {
        if !moving::is_followed(dir, island) {
            return Err(moving::no_log(database, island));
        }
        // First: the log may grow meanwhile.
        let at_least = lease.at_least(database, island)?;
        let have = self.logs.reaches(database, island, &moving::copy_of(dir, island))?;
        if have < at_least {
            return Err(format!(
                "the relay has {have} entries of the log of island {island} of {database}, and {at_least} are known to have \
                 counted: restore the relay's data, start the host that has the island, or go on without the last {} \
                 (atoll cluster takeover HOST --accept-loss)",
                at_least - have
            ));
        }
        Ok(())
    }

    /// Its takings-over and its refusals.
    pub fn status(&self) -> (Vec<TakenStatus>, Vec<RefusedStatus>) {
        let news = self.news();
        let taken = news.taken.iter().map(|taken| TakenStatus {
            database: taken.database.clone(),
            island: taken.island,
            from: taken.from.clone(),
            ago_ms: taken.when.elapsed().as_millis() as u64,
        });
        let refused = news.refused.iter().map(|((database, island), refused)| RefusedStatus {
            database: database.clone(),
            island: *island,
            from: refused.from.clone(),
            why: refused.why.clone(),
        });
        (taken.collect(), refused.collect())
    }
}
