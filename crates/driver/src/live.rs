//! A window that is watched while it runs. Once a period the instances report their measurements,
//! and the watcher gets them. The pieces are joined again, so that the row is the same as without a
//! watcher.
//!
//! ```text
//!   |<------------- window ------------->|
//!   |--1 s--|--1 s--|--1 s--|--1 s--|-.3-|     each: Running::measure, Watcher::sample
//!   `-- joined, instance by instance ----'     input of Window::of
//! ```

use probe::Measured;
use std::time::{Duration, Instant};

/// The last piece of a window is not shown if it is shorter than this: its rates would be guesses.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pieces of the window so far.
#[derive(Default)]
pub(crate) struct Pieces {
    joined: Vec<Measured>,
    last: Option<Instant>,
}

impl Pieces {
    /// Whether it is time for a sample, once each `period`; `ending`: whether the window ends now.
    pub fn is_due(&mut self, now: Instant, period: Duration, ending: Ending) -> bool {
        let since = now - *self.last.get_or_insert(now);
        since >= if ending == Ending::Now { SHORTEST.min(period) } else { period }
    }

    /// Adds the measurements of the instances since the last piece.
    pub fn add(&mut self, now: Instant, piece: &[Measured]) {
        self.last = Some(now);
        self.joined = joined(std::mem::take(&mut self.joined), piece);
    }

    /// Ends the window with its last piece, and begins the next.
    pub fn finish(&mut self, piece: &[Measured]) -> Vec<Measured> {
        self.last = None;
        joined(std::mem::take(&mut self.joined), piece)
    }
}

/// Whether a window ends now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Now,
    Later,
}

fn joined(mut before: Vec<Measured>, piece: &[Measured]) -> Vec<Measured> {
    before.resize_with(before.len().max(piece.len()), Measured::default);
    before.iter_mut().zip(piece).for_each(|(before, piece)| append(before, piece));
    before
}

/// Appends `later`, which follows `before` in the same instance: lengths and counts are added up,
/// states are those of `later`.
fn append(before: &mut Measured, later: &Measured) {
    let window_ns = before.window_ns + later.window_ns;
    let mut series = std::mem::take(&mut before.series);
    series.extend(later.series.iter().cloned());
    before.merge(later);
    (before.window_ns, before.series) = (window_ns, series);
    before.rss_bytes = later.rss_bytes;
    before.pages = later.pages;
    before.in_doubt = later.in_doubt;
    if let (Some(offered), Some(now)) = (&mut before.offered, &later.offered) {
        offered.backlog = now.backlog;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;
    use deploy::Host;
    use probe::Offered;

    fn measured(seconds: u64, committed: u64) -> Measured {
        let mut m = Measured {
            window_ns: seconds * 1_000_000_000,
            committed: [("x".to_string(), committed)].into(),
            rss_bytes: committed,
            pages: committed,
            offered: Some(Offered { requests: committed, refused: 0, backlog: seconds }),
            series: vec![Default::default(); seconds as usize],
            ..Measured::default()
        };
        m.latency.record(1000 * committed);
        m
    }

    #[test]
    fn a_window_in_pieces_is_the_window() {
        let mut pieces = Pieces::default();
        let now = Instant::now();
        pieces.add(now, &[measured(1, 10), measured(1, 30)]);
        pieces.add(now, &[measured(1, 20), measured(1, 10)]);
        let whole = pieces.finish(&[measured(2, 90), measured(2, 40)]);
        assert_eq!(whole.iter().map(|m| m.window_ns).collect::<Vec<_>>(), [4_000_000_000; 2]);
        assert_eq!(whole.iter().map(Measured::committed_total).collect::<Vec<_>>(), [120, 80]);
        let window = Window::of(&whole, Host::Process);
        assert_eq!((window.tps, window.seconds, window.all.latency.count()), (50.0, 4.0, 6));
        assert_eq!(window.all.series.len(), 4, "seconds follow each other and are not added up");
        assert_eq!((window.all.rss_bytes, window.all.pages), (130, 130), "the last state counts");
        assert_eq!(window.all.offered, Some(Offered { requests: 200, refused: 0, backlog: 4 }));
        assert_eq!(pieces.finish(&[measured(1, 5)])[0].committed_total(), 5, "the next window begins empty");
    }

    #[test]
    fn it_is_time_each_period_and_at_the_end() {
        let (mut pieces, start) = (Pieces::default(), Instant::now());
        let due = |pieces: &mut Pieces, ms, ending| {
            pieces.is_due(start + Duration::from_millis(ms), Duration::from_secs(1), ending)
        };
        assert!(!due(&mut pieces, 0, Ending::Later));
        assert!(!due(&mut pieces, 999, Ending::Later) && due(&mut pieces, 1000, Ending::Later));
        pieces.add(start + Duration::from_millis(1000), &[]);
        assert!(!due(&mut pieces, 1050, Ending::Now) && due(&mut pieces, 1100, Ending::Now));
        let soon = start + Duration::from_millis(1020);
        assert!(pieces.is_due(soon, Duration::from_millis(20), Ending::Now), "a period shorter than that");
    }
}
