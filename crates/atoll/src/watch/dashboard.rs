//! What the dashboard shows: how far the run is, throughput and latency of the last seconds, and each instance on a line of
//! its own, with its breakdown when the run is profiled.

use crate::output::thousands;
use driver::Measured;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;

/// Seconds that are remembered: more than any terminal is wide.
const REMEMBERED: usize = 600;
/// Finished rows that are still shown.
const FINISHED: usize = 5;
/// Cells of an instance's breakdown.
const BREAKDOWN: usize = 40;

/// The components in the colours that terminals have, in the report's order. Idle workers are left blank.
const COMPONENTS: [(&str, Color); 7] = [
    ("execution", Color::Green),
    ("locking", Color::Red),
    ("latching", Color::Yellow),
    ("logging", Color::Magenta),
    ("communication", Color::Blue),
    ("management", Color::Cyan),
    ("idle", Color::DarkGray),
];

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
}

impl Dashboard {
    pub fn new(rows: usize) -> Dashboard {
        Dashboard { rows, ..Dashboard::default() }
    }

    /// The next row begins; curves begin anew with it.
    pub fn next(&mut self, row: usize, what: &str) {
        (self.row, self.what) = (row, what.into());
        self.phase = "launching".into();
        self.share = 0.0;
        self.seconds.clear();
        self.instances.clear();
    }

    pub fn progress(&mut self, phase: &str, share: f64) {
        (self.phase, self.share) =
            (phase.into(), if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    }

    /// What each instance measured in the last second.
    pub fn sample(&mut self, instances: &[Measured]) {
        let mut all = Measured::default();
        instances.iter().for_each(|m| all.merge(m));
        let us = |q| all.latency.quantile(q) as f64 / 1000.0;
        let tps = instances.iter().map(rate).sum();
        self.seconds.push_back(Second { tps, p50_us: us(0.5), p99_us: us(0.99) });
        self.seconds.drain(..self.seconds.len().saturating_sub(REMEMBERED));
        self.instances = instances.to_vec();
    }

    /// A row is done: a line about it.
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
        frame.render_widget(Paragraph::new(self.title()).style(Modifier::BOLD), head);
        let bar = Gauge::default().ratio(self.share).label(self.phase.as_str()).gauge_style(Color::Blue);
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

    /// The last seconds that fit, the newest at the right edge.
    fn curve(&self, frame: &mut Frame, area: Rect, title: String, colour: Color, value: fn(&Second) -> f64) {
        let wide = usize::from(area.width.saturating_sub(2));
        let shown = self.seconds.iter().skip(self.seconds.len().saturating_sub(wide));
        let values: Vec<u64> = shown.map(|s| value(s).max(0.0) as u64).collect();
        let block = Block::bordered().title(title);
        frame.render_widget(Sparkline::default().data(&values).style(colour).block(block), area);
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
        let head = Row::new(["instance", "tps", "p50 µs", "p99 µs", "aborted/s", "messages/s", last]);
        let block = Block::bordered().title("instances").title_bottom(if profiled {
            legend()
        } else {
            Line::default()
        });
        frame.render_widget(Table::new(rows, widths).header(head.style(Modifier::BOLD)).block(block), area);
    }
}

fn seconds(m: &Measured) -> f64 {
    m.window_ns.max(1) as f64 / 1e9
}

fn rate(m: &Measured) -> f64 {
    m.committed_total() as f64 / seconds(m)
}

fn instance(number: usize, m: &Measured) -> Row<'static> {
    let a_second = |n: u64| thousands(n as f64 / seconds(m));
    let us = |q| format!("{:.1}", m.latency.quantile(q) as f64 / 1000.0);
    Row::new([
        Line::raw(number.to_string()),
        Line::raw(thousands(rate(m))),
        Line::raw(us(0.5)),
        Line::raw(us(0.99)),
        Line::raw(a_second(m.aborted.values().sum())),
        Line::raw(a_second(m.messages)),
        breakdown(m),
    ])
}

/// A bar of the workers' time, by component; empty without a profile.
fn breakdown(m: &Measured) -> Line<'static> {
    let Some(profile) = &m.profile else { return Line::default() };
    let of = profile.per_transaction(m.committed_total()).worker_ns_per_txn;
    let whole: f64 = of.values().sum();
    let (mut spans, mut sum, mut drawn) = (Vec::new(), 0.0, 0);
    for (name, colour) in COMPONENTS {
        sum += of.get(name).copied().unwrap_or_default();
        // Rounding the sums and not the parts: the bar is always as long.
        let until = (sum / whole.max(1e-9) * BREAKDOWN as f64).round() as usize;
        spans.push(Span::styled(" ".repeat(until.saturating_sub(drawn)), Style::new().bg(colour)));
        drawn = drawn.max(until);
    }
    Line::from(spans)
}

fn legend() -> Line<'static> {
    let of = |(name, colour): (&'static str, Color)| {
        [Span::styled("  ", Style::new().bg(colour)), Span::raw(format!(" {name} "))]
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
