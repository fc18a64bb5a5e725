//! The dashboard: the progress of the run and its remaining time, throughput and latency of the
//! last seconds, and a line for each instance, with its breakdown if the run is profiled.
//!
//! ```text
//!   3/7 micro, 2 islands                      0:42 gone, about 1:10 left
//!   |###########  measuring 1/3: 50 %                                  |
//!   +throughput  12,000 /s   most 14,000 /s ---------------------------+
//!   |14,000|                                            ▃▅▇▇▆▇█▇       |
//!   |     0|                                            ████████       |
//!   |       -60 s                     -30 s                        now |
//! ```

use crate::output::thousands;
use driver::Measured;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Seconds that are kept: more than any terminal has columns.
const REMEMBERED: usize = 600;
/// Finished rows that stay visible.
const FINISHED: usize = 5;
/// Cells of an instance's breakdown.
const BREAKDOWN: usize = 40;

/// The components in the report's order, each with its letter in a bar and one of the standard
/// terminal colours: the letters carry the same information without colours.
const COMPONENTS: [(&str, &str, Color); 7] = [
    ("execution", "x", Color::Green),
    ("locking", "k", Color::Red),
    ("latching", "t", Color::Yellow),
    ("logging", "g", Color::Magenta),
    ("communication", "c", Color::Blue),
    ("management", "m", Color::Cyan),
    ("idle", ".", Color::DarkGray),
];

/// Columns for the numbers beside a curve.
const SCALE: u16 = 11;

/// One second of the whole deployment.
#[derive(Clone, Copy, Default)]
struct Second {
    tps: f64,
    p50_us: f64,
    p99_us: f64,
}

#[derive(Default)]
pub struct Dashboard {
    row: usize,
    rows: usize,
    what: String,
    phase: String,
    share: f64,
    seconds: VecDeque<Second>,
    instances: Vec<Measured>,
    finished: VecDeque<String>,
    clock: Clock,
    /// The remaining time by the plan of the sweep.
    planned: Option<Duration>,
}

/// When the sweep and the row that runs began.
#[derive(Default)]
struct Clock {
    sweep: Option<Instant>,
    row: Option<Instant>,
}

impl Clock {
    /// The sweep's time so far, and its estimated remaining time: the rows to come take as long as
    /// the finished rows did. `None` before the first row is finished.
    fn read(&self, now: Instant, row: usize, rows: usize) -> (Duration, Option<Duration>) {
        let (Some(sweep), Some(began)) = (self.sweep, self.row) else { return (Duration::ZERO, None) };
        let (done, left) = (row.saturating_sub(1), (rows + 1).saturating_sub(row));
        let each = (began - sweep).checked_div(done as u32);
        let whole = each.map(|each| each * left as u32);
        (now - sweep, whole.map(|whole| whole.saturating_sub(now - began)))
    }
}

impl Dashboard {
    pub fn new(rows: usize) -> Dashboard {
        Dashboard { rows, ..Dashboard::default() }
    }

    /// Begins the next row, with empty curves.
    pub fn next(&mut self, row: usize, what: &str) {
        (self.row, self.what) = (row, what.into());
        self.phase = "launching".into();
        self.share = 0.0;
        let now = Instant::now();
        self.clock.sweep.get_or_insert(now);
        self.clock.row = Some(now);
        self.seconds.clear();
        self.instances.clear();
    }

    /// The remaining time of the sweep if its plan knows it; else it is estimated from the finished
    /// rows.
    pub fn expect(&mut self, left: Option<Duration>) {
        self.planned = left;
    }

    pub fn progress(&mut self, phase: &str, share: f64) {
        (self.phase, self.share) =
            (phase.into(), if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    }

    /// Adds the last second of each instance.
    pub fn sample(&mut self, instances: &[Measured]) {
        let mut all = Measured::default();
        instances.iter().for_each(|m| all.merge(m));
        let us = |q| all.latency.quantile(q) as f64 / 1000.0;
        let tps = instances.iter().map(rate).sum();
        self.seconds.push_back(Second { tps, p50_us: us(0.5), p99_us: us(0.99) });
        self.seconds.drain(..self.seconds.len().saturating_sub(REMEMBERED));
        self.instances = instances.to_vec();
    }

    /// Adds a line for a finished row.
    pub fn finished(&mut self, line: String) {
        self.finished.push_back(line);
        self.finished.drain(..self.finished.len().saturating_sub(FINISHED));
    }

    pub fn draw(&self, frame: &mut Frame) {
        let instances = self.instances.len().max(1) as u16;
        let [head, gauge, throughput, latency, table, done] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(4),
            Constraint::Min(4),
            Constraint::Max(instances.saturating_add(4)),
            Constraint::Max(self.finished.len() as u16 + u16::from(!self.finished.is_empty())),
        ])
        .areas(frame.area());
        let time = self.time(Instant::now());
        let [title, clock] =
            Layout::horizontal([Constraint::Min(10), Constraint::Max(time.chars().count() as u16)])
                .areas(head);
        frame.render_widget(Paragraph::new(self.title()).style(Modifier::BOLD), title);
        frame.render_widget(Paragraph::new(time), clock);
        let label = format!("{}: {:.0} %", self.phase, self.share * 100.0);
        let bar = Gauge::default().ratio(self.share).label(label).gauge_style(Color::Blue);
        frame.render_widget(bar, gauge);
        let now = self.seconds.back().copied().unwrap_or_default();
        let most = self.seconds.iter().fold(0.0, |most: f64, s| most.max(s.tps));
        let title = format!("throughput  {} /s   most {} /s", thousands(now.tps), thousands(most));
        self.curve(frame, throughput, title, Color::Green, |s| s.tps);
        let title = format!("latency  p50 {:.1} µs   p99 {:.1} µs (curve)", now.p50_us, now.p99_us);
        self.curve(frame, latency, title, Color::Yellow, |s| s.p99_us);
        self.table(frame, table);
        let lines: Vec<Line> = self.finished.iter().map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP)), done);
    }

    fn title(&self) -> String {
        format!("{}/{} {}   (Ctrl-C ends the run)", self.row, self.rows, self.what)
    }

    fn time(&self, now: Instant) -> String {
        let (gone, left) = self.clock.read(now, self.row, self.rows);
        let left = match self.planned.or(left) {
            Some(left) => format!("about {} left", minutes(left)),
            None if self.rows > 1 => "time left: once a row is done".into(),
            None => String::new(),
        };
        format!(" {} gone{}{left}", minutes(gone), if left.is_empty() { "" } else { ", " })
    }

    /// A curve of the last seconds that fit, the newest at the right edge, with a scale of values
    /// and a scale of time.
    fn curve(&self, frame: &mut Frame, area: Rect, title: String, colour: Color, value: fn(&Second) -> f64) {
        let block = Block::bordered().title(title);
        let inside = block.inner(area);
        frame.render_widget(block, area);
        if self.seconds.is_empty() {
            let text =
                format!("{} ({:.0} %): nothing to show before clients run", self.phase, self.share * 100.0);
            frame.render_widget(Paragraph::new(text).alignment(Alignment::Center), inside);
            return;
        }
        let [above, below] = Layout::vertical([Constraint::Min(1), Constraint::Max(1)]).areas(inside);
        let columns = [Constraint::Max(SCALE), Constraint::Min(1)];
        let [scale, bars] = Layout::horizontal(columns).areas(above);
        let [_, times] = Layout::horizontal(columns).areas(below);
        let wide = usize::from(bars.width);
        let shown = self.seconds.iter().skip(self.seconds.len().saturating_sub(wide));
        let values: Vec<u64> = shown.map(|s| value(s).max(0.0) as u64).collect();
        let most = values.iter().copied().max().unwrap_or(0);
        let missing = wide.saturating_sub(values.len());
        let data: Vec<u64> = std::iter::repeat_n(0, missing).chain(values).collect();
        frame.render_widget(Sparkline::default().data(&data).max(most.max(1)).style(colour), bars);
        frame.render_widget(Paragraph::new(scale_of(most, scale.height)).alignment(Alignment::Right), scale);
        frame.render_widget(Paragraph::new(time_scale(wide)), times);
    }

    fn table(&self, frame: &mut Frame, area: Rect) {
        let profiled = self.instances.iter().any(|m| m.profile.is_some());
        let rows = self.instances.iter().enumerate().map(|(number, m)| instance(number, m));
        let widths = [
            Constraint::Length(8),
            Constraint::Length(12),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Length(12),
            Constraint::Min(BREAKDOWN as u16),
        ];
        let last = if profiled { "where the workers' time goes" } else { "" };
        let head = Row::new(["instance", "tps", "p50 µs", "p99 µs", "conflicts/s", "messages/s", last]);
        let block = Block::bordered().title("instances").title_bottom(if profiled {
            legend()
        } else {
            Line::default()
        });
        frame.render_widget(Table::new(rows, widths).header(head.style(Modifier::BOLD)).block(block), area);
    }
}

/// A style with legible letters on this colour.
fn on(colour: Color) -> Style {
    Style::new().bg(colour).fg(if colour == Color::DarkGray { Color::White } else { Color::Black })
}

/// `1:05`, `1:02:05`.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The scale beside a curve: the greatest value at the top, half of it in the middle if there is
/// room, 0 at the bottom.
fn scale_of(most: u64, height: u16) -> Vec<Line<'static>> {
    let at = |line: u16| match line {
        0 => format!("{} ", thousands(most as f64)),
        line if line + 1 == height => "0 ".into(),
        line if height >= 5 && line == height / 2 => format!("{} ", thousands(most as f64 / 2.0)),
        _ => String::new(),
    };
    (0..height).map(|line| Line::raw(at(line))).collect()
}

/// The scale under a curve, in seconds before now, at one second per cell.
fn time_scale(wide: usize) -> String {
    let (left, middle) = (format!("-{wide} s"), format!("-{} s", wide / 2));
    if wide < 30 {
        return format!("{:>wide$}", "now");
    }
    let half = wide / 2;
    format!("{left:<half$}{middle:<rest$}now", rest = wide - half - "now".len())
}

fn seconds(m: &Measured) -> f64 {
    m.window_ns.max(1) as f64 / 1e9
}

fn rate(m: &Measured) -> f64 {
    m.committed_total() as f64 / seconds(m)
}

/// Attempts that ended without effect, except for rollbacks that the workload asks for.
fn conflicts(m: &Measured) -> u64 {
    m.aborted.values().sum::<u64>() - m.user_aborted.values().sum::<u64>().min(m.aborted.values().sum())
}

fn instance(number: usize, m: &Measured) -> Row<'static> {
    let a_second = |n: u64| thousands(n as f64 / seconds(m));
    let us = |q| format!("{:.1}", m.latency.quantile(q) as f64 / 1000.0);
    Row::new([
        Line::raw(number.to_string()),
        Line::raw(thousands(rate(m))),
        Line::raw(us(0.5)),
        Line::raw(us(0.99)),
        Line::raw(a_second(conflicts(m))),
        Line::raw(a_second(m.messages)),
        breakdown(m),
    ])
}

/// A bar of the workers' time by component; empty without a profile.
fn breakdown(m: &Measured) -> Line<'static> {
    let Some(profile) = &m.profile else { return Line::default() };
    let of = profile.per_transaction(m.committed_total()).worker_ns_per_txn;
    let whole: f64 = of.values().sum();
    let (mut spans, mut sum, mut drawn) = (Vec::new(), 0.0, 0);
    for (name, letter, colour) in COMPONENTS {
        sum += of.get(name).copied().unwrap_or_default();
        // The sums are rounded, not the parts, so that the bar always has the same length.
        let until = (sum / whole.max(1e-9) * BREAKDOWN as f64).round() as usize;
        spans.push(Span::styled(letter.repeat(until.saturating_sub(drawn)), on(colour)));
        drawn = drawn.max(until);
    }
    Line::from(spans)
}

fn legend() -> Line<'static> {
    let of = |(name, letter, colour): (&'static str, &'static str, Color)| {
        [Span::styled(letter, on(colour)), Span::raw(format!(" {name} "))]
    };
    Line::from(COMPONENTS.into_iter().flat_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn text(dashboard: &Dashboard, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| dashboard.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn measured(committed: u64) -> Measured {
        let mut m = Measured {
            window_ns: 2_000_000_000,
            committed: [("x".to_string(), committed)].into(),
            aborted: [("deadlock".to_string(), 8)].into(),
            ..Measured::default()
        };
        m.latency.record(50_000);
        m
    }

    #[test]
    fn what_was_measured_is_on_the_screen() {
        let mut dashboard = Dashboard::new(7);
        dashboard.next(3, "micro, 2 islands");
        dashboard.progress("measuring 1/3", 0.5);
        dashboard.sample(&[measured(2000), measured(4000)]);
        dashboard.sample(&[measured(20_000), measured(4000)]);
        dashboard.finished("micro, 1 island: 9,000 /s".into());
        let text = text(&dashboard, 120, 30);
        for words in [
            "3/7 micro, 2 islands",
            "measuring 1/3",
            "12,000 /s",
            "p50 50.",
            "10,000",
            "instances",
            "9,000 /s",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(text.contains('█'), "a curve in\n{text}");
        assert!(!text.contains("execution"), "no breakdown without a profile");
        dashboard.next(4, "other");
        assert!(dashboard.seconds.is_empty() && dashboard.instances.is_empty());
    }

    #[test]
    fn curves_have_a_scale_of_values_and_one_of_time() {
        let mut dashboard = Dashboard::new(1);
        dashboard.next(1, "micro");
        dashboard.sample(&[measured(20_000)]);
        dashboard.sample(&[measured(4_000)]);
        let text = text(&dashboard, 100, 40);
        for words in ["10,000", "5,000", "-87 s", "-43 s", "now"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let bottom = text.lines().find(|line| line.contains(" 0 ") && line.contains('█')).unwrap();
        assert!(bottom.contains("██│"), "the newest second is at the right edge: {bottom}");
    }

    #[test]
    fn there_is_something_to_see_while_data_is_loaded() {
        let mut dashboard = Dashboard::new(2);
        dashboard.next(1, "tpcc");
        dashboard.progress("loading", 0.43);
        let text = text(&dashboard, 100, 30);
        assert!(text.contains("loading (43 %): nothing to show before clients run"), "{text}");
        assert!(text.contains("loading: 43 %") && text.contains("time left: once a row is done"), "{text}");
    }

    #[test]
    fn the_time_left_is_that_of_the_rows_to_come() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let clock = Clock { sweep: Some(start), row: Some(at(60)) };
        // Two of five rows took a minute, and the third has run for ten seconds.
        assert_eq!(clock.read(at(70), 3, 5), (Duration::from_secs(70), Some(Duration::from_secs(80))));
        assert_eq!(
            clock.read(at(600), 5, 5).1,
            Some(Duration::ZERO),
            "a row that takes longer is nearly done"
        );
        let first = Clock { sweep: Some(start), row: Some(start) };
        assert_eq!(first.read(at(5), 1, 5), (Duration::from_secs(5), None));
        assert_eq!((minutes(at(65) - start), minutes(at(3725) - start)), ("1:05".into(), "1:02:05".into()));
    }

    #[test]
    fn a_breakdown_says_without_colours_what_it_is_made_of() {
        let m = Measured { profile: Some(Box::new(driver_profile())), ..measured(10) };
        let bar: String = breakdown(&m).spans.iter().map(|span| span.content.clone()).collect();
        assert_eq!(bar, "x".repeat(12) + &".".repeat(28));
        let legend: String = legend().spans.iter().map(|span| span.content.clone()).collect();
        assert!(legend.contains("x execution") && legend.contains(". idle"), "{legend}");
        let letters: std::collections::BTreeSet<&str> = COMPONENTS.iter().map(|c| c.1).collect();
        assert_eq!(letters.len(), COMPONENTS.len());
    }

    #[test]
    fn a_breakdown_is_as_long_as_it_should_be() {
        let profile = driver_profile();
        let m = Measured { profile: Some(Box::new(profile)), ..measured(10) };
        assert_eq!(breakdown(&m).width(), BREAKDOWN);
        assert_eq!(breakdown(&measured(10)).width(), 0);
        let mut dashboard = Dashboard::new(1);
        dashboard.sample(&[m]);
        assert!(text(&dashboard, 120, 30).contains("execution"));
    }

    fn driver_profile() -> driver::Profile {
        let mut profile = driver::Profile { idle_ns: 700, ..Default::default() };
        profile.busy_ns[0] = 300;
        profile
    }

    #[test]
    fn no_terminal_is_too_small_and_no_number_too_strange() {
        let mut dashboard = Dashboard::new(1);
        dashboard.progress("", f64::NAN);
        dashboard.sample(&vec![measured(u64::MAX / 1000); 300]);
        for (width, height) in [(1, 1), (10, 3), (80, 24), (300, 5)] {
            text(&dashboard, width, height);
        }
    }
}
