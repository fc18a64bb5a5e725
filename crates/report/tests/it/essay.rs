//! A page of charts that do not come from result rows.

use crate::page::{DESK, NIGHT, PHONE, assert_sound, keep, labels, with_browser};
use report::chart::{Chart, Figure, MapCell};
use report::table::{Align, Cell, Table};
use report::{Essay, Section};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

/// Winners of which the second has a hostile name.
fn essay() -> Essay {
    let winners = vec!["A serial x4".to_owned(), format!("B {HOSTILE}"), "C occ x1".to_owned()];
    let at = |column: usize, row: usize| (column + row) % 3;
    let cell = |column, row| MapCell {
        column,
        row,
        winner: at(column, row),
        label: format!("{} {}", ["A", "B", "C"][at(column, row)], 7 * column + row),
        detail: HOSTILE.to_owned(),
    };
    let cells = (0..4).flat_map(|column| (0..3).map(move |row| cell(column, row))).collect();
    let mut table = Table::new([("skew", Align::Left)]);
    table.rows.push(vec![Cell::text(HOSTILE)]);
    let texts = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect();
    let chart = Chart::Map {
        x: "multisite".into(),
        y: "skew".into(),
        columns: texts(&["0", "1", "5", "20"]),
        rows: texts(&["0", "0.5", "1"]),
        winners,
        cells,
    };
    let (id, title, caption) = ("map-0".into(), "micro".into(), "a machine".into());
    let figure = Figure { id, title, caption, chart, table };
    Essay {
        title: format!("Map {HOSTILE}"),
        lead: "2026".into(),
        text: format!("deploy {HOSTILE}"),
        sections: vec![Section {
            id: "map",
            title: "The winners",
            words: "By letter.",
            figures: vec![figure],
        }],
    }
}

#[test]
fn browser_draws_a_map_with_each_cell() {
    with_browser(|browser, home| {
        let path = home.join("map.html");
        std::fs::write(&path, essay().html()).unwrap();
        let mut page = browser.page();
        for (name, screen) in [("day", DESK), ("night", NIGHT), ("phone", PHONE)] {
            page.open(&path, screen);
            assert_sound(&mut page);
            let texts = labels(&mut page, "map-0");
            let is_cell = |text: &&String| matches!(text.split(' ').next(), Some("A" | "B" | "C"));
            // Twelve cells and three names in the legend; names that are too long are shortened.
            assert_eq!(texts.iter().filter(is_cell).count(), 15, "{name}: {texts:?}");
            assert!(texts.iter().any(|text| text == "0.5"), "{name}: {texts:?}");
            let width = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(width <= u64::from(screen.width), "{name}: the page is {width} wide");
            keep(&format!("{name}-map"), &page.picture("#map"));
        }
    });
}

#[test]
fn hostile_names_leave_no_markup() {
    let html = essay().html();
    assert!(!html.contains(HOSTILE));
    assert!(html.contains("The winners") && html.contains("<pre>deploy &lt;"));
    assert!(!html.contains("id=\"download\""), "there are no rows to offer");
}
