//! The page of modelled caches in a browser: nothing is wider than the screen, and each chart is
//! drawn.

use crate::page::{DESK, NIGHT, PHONE, assert_sound, keep, labels, with_browser};
use report::{CacheRow, microscope};
use serde_json::{Value, json};

/// The rows of both studies of two traces, as `atoll cachesim --json` prints them.
fn rows() -> Vec<CacheRow> {
    let mut rows: Vec<Value> = Vec::new();
    for (workload, scale, more) in [("tpcc", 4, 1.0), ("tpce", 1, 0.6)] {
        let facts = |table: &str, own: Value| {
            let mut row = json!({"table": table, "workload": workload, "design": "conventional", "scale": scale,
                                 "machine": "zesto", "transactions": 500, "options": "</script><b>"});
            row.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            row
        };
        for (at, cache) in ["l1i", "l2i", "l3i", "l1d", "l2d", "l3d"].iter().enumerate() {
            let mpki = more * 20.0 / (at + 1) as f64;
            rows.push(facts(
                "caches",
                json!({"cache": cache, "mpki": mpki, "stalls": mpki * 9.0, "stall_share": 0.16}),
            ));
        }
        for cache in ["l1i", "l3d"] {
            let shares = json!({"cache": cache, "compulsory_share": 0.1, "capacity_share": 0.95, "conflict_share": -0.05});
            rows.push(facts("three-c", shares));
        }
        for (at, kb) in [16, 32, 64, 128, 256, 512].iter().enumerate() {
            rows.push(facts("l1i-size", json!({"kb": kb, "mpki": more * 40.0 / f64::from(1 << at)})));
        }
        let stalls = |n: f64| json!({"l1i_stalls": n, "l1d_stalls": n / 2.0, "l2d_stalls": n / 3.0, "l3d_stalls": n / 4.0});
        for (at, operation) in ["probe", "scan", "update", "insert", "commit", "other"].iter().enumerate() {
            for (table, own) in [("operations", "operation"), ("components", "component")] {
                let mut row = stalls(more * 50.0 / (at + 1) as f64);
                row[own] = (*operation).into();
                rows.push(facts(table, row));
            }
            let common = json!({"kind": "mix", "operation": operation, "union_kb": 90.0, "in_all": 0.2, "in_99": 0.3,
                                "in_90": 0.5, "in_60": 0.7, "in_30": 0.9});
            rows.push(facts("code", common));
        }
        for cores in [2, 4, 8, 16] {
            for (at, scheduler) in ["baseline", "next-line", "pif", "slicc", "strex"].iter().enumerate() {
                let n = f64::from(cores) * (1.0 + at as f64 / 10.0);
                let own = json!({"scheduler": scheduler, "cores": cores, "contexts": 1, "protect": "refuse",
                                 "types": "software", "throughput": n, "l1i_mpki": 20.0 / n, "l1d_mpki": n,
                                 "llc_mpki": 2.0, "latency": n});
                rows.push(facts("schedulers", own));
            }
        }
        for team in [2, 5, 10, 20] {
            let own = json!({"scheduler": "strex", "team": team, "throughput": team, "l1i_mpki": 30 - team});
            rows.push(facts("strex-team", own));
        }
    }
    rows.into_iter().map(|row| row.as_object().unwrap().clone()).collect()
}

#[test]
fn browser_draws_the_microscope() {
    with_browser(|browser, home| {
        let path = home.join("microscope.html");
        let essay = microscope("Cache microscope: </script><b>", &rows()).unwrap();
        let ids: Vec<String> =
            essay.sections.iter().flat_map(|s| s.figures.iter().map(|f| f.id.clone())).collect();
        assert!(ids.len() > 15, "{ids:?}");
        std::fs::write(&path, essay.html()).unwrap();
        let mut page = browser.page();
        for (name, screen) in [("day", DESK), ("night", NIGHT), ("phone", PHONE)] {
            page.open(&path, screen);
            assert_sound(&mut page);
            for (id, part) in [
                ("misses-0", "tpce"),
                ("sizes-0", "tpcc"),
                ("schedulers-0-0", "strex"),
                ("three-c-0", "capacity"),
            ] {
                let texts = labels(&mut page, id);
                assert!(texts.iter().any(|text| text.contains(part)), "{name} {id}: {texts:?}");
            }
            let width = page.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(width <= u64::from(screen.width), "{name}: the page is {width} wide");
            keep(&format!("{name}-microscope"), &page.picture("main"));
        }
    });
}
