//! The worker's loop, as `instance::worker` codes it.

use super::Sim;
use super::measure::Kind;
use super::parts::{Message, Outgoing, Post, State, Task};
use crate::outcome::Component;

/// The cause that makes a sleeping worker go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// Another thread, which has to wake it if it is parked.
    Other,
    /// Its own timer, for which it does not park.
    Timer,
}

/// Whether a task goes on in the worker's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Again,
    /// It has ended, or waits.
    Leave,
}

/// Links at which a look is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Rings,
    All,
}

impl Sim<'_> {
    /// One elementary step of a worker.
    pub(super) fn step(&mut self, number: usize) {
        loop {
            let turns = self.case.profile.worker_loop.turns;
            let w = &mut self.workers[number];
            match w.state {
                State::Idle => self.wake(number),
                State::Begin => {
                    w.loop_start = w.clock;
                    (w.worked, w.turn, w.state) = (false, 0, State::Turn);
                }
                State::Turn if w.ready.is_empty() || w.turn >= turns => w.state = State::Look,
                State::Turn => {
                    w.left = w.ready.len();
                    w.turn += 1;
                    (w.worked, w.state) = (true, State::Task);
                }
                State::Task => return self.task(number),
                State::Look => {
                    self.look(number);
                    return self.end_of_pass(number);
                }
            }
        }
    }

    /// One step of the current task, or of the next one of this turn.
    fn task(&mut self, number: usize) {
        let w = &mut self.workers[number];
        let task = match w.current.take() {
            Some(task) => task,
            None => {
                w.left -= 1;
                w.ready.pop_front().expect("a turn counts its tasks")
            }
        };
        let then = match task {
            Task::Next(born) => self.next_request(number, born),
            Task::Run(txn) => {
                self.publish(number);
                self.run_txn(number, txn)
            }
            Task::Steps(session) => self.run_session(number, session),
            Task::Durable(record) => self.is_durable(number, record),
            Task::Answered(txn) => {
                self.pay_scaled(number, Component::Communication, self.case.profile.messages.decode_ns);
                self.take_done(number, txn);
                Then::Leave
            }
        };
        let is_socket = self.channel.is_socket;
        let preempts = self.case.profile.worker_loop.preempts;
        let w = &mut self.workers[number];
        if then == Then::Again {
            let task = match task {
                // A request that was drawn goes on as its transaction.
                Task::Next(_) => w.current.unwrap_or(task),
                task => task,
            };
            w.current = Some(task);
            if preempts && w.sees_message() {
                (w.current, w.preempted) = (None, Some(task));
                w.state = State::Look;
            }
        } else if w.left == 0 {
            self.publish(number);
            let w = &mut self.workers[number];
            let rings_ready = !is_socket && w.sees_message();
            w.state = if rings_ready { State::Look } else { State::Turn };
            if !rings_ready && !w.ready.is_empty() {
                // While those tasks run, the log is already written for the tasks that have run.
                self.write_log(number);
            }
        }
    }

    /// Looks at the links and takes messages.
    fn look(&mut self, number: usize) {
        let ask_ns = self.case.profile.worker_loop.ask_ns;
        let w = &mut self.workers[number];
        let ask = if w.worked && w.loop_start < w.next_ask { Ask::Rings } else { Ask::All };
        if ask == Ask::All {
            w.next_ask = w.loop_start + ask_ns;
        }
        if w.peers == 0 || self.channel.is_socket && ask == Ask::Rings {
            return;
        }
        let now = w.clock;
        let budget = self.case.profile.worker_loop.budget;
        let mut taken = std::mem::take(&mut self.taken);
        let (mut hits, mut cost) = (0, 0.0);
        let mut active = std::mem::take(&mut w.active);
        active.retain(|&link| {
            let queue = &mut w.links[link as usize];
            if queue.front().is_some_and(|post| post.at <= now) {
                let from = queue.front().map_or(0, |post| post.from as usize);
                hits += 1;
                cost += self.channel.read_ns;
                taken.extend((0..budget).map_while(|_| {
                    queue.front().filter(|post| post.at <= now)?;
                    queue.pop_front()
                }));
                if self.case.shares_memory() {
                    // The receiver fetches the ring's lines from the sender's core.
                    cost += self.case.machine.latency_ns(w.core, self.cores_of[from]);
                }
            }
            !queue.is_empty()
        });
        w.active = active;
        cost += self.channel.empty_ns * (w.peers - hits) as f64;
        w.worked |= hits > 0;
        if !w.worked {
            w.clock += cost;
            w.idle += cost;
        } else {
            self.pay(number, Component::Communication, cost);
            taken.drain(..).for_each(|post| self.receive(number, post));
        }
        self.taken = taken;
    }

    /// One message, decoded.
    fn receive(&mut self, number: usize, post: Post) {
        self.counts.received += 1;
        self.pay_scaled(number, Component::Communication, self.case.profile.messages.decode_ns);
        match post.message {
            Message::Steps { session } => self.take_steps(number, session),
            Message::Reply { txn, attempt, from, vote } => self.take_reply(txn, attempt, from, vote),
            Message::Prepare { session, serial, .. }
            | Message::Release { session, serial }
            | Message::Decide { session, serial, .. }
                if self.sessions[session].serial != serial => {}
            Message::Prepare { session, lock_point, .. } => self.take_prepare(number, session, lock_point),
            Message::Vote { txn, attempt, from, vote } => self.take_vote(number, txn, attempt, from, vote),
            Message::Release { session, .. } => self.take_release(number, session),
            Message::Decide { session, decision, .. } => self.take_decision(number, session, decision),
            Message::Ack { txn, from } => self.take_ack(number, txn, from),
            Message::Submit { txn } => {
                self.pay_scaled(number, Component::Management, self.case.costs.forward / 3.0);
                self.txns[txn].home = number;
                self.workers[number].ready.push_back(Task::Run(txn));
            }
            Message::Done { txn } => {
                self.pay_scaled(number, Component::Management, self.case.costs.forward / 3.0);
                self.take_done(number, txn);
            }
        }
    }

    /// Sends the buffered messages; the pass is over.
    fn end_of_pass(&mut self, number: usize) {
        let mut out = std::mem::take(&mut self.workers[number].out);
        if !out.is_empty() {
            // Messages of one link stay in their order.
            out.sort_by_key(|o| (o.to, o.link));
            for same in out.chunk_by(|a, b| (a.to, a.link) == (b.to, b.link)) {
                self.pay(number, Component::Communication, self.channel.write_ns);
                let at = self.workers[number].clock;
                same.iter().for_each(|o| self.post(number, *o, at));
            }
            out.clear();
        }
        self.write_log(number);
        let pass_ns = self.case.profile.worker_loop.pass_ns / self.case.speed;
        let w = &mut self.workers[number];
        w.out = out;
        w.ready.extend(w.preempted.take());
        if w.worked {
            w.state = State::Begin;
            return self.pay(number, Component::Loop, pass_ns);
        }
        w.clock += pass_ns;
        w.idle += pass_ns;
        w.idle_since = w.clock;
        w.state = State::Idle;
        w.wake_at = f64::INFINITY;
        let earliest = w.active.iter().filter_map(|&link| w.links[link as usize].front());
        let earliest = earliest.map(|post| post.at).fold(f64::INFINITY, f64::min);
        if earliest < f64::INFINITY {
            self.awaken(number, earliest, Alarm::Other);
        }
    }

    /// The idle time of a worker ends.
    fn wake(&mut self, number: usize) {
        let spin_ns = self.case.profile.worker_loop.spin_ns;
        let w = &mut self.workers[number];
        let parked_from = (w.idle_since + spin_ns).max(w.clock);
        w.idle += w.wake_at - w.clock;
        w.parked += (w.wake_at - parked_from).max(0.0);
        w.clock = w.wake_at;
        w.wake_at = f64::INFINITY;
        w.state = State::Begin;
    }

    /// Something is there for a worker at `at`: if it is idle, it finds it at its next pass, or
    /// once it is awake.
    pub(super) fn awaken(&mut self, number: usize, at: f64, alarm: Alarm) {
        let costs = &self.case.profile.worker_loop;
        let w = &mut self.workers[number];
        if w.state != State::Idle {
            return;
        }
        let is_parked = at > w.idle_since + costs.spin_ns;
        let wake_at = if is_parked && alarm == Alarm::Other {
            at + self.case.machine.terms().wake_ns
        } else {
            // Idle passes follow each other at this interval.
            let period = costs.pass_ns / self.case.speed + self.channel.empty_ns * w.peers as f64;
            let passes = ((at - w.idle_since) / period).ceil().max(0.0);
            (w.idle_since + passes * period).max(w.clock)
        };
        if wake_at < w.wake_at {
            w.wake_at = wake_at;
            self.tree.set(number, wake_at);
        }
    }

    /// A request or an answer goes to another worker of the instance, with the next publication.
    pub(super) fn hand_over(&mut self, number: usize, to: usize, task: Task) {
        self.pay_scaled(number, Component::Communication, self.case.profile.messages.encode_ns);
        self.workers[number].staged.push((to, task));
    }

    /// Publishes what was handed over: before the worker runs a transaction, and at the end of a
    /// turn.
    pub(super) fn publish(&mut self, number: usize) {
        if self.workers[number].staged.is_empty() {
            return;
        }
        let mut staged = std::mem::take(&mut self.workers[number].staged);
        let spin_ns = self.case.profile.worker_loop.spin_ns;
        for (to, task) in staged.drain(..) {
            let way_ns = self.case.machine.latency_ns(self.workers[number].core, self.workers[to].core);
            let at = self.workers[number].clock + way_ns;
            let w = &self.workers[to];
            if w.state == State::Idle && at > w.idle_since + spin_ns && w.wake_at > at {
                self.pay(number, Component::Loop, self.case.machine.terms().syscall_ns);
            }
            self.make_ready(to, task, at);
        }
        self.workers[number].staged = staged;
    }

    /// A task of a worker is ready, by another worker or a timer.
    pub(super) fn make_ready(&mut self, number: usize, task: Task, at: f64) {
        self.workers[number].ready.push_back(task);
        self.awaken(number, at, Alarm::Other);
    }

    /// A message to the other end of a link.
    pub(super) fn send(&mut self, number: usize, (to, link): (u32, u32), message: Message, kind: Kind) {
        self.counts.count(kind);
        self.pay_scaled(number, Component::Communication, self.case.profile.messages.encode_ns);
        let outgoing = Outgoing { to, link, message };
        if self.channel.is_socket {
            return self.workers[number].out.push(outgoing);
        }
        self.pay(number, Component::Communication, self.channel.write_ns);
        let at = self.workers[number].clock;
        self.post(number, outgoing, at);
    }

    /// The link of a worker to an instance.
    pub(super) fn link_to(&self, number: usize, instance: u16) -> (u32, u32) {
        self.ends[number * self.instances.len() + usize::from(instance)]
    }

    /// The way back: the link of `home` to the instance of `number`.
    pub(super) fn link_back(&self, number: usize, home: usize) -> (u32, u32) {
        (home as u32, self.workers[number].instance as u32)
    }

    fn post(&mut self, from: usize, outgoing: Outgoing, now: f64) {
        let Outgoing { to, link, message } = outgoing;
        let to = to as usize;
        let at = now + self.case.way_ns(self.workers[from].core, self.workers[to].core);
        let spin_ns = self.case.profile.worker_loop.spin_ns;
        let w = &mut self.workers[to];
        let queue = &mut w.links[link as usize];
        if queue.is_empty() {
            w.active.push(link);
        }
        queue.push_back(Post { at, from: from as u32, message });
        let is_parked = w.state == State::Idle && at > w.idle_since + spin_ns && w.wake_at > at;
        self.awaken(to, at, Alarm::Other);
        if is_parked && self.case.shares_memory() {
            // The kernel wakes the reader of a socket by itself, and so does an RDMA device; a
            // ring's sender calls it.
            self.pay(from, Component::Loop, self.case.machine.terms().syscall_ns);
        }
    }

    /// As [`Sim::pay`], in ns of the profile's machine.
    pub(super) fn pay_scaled(&mut self, worker: usize, component: Component, ns: f64) {
        self.pay(worker, component, ns / self.case.speed);
    }
}

impl super::parts::Worker {
    /// Whether a task is ready, or gave way to a message.
    pub(super) fn will_run(&self, task: Task) -> bool {
        self.preempted == Some(task) || self.ready.contains(&task)
    }

    /// Whether a message is visible on any link.
    fn sees_message(&self) -> bool {
        let now = self.clock;
        self.active.iter().any(|&link| self.links[link as usize].front().is_some_and(|post| post.at <= now))
    }
}
