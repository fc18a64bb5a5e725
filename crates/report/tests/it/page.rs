//! The content of the page, and its display in a browser.
//!
//! Tests named `browser_...` need a Chromium, and print a message if there is none; with
//! `REPORT_TEST_BROWSER=required`, as `cargo xtask report-test` sets it, they fail instead.
//! `REPORT_TEST_PICTURES=DIR` keeps their pictures.

use crate::browser::{self, Browser, Page, Screen};
use crate::sample;
use report::{Report, Row};
use std::path::{Path, PathBuf};

pub const DESK: Screen = Screen { width: 1240, height: 900, mobile: false, scheme: "light" };
pub const NIGHT: Screen = Screen { scheme: "dark", ..DESK };
pub const PHONE: Screen = Screen { width: 390, height: 844, mobile: true, scheme: "light" };

/// A picture with fewer colours shows an empty frame.
const COLOURS_OF_A_CHART: u64 = 4;

pub fn with_browser(test: impl FnOnce(&mut Browser, &Path)) {
    let home = tempfile::tempdir().unwrap();
    match browser::find() {
        Some(program) => test(&mut Browser::start(&program, home.path()), home.path()),
        None if std::env::var_os("REPORT_TEST_BROWSER").is_some() => panic!("{NO_BROWSER}"),
        None => eprintln!("skipped: {NO_BROWSER}"),
    }
}

const NO_BROWSER: &str =
    "no browser: install chromium (Debian's package of that name), or name one with ATOLL_BROWSER";

fn file(home: &Path, report: &Report) -> PathBuf {
    let path = home.join("report.html");
    std::fs::write(&path, report.html()).unwrap();
    path
}

pub fn keep(name: &str, picture: &[u8]) {
    if let Some(dir) = std::env::var_os("REPORT_TEST_PICTURES") {
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(Path::new(&dir).join(format!("{name}.png")), picture).unwrap();
    }
}

pub fn assert_sound(page: &mut Page<'_>) {
    assert_eq!(page.complaints(), Vec::<String>::new());
    assert_eq!(page.requests(), Vec::<String>::new(), "the page asks for nothing but itself");
    let all = page.value("document.querySelectorAll('.chart').length");
    assert!(all.as_u64().unwrap() > 0);
    assert_eq!(page.value("document.querySelectorAll('.chart[data-drawn=yes]').length"), all);
    assert_eq!(page.value("Number(document.documentElement.dataset.charts)"), all);
}

/// The colours of the marks in the chart of a figure, which is an SVG.
fn colours(page: &mut Page<'_>, figure: &str) -> u64 {
    let script = format!(
        "new Set([...document.querySelectorAll('#{figure} .chart svg path')].flatMap(p => \
         [p.getAttribute('fill'), p.getAttribute('stroke')])).size"
    );
    page.value(&script).as_u64().unwrap()
}

#[test]
fn browser_draws_every_chart_by_day_by_night_and_on_a_phone() {
    with_browser(|browser, home| {
        let path = file(home, &sample::report());
        let mut page = browser.page();
        for (name, screen) in [("day", DESK), ("night", NIGHT), ("phone", PHONE)] {
            page.open(&path, screen);
            assert_sound(&mut page);
            for figure in
                ["throughput-0", "time-0-0", "latency-0-0", "tail-0-0", "sections-1-0", "over-time-0-0"]
            {
                assert!(colours(&mut page, figure) >= COLOURS_OF_A_CHART, "{figure} by {name} is empty");
            }
            let width = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(width <= u64::from(screen.width), "{name}: the page is {width} wide");
            if std::env::var_os("REPORT_TEST_PICTURES").is_none() {
                continue;
            }
            let sections = page.value("[...document.querySelectorAll('section')].map(s => s.id)");
            for section in sections.as_array().unwrap().iter().filter_map(|s| s.as_str()) {
                let picture = page.picture(&format!("#{section}"));
                assert!(picture.starts_with(b"\x89PNG"), "{section}");
                keep(&format!("{name}-{section}"), &picture);
            }
        }
    });
}

/// The colour of each line of a chart, by its name, in the order of the legend.
fn strokes(page: &mut Page<'_>, figure: &str) -> Vec<String> {
    // The lines themselves are the ones two pixels wide and without a fill.
    let script = format!(
        "[...new Set([...document.querySelectorAll('#{figure} .chart svg path[stroke-width=\"2\"][fill=none]')].map(p => \
         p.getAttribute('stroke')))]"
    );
    let all = page.value(&script);
    all.as_array().unwrap().iter().map(|c| c.as_str().unwrap().to_string()).collect()
}

#[test]
fn browser_draws_seven_designs_in_seven_colours_that_stay_theirs() {
    with_browser(|browser, home| {
        let path = file(home, &sample::designs());
        let mut page = browser.page();
        for (name, screen) in [("day", DESK), ("night", NIGHT), ("phone", PHONE)] {
            page.open(&path, screen);
            assert_sound(&mut page);
            let (reads, updates) = (strokes(&mut page, "throughput-0"), strokes(&mut page, "throughput-1"));
            assert_eq!((reads.len(), updates.len()), (7, 6), "{reads:?} {updates:?}");
            assert_eq!(reads[1..], updates, "conventional does not update: the others keep their colours");
            for section in ["throughput", "time"] {
                keep(&format!("designs-{name}-{section}"), &page.picture(&format!("#{section}")));
            }
        }
    });
}

#[test]
fn designs_stand_in_order_whatever_order_rows_come_in() {
    let html = sample::designs().html();
    let figures = html.split("id=\"figures\">").nth(1).unwrap().split("</script>").next().unwrap();
    let figures: serde_json::Value = serde_json::from_str(figures).unwrap();
    let lines = |n: usize| -> Vec<(String, u64)> {
        let lines = figures[n]["chart"]["lines"].as_array().unwrap().iter();
        lines.map(|l| (l["name"].as_str().unwrap().to_string(), l["tone"].as_u64().unwrap())).collect()
    };
    let expected: Vec<(String, u64)> = sample::DESIGNS.iter().map(|d| d.to_string()).zip(0..).collect();
    assert_eq!(lines(0), expected);
    assert_eq!(lines(1), expected[1..]);
}

#[test]
fn browser_turns_the_light_on_and_off_and_shows_other_views() {
    with_browser(|browser, home| {
        let path = file(home, &sample::report());
        let mut page = browser.page();
        page.open(&path, DESK);
        let paper = "getComputedStyle(document.body).backgroundColor";
        let ink = "document.querySelector('#throughput-0 svg text').getAttribute('fill')";
        let before = (page.value(paper), page.value(ink));
        page.value("document.getElementById('theme').click()");
        assert_ne!((page.value(paper), page.value(ink)), before, "page and charts both turn dark");
        page.value("document.getElementById('theme').click()");
        assert_eq!((page.value(paper), page.value(ink)), before);
        let figure = "document.getElementById('time-0-0')";
        assert!(
            page.value(&format!("{figure}.querySelector('svg').textContent"))
                .as_str()
                .unwrap()
                .contains("µs")
        );
        page.value(&format!("{figure}.querySelectorAll('.views button')[1].click()"));
        assert!(
            page.value(&format!("{figure}.querySelector('svg').textContent"))
                .as_str()
                .unwrap()
                .contains("% of all")
        );
        page.value("document.getElementById('patterns').click()");
        let patterns = page.value("document.querySelectorAll('#time-0-0 svg pattern').length");
        assert!(patterns.as_u64().unwrap() > 3, "{patterns} patterns");
        let first = "document.querySelector('#rows-table tbody tr').cells[4].dataset.n";
        page.value("[...document.querySelectorAll('#rows-table th')].find(h => h.textContent === 'per second').click()");
        let most = page.value("Math.max(...[...document.querySelectorAll('#rows-table tbody tr')].map(r => r.cells[4].dataset.n))");
        assert_eq!(page.value(&format!("Number({first})")), most, "a click on the name sorts");
        assert_sound(&mut page);
    });
}

#[test]
fn browser_takes_hostile_rows_for_text() {
    with_browser(|browser, home| {
        let path = file(home, &sample::hostile());
        let mut page = browser.page();
        page.open(&path, DESK);
        assert_sound(&mut page);
        let title = page.value("document.title");
        assert!(title.as_str().unwrap().contains("</script>"), "{title}");
        // Tooltips are HTML made by the charting library: each must be shown once.
        page.value(
            "document.querySelectorAll('.chart').forEach(c => { const e = echarts.getInstanceByDom(c); \
             for (let s = 0; s < 3; s++) for (let d = 0; d < 3; d++) e.dispatchAction({type: 'showTip', seriesIndex: s, dataIndex: d}); })",
        );
        assert_eq!(page.value("document.querySelectorAll('main img, .chart img').length"), 0);
        assert_eq!(page.value("document.title"), title, "no script of a row ran");
        assert_eq!(page.complaints(), Vec::<String>::new());
    });
}

#[test]
fn browser_shows_rows_that_have_next_to_nothing() {
    with_browser(|browser, home| {
        let bare = serde_json::to_string(&driver::ResultRow::default()).unwrap();
        let counter = bare.replace("\"workload\":\"\"", "\"workload\":\"counter\"");
        let lists: [&[&str]; 3] = [&[&bare], &[&bare, &bare], &[&bare, &counter, &bare]];
        let mut page = browser.page();
        for lines in lists {
            let rows = lines.iter().map(|l| Row::parse("x", l.as_bytes()).unwrap()).collect();
            let path = file(home, &Report { rows, ..Report::default() });
            page.open(&path, PHONE);
            assert_eq!(page.complaints(), Vec::<String>::new());
            assert!(page.value("document.querySelector('#rows-table td') !== null").as_bool().unwrap());
        }
    });
}

/// Typical widths: a small and a large phone, a tablet, a notebook, a desktop.
const WIDTHS: [u32; 5] = [360, 500, 800, 1300, 1900];

#[test]
fn browser_shows_everything_at_every_width_by_day_and_by_night() {
    with_browser(|browser, home| {
        let path = file(home, &sample::report());
        let mut page = browser.page();
        for (width, scheme) in WIDTHS.iter().flat_map(|w| ["light", "dark"].map(|scheme| (*w, scheme))) {
            page.open(&path, Screen { width, height: 900, mobile: width < 600, scheme });
            assert_sound(&mut page);
            let whole = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(whole <= u64::from(width), "at {width}: the page is {whole} wide");
            for (what, selector) in [("a way to a section", "nav a"), ("a cell of the winners", ".cards td")]
            {
                let outside = page.value(&format!(
                    "[...document.querySelectorAll('{selector}')].filter(e => {{ const r = e.getBoundingClientRect(); \
                     return r.width === 0 || r.left < 0 || r.right > innerWidth }}).map(e => e.textContent)"
                ));
                assert_eq!(outside, serde_json::json!([]), "at {width}: {what} is out of sight");
            }
            if std::env::var_os("REPORT_TEST_PICTURES").is_some() {
                for part in
                    ["header", "nav", "#summary", "#machine", "#throughput", "#time", "#kinds", "#rows-table"]
                {
                    let name = part.trim_start_matches('#');
                    keep(&format!("width-{width}-{scheme}-{name}"), &page.picture(part));
                }
            }
        }
    });
}

/// Labels of a chart's axes.
pub fn labels(page: &mut Page<'_>, figure: &str) -> Vec<String> {
    let script =
        format!("[...document.querySelectorAll('#{figure} .chart svg text')].map(t => t.textContent)");
    page.value(&script).as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_string()).collect()
}

#[test]
fn browser_ends_logarithmic_axes_at_round_numbers() {
    with_browser(|browser, home| {
        let path = file(home, &sample::report());
        let mut page = browser.page();
        page.open(&path, DESK);
        for figure in ["tail-0-0", "latency-0-0"] {
            for label in labels(&mut page, figure) {
                let digits: String = label.chars().filter(char::is_ascii_digit).collect();
                let number = label.trim_end_matches(['k', 'M', 'G']).replace(',', "").parse::<f64>().is_ok();
                let round = digits.trim_start_matches('0').trim_end_matches('0');
                assert!(!number || ["1", "2", "5"].contains(&round), "{figure}: {label:?} is not round");
            }
        }
    });
}

#[test]
fn the_design_is_in_every_chart_and_table_when_it_is_what_was_swept() {
    let html = sample::three_designs().html();
    let (page, data) = html.split_once("<script type=\"application/json\" id=\"figures\">").unwrap();
    let figures: serde_json::Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    for figure in figures.as_array().unwrap() {
        for design in sample::THREE {
            assert!(figure.to_string().contains(design), "{design} in {}", figure["title"]);
        }
    }
    let tables: Vec<&str> =
        page.split("<table>").skip(1).map(|t| t.split("</table>").next().unwrap()).collect();
    assert!(tables.len() > 8, "{} tables", tables.len());
    for table in tables.iter().filter(|table| !table.contains("fastest deployment")) {
        for design in sample::THREE {
            assert!(table.contains(design), "{design} in {table}");
        }
    }
}

#[test]
fn a_deployment_has_one_colour_and_one_chart_at_each_place() {
    let html = sample::report().html();
    let data = html.split("id=\"figures\">").nth(1).unwrap().split("</script>").next().unwrap();
    let figures: serde_json::Value = serde_json::from_str(data).unwrap();
    let tails =
        figures.as_array().unwrap().iter().filter(|f| f["id"].as_str().unwrap().starts_with("tail-0-"));
    let mut titles = Vec::new();
    for figure in tails {
        titles.push(figure["title"].as_str().unwrap().to_string());
        let lines = figure["chart"]["lines"].as_array().unwrap();
        let told: Vec<(&str, u64)> =
            lines.iter().map(|l| (l["name"].as_str().unwrap(), l["tone"].as_u64().unwrap())).collect();
        let all =
            ["conventional, 1 island", "conventional, 2 islands", "serial, 1 island", "serial, 2 islands"];
        assert_eq!(told, all.into_iter().zip(0..).collect::<Vec<_>>(), "{}", figure["title"]);
    }
    assert_eq!(titles.len(), 3, "{titles:?}");
    assert!(titles[1].ends_with("read, 50 % multisite") && !titles.concat().contains("(1 of"), "{titles:?}");
}

#[test]
fn the_page_says_once_when_where_and_how_it_was_measured() {
    let html = sample::report().html();
    let page = html.split("<script type=\"application/json\"").next().unwrap();
    let command = "atoll bench micro --design conventional,serial --multisite 0,20,50,80,100";
    for words in ["2026-11-24T11:53:43Z", "host somewhere", "Linux 6.1.0-13-amd64", command] {
        assert_eq!(page.matches(words).count(), 1, "{words}");
    }
    let header = page.split("</header>").next().unwrap();
    assert!(header.contains(command) && header.contains("40 rows"));
}

#[test]
fn each_kind_of_transaction_has_a_line_for_each_row() {
    let html = sample::report().html();
    let section = html.split("<section id=\"kinds\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(section.matches("<tr>").count(), 1 + 40 * 3, "two kinds and all together");
    for words in
        ["read, 20 % multisite · serial, 2 islands", "multisite</td>", "deadlock</th>", "user rollbacks</th>"]
    {
        assert!(section.contains(words), "{words}");
    }
}

/// Without a browser: properties of the page's text.
#[test]
fn the_page_stands_alone_and_says_everything_in_tables() {
    let html = sample::report().html();
    assert!(html.contains("default-src 'none'"));
    for forbidden in ["<script src", "<link", "<iframe", "@import", "url(http"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert_eq!(
        html.matches("<figure ").count(),
        html.matches("<details>").count(),
        "a table beside each chart"
    );
    let (charts, page) = (
        html.matches("class=\"chart\"").count(),
        html.split("<script type=\"application/json\"").next().unwrap(),
    );
    assert!(charts >= 16, "{charts} charts");
    for words in [
        "serial, 2 islands",
        "50 % multisite",
        "communication",
        "p99.9 µs",
        "The fastest deployment",
        "Over time",
        "Dashed: keys were divided otherwise",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let decision = |at: &str, outcome: &str| {
        format!("{{\"at\":{at},\"what\":\"partition 0 has 1.29 of the mean ({outcome})\"}}")
    };
    assert!(html.contains(&decision("7.5", "done in 5.70 ms")));
    assert!(html.contains(&decision("9.0", "advised")) && !html.contains("\"at\":-1.0,\"what\""));
}

#[test]
fn hostile_rows_leave_no_markup_in_the_page() {
    // The strings of the charting library are not checked.
    let html = sample::hostile().html().replace(include_str!("../../assets/echarts.min.js"), "");
    assert!(!html.contains(sample::HOSTILE) && !html.contains("<img"), "markup of a row is in the page");
    // The page's own scripts: the theme, two blocks of data, the library, and the drawing.
    assert_eq!(html.matches("<script").count(), 5);
    assert_eq!(html.matches("</script").count(), 5);
}

#[test]
fn bare_rows_make_a_page() {
    let bare = serde_json::to_string(&driver::ResultRow::default()).unwrap();
    let rows = vec![Row::parse("x", bare.as_bytes()).unwrap()];
    for rows in [Vec::new(), rows] {
        assert!(Report { rows, ..Report::default() }.html().ends_with("</html>\n"));
    }
}
