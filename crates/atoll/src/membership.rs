//! The lease and the claims of a machine that serves.

use crate::cli::ServeArgs;
use crate::failure::Failure;
use deploy::{Deployment, RelayClaim, Running};
use members::{Cluster, Lease, Refused};
use std::time::{Duration, Instant};
use world::tell;

/// How long a lease outlives its machine.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// An earlier process of this machine may have died just now, or another machine: their leases end
/// within this time.
const PATIENCE: Duration = Duration::from_secs(15);
/// A term of the registry has room for this many openings of the log by the machine that has it:
/// an instance that dies is opened again with the log's next term.
pub(crate) const OPENINGS: u64 = 1 << 20;

/// The membership of this machine.
pub(crate) struct Membership {
    lease: Lease,
}

impl Membership {
    /// Takes the lease and claims the islands of `deployment`, which notes both. `None` if the
    /// options name no registry.
    pub fn begin(args: &ServeArgs, deployment: &mut Deployment) -> Result<Option<Membership>, Failure> {
        let (Some(servers), Some(machine)) = (&args.etcd, &args.machine) else { return Ok(None) };
        let Some(relay) = &mut deployment.relay else {
            return Err(Failure::Usage(
                "--etcd: the logs must be at a relay; expected --durability replicated".into(),
            ));
        };
        let cluster = Cluster::new(members::registry(servers).map_err(Failure::Usage)?, &relay.name);
        cluster
            .agree(&format!("{}, {} islands", deployment.data_name, deployment.islands))
            .map_err(Failure::run)?;
        let lease = patiently(|| cluster.lease(machine, &args.listen.to_string(), TTL))?;
        let mut claim = RelayClaim { terms: Vec::new(), at_least: Vec::new(), answers_until: 0 };
        for island in 0..deployment.islands {
            let claimed = patiently(|| cluster.claim(island, machine))?;
            claim.terms.push(claimed.term * OPENINGS);
            claim.at_least.push(claimed.at_least);
        }
        claim.answers_until = lease.answers_until();
        relay.claim = Some(claim);
        Ok(Some(Membership { lease }))
    }

    /// Tells the instances how long they may answer.
    ///
    /// # Errors
    /// The lease is over.
    pub fn tend(&self, running: &mut Running) -> Result<(), Failure> {
        if self.lease.is_over() {
            let why = "the lease of this machine is over: its islands may be another machine's; start it again to serve";
            return Err(Failure::Run(why.into()));
        }
        // An instance that cannot be reached has died, and is told when it runs again.
        let _ = running.answer_until(self.lease.answers_until());
        Ok(())
    }
}

/// Asks again while the lease of a dead process lasts, or the registry does not answer.
pub(crate) fn patiently<T>(ask: impl Fn() -> Result<T, Refused>) -> Result<T, Failure> {
    let (until, mut is_told) = (Instant::now() + PATIENCE, false);
    loop {
        match ask() {
            Ok(done) => return Ok(done),
            Err(refused @ (Refused::Manifest { .. } | Refused::Foreign { .. })) => {
                return Err(Failure::run(refused));
            }
            Err(refused) if Instant::now() > until => return Err(Failure::run(refused)),
            Err(refused) => {
                if !std::mem::replace(&mut is_told, true) {
                    tell(format_args!("atoll: waiting: {refused}"));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
