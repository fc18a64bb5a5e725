//! `atoll figures`: the papers' figures and tables, measured here, and the list of them.

use crate::failure::Failure;
use crate::lab::{Lab, Outcome};
use crate::output::print;
use crate::papers::FiguresArgs;
use crate::sheet::fitted;
use claims::{Experiment, Library, Row};
use comfy_table::{CellAlignment, Table, presets};
use deploy::Interrupt;
use world::tell;

pub fn run(args: &FiguresArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let library = Library::built_in().map_err(Failure::run)?;
    if args.list {
        return list(&library, args.simulated);
    }
    let figures = chosen(&library, &args.ids)?;
    let mut lab = Lab::open(&args.rows, interrupt)?;
    lab.announce(&figures)?;
    for figure in &figures {
        let outcome = lab.rows(figure);
        print(&heading(figure))?;
        match outcome {
            Outcome::Rows(rows) => {
                show(figure, &rows)?;
                for path in lab.report(&figure.id, &rows)? {
                    tell(format_args!("report: {}", path.display()));
                }
            }
            Outcome::None(why) => {
                let theirs: Vec<Row> = lab
                    .partial()
                    .iter()
                    .filter(|r| r.word("experiment").as_deref() == Some(&figure.id))
                    .cloned()
                    .collect();
                show(figure, &theirs)?;
                print(&format!("{why}\n"))?;
            }
        }
        if lab.interrupted() {
            break;
        }
    }
    if let Some(path) = lab.write_all()? {
        tell(format_args!("rows: {}", path.display()));
    }
    // Pages of all figures, beside those of each.
    for path in lab.report("report", &lab.all_rows())? {
        tell(format_args!("report: {}", path.display()));
    }
    lab.ending()
}

/// The figures that were asked for; without any, all that can be measured.
fn chosen<'a>(library: &'a Library, ids: &[String]) -> Result<Vec<&'a Experiment>, Failure> {
    if ids.is_empty() {
        let can_be_measured =
            |e: &&Experiment| e.is_figure() && e.waits.is_none() && !e.is_simulated() && !e.is_traced();
        return Ok(library.experiments.iter().filter(can_be_measured).collect());
    }
    let measured = |id: &String| {
        let figure = library.experiment(id).map_err(Failure::usage)?;
        match figure.is_simulated() && figure.waits.is_none() {
            true => Err(Failure::Usage(format!("{id}: it is simulated and not measured; add --simulated"))),
            false => Ok(figure),
        }
    };
    ids.iter().map(measured).collect()
}

fn list(library: &Library, simulated: bool) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["id", "in the papers", "shows", "waits for"]);
    for e in library.experiments.iter().filter(|e| e.is_figure() && e.simulate.is_empty() != simulated) {
        let figure = e.figure.as_deref().unwrap_or_default();
        table.add_row([e.id.as_str(), figure, e.caption.as_str(), e.waits.as_deref().unwrap_or_default()]);
    }
    print(&fitted(table))
}

pub fn heading(figure: &Experiment) -> String {
    let place = figure.figure.as_ref().map_or(String::new(), |place| format!(" ({place})"));
    let papers =
        if figure.papers.is_empty() { String::new() } else { format!("\nThe papers: {}", figure.papers) };
    format!("{}{place}: {}{papers}", figure.id, figure.caption)
}

pub fn show(figure: &Experiment, rows: &[Row]) -> Result<(), Failure> {
    let Some(plot) = &figure.plot else { return Ok(()) };
    let rows: Vec<&Row> = rows.iter().collect();
    let tables = claims::figure::tables(plot, &rows);
    if tables.is_empty()
        && let Some(why) = claims::figure::missing(plot, &rows)
    {
        print(&format!("nothing to show: {why}"))?;
    }
    for data in tables {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY);
        table.set_header(&data.head);
        table.add_rows(&data.rows);
        for i in 1..data.head.len() {
            if let Some(column) = table.column_mut(i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        print(&format!("{}\n{}", data.title, fitted(table)))?;
    }
    print("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_ids_every_figure_that_can_be_measured() {
        let library = Library::built_in().unwrap();
        let all = chosen(&library, &[]).unwrap();
        assert!(all.len() >= 25 && all.iter().all(|e| e.is_figure() && e.waits.is_none()));
        let failure = chosen(&library, &["vldbj-1l".into()]).unwrap_err();
        assert!(failure.code() == 2 && failure.to_string().contains("vldbj-11"), "{failure}");
    }

    /// The plot of a figure uses fields that its rows can have: at least, it has a plot.
    #[test]
    fn every_figure_has_something_to_draw() {
        let library = Library::built_in().unwrap();
        let drawn = |e: &&Experiment| e.is_figure() && e.waits.is_none() && e.plot.is_none();
        assert!(library.experiments.iter().find(drawn).is_none());
    }
}
