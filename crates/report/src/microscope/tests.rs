use super::*;
use crate::chart::Chart;
use serde_json::json;

fn rows(values: &[Value]) -> Vec<CacheRow> {
    values.iter().map(|value| value.as_object().expect("an object").clone()).collect()
}

fn caches() -> Vec<CacheRow> {
    let row = |workload: &str, cache: &str, mpki: f64| {
        json!({"table": "caches", "workload": workload, "machine": "m", "cache": cache, "mpki": mpki,
               "stalls": mpki * 8.0, "stall_share": mpki / 40.0})
    };
    rows(&[
        row("tpcb", "l1i", 30.0),
        row("tpcb", "l1d", 10.0),
        row("tpce", "l1i", 10.0),
        row("tpce", "l1d", 15.0),
        row("tpce", "l3i", 0.0),
    ])
}

#[test]
fn misses_are_bars_of_caches_with_a_trace_each() {
    let page = microscope("t", &caches()).expect("a page");
    assert_eq!(page.lead, "m");
    let Chart::Stacked { bars, views } = &page.sections[0].figures[0].chart else { panic!("bars of parts") };
    assert_eq!(bars.iter().map(ToString::to_string).collect::<Vec<_>>(), ["tpcb", "tpce"]);
    let parts: Vec<(&str, &[f64])> =
        views[0].parts.iter().map(|part| (part.name.as_str(), part.values.as_slice())).collect();
    // What is zero everywhere has no colour.
    assert_eq!(parts, [("L1-I", &[30.0, 10.0][..]), ("L1-D", &[10.0, 15.0])]);
    assert_eq!(views[2].parts[0].values, [75.0, 25.0]);
}

/// Experiments that share a study stamp the same rows with different names.
#[test]
fn a_row_of_two_experiments_is_drawn_once() {
    let mut twice = caches();
    for name in ["a", "b"] {
        twice.extend(caches().into_iter().map(|mut row| {
            row.insert("experiment".into(), name.into());
            row
        }));
    }
    assert_eq!(microscope("t", &twice).unwrap().html(), microscope("t", &caches()).unwrap().html());
}

fn scheduled(scheduler: &str, cores: u64, throughput: f64) -> Value {
    json!({"table": "schedulers", "workload": "tpcc", "machine": "zesto", "transactions": 500, "scheduler": scheduler,
           "cores": cores, "contexts": 1, "protect": "refuse", "types": "software", "throughput": throughput,
           "l1i_mpki": 20.0 / throughput, "l1d_mpki": 8.0, "llc_mpki": 2.0, "latency": 100.0})
}

#[test]
fn schedulers_stand_beside_the_baseline_of_as_many_cores() {
    let all = [("baseline", 2, 4.0), ("strex", 2, 5.0), ("baseline", 4, 8.0), ("strex", 4, 8.0)];
    let of = |cores: &[u64]| {
        let kept = all.iter().filter(|(_, n, _)| cores.contains(n));
        microscope("t", &rows(&kept.map(|(s, n, t)| scheduled(s, *n, *t)).collect::<Vec<_>>())).unwrap()
    };
    let page = of(&[2, 4]);
    let Chart::Lines { lines, .. } = &page.sections[0].figures[0].chart else { panic!("curves over cores") };
    let points: Vec<(f64, f64)> = lines[0].points.iter().map(|point| (point.0, point.1)).collect();
    assert_eq!((lines.len(), lines[0].name.as_str()), (1, "strex"), "the baseline is 1 everywhere");
    assert_eq!(points, [(2.0, 1.25), (4.0, 1.0)]);
    // One number of cores has no axis.
    let page = of(&[2]);
    let Chart::Bars { bars, .. } = &page.sections[0].figures[0].chart else { panic!("bars") };
    assert_eq!((bars[0].values[0].unwrap().0, bars[1].values[0].unwrap().0), (1.0, 1.25));
}

#[test]
fn a_part_below_zero_is_kept() {
    let row = json!({"table": "three-c", "workload": "tpcc", "cache": "l1i", "compulsory_share": 0.0,
                     "capacity_share": 1.02, "conflict_share": -0.02});
    let page = microscope("t", &rows(&[row])).unwrap();
    let Chart::Stacked { views, .. } = &page.sections[0].figures[0].chart else { panic!("bars of parts") };
    assert_eq!(views[0].parts.iter().map(|part| part.values[0]).collect::<Vec<_>>(), [102.0, -2.0]);
}

#[test]
fn the_union_is_cut_by_the_share_of_instances() {
    let row = json!({"table": "code", "workload": "tpcc", "kind": "mix", "operation": "probe", "union_kb": 200.0,
                     "in_all": 0.1, "in_99": 0.2, "in_90": 0.5, "in_60": 0.6, "in_30": 0.8});
    let page = microscope("t", &rows(&[row])).unwrap();
    let Chart::Stacked { bars, views } = &page.sections[0].figures[0].chart else { panic!("bars of parts") };
    assert_eq!(bars[0].place, "mix, probe");
    let sum: f64 = views[1].parts.iter().map(|part| part.values[0]).sum();
    assert!((sum - 200.0).abs() < 1e-9 && views[1].parts.len() == 6, "{sum}");
}

#[test]
fn rows_without_a_chart_have_no_page() {
    assert!(microscope("t", &[]).is_none());
    assert!(microscope("t", &rows(&[json!({"table": "run", "scheduler": "strex"})])).is_none());
    assert!(microscope("t", &rows(&[json!({"table": "caches", "mpki": "many"})])).is_none());
}
