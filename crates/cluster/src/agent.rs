//! The agent of a machine: describes it, and keeps instances for deployments.
//!
//! ```text
//!   DIR/agent.lock         one agent for a directory
//!   DIR/NAME/              a database that was kept: its description, and the instances here
//!   DIR/run-NUMBER/        the data of a deployment, removed with it; leftovers: a killed agent
//! ```
//!
//! # Access rules
//!
//! Each connection has a thread. The table of deployments is shared under a mutex, which is not
//! held while an instance starts or ends.

use crate::ClusterError;
use crate::bridge::{Bridge, End};
use crate::deployed::Deployed;
use crate::heir::Heir;
use crate::hosts::cores_of;
pub use crate::lease::{Claim, Lease, Logs};
use crate::moving::{self, RUN};
use crate::protocol::{AgentStatus, Answer, Ask, DeploymentStatus, Greeting, Kind, Loss, VERSION, decode};
use crate::talk::Talk;
use base::InstanceId;
use channel::{Address, ChannelError, Guarding, Hello, Link, Listener, Role, Stopper};
use deploy::{Ground, Interrupt, Keeper, Right, Scratch, read_description, write_description};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use topology::{CpuId, Machine};
use world::tell;

/// How often the agent looks for ended deployments and for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it tells the registry how far the logs are, and looks for islands of machines that are
/// gone.
const ATTEND_EVERY: Duration = Duration::from_millis(100);
/// How long a caller may take for its question.
const QUESTION: Duration = Duration::from_secs(5);

/// The settings of an agent.
pub struct Options {
    pub cluster: String,
    pub machine: String,
    pub listen: SocketAddr,
    pub data: PathBuf,
    /// The CPUs of the instances; `None`: all that this process may use.
    pub cores: Option<String>,
    /// The machine's certificates.
    pub tls: Option<PathBuf>,
    /// See [`Greeting::build`].
    pub build: String,
    /// `None`: the machine may always serve.
    pub lease: Option<Box<dyn Lease>>,
    /// With a lease, the agent takes over islands of machines that are gone; `None`: an operator
    /// says so.
    pub logs: Option<Box<dyn Logs>>,
}

struct Agent {
    options: Options,
    heir: Option<Heir>,
    topology: String,
    began: Instant,
    deployments: Mutex<BTreeMap<u64, Deployed>>,
    /// [`Lease::answers_until`] as [`Agent::watch`] read it last, for instances that were started
    /// under the present right. Those of a right that was lost keep their own, at 0: a later right
    /// does not let them answer, because their islands may be another machine's.
    answers_until: Mutex<Arc<AtomicU64>>,
    interrupt: Interrupt,
}

/// Runs until the interrupt or an operator's order. `ready` gets the address.
///
/// # Errors
/// The address is taken, the directory or the certificates cannot be used, or there are no such
/// cores.
pub fn run(
    mut options: Options,
    interrupt: &Interrupt,
    ready: &mut dyn FnMut(SocketAddr),
) -> Result<(), ClusterError> {
    let _lock = take_directory(&options.data)?;
    let guard = match &options.tls {
        None => Guarding::default(),
        Some(dir) => Guarding(Some(trust::guard(dir)?)),
    };
    if let Some(cores) = &options.cores {
        confine(cores)?;
    }
    let machine = Machine::live().map_err(|e| host_error(&options, e))?;
    let topology = serde_json::to_string(&machine).map_err(|e| host_error(&options, e))?;
    let at = if options.tls.is_some() { Address::Tls(options.listen) } else { Address::Tcp(options.listen) };
    let listener = Listener::bind_guarded(&at, &guard)?;
    let (Address::Tcp(at) | Address::Tls(at)) = *listener.address() else {
        unreachable!("it was bound to one")
    };
    let stopper = listener.stopper();
    let (began, interrupt) = (Instant::now(), interrupt.clone());
    let (answers_until, deployments) = (Mutex::default(), Mutex::default());
    let heir = options.logs.take().map(Heir::new);
    let agent = Arc::new(Agent { options, heir, topology, began, deployments, answers_until, interrupt });
    agent.renew();
    let (accepting, attending) = (agent.clone(), agent.clone());
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(body).map_err(|e| host_error(&agent.options, e))
    };
    let threads = [
        spawn("accept", Box::new(move || accepting.accept(&listener)))?,
        spawn("attend", Box::new(move || attending.attend()))?,
    ];
    ready(at);
    agent.watch(&stopper);
    threads.into_iter().for_each(|thread| drop(thread.join())); // a panic was printed
    agent.end_all();
    if let Some(lease) = &agent.options.lease {
        lease.leave();
    }
    Ok(())
}

fn host_error(options: &Options, why: impl std::fmt::Display) -> ClusterError {
    ClusterError::Host { host: options.machine.clone(), why: why.to_string() }
}

/// Locks the data directory and removes leftovers of a killed agent.
fn take_directory(data: &Path) -> Result<File, ClusterError> {
    let cannot = |why: std::io::Error| ClusterError::Data { path: data.into(), why };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(cannot)?;
    let lock = File::options().create(true).truncate(false).write(true).open(data.join("agent.lock"));
    let lock = lock.map_err(cannot)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ClusterError::DataInUse { path: data.into() }),
        Err(TryLockError::Error(why)) => return Err(cannot(why)),
    }
    for entry in fs::read_dir(data).map_err(cannot)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(RUN) {
            let _ = fs::remove_dir_all(entry.path()); // the next agent tries again
        }
    }
    Ok(lock)
}

/// Lets this thread, and all that it starts, run on these CPUs only.
fn confine(list: &str) -> Result<(), ClusterError> {
    let refuse = |why| ClusterError::Cores { cores: list.into(), why };
    let cpus: Vec<CpuId> = cores_of(list).map_err(refuse)?.into_iter().map(CpuId).collect();
    topology::pin_thread_to(&cpus).map_err(|e| refuse(e.to_string()))
}

impl Agent {
    fn table(&self) -> MutexGuard<'_, BTreeMap<u64, Deployed>> {
        self.deployments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end; meanwhile forgets deployments that have ended.
    fn watch(&self, stopper: &Stopper) {
        let mut lost = false;
        while !self.interrupt.is_set() {
            std::thread::sleep(LOOK_EVERY);
            lost = self.watch_lease(lost);
            let over: Vec<_> = self.table().extract_if(.., |_, deployed| !deployed.is_alive()).collect();
            over.into_iter().for_each(|(_, deployed)| deployed.end());
        }
        stopper.stop();
    }

    /// Ends all instances once the right is lost, and asks for another one. Returns whether it is
    /// lost; `lost` is what the call before returned.
    fn watch_lease(&self, lost: bool) -> bool {
        let Some(lease) = &self.options.lease else { return false };
        let Some(why) = lease.lost() else {
            self.renew();
            return false;
        };
        if !lost {
            tell(format_args!("atoll agent: the right to serve is lost ({why}): all instances here end"));
            // Before the instances end: `attach` starts none for the old value behind `end_all`.
            std::mem::take(&mut *self.present()).store(0, Ordering::Release);
            self.end_all();
        }
        lease.regain();
        true
    }

    /// Notes how long instances may answer; their keepers tell them.
    fn renew(&self) {
        if let Some(lease) = &self.options.lease {
            self.present().store(lease.answers_until(), Ordering::Release);
        }
    }

    fn present(&self) -> MutexGuard<'_, Arc<AtomicU64>> {
        self.answers_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body of the thread that speaks with the registry and the relay, which may take seconds.
    fn attend(&self) {
        let Some(lease) = self.options.lease.as_deref() else { return };
        let mut noted = BTreeMap::new();
        while !self.interrupt.is_set() {
            std::thread::sleep(ATTEND_EVERY);
            if lease.lost().is_some() {
                continue;
            }
            for (database, island, counted) in self.counted() {
                let key = (database, island);
                if noted.get(&key) != Some(&counted) && lease.note(&key.0, island, counted).is_ok() {
                    noted.insert(key, counted);
                }
            }
            if let Some(heir) = &self.heir {
                heir.look(&self.options.data, lease, &|database| self.idle(database).is_ok());
            }
        }
    }

    /// How far the logs of the instances here are at the relay.
    fn counted(&self) -> Vec<(String, InstanceId, u64)> {
        let table = self.table();
        table.values().flat_map(Deployed::counted).collect()
    }

    fn end_all(&self) {
        let all = std::mem::take(&mut *self.table());
        all.into_values().for_each(Deployed::end);
    }

    fn accept(self: Arc<Agent>, listener: &Listener) {
        let mut last = String::new();
        loop {
            match listener.accept() {
                Ok((link, hello)) => {
                    let agent = self.clone();
                    let serve = move || agent.serve(link, &hello);
                    if let Err(why) = std::thread::Builder::new().name("operator".into()).spawn(serve) {
                        tell(format_args!("atoll agent: no thread for a caller: {why}"));
                    }
                }
                Err(ChannelError::Stopped) => return,
                Err(error) => {
                    let text = error.to_string();
                    if text != last {
                        tell(format_args!("atoll agent: refused a caller: {text}"));
                        last = text;
                    }
                    if !error.goes_on() {
                        std::thread::sleep(LOOK_EVERY);
                    }
                }
            }
        }
    }

    fn serve(&self, link: Link, hello: &Hello) {
        let role = link.role();
        let Ok(mut talk) = Talk::over(link) else { return };
        let answer = match self.check(hello, role) {
            Err(why) => Answer::Refused(why),
            Ok(()) => match talk.hear::<Ask>(QUESTION) {
                Err(_) => return,
                Ok(Ask::Attach { deployment, database, instance, again }) => {
                    match self.attach((deployment, database), instance, again) {
                        Ok((keeper, orders)) => return carry(talk, keeper, orders),
                        Err(ClusterError::Host { why, .. }) => Answer::Refused(why),
                        Err(why) => Answer::Refused(why.to_string()),
                    }
                }
                Ok(Ask::Fetch { database, island }) => match self.idle(&database) {
                    Ok(dir) if talk.say(&Answer::Ready).is_ok() => {
                        // The operator misses the end of the pieces.
                        return drop(moving::send(&dir, island, &mut talk));
                    }
                    Ok(_) => return,
                    Err(why) => Answer::Refused(why),
                },
                Ok(Ask::Take { database, island, kind }) => match self.idle(&database) {
                    Ok(dir) if talk.say(&Answer::Ready).is_ok() => {
                        let taken = moving::take(&dir, island, kind, &mut talk);
                        taken.map_or_else(Answer::Refused, |()| Answer::Done)
                    }
                    Ok(_) => return,
                    Err(why) => Answer::Refused(why),
                },
                Ok(ask) => self.answer(ask),
            },
        };
        let _ = talk.say(&answer); // the caller may be gone
    }

    /// # Errors
    /// Why the caller may not ask anything.
    fn check(&self, hello: &Hello, role: Option<Role>) -> Result<(), String> {
        let options = &self.options;
        if hello.0.first().is_none_or(|first| u16::from(*first) != VERSION) {
            return Err(format!("it runs atoll {}: run the same version on all hosts", options.build));
        }
        let greeting: Greeting = decode(&hello.0)?;
        if let Some(role) = role.filter(|role| *role != Role::Operator) {
            let name = role.name();
            return Err(format!(
                "orders came with the certificate of a {name}: expected that of an operator (--tls DIR/operator)"
            ));
        }
        match () {
            () if greeting.build != options.build => Err(format!(
                "it runs atoll {}, this is {}: run the same version on all hosts",
                options.build, greeting.build
            )),
            () if greeting.cluster != options.cluster => Err(format!(
                "it belongs to cluster {}, the hosts file is of cluster {}: correct one of them",
                options.cluster, greeting.cluster
            )),
            () if greeting.machine != options.machine => Err(format!(
                "the agent at this address calls itself {}: correct the hosts file, or start the agent with --machine {}",
                options.machine, greeting.machine
            )),
            () => Ok(()),
        }
    }

    fn answer(&self, ask: Ask) -> Answer {
        let done = match ask {
            Ask::Attach { .. } | Ask::Fetch { .. } | Ask::Take { .. } => {
                Ok(Answer::Refused("it is answered elsewhere".into()))
            }
            Ask::Islands { database } => self.islands(&database).map(Answer::Islands),
            Ask::Copies { database } => {
                self.directory(&database).map(|dir| Answer::Islands(moving::islands(&dir, Kind::Copy)))
            }
            Ask::TakeOver { database, island, loss } => {
                self.take_over(&database, island, loss).map(|()| Answer::Done)
            }
            Ask::Forget { database, island } => self.forget(&database, island).map(|()| Answer::Done),
            Ask::Status => Ok(Answer::Status(Box::new(self.status()))),
            Ask::Read { database } => self
                .directory(&database)
                .and_then(|dir| read_description(&dir).map_err(|e| e.to_string()))
                .map(Answer::Description),
            Ask::Write { database, text } => match &text {
                Some(_) => self.directory(&database),
                None => self.idle(&database),
            }
            .and_then(|dir| write_description(&dir, text.as_deref()).map_err(|e| e.to_string()))
            .map(|()| Answer::Done),
            Ask::End => {
                self.interrupt.set();
                Ok(Answer::Done)
            }
        };
        done.unwrap_or_else(Answer::Refused)
    }

    /// The directory of a kept database.
    fn directory(&self, database: &str) -> Result<PathBuf, String> {
        let ordinary = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match !database.is_empty() && database.chars().all(ordinary) && !database.starts_with(RUN) {
            true => Ok(self.options.data.join(database)),
            false => Err(format!(
                "--data {database}: with --hosts it is the name of a directory below the data directory of each agent; \
                 expected letters, digits, - and _"
            )),
        }
    }

    /// The same, if no deployment runs on it.
    fn idle(&self, database: &str) -> Result<PathBuf, String> {
        let dir = self.directory(database)?;
        let runs =
            |deployed: &Deployed| deployed.database.as_deref() == Some(database) && deployed.is_alive();
        match self.table().values().any(runs) {
            false => Ok(dir),
            true => Err(format!("a deployment runs on database {database}: wait for its end")),
        }
    }

    /// The islands of a database that are here. The directory of one that another machine has taken
    /// over becomes a copy.
    fn islands(&self, database: &str) -> Result<Vec<InstanceId>, String> {
        let dir = self.directory(database)?;
        let mut here = Vec::new();
        for island in moving::islands(&dir, Kind::Island) {
            let lease = self.options.lease.as_ref();
            match lease.map_or(Ok(false), |lease| lease.is_elsewhere(database, island))? {
                false => here.push(island),
                true => moving::demote(&self.idle(database)?, island)?,
            }
        }
        Ok(here)
    }

    /// Makes the copy of an island here the island, once no other machine serves it.
    fn take_over(&self, database: &str, island: InstanceId, loss: Loss) -> Result<(), String> {
        let dir = self.idle(database)?;
        if !moving::islands(&dir, Kind::Copy).contains(&island) {
            return Err(format!("it has no copy of island {island} of {database}"));
        }
        let Some(lease) = &self.options.lease else {
            return Err(
                "its agent has no lease, so nothing tells whether the other machine still serves: expected a line `etcd \
                 http://HOST:PORT,..` in the hosts file, and a log at a relay"
                    .into(),
            );
        };
        if loss == Loss::Refuse && !moving::is_followed(&dir, island) {
            return Err(moving::no_log(database, island));
        }
        if let (Loss::Refuse, Some(heir)) = (loss, &self.heir) {
            heir.require_whole(&dir, (database, island), &**lease)?;
        }
        lease.claim(database, island)?;
        if loss == Loss::Accept {
            // What is lost is not asked for when the log is opened.
            lease.note(database, island, 0)?;
        }
        moving::promote(&dir, island)
    }

    fn forget(&self, database: &str, island: InstanceId) -> Result<(), String> {
        let dir = self.idle(database)?;
        moving::forget(&dir, island)?;
        self.options.lease.as_ref().map_or(Ok(()), |lease| lease.release(database, island))
    }

    /// The right to serve an island of a kept database.
    fn right(&self, database: Option<&str>, island: InstanceId) -> Result<Option<Right>, String> {
        let (Some(lease), Some(database)) = (&self.options.lease, database) else { return Ok(None) };
        // Before the claim: if the right is lost meanwhile, the instance never answers.
        let answers_until = self.present().clone();
        let Claim { term, at_least } = lease.claim(database, island)?;
        Ok(Some(Right { term, at_least, answers_until }))
    }

    /// # Errors
    /// The island needs a right, and this one is none, or was lost since it was given.
    fn must_hold(&self, database: Option<&str>, right: Option<&Right>) -> Result<(), String> {
        let is_held = |right: &Right| Arc::ptr_eq(&right.answers_until, &self.present());
        match self.options.lease.is_none() || database.is_none() || right.is_some_and(is_held) {
            true => Ok(()),
            false => {
                Err("the instance has ended, or the right to serve was lost, just now: try again".into())
            }
        }
    }

    /// Whether the instance runs in this deployment.
    fn is_kept(&self, number: u64, instance: InstanceId) -> bool {
        let table = self.table();
        table.get(&number).and_then(|d| d.keepers.get(&instance)).is_some_and(|keeper| !keeper.is_over())
    }

    fn status(&self) -> AgentStatus {
        let status = |(number, deployed): (&u64, &Deployed)| DeploymentStatus {
            deployment: *number,
            database: deployed.database.clone(),
            instances: deployed.instances(),
        };
        let (taken, refused) = self.heir.as_ref().map(Heir::status).unwrap_or_default();
        AgentStatus {
            machine: self.options.machine.clone(),
            build: self.options.build.clone(),
            up_s: self.began.elapsed().as_secs(),
            boot: world::boot(),
            topology: self.topology.clone(),
            deployments: self.table().iter().map(status).collect(),
            taken,
            refused,
        }
    }

    /// Takes a deployment out of the table if all its instances have ended.
    fn take_ended(&self, number: u64) -> Option<Deployed> {
        let mut table = self.table();
        let is_over = table.get(&number).is_some_and(|deployed| !deployed.is_alive());
        if is_over { table.remove(&number) } else { None }
    }

    /// The keeper of an instance, new or not, and the socket for its orders.
    fn attach(
        &self,
        (number, database): (u64, Option<String>),
        instance: InstanceId,
        again: bool,
    ) -> Result<(Arc<Keeper>, UnixStream), ClusterError> {
        let refuse = |why: String| ClusterError::Host { host: self.options.machine.clone(), why };
        if let Some(why) = self.options.lease.as_ref().and_then(|lease| lease.lost()) {
            return Err(refuse(format!("it has lost the right to serve ({why})")));
        }
        if self.interrupt.is_set() {
            return Err(refuse("its agent is ending".into()));
        }
        let (ours, theirs) = UnixStream::pair().map_err(|e| refuse(e.to_string()))?;
        // Before the table is locked: the claim may wait.
        let right = match self.is_kept(number, instance) {
            true => None,
            false => self.right(database.as_deref(), instance).map_err(refuse)?,
        };
        if let Some(ended) = self.take_ended(number) {
            if again && ended.database.is_none() {
                ended.end();
                return Err(refuse(
                    "the instance could not be started again, see the agent's messages".into(),
                ));
            }
            ended.end();
        }
        let mut table = self.table();
        if again && database.is_none() && !table.contains_key(&number) {
            return Err(refuse(
                "its agent is another one, and the temporary data is gone with the old one".into(),
            ));
        }
        let other = |(n, d): (&u64, &Deployed)| *n != number && d.database == database && d.is_alive();
        if let (Some(name), true) = (&database, table.iter().any(other)) {
            return Err(refuse(format!("another deployment runs on database {name}: wait for its end")));
        }
        let deployed = match table.entry(number) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let data = match &database {
                    Some(name) => self.directory(name).map_err(refuse)?,
                    None => self.options.data.join(format!("{RUN}{number:016x}")),
                };
                free.insert(Deployed { database, data, sockets: Scratch::new()?, keepers: BTreeMap::new() })
            }
        };
        let live = deployed.keepers.get(&instance).filter(|keeper| !keeper.is_over()).cloned();
        let keeper = match live {
            Some(keeper) => keeper,
            None => {
                self.must_hold(deployed.database.as_deref(), right.as_ref()).map_err(refuse)?;
                let ground = Ground {
                    data: deployed.data.clone(),
                    sockets: deployed.sockets.path().into(),
                    tls: self.options.tls.clone(),
                    ip: self.options.listen.ip(),
                    right,
                };
                let keeper = Arc::new(Keeper::start(instance, ground)?);
                deployed.keepers.insert(instance, keeper.clone());
                keeper
            }
        };
        keeper.attach(theirs);
        Ok((keeper, ours))
    }
}

/// The agent's end of a bridge.
struct Here {
    keeper: Arc<Keeper>,
}

impl End for Here {
    fn kill(&mut self) {
        self.keeper.kill();
    }

    fn last_words(&mut self) -> String {
        self.keeper.last_words()
    }
}

fn carry(mut talk: Talk, keeper: Arc<Keeper>, orders: UnixStream) {
    if talk.say(&Answer::Attached).is_ok() {
        Bridge::over(talk).carry(orders, &mut Here { keeper });
    }
}
