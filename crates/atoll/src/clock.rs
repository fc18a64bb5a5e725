//! The remaining time of a sweep: the planned times of its rows, corrected by the times that the
//! finished rows took.

use std::time::Duration;

/// The least time of each row, in order, and the progress of the sweep.
#[derive(Clone, Default, Debug)]
pub struct Clock {
    planned: Vec<Duration>,
    /// The number of finished rows, and their total time.
    done: usize,
    took: Duration,
}

impl Clock {
    pub fn of(planned: Vec<Duration>) -> Clock {
        Clock { planned, ..Clock::default() }
    }

    /// Adds a finished row.
    pub fn row_took(&mut self, time: Duration) {
        self.done += 1;
        self.took += time;
    }

    /// The remaining time when the current row has run for `so_far`; `None` if the rows have no
    /// planned times.
    pub fn left(&self, so_far: Duration) -> Option<Duration> {
        let (done, left) = self.planned.split_at_checked(self.done)?;
        let (current, later) = left.split_first()?;
        let slower = self.slower(done);
        let of_this = current.mul_f64(slower).saturating_sub(so_far);
        Some(of_this + later.iter().sum::<Duration>().mul_f64(slower))
    }

    /// How many times as long as planned the finished rows took. The plan is a lower bound, so the
    /// factor is at least 1.
    fn slower(&self, done: &[Duration]) -> f64 {
        let planned: Duration = done.iter().sum();
        (self.took.as_secs_f64() / planned.as_secs_f64().max(1e-3)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_left_shrinks_with_time_and_grows_with_rows_that_took_longer() {
        let mut clock = Clock::of(vec![s(10), s(10), s(20)]);
        assert_eq!(clock.left(s(0)), Some(s(40)));
        assert_eq!(clock.left(s(4)), Some(s(36)));
        assert_eq!(clock.left(s(99)), Some(s(30)), "a row that is late adds nothing to those after it");
        clock.row_took(s(15));
        assert_eq!(clock.left(s(0)), Some(s(45)), "half as long again");
        clock.row_took(s(5));
        assert_eq!(clock.left(s(1)), Some(s(19)));
        clock.row_took(s(20));
        assert_eq!(clock.left(s(0)), None);
    }

    #[test]
    fn nothing_is_said_of_rows_that_are_not_planned() {
        let mut clock = Clock::default();
        assert_eq!(clock.left(s(1)), None);
        clock.row_took(s(1));
        assert_eq!(clock.left(s(1)), None);
    }
}
