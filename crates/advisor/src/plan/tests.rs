use super::*;
use crate::space::tests::candidate;
use deploysim::Channel;

fn entry(design: &str, islands: usize, tps: f64, error: f64) -> Entry {
    let channel = (islands > 1).then_some(Channel::Shm);
    let tps = Interval::around(tps, error);
    let part = |name: &str, ns| Part { name: name.into(), ns };
    Entry {
        basis: Basis::Refined,
        score: tps,
        tps,
        p99_us: Some(123.4),
        windows: vec![],
        candidate: candidate(design, islands, 24, channel),
        limits: vec![Limit { resource: "workers' time: rows".into(), share: 0.91 }],
        parts: vec![part("rows", 1480.0), part("messages", 310.2), part("log", 0.1 + 0.2), part("idle", 9e3)],
    }
}

fn plan(ranking: Vec<Entry>) -> Plan {
    let flip = |at| BreakEven {
        axis: "multisite".into(),
        at,
        below: "serial, 24 islands of 1 worker over shm".into(),
        above: "conventional, one instance of 24 workers".into(),
    };
    Plan {
        version: VERSION,
        date: "2026-11-25".into(),
        program: "0.1.0".into(),
        objective: "tps".into(),
        workload: PlannedWorkload {
            name: "micro".into(),
            options: vec![("multisite".into(), "20".into()), ("op".into(), "update".into())],
        },
        machine: PlannedMachine {
            argument: "machines/quad.toml".into(),
            name: "Quad-socket Xeon E7530".into(),
            cores: 24,
            packages: 4,
            l3_groups: 4,
            assumed: vec!["wake_ns".into()],
        },
        search: PlannedSearch {
            profile: "atoll of 2026-11-24".into(),
            screened: 40,
            refined: 12,
            unpredicted: vec!["plp-leaf: no costs".into(), "logical: no costs".into()],
            ..PlannedSearch::default()
        },
        break_even: vec![flip(14.25), flip(61.0), flip(90.0)],
        ranking,
    }
}

fn large() -> Plan {
    let others = (0..30).map(|n| entry("conventional", 1 << (n % 5), 800_000.0 - f64::from(n), 0.1));
    plan([entry("serial", 24, 1_234_567.0, 0.1)].into_iter().chain(others).collect())
}

#[test]
fn a_plan_is_read_back_exactly() {
    let mut plan = large();
    plan.ranking[3].windows = vec![1.0 / 3.0, 7e5 + 0.1];
    plan.ranking[3].basis = Basis::Measured;
    plan.ranking[4].candidate.bounds = vec![3, 9];
    plan.ranking[5].p99_us = None;
    plan.search.settled = Some(true);
    let text = plan.to_toml().unwrap();
    assert_eq!(Plan::parse("p.toml", &text).unwrap(), plan);
}

#[test]
fn what_is_no_plan_is_refused_in_a_sentence() {
    let text = large().to_toml().unwrap();
    let refusal = |text: &str| Plan::parse("p.toml", text).unwrap_err().to_string();
    let other = refusal(&text.replacen("version = 1", "version = 9", 1));
    assert!(other.contains("version 9") && other.contains("p.toml"), "{other}");
    let unknown = refusal(&text.replacen("objective =", "goal =", 1));
    assert!(unknown.contains("goal") && !unknown.contains('\n'), "{unknown}");
    assert!(refusal("").contains("version"));
    assert!(refusal("\u{0}\u{1}").contains("plan file"));
    let cut = refusal(&text[..text.len() / 2]);
    assert!(!cut.contains('\n'), "{cut}");
    let empty = plan(vec![]).to_toml().unwrap();
    assert!(refusal(&empty).contains("ranks no deployment"));
}

#[test]
fn the_first_screen_says_what_to_do_in_twenty_lines() {
    let text = large().to_string();
    assert!(text.lines().count() <= 20, "{text}");
    let command = "atoll bench micro --multisite 20 --op update --design serial --islands 24 --workers 24 --channel shm";
    for said in [
        command,
        "serial, 24 islands of 1 worker over shm",
        "1.23M transactions a second",
        "54 % over conventional",
        "wins below multisite 14",
        "rows 1.48us, messages 0.31us",
        "and 25 more",
        "nothing was measured",
        "wake_ns",
        "plp-leaf: no costs (and 1 more)",
    ] {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
}

#[test]
fn a_lead_within_the_error_is_called_a_tie() {
    let one = entry("conventional", 1, 1000.0, 0.1);
    let tie = plan(vec![one.clone(), entry("conventional", 2, 1040.0, 0.1)]);
    assert!(tie.is_tie() && tie.margin().unwrap() < 0.0);
    assert!(tie.to_string().contains("a tie with conventional, 2 islands"), "{tie}");
    let clear = plan(vec![one.clone(), entry("conventional", 2, 500.0, 0.1)]);
    assert!(!clear.is_tie() && !clear.to_string().contains("tie"), "{clear}");
    let alone = plan(vec![one.clone()]);
    assert!(alone.to_string().contains("no other deployment fits"));
    // A screened entry with a better score is no runner-up beside a simulated one.
    let screened = Entry { basis: Basis::Screened, ..entry("occ", 4, 5000.0, 0.3) };
    let both = plan(vec![one, screened, entry("occ", 2, 400.0, 0.1)]);
    assert_eq!(both.runner_up().unwrap().candidate.islands, 2);
}
