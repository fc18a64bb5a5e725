//! The page: everything in one file, in reading order.
//!
//! Text is escaped here; [`crate::frame`] has what all pages share.

use crate::chart::Figure;
use crate::figures::{self, Section};
use crate::frame::{TOOLS, figure, frame, section};
use crate::kinds::kinds;
use crate::machine;
use crate::rows::Row;
use crate::sweep::Sweep;
use crate::table::{Table, legend};
use crate::text::{escape, short, thousands};
use std::collections::BTreeSet;
use topology::Machine;

/// The title of the table of each kind of transaction.
const KINDS: &str = "By transaction";

/// The most command lines that are printed at the top.
const COMMANDS: usize = 6;

/// The content of a page.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
    /// The machines that rows were measured on, if they are known.
    pub machines: Vec<Machine>,
    /// Notes for the reader, for example about omitted lines or mixed versions.
    pub notes: Vec<String>,
}

impl Report {
    /// The page. It needs no other file: 1.1 MB of it is the charting library.
    pub fn html(&self) -> String {
        let sweep = Sweep::of(&self.rows);
        let matrices: Vec<Figure> =
            self.machines.iter().enumerate().filter_map(|(n, m)| machine::matrix(m, n)).collect();
        let sections = if self.rows.is_empty() { Vec::new() } else { figures::sections(&self.rows, &sweep) };
        let all: Vec<&Figure> = matrices.iter().chain(sections.iter().flat_map(|s| &s.figures)).collect();
        let lines: String = self.rows.iter().map(|r| r.json.to_string() + "\n").collect();
        let body = [
            self.header(),
            self.contents(&sections),
            "<main>".into(),
            self.summary(&sweep),
            self.machine_section(&matrices),
            sections.iter().map(section).collect(),
            self.kinds_section(&sweep),
            self.table_section(&sweep),
            "</main>".into(),
            self.footer(),
        ];
        frame(&self.title(), &body.concat(), &all, Some(&lines))
    }

    fn title(&self) -> String {
        let names: BTreeSet<&str> = self.rows.iter().map(|r| r.row.settings.workload.as_str()).collect();
        let names: Vec<&str> = names.into_iter().filter(|n| !n.is_empty()).collect();
        if names.is_empty() { "Atoll".into() } else { format!("Atoll: {}", names.join(", ")) }
    }

    fn header(&self) -> String {
        let distinct = |of: fn(&Row) -> String| -> Vec<String> {
            let all: BTreeSet<String> = self.rows.iter().map(of).filter(|t| !t.is_empty()).collect();
            all.into_iter().map(|text| escape(&text)).collect()
        };
        let told = |name: &str, all: Vec<String>| match all.is_empty() {
            true => String::new(),
            false => format!(" · {name}{}", all.join(", ")),
        };
        let dates = distinct(|r| r.row.date.clone());
        let measured = match (dates.first(), dates.last()) {
            (Some(first), Some(last)) if first != last => format!(" · {first} to {last}"),
            (Some(only), _) => format!(" · {only}"),
            _ => String::new(),
        };
        let count = match self.rows.len() {
            1 => "1 row".to_string(),
            n => format!("{n} rows"),
        };
        format!(
            "<header><div><h1>{}</h1><p>{count}{measured}{}{}{}{}{}</p>{}</div>\
             {TOOLS}</header>",
            escape(&self.title()),
            told("", distinct(|r| r.row.machine.model.clone())),
            told("host ", distinct(|r| r.row.hostname.clone())),
            told("Linux ", distinct(|r| r.row.kernel.clone())),
            told("version ", distinct(|r| r.row.version.clone())),
            told("commit ", distinct(|r| r.row.commit.chars().take(12).collect())),
            commands(&distinct(|r| r.row.command.clone())),
        )
    }

    fn summary(&self, sweep: &Sweep) -> String {
        let mut out = "<section id=\"summary\"><h2>Summary</h2>".to_string();
        let notes = self.all_notes();
        if !notes.is_empty() {
            let items: String = notes.iter().map(|n| format!("<li>{}</li>", escape(n))).collect();
            out += &format!("<ul class=\"notes\" role=\"note\">{items}</ul>");
        }
        let winners = figures::winners(&self.rows, sweep);
        if !winners.rows.is_empty() {
            out += "<p>The fastest deployment of each request mix. A deployment wins only where its lead is beyond the spread of the \
                    repetitions and the noise of the machine; else there is no difference.</p>";
            out += &winners.cards("The fastest deployment of each request mix");
            out += &legend(&[&winners]);
        }
        if let [row] = self.rows.as_slice() {
            out += &tiles(row);
        }
        out + &self.constants(sweep) + "</section>"
    }

    /// The settings that all rows share, which the sweep did not vary.
    fn constants(&self, sweep: &Sweep) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let Ok(serde_json::Value::Object(settings)) = serde_json::to_value(&first.row.settings) else {
            return String::new();
        };
        let same = settings.iter().filter(|(key, value)| {
            !value.is_object()
                && !sweep.dimensions.iter().any(|d| d.key == **key)
                && self.rows.iter().all(|r| r.json.get(key.as_str()) == first.json.get(key.as_str()))
        });
        let item = |(key, value): (&String, &serde_json::Value)| {
            let number =
                || value.as_f64().filter(|v| v.fract() != 0.0).map_or_else(|| value.to_string(), short);
            let text = value.as_str().map_or_else(number, str::to_string);
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(&key.replace('_', " ")), escape(&text))
        };
        let items: String = same.map(item).collect();
        if items.is_empty() {
            return items;
        }
        format!("<h3>The same in all rows</h3><dl class=\"settings\">{items}</dl>")
    }

    /// The notes that were given to the report, and those that follow from the rows.
    fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let count = |is: fn(&Row) -> bool| self.rows.iter().filter(|r| is(r)).count();
        let mut say = |n: usize, text: &str| {
            if n > 0 {
                notes.push(format!("{n} of {} rows {text}", self.rows.len()));
            }
        };
        say(
            count(|r| r.row.consistent == Some(false)),
            "are inconsistent: a check of the workload did not hold",
        );
        say(count(|r| r.row.oversubscribed), "ran more workers than the machine has cores");
        say(
            count(|r| r.row.noise > figures::NOISY),
            "lost more than a tenth of the machine to other work (noise): read them with care",
        );
        say(
            count(|r| r.row.steady == Some(false)),
            "had not settled: throughput still rose or fell while it was measured",
        );
        say(count(|r| r.row.refused.is_some_and(|n| n > 0)), "refused requests: the rate could not be met");
        say(count(|r| r.row.restarts > 0), "saw an instance die and start again");
        for row in &self.rows {
            notes.extend(row.row.violations.iter().map(|v| format!("{}: {v}", row.row.settings.workload)));
        }
        notes
    }

    fn machine_section(&self, matrices: &[Figure]) -> String {
        if self.machines.is_empty() {
            return String::new();
        }
        let mut out = "<section id=\"machine\"><h2>The machine</h2>".to_string();
        for (number, machine) in self.machines.iter().enumerate() {
            out += &format!(
                "<h3>{}</h3><p>{}.</p><div class=\"drawing\">{}</div>",
                escape(&machine.model),
                escape(&machine::heading(machine)),
                machine::drawing(machine)
            );
            let id = format!("matrix-{number}");
            out += &matrices.iter().filter(|m| m.id == id).map(figure).collect::<String>();
        }
        out + "</section>"
    }

    fn table_section(&self, sweep: &Sweep) -> String {
        let table: Table = figures::all_rows(&self.rows, sweep);
        format!(
            "<section id=\"rows-table\"><h2>All rows</h2><p>Messages and log bytes are per transaction. \
             A click on a column's name sorts. <a id=\"download\" hidden>rows.jsonl</a></p>{}{}</section>",
            table.html("All rows"),
            legend(&[&table])
        )
    }

    /// Empty if no row is of a mix.
    fn kinds_section(&self, sweep: &Sweep) -> String {
        let Some(table) = self.kinds(sweep) else { return String::new() };
        format!(
            "<section id=\"kinds\"><h2>{KINDS}</h2><p>Each type of transaction of the mix: how many, how fast, and how many \
             tries ended without effect, by reason. User rollbacks are asked for by the workload; every other reason is a failure.</p>\
             {}{}</section>",
            table.html("Each type of transaction"),
            legend(&[&table])
        )
    }

    fn kinds(&self, sweep: &Sweep) -> Option<Table> {
        let alone = self.rows.len() == 1;
        let name = |r: usize| match (sweep.request(r), sweep.deployment(r)) {
            _ if alone => String::new(),
            (request, deployment) if request.is_empty() || deployment.is_empty() => request + &deployment,
            (request, deployment) => format!("{request} · {deployment}"),
        };
        let named: Vec<_> = self.rows.iter().enumerate().map(|(at, row)| (name(at), &row.row)).collect();
        kinds(&named)
    }

    fn contents(&self, sections: &[Section]) -> String {
        let mut links = vec![("summary", "Summary")];
        if !self.machines.is_empty() {
            links.push(("machine", "The machine"));
        }
        links.extend(sections.iter().map(|s| (s.id, s.title)));
        if self.kinds(&Sweep::of(&self.rows)).is_some() {
            links.push(("kinds", KINDS));
        }
        links.push(("rows-table", "All rows"));
        let link = |(id, title): (&str, &str)| format!("<a href=\"#{id}\">{title}</a>");
        format!("<nav aria-label=\"Contents\">{}</nav>", links.into_iter().map(link).collect::<String>())
    }

    fn footer(&self) -> String {
        format!(
            "<footer><p>Made by atoll {}. Throughput is the median repetition's; what each figure is and how it was measured: \
             docs/measuring.md. Charts: Apache ECharts 6.1.0 (Apache License 2.0).</p></footer>",
            driver::VERSION
        )
    }
}

/// The command lines that measured the rows, as escaped HTML.
fn commands(all: &[String]) -> String {
    let line = |command: &String| format!("<code>{command}</code>");
    let more = match all.len().saturating_sub(COMMANDS) {
        0 => String::new(),
        n => format!(" and {n} more, see the rows"),
    };
    match all {
        [] => String::new(),
        all => {
            let lines: Vec<String> = all.iter().take(COMMANDS).map(line).collect();
            format!("<p class=\"commands\">Measured by {}{more}</p>", lines.join(" "))
        }
    }
}

/// The figures of a single row, for a report without a comparison.
fn tiles(row: &Row) -> String {
    let r = &row.row;
    let mut all = vec![("transactions a second", thousands(r.tps))];
    if let Some(l) = &r.latency_us {
        all.push(("median latency, µs", short(l.p50)));
        all.push(("99th percentile, µs", short(l.p99)));
    }
    if let Some(tpmc) = r.tpmc {
        all.push(("tpmC", thousands(tpmc)));
    }
    all.push(("user rollbacks", thousands(r.user_rollbacks() as f64)));
    all.push(("conflicts", thousands(r.conflicts() as f64)));
    let tile = |(what, value): (&str, String)| format!("<div><b>{value}</b><span>{what}</span></div>");
    format!("<div class=\"tiles\">{}</div>", all.into_iter().map(tile).collect::<String>())
}
