//! The microbenchmark with requests of one reach: either all are local, or all are over two sites.
//!
//! A multisite transaction draws its further rows from the whole table. So over two instances half
//! of the 2-row transactions are local, and a median latency would mix both. Here such requests are
//! drawn again.

use base::SiteId;
use std::ops::Range;
use txn::step::{Route, StepId, Transaction};
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Generator, Schema, Workload};
use workload::micro::{Micro, MicroAudit, MicroGenerator, MicroRequest};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    Local,
    Distributed,
}

#[derive(Clone, Debug)]
pub struct Pair {
    pub micro: Micro,
    pub reach: Reach,
}

pub struct PairGenerator {
    drawn: MicroGenerator,
    pair: Pair,
}

impl Pair {
    fn reach_of(&self, request: &MicroRequest) -> Reach {
        let site = |id: Option<&u64>| id.map(|&id| self.micro.site_of(id));
        if site(request.ids.first()) == site(request.ids.last()) { Reach::Local } else { Reach::Distributed }
    }
}

impl Generator for PairGenerator {
    type Request = MicroRequest;

    fn next(&mut self) -> MicroRequest {
        loop {
            let request = self.drawn.next();
            if self.pair.reach_of(&request) == self.pair.reach {
                return request;
            }
        }
    }
}

/// Everything except the requests is [`Micro`]'s.
impl Workload for Pair {
    type Request = MicroRequest;
    type Reply = i64;
    type Generator = PairGenerator;
    type Audit = MicroAudit;

    fn name(&self) -> String {
        self.micro.name()
    }

    fn schema(&self) -> Schema {
        self.micro.schema()
    }

    fn sites(&self) -> u32 {
        self.micro.sites()
    }

    async fn run<T: Transaction>(&self, request: &MicroRequest, txn: &mut T) -> Result<i64, Abort> {
        self.micro.run(request, txn).await
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        self.micro.run_step(id, args, access, out).await
    }

    fn routes(&self, request: &MicroRequest, visit: &mut dyn FnMut(Route)) {
        self.micro.routes(request, visit);
    }

    fn kind(&self, request: &MicroRequest) -> &'static str {
        self.micro.kind(request)
    }

    fn clients(&self) -> Clients {
        self.micro.clients()
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> PairGenerator {
        PairGenerator { drawn: self.micro.generator(seed, sites), pair: self.clone() }
    }

    fn load_parts(&self, site: SiteId) -> u32 {
        self.micro.load_parts(site)
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        self.micro.load(site, part, access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<MicroAudit, Abort> {
        self.micro.audit(sites, access).await
    }

    fn judge(&self, audits: Vec<MicroAudit>, committed: Option<u64>) -> Verdict {
        self.micro.judge(audits, committed)
    }
}
