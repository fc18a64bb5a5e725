//! Stations: hot cache lines, which serve one visitor at a time, the log's group commit, and the
//! threads that write a log.

use crate::engine_loop::LOG_THREADS;
use std::collections::VecDeque;

/// A line that every transaction of an instance visits. Visits are served in the order of their
/// arrival; the line lies with its last owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub owner: Option<usize>,
    free_at: f64,
    pub busy_ns: f64,
    pub wait_ns: f64,
    pub visits: u64,
}

impl Line {
    /// A visit at `now` that takes `service_ns`; the time of its end.
    pub fn visit(&mut self, now: f64, core: usize, service_ns: f64) -> f64 {
        let start = now.max(self.free_at);
        self.owner = Some(core);
        self.free_at = start + service_ns;
        self.busy_ns += service_ns;
        self.wait_ns += start - now;
        self.visits += 1;
        self.free_at
    }

    /// The window begins: only the service still to come counts.
    pub fn begin_window(&mut self, now: f64) {
        (self.busy_ns, self.wait_ns, self.visits) = ((self.free_at - now).max(0.0), 0.0, 0);
    }

    /// The service up to `now`, the end of the window.
    pub fn busy_until(&self, now: f64) -> f64 {
        self.busy_ns - (self.free_at - now).max(0.0)
    }
}

/// An action that the caller must take for a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Due {
    Nothing,
    /// A flush has begun and ends then.
    End(f64),
    /// Look again then, unless a flush begins before.
    Look(f64),
}

/// The log of an instance under `sync`. One flush is under way; the next begins when as many
/// commits wait as the last one served, or after a quarter of its time (docs/log.md).
#[derive(Clone, Debug)]
pub(super) struct Log<T> {
    waiting: VecDeque<(T, f64)>,
    under_way: Vec<(T, f64)>,
    is_under_way: bool,
    ends_at: f64,
    last_group: usize,
    look_is_due: bool,
    pub busy_ns: f64,
    pub wait_ns: f64,
    pub flushes: u64,
}

impl<T> Default for Log<T> {
    fn default() -> Log<T> {
        Log {
            waiting: VecDeque::new(),
            under_way: Vec::new(),
            is_under_way: false,
            ends_at: 0.0,
            last_group: 0,
            look_is_due: false,
            busy_ns: 0.0,
            wait_ns: 0.0,
            flushes: 0,
        }
    }
}

impl<T> Log<T> {
    /// A commit waits for its record.
    pub fn append(&mut self, now: f64, waiter: T, flush_ns: f64) -> Due {
        self.waiting.push_back((waiter, now));
        self.next(now, flush_ns)
    }

    /// Begins a flush if one is due.
    fn next(&mut self, now: f64, flush_ns: f64) -> Due {
        if self.is_under_way || self.waiting.is_empty() {
            return Due::Nothing;
        }
        if self.waiting.len() >= self.last_group {
            return self.begin(now, flush_ns);
        }
        if std::mem::replace(&mut self.look_is_due, true) {
            Due::Nothing
        } else {
            Due::Look(now + flush_ns / 4.0)
        }
    }

    fn begin(&mut self, now: f64, flush_ns: f64) -> Due {
        self.under_way.extend(self.waiting.drain(..));
        self.is_under_way = true;
        self.ends_at = now + flush_ns;
        self.busy_ns += flush_ns;
        self.wait_ns += self.under_way.iter().map(|(_, since)| now - since).sum::<f64>();
        Due::End(now + flush_ns)
    }

    /// The time of a [`Due::Look`] has come.
    pub fn look(&mut self, now: f64, flush_ns: f64) -> Due {
        self.look_is_due = false;
        if self.is_under_way || self.waiting.is_empty() { Due::Nothing } else { self.begin(now, flush_ns) }
    }

    /// The flush under way has ended: its commits go to `durable`.
    pub fn end(&mut self, now: f64, flush_ns: f64, durable: &mut Vec<T>) -> Due {
        self.last_group = self.under_way.len();
        self.is_under_way = false;
        self.flushes += 1;
        durable.extend(self.under_way.drain(..).map(|(waiter, _)| waiter));
        self.next(now, flush_ns)
    }

    /// The window begins: only the flush still to come counts.
    pub fn begin_window(&mut self, now: f64) {
        (self.busy_ns, self.wait_ns, self.flushes) = (self.rest(now), 0.0, 0);
    }

    /// The device's time up to `now`, the end of the window.
    pub fn busy_until(&self, now: f64) -> f64 {
        self.busy_ns - self.rest(now)
    }

    fn rest(&self, now: f64) -> f64 {
        if self.is_under_way { (self.ends_at - now).max(0.0) } else { 0.0 }
    }
}

/// The place of a thread in its round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Round {
    #[default]
    Rests,
    Writes,
    Pauses,
}

/// Waiters, each with the time since which it waits.
type Group<T> = Vec<(T, f64)>;

/// The threads that write the log of an instance where each commit waits until it is written.
#[derive(Clone, Debug)]
pub(super) struct Writers<T> {
    rounds: [Round; LOG_THREADS],
    under_way: [Group<T>; LOG_THREADS],
    /// When each thread began.
    since: [f64; LOG_THREADS],
    waiting: Group<T>,
    bytes: f64,
}

impl<T> Default for Writers<T> {
    fn default() -> Writers<T> {
        Writers {
            rounds: Default::default(),
            under_way: std::array::from_fn(|_| Vec::new()),
            since: [0.0; LOG_THREADS],
            waiting: Vec::new(),
            bytes: 0.0,
        }
    }
}

impl<T> Writers<T> {
    pub fn wait(&mut self, waiter: T, now: f64, bytes: f64) {
        self.waiting.push((waiter, now));
        self.bytes += bytes;
    }

    /// A thread that rests takes all commits that wait; its number, and their bytes.
    pub fn begin(&mut self, now: f64) -> Option<(usize, f64)> {
        let thread = self.rounds.iter().position(|round| *round == Round::Rests)?;
        if self.waiting.is_empty() {
            return None;
        }
        self.rounds[thread] = Round::Writes;
        self.since[thread] = now;
        self.under_way[thread].append(&mut self.waiting);
        Some((thread, std::mem::take(&mut self.bytes)))
    }

    /// When the thread began its write.
    pub fn since(&self, thread: usize) -> f64 {
        self.since[thread]
    }

    /// A write has ended; its commits. The thread pauses if others wait by now and it may.
    pub fn end(&mut self, thread: usize, may_pause: bool) -> (Group<T>, bool) {
        let pauses = may_pause && !self.waiting.is_empty();
        self.rounds[thread] = if pauses { Round::Pauses } else { Round::Rests };
        (std::mem::take(&mut self.under_way[thread]), pauses)
    }

    pub fn rests(&mut self, thread: usize) {
        self.rounds[thread] = Round::Rests;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_serves_one_visitor_at_a_time() {
        let mut line = Line::default();
        assert_eq!(line.visit(10.0, 0, 5.0), 15.0);
        assert_eq!(line.visit(11.0, 1, 5.0), 20.0);
        assert_eq!(line.visit(40.0, 0, 5.0), 45.0);
        assert_eq!((line.visits, line.wait_ns, line.busy_ns), (3, 4.0, 15.0));
    }

    #[test]
    fn commits_that_come_during_a_flush_share_the_next() {
        let mut log = Log::default();
        assert_eq!(log.append(0.0, 'a', 100.0), Due::End(100.0));
        assert_eq!(log.append(10.0, 'b', 100.0), Due::Nothing);
        assert_eq!(log.append(20.0, 'c', 100.0), Due::Nothing);
        let mut durable = Vec::new();
        assert_eq!(log.end(100.0, 100.0, &mut durable), Due::End(200.0));
        assert_eq!(durable, ['a']);
        // The last one served two, so one waits for a second, for a quarter of a flush at most.
        assert_eq!(log.end(200.0, 100.0, &mut durable), Due::Nothing);
        assert_eq!(log.append(210.0, 'd', 100.0), Due::Look(235.0));
        assert_eq!(log.look(235.0, 100.0), Due::End(335.0));
        assert_eq!(log.flushes, 2);
    }

    #[test]
    fn a_thread_takes_all_that_wait_and_pauses_if_more_have_come() {
        let mut writers = Writers::default();
        assert_eq!(writers.begin(0.0), None);
        writers.wait('a', 0.0, 60.0);
        writers.wait('b', 1.0, 40.0);
        assert_eq!(writers.begin(2.0), Some((0, 100.0)));
        writers.wait('c', 3.0, 10.0);
        assert_eq!(writers.end(0, true), (vec![('a', 0.0), ('b', 1.0)], true));
        assert_eq!(writers.begin(4.0), Some((1, 10.0)), "the other thread rests");
        assert!(!writers.end(1, true).1, "no commit waits");
        writers.wait('d', 5.0, 0.0);
        assert_eq!(writers.begin(6.0), Some((1, 0.0)), "the first still pauses");
        writers.rests(0);
        writers.wait('e', 7.0, 0.0);
        assert_eq!(writers.begin(7.0), Some((0, 0.0)));
    }
}
