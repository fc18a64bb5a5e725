//! Claims: an island gets a new term and a new machine.

use crate::lease::Lease;
use crate::registry::{Entry, Guard, Registry, Unreachable};
use std::sync::Arc;
use std::time::Duration;

/// Why a machine does not get what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{0}")]
    Registry(#[from] Unreachable),
    #[error(
        "machine {machine} of cluster {cluster} has a lease already (at {address}): two machines have one name, or an \
         earlier process of it was killed just now. Choose another name, or try again in some seconds"
    )]
    NameTaken { cluster: String, machine: String, address: String },
    #[error(
        "island {island} is served by machine {machine}, which has its lease; stop that machine, or wait until its \
         lease has ended"
    )]
    Served { island: u16, machine: String },
    #[error("another machine has claimed island {island} at the same time; try again")]
    Overtaken { island: u16 },
    #[error(
        "this machine and the cluster {cluster} disagree about the database: here '{here}', there '{there}'; use one \
         name of a cluster for one database"
    )]
    Manifest { cluster: String, here: String, there: String },
    #[error("{key} of the registry has an unexpected value, '{value}'; remove it if it is not Atoll's")]
    Foreign { key: String, value: String },
}

/// An island of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub island: u16,
    /// Grows with each claim.
    pub term: u64,
    /// Entries of the island's log that are known to have counted.
    pub at_least: u64,
}

/// The machine of an island that no machine has.
const NONE: &str = "-";

/// The state of a machine that has ended in order.
const AWAY: &str = "away";

/// What the registry has of an island.
struct Claimed {
    term: u64,
    machine: String,
    version: u64,
}

/// One cluster in a registry.
#[derive(Clone)]
pub struct Cluster {
    registry: Arc<dyn Registry>,
    name: String,
    /// Begins the keys of islands; empty where the cluster has one database.
    database: String,
}

impl Cluster {
    pub fn new(registry: Arc<dyn Registry>, name: &str) -> Cluster {
        Cluster { registry, name: name.to_owned(), database: String::new() }
    }

    /// The same machines, with the islands of one database of several.
    #[must_use]
    pub fn of(&self, database: &str) -> Cluster {
        Cluster { database: format!("databases/{database}/"), ..self.clone() }
    }

    fn island(&self, island: u16) -> String {
        format!("{}islands/{island}", self.database)
    }

    fn key(&self, rest: &str) -> String {
        format!("atoll/{}/{rest}", self.name)
    }

    fn get(&self, rest: &str) -> Result<Option<Entry>, Unreachable> {
        let key = self.key(rest);
        Ok(self.registry.list(&key)?.into_iter().find(|entry| entry.key == key))
    }

    /// The machines that have a lease, with their addresses.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub fn machines(&self) -> Result<Vec<(String, String)>, Unreachable> {
        let prefix = self.key("machines/");
        let all = self.registry.list(&prefix)?;
        Ok(all.into_iter().map(|entry| (entry.key[prefix.len()..].to_owned(), entry.value)).collect())
    }

    /// Takes the lease of a machine.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn lease(&self, machine: &str, address: &str, ttl: Duration) -> Result<Lease, Refused> {
        let key = self.key(&format!("machines/{machine}"));
        if let Some(lease) = Lease::take(self.registry.clone(), (&key, address), ttl)? {
            return Ok(lease);
        }
        let there = self.get(&format!("machines/{machine}"))?.map_or_else(String::new, |entry| entry.value);
        let (cluster, machine) = (self.name.clone(), machine.to_owned());
        Err(Refused::NameTaken { cluster, machine, address: there })
    }

    /// The text on which all machines of the cluster agree; the first machine writes it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn agree(&self, manifest: &str) -> Result<(), Refused> {
        if self.registry.put(&self.key("manifest"), manifest, Guard::Version(0), None)? {
            return Ok(());
        }
        match self.get("manifest")? {
            Some(there) if there.value != manifest => {
                let (cluster, here) = (self.name.clone(), manifest.to_owned());
                Err(Refused::Manifest { cluster, here, there: there.value })
            }
            _ => Ok(()),
        }
    }

    /// Claims an island for a machine that holds its lease.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn claim(&self, island: u16, machine: &str) -> Result<Claim, Refused> {
        let (mut term, mut version) = (0, 0);
        if let Some(found) = self.claimed(island)? {
            (term, version) = (found.term, found.version);
            if found.machine != machine && self.has_lease(&found.machine)? {
                return Err(Refused::Served { island, machine: found.machine });
            }
        }
        term += 1;
        let value = format!("{term} {machine}");
        if !self.registry.put(&self.key(&self.island(island)), &value, Guard::Version(version), None)? {
            return Err(Refused::Overtaken { island });
        }
        let at_least = self.at_least(island)?;
        Ok(Claim { island, term, at_least })
    }

    /// See [`Claim::at_least`].
    ///
    /// # Errors
    /// [`Refused`], also if the registry's value is no number: what it guards is lost then.
    pub fn at_least(&self, island: u16) -> Result<u64, Refused> {
        let Some(acked) = self.get(&format!("{}acked/{island}", self.database))? else { return Ok(0) };
        acked.value.parse().map_err(|_| Refused::Foreign { key: acked.key, value: acked.value })
    }

    /// Notes that a machine ends in order, or that it is back: its islands are not
    /// [`Cluster::left`] then.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub fn set_away(&self, machine: &str, is_away: bool) -> Result<(), Unreachable> {
        let key = self.key(&format!("away/{machine}"));
        self.registry.put(&key, if is_away { AWAY } else { "" }, Guard::Nothing, None).map(drop)
    }

    /// The machine that has an island and is gone: it has no lease, and has not ended in order.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn left(&self, island: u16) -> Result<Option<String>, Refused> {
        let Some(machine) = self.holder(island)? else { return Ok(None) };
        let is_away =
            || Ok::<_, Unreachable>(self.get(&format!("away/{machine}"))?.is_some_and(|e| e.value == AWAY));
        Ok(if self.has_lease(&machine)? || is_away()? { None } else { Some(machine) })
    }

    fn has_lease(&self, machine: &str) -> Result<bool, Unreachable> {
        Ok(self.machines()?.iter().any(|(name, _)| name == machine))
    }

    fn claimed(&self, island: u16) -> Result<Option<Claimed>, Refused> {
        let Some(Entry { key, value, version }) = self.get(&self.island(island))? else { return Ok(None) };
        let parts = value.split_once(' ').and_then(|(term, machine)| Some((term.parse().ok()?, machine)));
        match parts {
            Some((term, machine)) => Ok(Some(Claimed { term, machine: machine.to_owned(), version })),
            None => Err(Refused::Foreign { key, value }),
        }
    }

    /// The machine that claimed an island last, alive or not; `None`: any machine may have it.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn holder(&self, island: u16) -> Result<Option<String>, Refused> {
        Ok(self.claimed(island)?.map(|found| found.machine).filter(|machine| machine != NONE))
    }

    /// Gives an island back, if this machine has claimed it: any machine may claim it then.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn release(&self, island: u16, machine: &str) -> Result<(), Refused> {
        let Some(found) = self.claimed(island)?.filter(|found| found.machine == machine) else {
            return Ok(());
        };
        let (key, value) = (self.key(&self.island(island)), format!("{} {NONE}", found.term));
        match self.registry.put(&key, &value, Guard::Version(found.version), None)? {
            true => Ok(()),
            false => Err(Refused::Overtaken { island }),
        }
    }

    /// Notes how many entries of an island's log have counted.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub fn acked(&self, island: u16, counted: u64) -> Result<(), Unreachable> {
        let key = self.key(&format!("{}acked/{island}", self.database));
        self.registry.put(&key, &counted.to_string(), Guard::Nothing, None).map(drop)
    }

    /// The islands, each with its term and machine.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn islands(&self) -> Result<Vec<(u16, u64, String)>, Refused> {
        let prefix = self.key(&format!("{}islands/", self.database));
        let of = |entry: &Entry| {
            let (term, machine) = entry.value.split_once(' ')?;
            Some((entry.key[prefix.len()..].parse().ok()?, term.parse().ok()?, machine.to_owned()))
        };
        let read = |entry: Entry| {
            of(&entry).ok_or_else(|| Refused::Foreign { key: entry.key.clone(), value: entry.value.clone() })
        };
        self.registry.list(&prefix)?.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    const TTL: Duration = Duration::from_secs(60);

    fn cluster() -> Cluster {
        Cluster::new(Arc::new(Memory::default()), "c")
    }

    #[test]
    fn an_island_goes_to_another_machine_only_when_the_lease_is_over() {
        let cluster = cluster();
        let a = cluster.lease("a", "1.1.1.1", TTL).unwrap();
        assert_eq!(cluster.claim(0, "a").unwrap(), Claim { island: 0, term: 1, at_least: 0 });
        cluster.acked(0, 17).unwrap();
        let _b = cluster.lease("b", "2.2.2.2", TTL).unwrap();
        assert_eq!(cluster.claim(0, "b"), Err(Refused::Served { island: 0, machine: "a".into() }));
        drop(a);
        assert_eq!(cluster.claim(0, "b").unwrap(), Claim { island: 0, term: 2, at_least: 17 });
        // The machine itself may claim again: it has started anew.
        assert_eq!(cluster.claim(0, "b").unwrap().term, 3);
        assert_eq!(cluster.islands().unwrap(), [(0, 3, "b".to_owned())]);
        assert_eq!(cluster.machines().unwrap(), [("b".to_owned(), "2.2.2.2".to_owned())]);
    }

    #[test]
    fn each_database_has_islands_of_its_own_which_can_be_given_back() {
        let cluster = cluster();
        let _leases = ["a", "b"].map(|machine| cluster.lease(machine, "1.1.1.1", TTL).unwrap());
        let (bank, shop) = (cluster.of("bank"), cluster.of("shop"));
        assert_eq!(bank.claim(0, "a").unwrap().term, 1);
        assert_eq!(shop.claim(0, "b").unwrap().term, 1);
        assert_eq!((bank.holder(0).unwrap().as_deref(), shop.holder(1).unwrap()), (Some("a"), None));
        bank.release(0, "b").unwrap();
        assert_eq!(bank.claim(0, "b"), Err(Refused::Served { island: 0, machine: "a".into() }));
        bank.release(0, "a").unwrap();
        assert_eq!(bank.holder(0), Ok(None));
        assert_eq!(bank.claim(0, "b").unwrap().term, 2);
        assert_eq!(cluster.machines().unwrap().len(), 2);
    }

    #[test]
    fn islands_of_a_machine_that_is_gone_are_left_unless_it_ended_in_order() {
        let cluster = cluster();
        let lease = |machine| cluster.lease(machine, "1.1.1.1", TTL).unwrap();
        let (a, _b) = (lease("a"), lease("b"));
        cluster.claim(0, "a").unwrap();
        assert_eq!((cluster.left(0), cluster.left(1)), (Ok(None), Ok(None)));
        drop(a);
        assert_eq!(cluster.left(0), Ok(Some("a".into())));
        // It ends in order, and comes back, and is gone again.
        cluster.set_away("a", true).unwrap();
        assert_eq!(cluster.left(0), Ok(None));
        let a = lease("a");
        cluster.set_away("a", false).unwrap();
        assert_eq!(cluster.left(0), Ok(None));
        drop(a);
        assert_eq!(cluster.left(0), Ok(Some("a".into())));
        cluster.claim(0, "b").unwrap();
        assert_eq!(cluster.left(0), Ok(None));
    }

    #[test]
    fn two_machines_of_one_name_and_two_databases_are_refused() {
        let cluster = cluster();
        let _a = cluster.lease("a", "1.1.1.1", TTL).unwrap();
        let taken = cluster.lease("a", "2.2.2.2", TTL).map(drop).unwrap_err();
        assert!(taken.to_string().contains("1.1.1.1") && taken.to_string().contains("one name"), "{taken}");
        cluster.agree("sql, 2 islands").unwrap();
        cluster.agree("sql, 2 islands").unwrap();
        assert!(matches!(cluster.agree("sql, 3 islands"), Err(Refused::Manifest { .. })));
    }

    #[test]
    fn a_value_of_the_registry_that_is_none_is_named() {
        let cluster = cluster();
        let _a = cluster.lease("a", "1.1.1.1", TTL).unwrap();
        cluster.claim(0, "a").unwrap();
        cluster.acked(0, 17).unwrap();
        let put = |key: &str, value: &str| {
            assert!(cluster.registry.put(&cluster.key(key), value, Guard::Nothing, None).unwrap());
        };
        put("acked/0", "1x");
        let (key, value) = ("atoll/c/acked/0".to_owned(), "1x".to_owned());
        assert_eq!(cluster.at_least(0), Err(Refused::Foreign { key, value }));
        assert!(matches!(cluster.claim(0, "a"), Err(Refused::Foreign { .. })));
        put("islands/1", "a");
        assert!(matches!(cluster.islands(), Err(Refused::Foreign { .. })));
    }

    #[test]
    fn of_two_claims_at_once_one_is_overtaken() {
        let cluster = cluster();
        let claims: Vec<_> = std::thread::scope(|scope| {
            let one = |name: &'static str| {
                let cluster = &cluster;
                scope.spawn(move || cluster.claim(0, name))
            };
            ["a", "b", "c", "d"].map(one).into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        let mut terms: Vec<u64> = claims.iter().flatten().map(|claim| claim.term).collect();
        terms.sort_unstable();
        assert!(!terms.is_empty() && terms.windows(2).all(|two| two[0] < two[1]), "{claims:?}");
    }
}
