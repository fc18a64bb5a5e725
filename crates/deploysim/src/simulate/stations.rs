//! Stations: hot cache lines, which serve one visitor at a time, and the log's group commit.

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
}
