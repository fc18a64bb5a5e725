//! The lease and the claims of a machine that serves, and how far its logs are.

use crate::cli::ServeArgs;
use crate::failure::Failure;
use deploy::{Deployment, RelayClaim, Running};
use members::{Cluster, Lease, Refused};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
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

/// How often the registry is told how far the logs are.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// The membership of this machine.
pub(crate) struct Membership {
    lease: Lease,
    progress: Arc<Progress>,
}

/// How far the logs have counted, for the thread that tells the registry. That may take seconds, in
/// which the instances must learn of the lease.
struct Progress {
    /// Of each island; 0: not known.
    counted: Vec<AtomicU64>,
    /// See [`Lease::answers_until`]. Later another machine may have accepted a loss.
    until_ns: AtomicU64,
}

impl Progress {
    /// Starts the thread. It ends with the last owner of the value.
    fn begin(cluster: Cluster, islands: u16) -> Result<Arc<Progress>, Failure> {
        let counted = (0..islands).map(|_| AtomicU64::new(0)).collect();
        let progress = Arc::new(Progress { counted, until_ns: AtomicU64::new(0) });
        let weak = Arc::downgrade(&progress);
        let body = move || tell_progress(&cluster, &weak, vec![0; islands.into()]);
        std::thread::Builder::new().name("progress".into()).spawn(body).map_err(Failure::run)?;
        Ok(progress)
    }

    fn note(&self, counted: &[u64], until_ns: u64) {
        self.until_ns.store(until_ns, Ordering::Release);
        for (place, counted) in self.counted.iter().zip(counted) {
            place.store(*counted, Ordering::Release);
        }
    }
}

/// `told`: of each island, what the registry has.
fn tell_progress(cluster: &Cluster, progress: &Weak<Progress>, mut told: Vec<u64>) {
    while let Some(progress) = progress.upgrade() {
        for (island, (counted, told)) in (0..).zip(progress.counted.iter().zip(&mut told)) {
            let counted = counted.load(Ordering::Acquire);
            let may_tell = progress.until_ns.load(Ordering::Acquire) > world::now_ns();
            if counted > 0 && counted != *told && may_tell && cluster.acked(island, counted).is_ok() {
                *told = counted;
            }
        }
        drop(progress);
        std::thread::sleep(TELL_EVERY);
    }
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
        let progress = Progress::begin(cluster, deployment.islands)?;
        Ok(Some(Membership { lease, progress }))
    }

    /// Tells the instances how long they may answer, and notes how far their logs are.
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
        self.progress.note(&running.counted(), self.lease.answers_until());
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
