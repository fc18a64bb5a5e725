//! The walk-through of `docs/adding-a-workload.md`: its workload runs, with the output that the
//! page shows.

use crate::toy::Tally;
use txn::{Generator, Verdict, Workload};
use workload::oracle::Oracle;
use workload::{Benchmark, WorkloadSpec};

const DOCS: &str = include_str!("../../../../docs/adding-a-workload.md");
const TOY: &str = include_str!("toy.rs");
const LIST: &str = include_str!("../../src/spec.rs");

#[test]
fn the_toy_runs_and_its_judge_has_teeth() {
    let tally = Tally::from_spec(&WorkloadSpec::new(Tally::FORMS[0].name, 4)).unwrap();
    for instances in [1, 3, 4] {
        let mut oracle = Oracle::new(tally.clone(), instances);
        oracle.load().unwrap();
        let mut requests = tally.generator(1, 0..tally.sites());
        for _ in 0..100 {
            oracle.submit(&requests.next()).unwrap();
        }
        let effects = tally.effects(&[("count".to_string(), 100)].into());
        assert_eq!(oracle.judge(effects).unwrap(), Verdict::default());
        assert!(!oracle.judge(Some(101)).unwrap().holds(), "a lost transaction");
        assert_eq!((oracle.distributed, tally.labels().scale), (0, Some(4)));
    }
}

#[test]
fn the_walk_through_shows_what_is_tested() {
    assert!(TOY.lines().count() < 100 && DOCS.lines().count() < 100);
    let blocks: Vec<&str> = DOCS.split("```rust\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    for block in blocks {
        assert!(TOY.contains(block) || LIST.contains(block), "not in the toy nor in the list:\n{block}");
    }
}
