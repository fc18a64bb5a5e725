//! Progress on standard error: a dashboard if `--watch` asks for one, else a bar on a terminal, and
//! plain lines elsewhere.

use crate::clock::Clock;
use crate::failure::Failure;
use crate::interval;
use crate::ticker::{RowIs, Scene, Ticker};
use crate::units::in_words;
use crate::watch::{Dashboard, Screen};
use deploy::Interrupt;
use driver::{Measured, Sampling, Watcher};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use world::tell;

/// The length of the bar; its position is a share of it.
const STEPS: u64 = 1000;
/// The dashboard is redrawn at most this often, unless a new second was measured.
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// The dashboard shows a point for each of these intervals.
const WATCHED: Duration = Duration::from_secs(1);
/// The remaining time is shown if it is longer than this.
const WORTH_SAYING: Duration = Duration::from_secs(5);

pub struct Progress {
    face: Face,
    now: Now,
    /// The value of `--progress`.
    interval: Option<Duration>,
    /// The load of the current row that the lines of `--progress` have covered.
    told: Duration,
    drawn: Instant,
}

/// The position of the run.
#[derive(Clone)]
struct Now {
    rows: usize,
    row: usize,
    what: String,
    phase: String,
    share: f64,
    clock: Clock,
    /// When the current row began, and whether it has been measured.
    begun: Instant,
    done: bool,
}

impl Now {
    /// `2/8 micro, conventional, 2 islands`.
    fn title(&self) -> String {
        match self.row {
            0 => self.what.clone(),
            row => format!("{row}/{} {}", self.rows, self.what),
        }
    }

    /// `3 min 20 s left`; `None` if it is short or not known.
    fn left(&self) -> Option<String> {
        let left = self.clock.left(self.begun.elapsed())?;
        (left >= WORTH_SAYING).then(|| format!("{} left", in_words(left)))
    }

    fn begin(&mut self, what: &str) {
        if self.row > 0 {
            self.clock.row_took(self.begun.elapsed());
        }
        self.row += 1;
        (self.what, self.begun) = (what.into(), Instant::now());
        (self.phase, self.share, self.done) = ("starting".into(), 0.0, false);
    }
}

impl Scene for Now {
    fn line(&self) -> String {
        let (title, phase) = (self.title(), &self.phase);
        let colon = if title.is_empty() { "" } else { ": " };
        let share = match self.share {
            share if share > 0.0 => format!(", {:.0} %", share * 100.0),
            _ => format!(", {}", in_words(self.begun.elapsed())),
        };
        let left = self.left().map_or(String::new(), |left| format!("; at least {left}"));
        format!("{title}{colon}{phase}{share}{left}")
    }
}

enum Face {
    Lines(Ticker<Now>),
    Bar(ProgressBar),
    Watch(Box<Watch>),
}

/// The dashboard and the screen that it is drawn on.
struct Watch {
    screen: Screen,
    dashboard: Dashboard,
    interrupt: Interrupt,
    /// Warnings that were printed while the dashboard covered the screen.
    warnings: Vec<String>,
}

impl Watch {
    /// A failure to draw is ignored, because nothing depends on the picture. An interrupted run
    /// restores the terminal at once, because a second Ctrl-C ends the process on the spot.
    fn draw(&mut self) {
        if self.interrupt.is_set() || self.screen.draw(|frame| self.dashboard.draw(frame)).is_err() {
            self.screen.leave();
        }
    }
}

impl Progress {
    pub fn new(rows: usize) -> Progress {
        Progress::planned(rows, Clock::default(), None)
    }

    /// For rows of which `clock` knows the planned times, with a line every `interval`.
    pub fn planned(rows: usize, clock: Clock, interval: Option<Duration>) -> Progress {
        let now = Now::new(rows, clock);
        let face = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg}");
            let bar = ProgressBar::new(STEPS);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            Face::Bar(bar)
        } else {
            Face::Lines(Ticker::new(now.clone(), |line| tell(line)))
        };
        Progress { face, now, interval, told: Duration::ZERO, drawn: Instant::now() }
    }

    /// With a dashboard.
    ///
    /// # Errors
    /// Standard error is no terminal.
    pub fn watching(rows: usize, clock: Clock, interrupt: &Interrupt) -> Result<Progress, Failure> {
        let watch = Watch {
            screen: Screen::new()?,
            dashboard: Dashboard::new(rows),
            interrupt: interrupt.clone(),
            warnings: Vec::new(),
        };
        let (now, face) = (Now::new(rows, clock), Face::Watch(Box::new(watch)));
        Ok(Progress { face, now, interval: None, told: Duration::ZERO, drawn: Instant::now() })
    }

    /// Begins the next row.
    pub fn next(&mut self, what: &str) {
        self.now.begin(what);
        self.told = Duration::ZERO;
        let title = self.now.title();
        match &mut self.face {
            Face::Bar(bar) => bar.set_prefix(title),
            Face::Lines(ticker) => {
                tell(self.now.left().map_or(title.clone(), |left| format!("{title}; at least {left}")));
                let now = self.now.clone();
                ticker.change(|scene| *scene = now);
                ticker.was_said(RowIs::New);
            }
            Face::Watch(watch) => {
                watch.dashboard.next(self.now.row, what);
                watch.dashboard.expect(self.now.clock.left(self.now.begun.elapsed()));
                watch.draw();
            }
        }
    }

    /// Reports the interruption and, if the current row is not done, why it is not kept.
    pub fn tell_interrupted(&mut self) {
        if !self.now.done {
            let (title, phase) = (self.now.title(), self.now.phase.clone());
            self.suspend(|| {
                tell(format_args!("{title}: interrupted while {phase}; nothing of this row is kept"))
            });
        }
    }

    /// Ends a row with its result.
    pub fn done(&mut self, result: &str) {
        self.now.done = true;
        if let Face::Watch(watch) = &mut self.face {
            watch.dashboard.finished(format!("{}: {result}", self.now.what));
        }
    }

    pub fn finish(&mut self) {
        match &mut self.face {
            Face::Bar(bar) => bar.finish_and_clear(),
            Face::Lines(ticker) => ticker.end(),
            Face::Watch(watch) => {
                watch.screen.leave();
                watch.warnings.drain(..).for_each(|text| tell(format_args!("atoll: warning: {text}")));
            }
        }
    }

    /// Runs `f`, which prints to standard output, without tearing the picture on the terminal.
    pub fn suspend<T>(&mut self, f: impl FnOnce() -> T) -> T {
        match &mut self.face {
            Face::Bar(bar) => bar.suspend(f),
            Face::Lines(_) => f(),
            Face::Watch(watch) => {
                // On a terminal, rows belong on the ordinary screen; rows for a file do not disturb
                // the picture.
                if std::io::stdout().is_terminal() {
                    watch.screen.leave();
                }
                f()
            }
        }
    }
}

impl Now {
    fn new(rows: usize, clock: Clock) -> Now {
        let (what, phase) = (String::new(), "starting".into());
        Now { rows, row: 0, what, phase, share: 0.0, clock, begun: Instant::now(), done: false }
    }
}

impl Watcher for Progress {
    fn progress(&mut self, phase: &str, share: f64) {
        self.now.share = share.clamp(0.0, 1.0);
        if self.now.phase != phase {
            self.now.phase = phase.into();
        }
        match &mut self.face {
            Face::Bar(bar) => {
                let row = self.now.row.saturating_sub(1) as f64 + self.now.share;
                bar.set_position((row / self.now.rows.max(1) as f64 * STEPS as f64) as u64);
                let left = self.now.left().map_or(String::new(), |left| format!(", {left}"));
                bar.set_message(format!("{phase}{left}"));
            }
            Face::Lines(ticker) => ticker.change(|scene| {
                scene.share = self.now.share;
                scene.phase.clone_from(&self.now.phase);
            }),
            Face::Watch(watch) => {
                watch.dashboard.progress(phase, share);
                watch.dashboard.expect(self.now.clock.left(self.now.begun.elapsed()));
                if watch.interrupt.is_set() || self.drawn.elapsed() >= DRAW_EVERY {
                    self.drawn = Instant::now();
                    watch.draw();
                }
            }
        }
    }

    fn warn(&mut self, text: &str) {
        match &mut self.face {
            Face::Watch(watch) => watch.warnings.push(text.into()),
            _ => self.suspend(|| tell(format_args!("atoll: warning: {text}"))),
        }
    }

    fn sampling(&self) -> Sampling {
        match (&self.face, self.interval) {
            (Face::Watch(_), _) => Sampling::Every(WATCHED),
            (_, Some(interval)) => Sampling::Every(interval),
            _ => Sampling::Off,
        }
    }

    fn sample(&mut self, instances: &[Measured]) {
        self.told += interval::length(instances);
        match &mut self.face {
            Face::Watch(watch) => {
                watch.dashboard.sample(instances);
                watch.draw();
            }
            face => {
                let line = interval::line(self.told, &self.now.phase, instances);
                let line = format!("{}: {line}", self.now.title());
                match face {
                    Face::Bar(bar) => bar.suspend(|| tell(&line)),
                    Face::Lines(ticker) => {
                        tell(&line);
                        ticker.was_said(RowIs::UnderWay);
                    }
                    Face::Watch(_) => {}
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_goes_on_how_far_and_how_long_yet() {
        let clock = Clock::of(vec![Duration::from_secs(60), Duration::from_secs(600)]);
        let mut now = Now::new(2, clock);
        now.begin("micro, 2 islands");
        (now.phase, now.share) = ("loading".into(), 0.42);
        let line = now.line();
        assert!(line.starts_with("1/2 micro, 2 islands: loading, 42 %; at least 1"), "{line}");
        assert!(line.ends_with(" left") && line.contains("min"), "{line}");
        now.begin("micro, 4 islands");
        now.begin("a row beyond the plan");
        assert!(now.line().contains(": starting, "), "{}", now.line());
        let nameless =
            Now { phase: "measuring core-to-core latency".into(), ..Now::new(1, Clock::default()) };
        assert!(nameless.line().starts_with("measuring core-to-core latency, "));
    }
}
