//! Tables as values and as HTML. They contain everything that the charts show, for screen readers
//! and for browsers without scripts.

use crate::glossary::explain;
use crate::text::escape;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    Left,
    Right,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub head: Vec<(String, Align)>,
    pub rows: Vec<Vec<Cell>>,
}

/// A cell, with its number, if it has one, for sorting; and whether it is highlighted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cell {
    pub text: String,
    pub number: Option<f64>,
    pub tone: Tone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    #[default]
    Plain,
    Best,
    Alarming,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    pub fn number(value: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), number: value.is_finite().then_some(value), ..Cell::default() }
    }

    pub fn toned(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

impl Table {
    pub fn new(head: impl IntoIterator<Item = (impl Into<String>, Align)>) -> Table {
        Table { head: head.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: Vec::new() }
    }

    /// The table without the columns for which `drop`, given the name and the cells, returns true.
    pub fn without_columns(mut self, drop: impl Fn(&str, &[&Cell]) -> bool) -> Table {
        let idle: Vec<bool> = (0..self.head.len())
            .map(|c| {
                let cells: Vec<&Cell> = self.rows.iter().filter_map(|r| r.get(c)).collect();
                drop(&self.head[c].0, &cells)
            })
            .collect();
        let keep = |c: &usize| !idle[*c];
        self.head = self.head.into_iter().enumerate().filter(|(c, _)| keep(c)).map(|(_, h)| h).collect();
        for row in &mut self.rows {
            *row = std::mem::take(row)
                .into_iter()
                .enumerate()
                .filter(|(c, _)| keep(c))
                .map(|(_, x)| x)
                .collect();
        }
        self
    }

    /// `caption` names the table for readers that do not see its surroundings.
    pub fn html(&self, caption: &str) -> String {
        self.in_form("scroll", caption)
    }

    /// For few rows of long texts: on a narrow screen each row becomes a list of its cells, so that
    /// every column is visible.
    pub fn cards(&self, caption: &str) -> String {
        self.in_form("scroll cards", caption)
    }

    fn in_form(&self, form: &str, caption: &str) -> String {
        let mut out = format!(
            "<div class=\"{form}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
            escape(caption)
        );
        for (name, align) in &self.head {
            let title = explain(name).map_or(String::new(), |text| format!(" title=\"{}\"", escape(text)));
            out += &format!("<th scope=\"col\"{}{title}>{}</th>", class(*align, Tone::Plain), escape(name));
        }
        out += "</tr></thead><tbody>";
        for row in &self.rows {
            out += "<tr>";
            for (cell, (name, align)) in row.iter().zip(&self.head) {
                let sort = cell.number.map_or(String::new(), |n| format!(" data-n=\"{n}\""));
                let label = match form {
                    "scroll" => String::new(),
                    _ => format!(" data-l=\"{}\"", escape(name)),
                };
                out += &format!("<td{}{sort}{label}>{}</td>", class(*align, cell.tone), escape(&cell.text));
            }
            out += "</tr>";
        }
        out + "</tbody></table></div>"
    }
}

/// The explanations of columns that need one, folded; empty if there is none.
pub fn legend(tables: &[&Table]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in tables.iter().flat_map(|table| &table.head) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let item =
        |name: &str| Some(format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(explain(name)?)));
    let items: String = names.into_iter().filter_map(item).collect();
    if items.is_empty() {
        return items;
    }
    format!(
        "<details class=\"legend\"><summary>Meaning of the columns</summary><dl class=\"glossary\">{items}</dl></details>"
    )
}

fn class(align: Align, tone: Tone) -> &'static str {
    match (align, tone) {
        (Align::Left, Tone::Plain) => "",
        (Align::Right, Tone::Plain) => " class=\"r\"",
        (Align::Left, Tone::Best) => " class=\"best\"",
        (Align::Right, Tone::Best) => " class=\"r best\"",
        (Align::Left, Tone::Alarming) => " class=\"bad\"",
        (Align::Right, Tone::Alarming) => " class=\"r bad\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_whatever_they_say() {
        let mut table = Table::new([("<b>", Align::Left), ("n", Align::Right)]);
        table
            .rows
            .push(vec![Cell::text("<script>alert(1)</script>"), Cell::number(1.5, "1.5").toned(Tone::Best)]);
        let html = table.html("\"quoted\"");
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        assert!(html.contains("<td class=\"r best\" data-n=\"1.5\">1.5</td>"), "{html}");
    }

    #[test]
    fn columns_that_need_it_are_explained() {
        let table = Table::new([("spread %", Align::Right), ("design", Align::Left)]);
        let (html, legend) = (table.html("all"), legend(&[&table, &table]));
        assert_eq!((html.matches(" title=").count(), legend.matches("<dt>").count()), (1, 1));
        assert!(legend.contains("slowest to the fastest repetition"), "{legend}");
        assert_eq!(super::legend(&[&Table::new([("design", Align::Left)])]), "");
    }

    #[test]
    fn idle_columns_go() {
        let mut table = Table::new([("a", Align::Left), ("b", Align::Left)]);
        table.rows.push(vec![Cell::text("x"), Cell::text("")]);
        let table = table.without_columns(|_, cells| cells.iter().all(|c| c.text.is_empty()));
        assert_eq!((table.head.len(), table.rows[0].len()), (1, 1));
    }
}
