use super::*;

fn entry(text: &str) -> Simulate {
    toml::from_str(text).unwrap()
}

const Q: &str = "machine = \"quad-socket-e7530\"\nprofile = \"shore-mt\"\n";

#[test]
fn a_row_for_each_combination_with_the_columns_of_a_measured_one() {
    let of = "islands = [\"per-core\", \"per-socket\", 1]\nop = [\"read\", \"update\"]\nrows = [2]\n";
    let rows = entry(&format!("{Q}{of}")).rows(None).unwrap();
    let islands: Vec<f64> = rows.iter().map(|row| row.number("islands").unwrap()).collect();
    assert_eq!(islands, [24.0, 4.0, 1.0, 24.0, 4.0, 1.0]);
    for row in &rows {
        for field in ["tps", "latency_us.p99", "time_ns_per_txn.execution", "aborted.conflict", "dataset"] {
            assert!(row.number(field).is_some(), "{field}: {}", row.line());
        }
        assert_eq!(row.word("simulated").as_deref(), Some("true"));
        assert_eq!(row.word("engine_profile").as_deref(), Some("shore-mt"));
    }
    let again = entry(&format!("{Q}{of}")).rows(None).unwrap();
    assert_eq!(rows, again);
}

#[test]
fn counters_are_slower_the_farther_their_threads() {
    let text = "machine = \"octo-socket-e7-l8867\"\nprofile = \"shore-mt\"\nworkload = \"counter\"\n\
                counters = [\"single\", \"per-socket\", \"per-core\"]\n";
    let rows = entry(text).rows(None).unwrap();
    let tps: Vec<f64> = rows.iter().map(|row| row.number("tps").unwrap()).collect();
    // PVLDB 2012, Table 1: 18.4, 341.7 and 9527.8 M/s.
    for (got, published) in tps.iter().zip([18.4e6, 341.7e6, 9527.8e6]) {
        assert!((got / published - 1.0).abs() < 0.1, "{tps:?}");
    }
}

#[test]
fn a_row_for_each_design_and_number_of_contexts() {
    let text = "machine = \"quad-socket-opteron-8356\"\nprofile = \"shore-mt\"\n[sections]\n\
                workload = \"tatp-scan\"\nrows = [10]\naligned = [true, false]\n\
                designs = [\"conventional\", \"plp-leaf\"]\ncontexts = [4, 0]\n";
    let rows = entry(text).rows(None).unwrap();
    let cells: Vec<_> = rows
        .iter()
        .map(|row| (row.word("index").unwrap(), row.number("workers").unwrap(), row.word("design").unwrap()))
        .collect();
    assert_eq!(cells.len(), 8);
    assert_eq!(cells[0], ("aligned".into(), 4.0, "conventional".into()));
    assert_eq!(cells[7], ("nonaligned".into(), 16.0, "plp-leaf".into()));
    for row in &rows {
        for field in ["tps", "share.latch_wait", "sections_per_txn.fixed", "latches_per_txn.heap"] {
            assert!(row.number(field).is_some(), "{field}: {}", row.line());
        }
    }
    assert_eq!(rows, entry(text).rows(None).unwrap());
    let refused = entry(&text.replace("plp-leaf", "plp")).check("x.toml").unwrap_err().to_string();
    assert!(refused.contains("plp-partition"), "{refused}");
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let said = |text: &str| entry(text).check("x.toml").unwrap_err().to_string();
    assert!(said("machine = \"quad\"\nprofile = \"shore-mt\"").contains("quad-socket-e7530"));
    assert!(said("machine = \"quad-socket-e7530\"\nprofile = \"shore\"").contains("silo"));
    assert!(said(&format!("{Q}workers = [5]\nislands = [2]")).contains("do not divide evenly"));
    assert!(said(&format!("{Q}op = []")).contains("gives no row"));
    assert!(entry(Q).rows(Some("nothing")).unwrap_err().to_string().contains("shore-mt"));
}

#[test]
fn placements_take_cores_of_their_sockets() {
    let machine = machine("quad-socket-e7530").unwrap();
    let packages = |place| {
        let cores = place::cores(&machine, 0, 4, place, 1).unwrap();
        cores.iter().map(|&core| machine.package(core)).collect::<Vec<_>>()
    };
    assert_eq!(packages(Place::Island), [0, 0, 0, 0]);
    assert_eq!(packages(Place::Spread), [0, 1, 2, 3]);
    assert_eq!(packages(Place::Mix), [0, 0, 1, 1]);
}

/// The verdicts of claims with short experiments: equal seeds give equal verdicts.
#[test]
fn quick_claims_have_their_verdicts() {
    use crate::{ClaimVerdict, Library};
    let library = Library::built_in().unwrap();
    for (id, is_reproduced, is_anchor) in [
        ("ISL-001", true, false),
        ("ISL-003", true, false),
        ("ISL-006", true, true),
        ("ISL-008", true, false),
        ("SLD-02", false, false),
        ("DLB-32", true, false),
        ("TPCE-17", false, false),
    ] {
        let evaluator = library.simulated.get(id).unwrap();
        let rows: Vec<Row> = evaluator
            .experiments
            .iter()
            .flat_map(|e| library.experiment(e).unwrap().simulated_rows(None).unwrap())
            .collect();
        let decision = library.simulated.decide(evaluator, &rows.iter().collect::<Vec<_>>());
        assert_eq!(decision.verdict == ClaimVerdict::Reproduced, is_reproduced, "{decision:?}");
        assert_eq!(decision.anchor.is_some(), is_anchor, "{id}");
    }
}

/// Every claim of the island papers about machines that are not at hand has an evaluator, and every
/// simulated experiment can run with the engine of its paper.
#[test]
fn every_simulated_claim_of_the_island_papers_is_decided() {
    use crate::{How, Library};
    let library = Library::built_in().unwrap();
    let of_islands = |id: &str| ["ISL-", "SLD-", "VLDBJ-", "DAMON-"].iter().any(|p| id.starts_with(p));
    let is_open = |c: &&crate::Claim| {
        c.how == How::Simulated && of_islands(&c.id) && library.simulated.get(&c.id).is_none()
    };
    let open: Vec<&str> = library.ledger.claims.iter().filter(is_open).map(|c| c.id.as_str()).collect();
    assert!(open.is_empty(), "{open:?}");
    for experiment in &library.experiments {
        for entry in &experiment.simulate {
            entry.check(&experiment.id).unwrap();
        }
    }
}
