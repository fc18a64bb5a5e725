//! What all pages share: one file with script, styles and charts, that opens without a network.
//!
//! `assets/report.js` draws charts with ECharts from values in a
//! `<script type="application/json">`. A policy in the page's head forbids all network access, for
//! any content.

use crate::chart::Figure;
use crate::figures::Section;
use crate::text::{escape, script_json};

const ECHARTS: &str = include_str!("../assets/echarts.min.js");
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Forbids outside resources: no requests, no frames, no forms. Scripts and styles are in the page
/// itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'";

/// Set before anything is drawn, so that the page does not flash.
const THEME: &str = "document.documentElement.classList.add('scripted');\
try{const t=location.hash.slice(1);document.documentElement.dataset.theme=\
t==='dark'||t==='light'?t:localStorage.getItem('atoll-theme')||'auto'}catch{document.documentElement.dataset.theme='auto'}";

/// The buttons of a page's header.
pub const TOOLS: &str = "<div class=\"tools\">\
<button type=\"button\" id=\"patterns\" aria-pressed=\"false\">Patterns</button>\
<button type=\"button\" id=\"theme\">Dark</button></div>";

/// The page around `body`, which has an element for each figure. `rows` is the text that the page
/// offers for download as `rows.jsonl`. 1.1 MB of the page is the charting library.
pub fn frame(title: &str, body: &str, figures: &[&Figure], rows: Option<&str>) -> String {
    let rows = rows.map_or_else(String::new, |lines| {
        format!("<script type=\"application/json\" id=\"rows\">{}</script>", script_json(&lines))
    });
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"><title>{}</title>\
         <style>{STYLE}</style><script>{THEME}</script></head><body>{body}\
         <script type=\"application/json\" id=\"figures\">{}</script>{rows}\
         <script>{ECHARTS}</script><script>{SCRIPT}</script></body></html>\n",
        escape(title),
        script_json(&figures),
    )
}

pub fn section(of: &Section) -> String {
    let figures: String = of.figures.iter().map(figure).collect();
    format!(
        "<section id=\"{}\"><h2>{}</h2><p>{}</p><div class=\"figures\">{figures}</div></section>",
        of.id, of.title, of.words
    )
}

/// The place of a chart with its title and caption, and its table folded beneath.
pub fn figure(of: &Figure) -> String {
    let (id, title) = (escape(&of.id), escape(&of.title));
    format!(
        "<figure id=\"{id}\"><figcaption><strong>{title}</strong> <span>{}</span></figcaption>\
         <div class=\"chart\" role=\"img\" aria-label=\"{title}; the table below says the same\"></div>\
         <details><summary>Table</summary>{}</details></figure>",
        escape(&of.caption),
        of.table.html(&of.title)
    )
}
