//! A running deployment.
//!
//! All orders go through one owner (`&mut self`), to every instance at once; then the replies are
//! gathered. The supervisor is [`Running::tend`]: the owner of the deployment calls it between
//! orders. It finds dead instances, starts them again on the same data, and connects all instances
//! anew. The restart happens on the owner's thread and not on a separate one, because the kernel
//! ends a child when the *thread* that started it ends.

use crate::control::{Birth, InstanceOrder, Reply};
use crate::copy::{CopyProgress, clones};
use crate::distant::Errand;
use crate::engine::{Address, Durability, InstanceConfig, TrafficOrder, TreeKind};
use crate::home::{Home, Unfinished};
use crate::lock;
use crate::manifest::{DISK, FORMAT, MEMORY, Manifest};
use crate::member::{self, Member};
use crate::scratch::Scratch;
use crate::whole::schema_number;
use crate::{DataUse, DeployError, Deployment, Host};
use base::InstanceId;
use probe::{Measured, Profiling};
use std::sync::atomic::Ordering;
use std::time::Duration;
use traffic::{LoadChange, Share, Traffic};
use workload::WorkloadSpec;

/// How long each order may take without a sign of progress.
mod patience {
    use std::time::Duration;
    /// A restart replays a log.
    pub const START: Duration = Duration::from_secs(300);
    /// Renewed with each piece that is loaded.
    pub const LOAD: Duration = Duration::from_secs(120);
    /// Transactions under way have to end.
    pub const HALT: Duration = Duration::from_secs(60);
    /// An audit reads all data, after transactions in doubt are settled.
    pub const AUDIT: Duration = Duration::from_secs(300);
    /// A stop writes all changed pages.
    pub const STOP: Duration = Duration::from_secs(120);
    /// Orders that only exchange messages.
    pub const SHORT: Duration = Duration::from_secs(30);
}

/// How often the supervisor looks for dead instances while it waits: often compared with the time
/// of a restart, rarely enough to cost the workers nothing.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// See the head of this file.
pub struct Running {
    deployment: Deployment,
    // Members before directories: members drop first, since they use the directories.
    members: Vec<Member>,
    home: Home,
    /// The data is loaded into its own directory first; then the run continues on a copy.
    copies_after_load: bool,
    run_dir: Scratch,
    /// The load while clients run inside the instances.
    driving: Option<Driving>,
    restarts: u64,
    /// The next restart is killed as well, after this time.
    kill_restart_after: Option<Duration>,
    /// The last order of [`Running::answer_until`].
    answers_until: u64,
}

/// The parameters of a load, for its start and for an instance that is restarted.
#[derive(Clone)]
struct Driving {
    traffic: Traffic,
    seed: u64,
    profiling: Profiling,
    /// When its changes began, by [`world::now_ns`].
    began_ns: u64,
    /// Their times count from `began_ns`.
    changes: Vec<LoadChange<WorkloadSpec>>,
}

impl Deployment {
    /// The manifest that the data directory of this deployment must have.
    ///
    /// # Errors
    /// When there is no such workload.
    pub fn manifest(&self) -> Result<Manifest, DeployError> {
        Ok(Manifest {
            format: FORMAT,
            data: self.data_name.clone(),
            islands: self.islands,
            // The designs on pages keep their data in the same pages and logs.
            family: if self.design.is_in_memory() { MEMORY } else { DISK }.into(),
            tables: self.options.tables,
            trees: self.options.trees,
            heaps: self.options.heaps,
            partitions: if self.options.trees == TreeKind::MultiRooted { self.partitions() } else { 1 },
            schema: schema_number(&self.spec)?,
            workload: self.spec.data_only(),
        })
    }

    /// Starts every instance and connects them. The data is present afterwards only if it was
    /// present before.
    ///
    /// # Errors
    /// When the deployment cannot exist, its directory cannot be used, or an instance does not
    /// start. Nothing is left behind then.
    pub fn launch(self) -> Result<Running, DeployError> {
        self.launch_watched(&mut |_, _| {})
    }

    /// As [`Deployment::launch`]; `progress` gets the bytes of the data that have been copied, and
    /// their total.
    ///
    /// # Errors
    /// As [`Deployment::launch`].
    pub fn launch_watched(self, progress: &mut dyn FnMut(u64, u64)) -> Result<Running, DeployError> {
        self.check()?;
        let run_dir = Scratch::new()?;
        let home = self.home(&run_dir, progress)?;
        let copies_after_load = self.copies() && !home.is_loaded();
        let mut running = Running {
            deployment: self,
            members: Vec::new(),
            home,
            copies_after_load,
            run_dir,
            driving: None,
            restarts: 0,
            kill_restart_after: None,
            answers_until: 0,
        };
        running.bring_up()?;
        Ok(running)
    }

    /// Whether it runs on a copy of the data in a directory. A log in memory has no records of
    /// pages that existed before it, so with durability `memory` the data is loaded for each
    /// deployment.
    fn copies(&self) -> bool {
        self.data.is_some()
            && self.data_use == DataUse::Copy
            && self.durability != Durability::Memory
            && self.machines.is_none()
    }

    fn home(&self, run_dir: &Scratch, progress: &mut dyn FnMut(u64, u64)) -> Result<Home, DeployError> {
        let manifest = self.manifest()?;
        if let Some(machines) = &self.machines {
            let home = Home::afar(machines.clone(), self.errand().database, manifest)?;
            if home.is_loaded() {
                home.enter()?;
            }
            return Ok(home);
        }
        let Some(path) = &self.data else {
            let home = Home::inside(run_dir, manifest)?;
            home.require_space(self.data_bytes * LOADING)?;
            return Ok(home);
        };
        let unfinished = match self.data_use {
            DataUse::Load => Unfinished::StartAnew,
            DataUse::Copy | DataUse::Keep | DataUse::Spend => Unfinished::Refuse,
        };
        let mut home = Home::at(path, manifest, unfinished)?;
        if home.is_loaded() {
            home.judge().or_refuse(path)?;
        }
        if self.data_use == DataUse::Copy && !self.copies() {
            home.run_beside()?;
            home.require_space(self.data_bytes)?;
            return Ok(home);
        }
        match (home.is_loaded(), self.data_use) {
            (true, DataUse::Copy) => {
                home.run_on_a_copy(CopyProgress { interrupt: &self.interrupt, progress })?;
            }
            (true, _) => home.enter()?,
            (false, DataUse::Copy) if !clones(home.path()) => {
                home.require_space(self.data_bytes * (LOADING + 1))?;
            }
            (false, _) => home.require_space(self.data_bytes * LOADING)?,
        }
        Ok(home)
    }
}

/// The space that loading takes on the device, in sizes of the data: pages and their log.
const LOADING: u64 = 2;

impl Running {
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Where clients reach each instance.
    pub fn addresses(&self) -> Vec<(InstanceId, Address)> {
        let at = |m: &Member| m.far.clone().or_else(|| m.config.listen.clone());
        self.members.iter().filter_map(|m| Some((m.id(), at(m)?))).collect()
    }

    /// Where `caller` reaches each other instance: on its machine, or from another one.
    fn addresses_for(&self, caller: InstanceId) -> Vec<(InstanceId, Address)> {
        let machine = |id| self.deployment.machine_of(id);
        let at =
            |m: &Member| if machine(m.id()) == machine(caller) { &m.config.listen } else { &m.far }.clone();
        let others = self.members.iter().filter(|m| m.id() != caller);
        others.filter_map(|m| Some((m.id(), at(m)?))).collect()
    }

    /// Starts the host of an instance where the deployment has it. `again`: after its death.
    fn spawn(&self, config: InstanceConfig, again: bool) -> Result<Member, DeployError> {
        let d = &self.deployment;
        match &d.machines {
            None => Member::spawn(config, &member::Home::Here(d.host), &d.interrupt),
            Some(machines) => {
                let machine = machines.of(config.id, d.islands);
                let errand = Errand { again, ..d.errand() };
                Member::spawn(config, &member::Home::Afar(&**machines, &errand, machine), &d.interrupt)
            }
        }
    }

    /// The processes of the instances; empty with the thread host.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(Member::pid).collect()
    }

    /// The number of restarts of instances so far.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The count from which the data's consistency check starts: see [`Home::effects`].
    pub fn effects_at_start(&self) -> Option<u64> {
        self.home.effects()
    }

    /// Whether the data was loaded by an earlier run.
    pub fn is_loaded(&self) -> bool {
        self.home.is_loaded()
    }

    /// Loads the data into all instances at once; `progress` gets pieces done and pieces in all.
    pub fn load(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), DeployError> {
        if self.home.is_loaded() {
            return Ok(());
        }
        let mut parts = vec![(0, 1); self.members.len()];
        let order = InstanceOrder::Load;
        self.members.iter_mut().try_for_each(|m| m.order(&order))?;
        for i in 0..self.members.len() {
            self.members[i].reply(
                order.name(),
                patience::LOAD,
                &self.deployment.interrupt,
                &mut |done, total| {
                    parts[i] = (done, total);
                    progress(parts.iter().map(|p| p.0).sum(), parts.iter().map(|p| p.1).sum());
                },
            )?;
            parts[i].0 = parts[i].1;
        }
        if self.copies_after_load { self.leave_for_a_copy() } else { self.home.loaded() }
    }

    /// The data is complete: stops all instances, leaves the directory in order, and starts all
    /// instances on a copy of it.
    fn leave_for_a_copy(&mut self) -> Result<(), DeployError> {
        self.all(&InstanceOrder::Stop, patience::STOP)?;
        self.members.clear();
        self.home.loaded()?;
        self.home.leave(Some(0))?;
        self.copies_after_load = false;
        let watch = CopyProgress { interrupt: &self.deployment.interrupt, progress: &mut |_, _| {} };
        self.home.run_on_a_copy(watch)?;
        self.bring_up()
    }

    /// Spawns every instance in its directory, starts and connects them.
    fn bring_up(&mut self) -> Result<(), DeployError> {
        for config in self.deployment.configs(self.home.path(), self.run_dir.path()) {
            let dir = self.home.subdirectory(&config.id.to_string())?;
            if self.deployment.machines.is_none() {
                lock::await_release(&dir, patience::SHORT);
            }
            self.members.push(self.spawn(config, false)?);
        }
        self.start(&(0..self.members.len()).collect::<Vec<_>>())?;
        self.connect()
    }

    /// Starts a load inside the workers, divided evenly among all of them. Measurements from then
    /// on include a profile if `profiling` says so.
    pub fn drive(&mut self, traffic: Traffic, seed: u64, profiling: Profiling) -> Result<(), DeployError> {
        // One more stream for the requests of a worker's terminals.
        let streams = self.deployment.workers_of(0) as u64 * (u64::from(traffic.clients) + 1);
        if streams > STREAMS_PER_SEED {
            return Err(DeployError::Impossible(format!(
                "--clients {}: {streams} streams of requests in one instance; expected at most {STREAMS_PER_SEED}",
                traffic.clients
            )));
        }
        self.driving = Some(Driving { traffic, seed, profiling, began_ns: 0, changes: Vec::new() });
        self.order_drive(&(0..self.members.len()).collect::<Vec<_>>())
    }

    /// Orders changes of the load, ascending by time. Their clock starts now.
    pub fn change(&mut self, changes: Vec<LoadChange<WorkloadSpec>>) -> Result<(), DeployError> {
        let Some(driving) = &mut self.driving else { return Ok(()) };
        (driving.began_ns, driving.changes) = (world::now_ns(), changes);
        self.order_changes(&(0..self.members.len()).collect::<Vec<_>>())
    }

    /// When the clock of the changes started, by [`world::now_ns`]; 0 before.
    pub fn began_ns(&self) -> u64 {
        self.driving.as_ref().map_or(0, |driving| driving.began_ns)
    }

    /// The measurements of every instance since the last call, in order of their numbers.
    pub fn measure(&mut self) -> Result<Vec<Measured>, DeployError> {
        let replies = self.all(&InstanceOrder::Measure, patience::SHORT)?;
        Ok(replies
            .into_iter()
            .filter_map(|r| if let Reply::Measured(m) = r { Some(*m) } else { None })
            .collect())
    }

    /// Ends the clients; no transaction of theirs is in flight afterwards.
    pub fn halt(&mut self) -> Result<(), DeployError> {
        self.driving = None;
        self.all(&InstanceOrder::Halt, patience::HALT).map(drop)
    }

    /// The report of each instance for the workload's consistency check, its `Workload::Audit`
    /// encoded with postcard.
    pub fn audit(&mut self) -> Result<Vec<Vec<u8>>, DeployError> {
        let replies = self.all(&InstanceOrder::Audit, patience::AUDIT)?;
        Ok(replies.into_iter().filter_map(|r| if let Reply::Audit(a) = r { Some(a) } else { None }).collect())
    }

    /// Changes the requests over the same data. Only while no clients run.
    pub fn reconfigure(&mut self, spec: WorkloadSpec) -> Result<(), DeployError> {
        self.deployment.spec = spec.clone();
        self.all(&order_of(TrafficOrder::Reconfigure(spec)), patience::SHORT).map(drop)
    }

    /// Sends SIGKILL to one instance; [`Running::tend`] restarts it.
    pub fn kill(&mut self, instance: InstanceId) -> Result<(), DeployError> {
        let member = self.members.get_mut(usize::from(instance.0));
        let member = member.ok_or_else(|| {
            DeployError::Impossible(format!(
                "instance {instance}: there are {} of them",
                self.deployment.islands
            ))
        })?;
        member.kill()
    }

    /// Has the next restart of an instance killed while it runs, `delay` after the order to start.
    pub fn kill_next_restart(&mut self, delay: Duration) {
        self.kill_restart_after = Some(delay);
    }

    /// Waits up to `wait` for an instance to die. Restarts every dead one with the same
    /// configuration on the same data, connects all instances anew, and starts the clients of the
    /// restarted ones. Returns the restarted instances.
    ///
    /// # Errors
    /// If the log was in memory: then the data is lost with the process. If the engine of an
    /// instance has failed.
    pub fn tend(&mut self, wait: Duration) -> Result<Vec<InstanceId>, DeployError> {
        let until = std::time::Instant::now() + wait;
        let mut dead = self.dead()?;
        while dead.is_empty() && std::time::Instant::now() < until {
            if self.deployment.interrupt.is_set() {
                return Err(DeployError::Interrupted);
            }
            std::thread::sleep(LOOK_EVERY.min(wait));
            dead = self.dead()?;
        }
        let mut restarted = Vec::new();
        while !dead.is_empty() {
            for &i in &dead {
                self.revive(i)?;
                restarted.push(self.members[i].id());
            }
            match self.start(&dead).and_then(|()| self.connect()).and_then(|()| self.order_drive(&dead)) {
                // Another one died meanwhile: the loop runs once more.
                Ok(()) | Err(DeployError::Lost { .. }) => {}
                Err(other) => return Err(other),
            }
            dead = self.dead()?;
        }
        Ok(restarted)
    }

    /// Shuts every instance down in order and leaves the data directory so that it can be opened
    /// again. `effects`: the count from which the next consistency check would start.
    pub fn stop(mut self, effects: Option<u64>) -> Result<(), DeployError> {
        self.all(&InstanceOrder::Stop, patience::STOP)?;
        self.members.clear();
        match self.deployment.durability {
            Durability::Memory => self.home.discard(),
            _ => self.home.leave(effects),
        }
    }

    /// The instances answer until this time ([`world::now_ns`]), or until a later call moves it.
    ///
    /// # Errors
    /// An instance that cannot be reached; the others have the order.
    pub fn answer_until(&mut self, ns: u64) -> Result<(), DeployError> {
        self.answers_until = ns;
        let told = self.members.iter_mut().map(|member| member.order(&InstanceOrder::AnswerUntil(ns)));
        told.fold(Ok(()), Result::and)
    }

    /// How many entries of each instance's log a quorum has, a little behind; 0 without a relay.
    pub fn counted(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.counted.load(Ordering::Acquire)).collect()
    }

    /// # Errors
    /// An instance that lives, but has an engine that failed.
    fn dead(&mut self) -> Result<Vec<usize>, DeployError> {
        let mut dead = Vec::new();
        for (i, member) in self.members.iter_mut().enumerate() {
            if member.is_lost()? {
                dead.push(i);
            }
        }
        Ok(dead)
    }

    fn revive(&mut self, i: usize) -> Result<(), DeployError> {
        let durable = self.deployment.durability != Durability::Memory;
        if !durable || self.deployment.host == Host::Thread {
            let (instance, how) = match self.members[i].loss() {
                DeployError::Lost { instance, how, .. } => (instance, how),
                other => return Err(other),
            };
            let hint = if durable { "" } else { ", and with --durability memory its data is lost with it" };
            return Err(DeployError::Lost { instance, how, hint });
        }
        // The address stays the same, so clients and peers find it.
        let mut config = self.members[i].config.clone();
        // A claimed term counts once; the log's next one follows it.
        if let Some(relay) = &mut config.relay {
            (relay.term, relay.at_least) = (None, 0);
            relay.answers_until = relay.answers_until.map(|_| self.answers_until);
        }
        let successor = self.spawn(config, true)?;
        self.members[i] = successor;
        self.restarts += 1;
        Ok(())
    }

    fn start(&mut self, which: &[usize]) -> Result<(), DeployError> {
        for &i in which {
            let config = self.members[i].config.clone();
            let birth = Birth { spec: self.deployment.spec.clone(), config, tls: None };
            self.members[i].order(&InstanceOrder::Start(Box::new(birth)))?;
        }
        if let (Some(delay), Some(&first)) = (self.kill_restart_after.take(), which.first()) {
            std::thread::sleep(delay);
            self.members[first].kill()?;
        }
        for &i in which {
            let member = &mut self.members[i];
            match member.reply("start", patience::START, &self.deployment.interrupt, &mut |_, _| {}) {
                Ok(Reply::Started { near, far }) => {
                    member.config.listen = near;
                    member.far = far.map(|far| self.deployment.far_of(member.id(), far));
                }
                Ok(_) => {}
                Err(DeployError::Order { instance, why, .. }) => {
                    return Err(DeployError::Start { instance, why });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<(), DeployError> {
        for i in 0..self.members.len() {
            let peers = self.addresses_for(self.members[i].id());
            self.members[i].order(&InstanceOrder::Connect(peers))?;
        }
        self.gather("connect", patience::SHORT).map(drop)
    }

    /// Starts the clients of these instances, if clients run at all.
    fn order_drive(&mut self, which: &[usize]) -> Result<(), DeployError> {
        let Some(Driving { traffic, seed, profiling, .. }) = self.driving.clone() else { return Ok(()) };
        for &i in which {
            self.members[i].order(&order_of(TrafficOrder::Profile(profiling)))?;
        }
        self.gather_from(which, "drive", patience::SHORT)?;
        for &i in which {
            let seed = stream_seed(seed, self.home.next_stream()?);
            let share = self.share(i);
            self.members[i].order(&order_of(TrafficOrder::Drive { traffic, share, seed }))?;
        }
        self.gather_from(which, "drive", patience::SHORT)?;
        self.order_changes(which)
    }

    /// Sends the coming changes of the load to these instances.
    fn order_changes(&mut self, which: &[usize]) -> Result<(), DeployError> {
        let Some(Driving { seed, began_ns, changes, .. }) = self.driving.clone() else { return Ok(()) };
        if changes.is_empty() {
            return Ok(());
        }
        for &i in which {
            let mut seeded = Vec::new();
            for change in &changes {
                let with_seed = |spec| -> Result<_, DeployError> {
                    Ok((spec, stream_seed(seed, self.home.next_stream()?)))
                };
                seeded.push(change.clone().in_form(began_ns, with_seed)?);
            }
            self.members[i].order(&order_of(TrafficOrder::Change(seeded)))?;
        }
        self.gather_from(which, "take the phases of the load", patience::SHORT).map(drop)
    }

    fn share(&self, instance: usize) -> Share {
        let workers = |i: usize| self.deployment.workers_of(i as u16) as u32;
        Share { first: (0..instance).map(workers).sum(), of: (0..self.members.len()).map(workers).sum() }
    }

    fn all(&mut self, order: &InstanceOrder, patience: Duration) -> Result<Vec<Reply>, DeployError> {
        self.members.iter_mut().try_for_each(|m| m.order(order))?;
        self.gather(order.name(), patience)
    }

    /// One reply of each instance.
    fn gather(&mut self, order: &'static str, patience: Duration) -> Result<Vec<Reply>, DeployError> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.gather_from(&all, order, patience)
    }

    /// One reply of each of these instances. All replies are awaited even if one is an error, so
    /// that none is left for the next order. If an engine has failed, its fault is reported first,
    /// as the cause of the other errors.
    fn gather_from(
        &mut self,
        which: &[usize],
        order: &'static str,
        patience: Duration,
    ) -> Result<Vec<Reply>, DeployError> {
        let interrupt = self.deployment.interrupt.clone();
        let reply = |&i: &usize| self.members[i].reply(order, patience, &interrupt, &mut |_, _| {});
        let replies: Vec<_> = which.iter().map(reply).collect();
        let is_cause = |reply: &Result<Reply, DeployError>| matches!(reply, Err(DeployError::Fault { .. }));
        let (causes, others): (Vec<_>, Vec<_>) = replies.into_iter().partition(is_cause);
        causes.into_iter().chain(others).collect()
    }
}

fn order_of(order: TrafficOrder<WorkloadSpec>) -> InstanceOrder {
    InstanceOrder::Traffic(Box::new(order))
}

/// The largest number of streams of one instance: its workers times their clients, and one more for
/// each worker.
const STREAMS_PER_SEED: u64 = 1 << 12;

/// The seed of the `n`th set of streams. An instance gives its clients `seed`, `seed + 1`, ...;
/// requests are numbered by the low 24 bits of their stream's seed, so those bits do not repeat
/// within 4,096 sets.
fn stream_seed(seed: u64, n: u64) -> u64 {
    (base::hash64(&seed.to_le_bytes()) << 24) | ((n * STREAMS_PER_SEED) & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::stream_seed;

    #[test]
    fn no_two_streams_of_a_run_have_the_same_low_bits() {
        let low = |n| stream_seed(7, n) & 0xff_ffff;
        assert!((1..1000).all(|n| low(n) - low(n - 1) == 4096));
        assert_ne!(stream_seed(7, 1), stream_seed(8, 1));
        assert_eq!(stream_seed(7, 1), stream_seed(7, 1));
    }
}
