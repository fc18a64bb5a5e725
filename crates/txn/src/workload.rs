//! The interface of a workload to the code that deploys, loads, drives and checks it. It knows no
//! engine.

use crate::step::{decode, encode};
use crate::{Abort, Access, Route, Schema, StepId, Transaction};
use base::{InstanceId, SiteId, TableId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ops::Range;

/// The run of adjacent sites that each instance owns.
///
/// The routing keys `0..domain` of every table are cut into `sites` equal runs; instance `i` owns
/// sites `bounds[i]..bounds[i + 1]`. So the data and the request stream stay the same for every
/// number of instances.
///
/// Invariant: bounds begin with 0, never fall and name at least one instance. Deserialising checks
/// it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Placement {
    bounds: Vec<u32>,
}

/// Bounds that violate the invariant of [`Placement`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "not a placement: expected bounds that begin with 0, never fall and hold at least one site, found {0:?}"
)]
pub struct NoPlacement(Vec<u32>);

impl TryFrom<Vec<u32>> for Placement {
    type Error = NoPlacement;

    fn try_from(bounds: Vec<u32>) -> Result<Placement, NoPlacement> {
        let fits = (2..=usize::from(u16::MAX)).contains(&bounds.len())
            && bounds[0] == 0
            && bounds.is_sorted()
            && bounds.last() > Some(&0);
        if fits { Ok(Placement { bounds }) } else { Err(NoPlacement(bounds)) }
    }
}

impl From<Placement> for Vec<u32> {
    fn from(placement: Placement) -> Vec<u32> {
        placement.bounds
    }
}

impl Placement {
    /// Divides `sites` over `instances` as evenly as possible; earlier instances take the
    /// remainder, one site each.
    ///
    /// # Panics
    /// Unless `1 <= instances <= sites`.
    pub fn even(sites: u32, instances: u16) -> Placement {
        let n = u32::from(instances);
        assert!(n >= 1 && n <= sites, "{instances} instances over {sites} sites");
        let (share, extra) = (sites / n, sites % n);
        Placement { bounds: (0..=n).map(|i| i * share + i.min(extra)).collect() }
    }

    pub fn instances(&self) -> u16 {
        (self.bounds.len() - 1) as u16
    }

    pub fn sites(&self) -> u32 {
        *self.bounds.last().expect("bounds hold at least two entries")
    }

    pub fn sites_of(&self, instance: InstanceId) -> Range<u32> {
        self.bounds[instance.0 as usize]..self.bounds[instance.0 as usize + 1]
    }

    /// The site of routing key `key` out of `0..domain`.
    pub fn site(&self, key: u64, domain: u64) -> SiteId {
        let (sites, domain) = (u64::from(self.sites()), domain.max(1));
        match key.checked_mul(sites) {
            Some(product) => SiteId((product / domain) as u32),
            None => SiteId((u128::from(key) * u128::from(sites) / u128::from(domain)) as u32),
        }
    }

    /// The owner of a site; sites past the end belong to the last instance.
    pub fn owner(&self, site: SiteId) -> InstanceId {
        InstanceId(self.bounds[1..].iter().position(|&b| site.0 < b).unwrap_or(self.bounds.len() - 2) as u16)
    }

    /// The routing keys out of `0..domain` that `instance` owns.
    pub fn keys_of(&self, instance: InstanceId, domain: u64) -> Range<u64> {
        let edge =
            |site: u32| (u128::from(site) * u128::from(domain)).div_ceil(u128::from(self.sites())) as u64;
        let sites = self.sites_of(instance);
        edge(sites.start)..edge(sites.end)
    }
}

/// The outcome of the consistency conditions. Empty if all of them hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// One line per condition that does not hold: its name, the expected value, the value found.
    pub violations: Vec<String>,
}

impl Verdict {
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// How clients are bound to instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// Each client belongs to one instance and draws requests with a home among that instance's
    /// sites.
    Bound,
    /// As `Bound`, and the clients of a worker keep to its share of the instance's sites, if there
    /// is one site for each worker: terminals that keep one home for a whole run.
    Homed,
    /// Clients draw over all sites, and each request is sent to its home. For workloads in which
    /// homes are not equally popular: bound clients would even that out.
    Routed,
}

/// The pauses of a person at a terminal for one kind of request, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pauses {
    /// Before the request is sent; constant.
    pub keying_s: f64,
    /// After its reply; the mean of an exponential distribution.
    pub think_s: f64,
}

/// An endless, seeded stream of requests.
pub trait Generator {
    type Request;
    fn next(&mut self) -> Self::Request;

    /// The next request of a terminal that stays at one place: terminal `number` of those bound to
    /// `site`, one of the generator's sites. Terminals may share a generator.
    fn next_at(&mut self, _site: u32, _number: u32) -> Self::Request {
        self.next()
    }
}

pub trait Workload: Clone + Send + Sync + 'static {
    /// A procedure with its arguments.
    type Request: Clone + Serialize + DeserializeOwned + Send + 'static;
    type Reply: Serialize + DeserializeOwned + Send + 'static;
    type Generator: Generator<Request = Self::Request> + Send + 'static;
    /// The report of one instance to the consistency check.
    type Audit: Serialize + DeserializeOwned + Send + 'static;

    fn name(&self) -> String;
    fn schema(&self) -> Schema;
    /// The number of logical sites.
    fn sites(&self) -> u32;

    /// The procedures; selected by the request.
    async fn run<T: Transaction>(&self, request: &Self::Request, txn: &mut T) -> Result<Self::Reply, Abort>;

    /// The steps by number, for steps that arrive over a channel (see
    /// [`crate::step::run_encoded`]).
    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort>;

    /// All routes that the request will touch, its home first, as far as its arguments tell. The
    /// engine uses them to choose the home instance, and to run a transaction that stays at home
    /// without locks where the design allows. A request that names too few is still correct, only
    /// slower.
    fn routes(&self, request: &Self::Request, visit: &mut dyn FnMut(Route));

    /// Rows that the request will access, as far as its arguments tell. The engine may prefetch
    /// them while other requests run. A hint.
    #[inline]
    fn wants(&self, _request: &Self::Request, _visit: &mut impl FnMut(TableId, &[u8])) {}

    /// Whether the request never writes. A request that claims this and writes after all is only
    /// slower.
    fn only_reads(&self, _request: &Self::Request) -> bool {
        false
    }

    /// Whether the request's procedure waits for messages of its client
    /// ([`Transaction::hear`]). Its rows are locked where the design has locks, even if all of them
    /// are at one place.
    fn converses(&self, _request: &Self::Request) -> bool {
        false
    }

    /// The name under which results of this request are reported ("payment"), one of few.
    fn kind(&self, request: &Self::Request) -> &'static str;

    /// Reports named amounts ("lines", "remote_lines") of a request that was carried out; `reply`
    /// is `None` if the workload rolled it back. They are summed over a run, to compare it with the
    /// definition of the benchmark.
    #[inline]
    fn observe(
        &self,
        _request: &Self::Request,
        _reply: Option<&Self::Reply>,
        _add: &mut dyn FnMut(&'static str, u64),
    ) {
    }

    /// A request has committed, and its commit is durable. Told at its home, once for each commit,
    /// before the client has its reply: for a workload with a part that the database does not hold,
    /// such as the market to which orders go.
    #[inline]
    fn committed(&self, _request: &Self::Request, _reply: &Self::Reply) {}

    /// Appends a request in the form in which links carry it. A workload of many kinds overrides
    /// this and the next three, so that their code is compiled once, in its own crate, and not in
    /// each engine.
    fn encode_request(request: &Self::Request, out: &mut Vec<u8>) {
        encode(request, out);
    }

    /// # Errors
    /// [`Abort::BadRequest`]: the bytes are no request.
    fn decode_request(bytes: &[u8]) -> Result<Self::Request, Abort> {
        decode(bytes)
    }

    /// Appends a reply in the form in which links carry it.
    fn encode_reply(reply: &Self::Reply, out: &mut Vec<u8>) {
        encode(reply, out);
    }

    /// # Errors
    /// [`Abort::BadRequest`]: the bytes are no reply.
    fn decode_reply(bytes: &[u8]) -> Result<Self::Reply, Abort> {
        decode(bytes)
    }

    fn clients(&self) -> Clients {
        Clients::Bound
    }

    /// How long a person is busy before and after this request; `None` for a workload without
    /// people.
    fn pauses(&self, _request: &Self::Request) -> Option<Pauses> {
        None
    }

    /// A stream of requests with a home in `sites`.
    fn generator(&self, seed: u64, sites: Range<u32>) -> Self::Generator;

    /// Number of pieces in which the data of one site is loaded; each is one transaction.
    fn load_parts(&self, site: SiteId) -> u32;

    /// Number of leading columns of a table's key, all integers, that one lock covers where a
    /// worker owns the rows and has its own lock table. With fewer columns there are fewer locks,
    /// and more transactions conflict on one.
    fn lock_columns(&self, _table: TableId) -> u8 {
        1
    }

    /// Inserts piece `part` of `site`. Replicated tables are inserted by each instance, in
    /// [`Workload::load_replicated`].
    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort>;
    async fn load_replicated<A: Access>(&self, _access: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    /// Gathers the data for the consistency conditions from the instance that owns `sites`. Runs
    /// alone.
    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<Self::Audit, Abort>;
    /// Judges the audits of all instances together. `committed` is the number of transactions known
    /// to have committed since loading, if known, counting only the kinds that the workload counts.
    fn judge(&self, audits: Vec<Self::Audit>, committed: Option<u64>) -> Verdict;

    /// The number under which the database itself records that this request was carried out, for
    /// workloads that keep such a record. Unique over all streams of a run.
    fn ledger_id(&self, _request: &Self::Request) -> Option<u64> {
        None
    }
    /// Compares a client's ledger with the database: each of `acknowledged` must be there exactly
    /// once, each of `unknown` (sent, never answered) at most once, and no other.
    fn judge_ledger(&self, _audits: &[Self::Audit], _acknowledged: &[u64], _unknown: &[u64]) -> Verdict {
        Verdict::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_owners_and_keys_agree() {
        for (sites, instances, domain) in [(1, 1, 7), (4, 3, 4), (24, 5, 240_007), (24, 24, u64::MAX)] {
            let p = Placement::even(sites, instances);
            for i in (0..instances).map(InstanceId) {
                let keys = p.keys_of(i, domain);
                for key in [keys.start, keys.start + (keys.end - keys.start) / 2, keys.end - 1] {
                    assert_eq!(p.owner(p.site(key, domain)), i, "{sites} sites, key {key} of {domain}");
                    assert!(p.sites_of(i).contains(&p.site(key, domain).0));
                }
            }
            assert_eq!(p.keys_of(InstanceId(instances - 1), domain).end, domain);
        }
    }

    #[test]
    fn bytes_that_are_no_placement_are_refused() {
        let good = Placement::even(5, 2);
        let bytes = postcard::to_stdvec(&good).unwrap();
        assert_eq!(postcard::from_bytes::<Placement>(&bytes).unwrap(), good);
        for bad in [&[][..], &[0], &[0, 0], &[1, 2], &[0, 3, 2]] {
            let bytes = postcard::to_stdvec(bad).unwrap();
            assert!(postcard::from_bytes::<Placement>(&bytes).is_err(), "{bad:?}");
        }
    }
}
