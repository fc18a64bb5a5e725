//! The worker loop: messages in, tasks polled, messages out. When there is no work, it spins a
//! little, then sleeps.
//!
//! When all tasks wait for the log, the worker flushes the log itself ([`Local::flush_log`]), which
//! blocks only those tasks. A worker blocks in two other cases: a rollback or a purge misses a page
//! that was evicted meanwhile, or a new page needs a frame and none is available without writing
//! first.

mod driving;
mod lodger;

use crate::links::{Ask, Broken, LinkId, Links, Peer, Taken};
use crate::load::{self, Filled};
use crate::local::Local;
use crate::orders::{ConnectorOrder, WorkerOrder};
use crate::roles;
use crate::seams;
use crate::shared::Shared;
use crate::state::{Home, Job, Session};
use base::{Gtid, InstanceId};
use channel::Parker;
use exec::executor::Unpark;
use exec::{Executor, KeyOwners, Load, Maintenance, NoteId, Prefetch, Refusal};
use probe::{Measured, Profiling, Round};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use traffic::LoadChange;
use twophase::coordinator::{Coordinator, Event, Phase};
use twophase::{CommitNote, Decision, Message, Participant};
use txn::Workload;
use wire::Frame;

/// How often the worker looks for commit machines that need a tick or a time-out.
const TICK_NS: u64 = 20_000_000;
/// The age of a machine's last message before it gets a tick.
const QUIET_NS: u64 = 100_000_000;
/// How often the worker checks whether the other ends of rings are gone: each check is a system
/// call of some 300 ns.
const LOOK_NS: u64 = 1_000_000;
/// Messages taken from one link before the others have their turn.
const BUDGET: usize = 32;
/// Turns of the tasks before the worker polls its other sources.
const TURNS: usize = 8;
/// The shortest interval at which a busy worker polls its sockets: each poll is a system call of
/// some 300 ns.
const ASK_NS: u64 = 4_000;

/// How late the kernel may wake a sleeping worker, with a margin: the kernel's timer counts in
/// milliseconds.
const LATE_NS: u64 = 1_100_000;

/// Transactions that restart left to this worker.
pub(crate) struct Inheritance<T> {
    pub in_doubt: Vec<(Gtid, T)>,
    pub decided: Vec<(NoteId, CommitNote)>,
}

/// The loop of one worker, and the state that only the loop needs.
pub(crate) struct Worker<W: Workload, E: Load> {
    local: Rc<Local<W, E>>,
    parker: Parker,
    /// Replies that are due when no client is left.
    halts: Vec<Sender<()>>,
    /// Replies that are due when no distributed transaction is left.
    settles: Vec<Sender<()>>,
    /// When the next tick is due.
    next_tick_ns: u64,
    /// When a busy worker next polls its sockets.
    next_ask_ns: u64,
    /// When the worker next checks the ends of rings.
    next_look_ns: u64,
    /// When the present window began.
    window_ns: u64,
    stop: bool,
    /// An empty buffer for reuse.
    broken: Vec<Broken>,
    /// Changes of the load that are still to come.
    changes: VecDeque<LoadChange<(W, u64)>>,
    /// This worker's part of the load.
    share: f64,
    /// The stream of requests that its terminals share.
    terminals_stream: u64,
    /// Shared by all workers.
    filled: Filled<E>,
}

impl<W: Workload, E: Load + Maintenance + Prefetch> Worker<W, E> {
    /// To be called on the worker's own thread.
    pub fn new(
        shared: Arc<Shared<W, E>>,
        index: usize,
        workload: W,
        filled: Filled<E>,
        inheritance: Inheritance<E::InDoubt>,
    ) -> Result<Self, channel::ChannelError> {
        let parker = Parker::new()?;
        let unparker = parker.unparker();
        shared.inboxes[index].owned_by(unparker.clone());
        if let Some(bell) = shared.engine.bell() {
            parker.watch_bell(bell)?;
        }
        let unpark: Unpark = Arc::new(move || unparker.unpark());
        let executor = Executor::new(Arc::clone(&unpark));
        let local = Local::new(shared, index, unpark, executor, workload);
        let now = world::now_ns();
        let worker = Worker {
            local,
            parker,
            halts: Vec::new(),
            settles: Vec::new(),
            next_tick_ns: now,
            next_ask_ns: now,
            next_look_ns: now,
            window_ns: now,
            stop: false,
            broken: Vec::new(),
            changes: VecDeque::new(),
            share: 1.0,
            terminals_stream: 0,
            filled,
        };
        worker.inherit(inheritance);
        Ok(worker)
    }

    /// Adopts the transactions that were prepared or decided before the restart. No message is
    /// answered before this is done.
    fn inherit(&self, inheritance: Inheritance<E::InDoubt>) {
        for (gtid, in_doubt) in inheritance.in_doubt {
            let txn = self.local.shared.engine.adopt(&self.local.ctx, in_doubt);
            let session = Session {
                machine: Participant::recover(gtid),
                txn: Some(Box::new(txn)),
                link: None,
                cancelled: false,
                since_ns: 0,
            };
            self.local.distributed.sessions.borrow_mut().insert(gtid, session);
        }
        for (note, commit) in inheritance.decided {
            let mut home = Home::new(Coordinator::recover(&commit), self.local.shared.give_up_ns());
            home.note = Some(note);
            self.local.distributed.homes.borrow_mut().insert(commit.gtid, home);
        }
    }

    /// Runs until [`WorkerOrder::Stop`].
    pub fn run(mut self) {
        let spin_ns = self.local.shared.config.spin_us * 1000;
        let mut idle_since = None;
        while !self.stop {
            let now = world::now_ns();
            if self.work(now) {
                idle_since = None;
            } else if now - *idle_since.get_or_insert(now) >= spin_ns {
                self.rest(now);
                idle_since = None;
            } else {
                std::hint::spin_loop();
            }
        }
        self.finish();
    }

    /// One round of the loop. Returns whether there was work.
    fn work(&mut self, now: u64) -> bool {
        let mut busy = self.turns(now);
        let ask = if busy && now < self.next_ask_ns { Ask::Rings } else { Ask::All };
        if ask == Ask::All {
            self.next_ask_ns = now + ASK_NS;
        }
        if now >= self.next_look_ns {
            self.next_look_ns = now + LOOK_NS;
            self.local.links.look_at_ends();
        }
        busy |= self.receive(ask);
        busy |= self.receive_visits();
        busy |= self.local.receive_forwarded();
        self.local.flush_forwarded();
        busy |= self.local.poll_acks();
        busy |= self.local.shared.engine.turn(&self.local.ctx);
        busy |= self.take_orders();
        if now >= self.next_tick_ns {
            self.tick(now);
        }
        if self.changes.front().is_some_and(|change| change.at_ns <= now) {
            self.next_change(now);
        }
        probe::communicating(|| self.local.links.flush());
        self.report();
        self.local.flush_log();
        busy = busy || self.local.shared.engine.tidy(&self.local.ctx);
        probe::round(if busy { Round::Worked } else { Round::Idle });
        busy
    }

    /// Leaves the engine, after the last round.
    fn finish(self) {
        probe::profile(Profiling::Off);
        // Transactions of peers may still have running steps.
        locks::end_thread();
        self.local.executor.clear();
        self.local.links.clear();
        for session in self.local.distributed.sessions.borrow_mut().values_mut() {
            if let Some(txn) = &mut session.txn {
                self.local.shared.engine.abandon(&self.local.ctx, txn);
            }
        }
        self.local.shared.engine.leave(&self.local.ctx);
    }

    /// Polls tasks until none is ready, a message has arrived, or `TURNS` turns are over.
    fn turns(&self, now: u64) -> bool {
        for done in 0..TURNS {
            if let Some(batches) = &self.local.batches
                && !self.local.executor.has_ready()
            {
                batches.start();
            }
            if self.local.executor.turn(now) == 0 {
                return done > 0;
            }
            self.local.flush_forwarded();
            if self.local.links.ring_ready()
                || !self.local.forwarding.is_quiet()
                || !self.local.shared.engine.is_quiet(&self.local.ctx)
            {
                break;
            }
            if self.local.executor.has_ready() {
                // While those tasks run, the device can already work for the tasks that have run.
                self.local.flush_log();
            }
        }
        true
    }

    /// Sleeps until a message arrives or a timer is due. If an open loop's next request is due
    /// soon, it only yields the core: the kernel may wake it a millisecond late, and that would
    /// count as latency of every request.
    fn rest(&self, now: u64) {
        let until = self.next_time();
        match &*self.local.clients.source.borrow() {
            None => {}
            Some(_) if until.saturating_sub(now) < 2 * LATE_NS => return std::thread::yield_now(),
            Some(_) => return self.park(now, until - LATE_NS),
        }
        self.park(now, until);
    }

    /// When a timer or a tick is due.
    fn next_time(&self) -> u64 {
        self.local.executor.next_timer().unwrap_or(u64::MAX).min(self.next_tick_ns)
    }

    fn park(&self, now: u64, until: u64) {
        let timeout = Duration::from_nanos(until.saturating_sub(now).clamp(1, TICK_NS));
        self.parker.park(Some(timeout), || self.is_idle());
    }

    /// Whether no other thread has left work here.
    fn is_idle(&self) -> bool {
        let local = &self.local;
        let engine = &local.shared.engine;
        let idle =
            local.shared.inboxes[local.worker].is_empty() && !local.executor.has_ready() && !engine.ready();
        idle && engine.is_quiet(&local.ctx) && local.forwarding.is_quiet()
    }

    /// Takes the steps that other workers' transactions have here.
    fn receive_visits(&self) -> bool {
        let (local, mut visits) = (&self.local, 0);
        let Some(owners) = local.owners() else { return false };
        local.look_at_queue(owners);
        while visits < BUDGET
            && let Some(visit) = probe::communicating(|| owners.receive(&local.ctx))
        {
            local.push_job(Job::Visit(visit));
            visits += 1;
        }
        visits > 0
    }

    fn receive(&mut self, ask: Ask) -> bool {
        let local = &self.local;
        let mut offences = Vec::new();
        let mut messages = Vec::new();
        let mut known = Vec::new();
        let mut broken = std::mem::take(&mut self.broken);
        let take = |link, peer, bytes: &[u8]| {
            let frame = Frame::decode(bytes).map_err(|_| "bytes that are no message of this version");
            match frame.and_then(|frame| roles::check(&frame, peer, local.me()).map(|()| frame)) {
                Ok(Frame::Steps { gtid, .. }) if local.worker_of(gtid) != local.worker => {
                    // No message for this participant would reach this worker.
                    offences.push((link, "steps to a worker that does not look after their transaction"));
                }
                Ok(Frame::StepsDone { call, gtid, outcome, outputs }) => {
                    local.calls.reply((call, link), gtid, outcome, outputs)
                }
                Ok(Frame::Steps { call, gtid, piggyback, steps }) => {
                    let steps = local.spares.take_buffer(steps);
                    local.push_job(Job::Steps { link, call, gtid, piggyback, steps });
                }
                Ok(Frame::Submit { call, request }) => {
                    let request = local.spares.take_buffer(request);
                    local.push_job(Job::Submit { link, from: peer, call, request });
                    return Taken::Request;
                }
                Ok(Frame::More { call, message }) => {
                    let message = message.to_vec();
                    if local.conversations.knows((link, call)) {
                        local.conversations.deliver((link, call), message);
                    } else {
                        local.push_job(Job::More { link, call, message });
                    }
                }
                // These may be answered on a link, so they wait until no link is borrowed.
                Ok(Frame::TwoPhase(message)) => messages.push((link, peer, message)),
                Ok(Frame::Done { call, outcome, .. }) => local.calls.done((call, link), outcome),
                Ok(Frame::Known { yours, mine }) => known.push((link, peer, yours, mine)),
                Ok(Frame::Said { .. }) => {}
                Err(offence) => offences.push((link, offence)),
            }
            Taken::Other
        };
        let any = probe::communicating(|| local.links.poll(ask, BUDGET, take, &mut broken));
        for (link, peer, yours, mine) in known {
            let Peer::Callee(from) = peer else { continue };
            local.links.learn_life(link, mine);
            if yours == local.shared.life {
                local.shared.acknowledged(from);
            }
        }
        for (link, peer, message) in messages {
            let (Peer::Callee(from) | Peer::Caller(from, _)) = peer else { continue };
            self.two_phase(link, from, message);
        }
        for (link, offence) in offences {
            // The first offence on a link is reported; later ones on the same link are not.
            if let Some(peer) = self.local.links.drop_link(link) {
                roles::tell(self.local.me(), peer, offence);
                broken.push(Broken { id: link, peer });
            }
        }
        for Broken { id, peer } in broken.drain(..) {
            self.link_broke(id, peer);
        }
        self.broken = broken;
        any
    }

    /// A message of the commit protocol. The worker that is responsible for a transaction follows
    /// from the transaction's number and the *present* number of workers. The link on which a
    /// message arrives follows from the numbers of workers when the link was opened. So the message
    /// may have to be passed on to the worker that has the machine, or would have it: no other
    /// worker may answer that there is none.
    fn two_phase(&self, link: LinkId, from: InstanceId, message: Message) {
        let local = &self.local;
        if let Message::Prepare { gtid, lock_point } = message {
            // A prepare request goes where its steps went, on the same link. A worker that has not
            // seen them refuses it.
            return local.push_job(Job::Prepare { link, gtid, lock_point });
        }
        let worker = seams::worker_for(local.worker_of(message.gtid()), local.worker, message);
        if worker != local.worker {
            return local.shared.inboxes[worker].put(WorkerOrder::Message { from, message });
        }
        self.message(from, Some(link), message);
    }

    /// A message for a machine of this worker; on `link` if it came on one of its own.
    fn message(&self, from: InstanceId, link: Option<LinkId>, message: Message) {
        if message.is_for_coordinator() {
            self.coordinator_message(from, message);
        } else {
            self.local.participant_message(from, link, message);
        }
    }

    fn coordinator_message(&self, from: InstanceId, message: Message) {
        let local = &self.local;
        let gtid = message.gtid();
        let effects = local
            .distributed
            .homes
            .borrow_mut()
            .get_mut(&gtid)
            .map(|home| home.receive(from, message, world::now_ns()));
        match effects {
            Some(effects) => local.perform_home(gtid, effects),
            // The transaction has no coordinator yet ([`Run::ask_alone`](crate::home::Run)), and an
            // unknown one counts as aborted. It gets no answer, and inquires again.
            None if local.calls.has_open(gtid) => {}
            None => {
                if let Some(answer) = twophase::reply_unknown(message) {
                    local.tell(from, answer);
                }
            }
        }
    }

    fn link_broke(&self, id: LinkId, peer: Peer) {
        match peer {
            Peer::Client => self.local.conversations.link_broke(id),
            Peer::Caller(..) => self.local.caller_lost(id),
            Peer::Callee(instance) => {
                self.local.calls.link_broke(id);
                self.local.feed_homes(|_| Some(Event::PeerLost { from: instance }));
                let lost = self.local.shared.lost.lock().expect("no holder of this lock panics");
                if let Some(lost) = lost.as_ref() {
                    // The connector is gone only when the instance stops.
                    let _ = lost.send(ConnectorOrder::Lost(self.local.worker, instance));
                }
            }
        }
    }

    /// Sends ticks and time-outs to machines that wait for messages.
    fn tick(&mut self, now: u64) {
        self.next_tick_ns = now + TICK_NS;
        self.local.shared.open_in_time(now);
        self.local.shared.engine.checkpoint_if_due(&self.local.ctx);
        self.local.ask_homes(QUIET_NS);
        self.local.feed_homes(|home| match home.machine.phase() {
            Phase::Telling if now.saturating_sub(home.since_ns) >= QUIET_NS => Some(Event::Tick),
            _ if home.is_overdue(now) => Some(Event::Timeout),
            _ => None,
        });
        let mut given_up = Vec::new();
        let looks = u32::try_from(self.local.shared.give_up_ns() / TICK_NS).unwrap_or(u32::MAX);
        self.local.calls.grow_old(looks, |gtid, link| given_up.push((gtid, link)));
        for (gtid, link) in given_up {
            let decision = Message::Decide { gtid, decision: Decision::Abort };
            // If the message is lost, the other side inquires.
            let _ = self.local.send(link, &Frame::TwoPhase(decision));
        }
    }

    fn take_orders(&mut self) -> bool {
        let orders = self.local.shared.inboxes[self.local.worker].take();
        let any = !orders.is_empty();
        orders.into_iter().for_each(|order| self.obey(order));
        any
    }

    fn obey(&mut self, order: WorkerOrder<W>) {
        let local = &self.local;
        match order {
            WorkerOrder::Link(mut link, peer) => {
                if link.register(&self.parker).is_ok() {
                    local.links.add(link, peer);
                    if let Peer::Callee(instance) = peer {
                        local.feed_homes(|_| Some(Event::PeerBack { from: instance }));
                    }
                }
            }
            WorkerOrder::Traffic(order, done) => {
                self.obey_traffic(order);
                let _ = done.send(());
            }
            WorkerOrder::Halt(done) => {
                local.clients.halting.set(true);
                self.changes.clear();
                if let Some(source) = &mut *local.clients.source.borrow_mut() {
                    source.wake_all();
                }
                self.halts.push(done);
            }
            WorkerOrder::Settle(done) => {
                local.conversations.stop();
                self.settles.push(done);
            }
            WorkerOrder::Measure(reply) => drop(reply.send(self.measure())),
            WorkerOrder::Load(plan, done) => {
                let (task, filled) = (Rc::clone(local), self.filled.clone());
                let loading = async move { drop(done.send(load::load(&task, &plan, &filled).await)) };
                let spawned = local.executor.spawn(loading);
                assert!(spawned, "nothing else runs while loading");
            }
            WorkerOrder::Audit(done) => {
                let task = Rc::clone(local);
                let spawned = local.executor.spawn(async move { drop(done.send(load::audit(&task).await)) });
                assert!(spawned, "nothing else runs during an audit");
            }
            WorkerOrder::Repartition(request) => match local.owners() {
                Some(owners) => owners.repartition(&local.ctx, request),
                // The thread that asked may have ended.
                None => drop(request.done.send(Err(Refusal::NoOwners))),
            },
            WorkerOrder::Loads(reply) => drop(reply.send(local.sampling.take(local.worker))),
            WorkerOrder::Checkpoint(done) => drop(done.send(local.shared.engine.checkpoint())),
            WorkerOrder::Reborn { peer, life, done } => {
                for Broken { id, peer } in local.links.drop_earlier(peer, life) {
                    self.link_broke(id, peer);
                }
                let _ = done.send(());
            }
            WorkerOrder::Message { from, message } => self.message(from, None, message),
            WorkerOrder::Stop => self.stop = true,
        }
    }

    /// Answers a halt once the clients are gone, and a settle once no distributed transaction is
    /// left.
    fn report(&mut self) {
        let local = &self.local;
        if local.owners().is_some_and(|owners| !owners.is_settled(&local.ctx)) {
            return;
        }
        if !self.halts.is_empty() && local.clients.running.get() == 0 {
            *local.clients.source.borrow_mut() = None;
            if let Some(owners) = local.owners() {
                owners.give_back(&local.ctx);
            }
            self.halts.drain(..).for_each(|done| _ = done.send(()));
        }
        if !self.settles.is_empty()
            && local.distributed.sessions.borrow().is_empty()
            && local.distributed.homes.borrow().is_empty()
        {
            self.settles.drain(..).for_each(|done| _ = done.send(()));
        }
    }

    fn measure(&mut self) -> Measured {
        let now = world::now_ns();
        let mut measured = Measured { window_ns: now - self.window_ns, ..Measured::default() };
        self.window_ns = now;
        self.local.measuring.counts.borrow_mut().take(now, &mut measured);
        measured.offered = self.local.clients.source.borrow_mut().as_mut().map(|source| source.offered(now));
        for (name, n) in self.local.measuring.observed.take() {
            *measured.observed.entry(name.into()).or_default() += n;
        }
        let Links { messages, bytes, .. } = &self.local.links;
        measured.messages = messages.replace(0);
        measured.message_bytes = bytes.replace(0);
        measured.in_doubt = self.local.in_doubt();
        measured.profile = probe::window().map(Box::new);
        measured
    }
}
