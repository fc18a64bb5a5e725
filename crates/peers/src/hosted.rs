//! A workload on another engine in this process: loading, driving, checking.

use crate::bench::Bench;
use crate::contestant::{Contestant, Rate, Work};
use crate::fault::PeerFault;
use crate::peer::{Appended, Door, Engine, Intent, Session, Tables};
use crate::threads::{Client, drive};
use base::SiteId;
use topology::CpuId;
use txn::{Generator, Workload};
use workload::micro::Op;
use workload::oracle::at_once;

/// The number of load parts (some thousand rows each) per transaction. With synced commits, a load
/// mostly waits for them.
const TOGETHER: usize = 16;

/// A loaded engine.
pub struct Hosted<E, B: Bench> {
    name: &'static str,
    engine: E,
    bench: B,
    tables: Tables,
    cpus: Vec<Option<CpuId>>,
    sessions: usize,
    /// Update transactions committed since loading.
    updates: u64,
}

/// A client thread's session, its requests, and the current request.
struct Caller<'a, S, W: Workload> {
    name: &'a str,
    session: S,
    tables: &'a Tables,
    appended: Appended,
    workload: &'a W,
    intent: Intent,
    requests: W::Generator,
    request: Option<W::Request>,
}

impl<S: Session, W: Workload> Client for Caller<'_, S, W> {
    fn draw(&mut self) {
        self.request = Some(self.requests.next());
    }

    fn attempt(&mut self) -> Result<(), PeerFault> {
        let Some(request) = &self.request else { return Ok(()) };
        let mut door = Door::begin(&mut self.session, self.tables, &mut self.appended, self.intent)?;
        let ran = at_once(self.workload.run(request, &mut door));
        door.end(self.name, ran).map(drop)
    }
}

impl<E: Engine, B: Bench> Hosted<E, B> {
    /// The engine's own.
    /// The engine's own.
    pub fn load(
        name: &'static str,
        engine: E,
        bench: B,
        cpus: Vec<Option<CpuId>>,
    ) -> Result<Self, PeerFault> {
        let workload = bench.workload(Op::Read)?;
        let tables = Tables::of(&workload.schema());
        let hosted = Hosted { name, engine, bench, tables, cpus, sessions: 1, updates: 0 };
        let (mut session, mut appended) = (hosted.engine.session()?, Appended::session(0));
        let sites = (0..workload.sites()).map(SiteId);
        let parts: Vec<_> = sites.flat_map(|s| (0..workload.load_parts(s)).map(move |p| (s, p))).collect();
        for together in parts.chunks(TOGETHER) {
            let mut door = Door::begin(&mut session, &hosted.tables, &mut appended, Intent::Writes)?;
            let load = |&(site, part): &(SiteId, u32)| at_once(workload.load(site, part, &mut door));
            let loaded = together.iter().try_for_each(load);
            door.end(name, loaded)?;
        }
        drop(session);
        Ok(hosted)
    }
}

impl<E: Engine, B: Bench> Contestant for Hosted<E, B> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        let workload = self.bench.workload(work.op)?;
        let intent = self.bench.intent(work.op);
        let caller = |number| {
            Ok(Caller {
                name: self.name,
                session: self.engine.session()?,
                tables: &self.tables,
                appended: Appended::session(self.sessions + number),
                workload: &workload,
                intent,
                requests: workload.generator(work.stream(number), 0..workload.sites()),
                request: None,
            })
        };
        let (rate, committed) = drive(self.name, work, &self.cpus, caller)?;
        self.sessions += work.clients;
        if intent == Intent::Writes {
            self.updates += committed;
        }
        Ok(rate)
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        let workload = self.bench.workload(Op::Update)?;
        let (mut session, mut appended) = (self.engine.session()?, Appended::session(0));
        let mut door = Door::begin(&mut session, &self.tables, &mut appended, Intent::Reads)?;
        let audit = at_once(workload.audit(0..workload.sites(), &mut door));
        let audit = door.end(self.name, audit)?;
        let violations = workload.judge(vec![audit], Some(self.updates)).violations;
        if violations.is_empty() {
            Ok(())
        } else {
            Err(PeerFault::Wrong { name: self.name.into(), violations })
        }
    }
}
