//! Plans for described machines: nothing runs, the model decides.

use super::PlanArgs;
use super::question::Question;
use super::{adopt_bench, answer, run};
use crate::cli::{BenchArgs, Cli, Command};
use crate::failure::Failure;
use advisor::plan::{Entry, Plan};
use clap::{CommandFactory, FromArgMatches, Parser};
use deploy::Interrupt;
use deploysim::calibration::{Cell, Fit, Kept, Term};
use std::path::PathBuf;

const QUAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/quad-socket-e7530.toml");

fn args(words: &[&str]) -> PlanArgs {
    let cli = Cli::try_parse_from([&["atoll", "plan"], words].concat()).unwrap();
    let Some(Command::Plan(args)) = cli.command else { panic!("plan") };
    *args
}

pub(super) fn on_quad(words: &[&str]) -> PlanArgs {
    args(&[words, &["--machine", QUAD]].concat())
}

pub(super) fn planned(args: &PlanArgs) -> Plan {
    let question = Question::read(args, &Interrupt::default()).unwrap();
    let mut plan = answer::plan(&question, question.search().unwrap()).unwrap();
    plan.break_even = answer::break_even(&question, &plan);
    plan
}

fn refusal(args: &PlanArgs) -> String {
    let failure = run(args, &Interrupt::default()).expect_err("refused");
    assert_eq!(failure.code(), 2, "{failure}");
    let text = failure.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn a_described_machine_gets_a_plan_of_the_model_alone() {
    let plan = planned(&on_quad(&["micro", "--op", "update", "--multisite", "5", "--channels", "uds"]));
    assert_eq!((plan.machine.cores, plan.machine.packages, plan.search.settled), (24, 4, None));
    assert!(plan.search.refined > 0 && plan.search.screened >= plan.search.refined);
    let text = plan.to_string();
    assert!(text.lines().count() <= 20, "{text}");
    let words = plan.bench_words();
    assert!(text.contains(&format!("atoll {}", words.join(" "))), "{text}");
    assert!(text.contains("nothing was measured"), "{text}");
    // The command is one that bench takes.
    let typed = [vec!["atoll".to_owned()], words].concat();
    assert!(matches!(Cli::try_parse_from(&typed).unwrap().command, Some(Command::Bench(_))));
    assert_eq!(Plan::parse("p", &plan.to_toml().unwrap()).unwrap(), plan);
}

#[test]
fn a_question_without_an_answer_is_told_what_is_missing() {
    let text = refusal(&args(&["micro", "--machine", "package:4 core:6"]));
    assert!(text.contains("latenc"), "{text}");
    let text = refusal(&on_quad(&["tatp-get-subscriber-data"]));
    assert!(text.contains("not recorded") && text.contains("tpcb"), "{text}");
    let text = refusal(&on_quad(&["micro", "--objective", "p99<1us"]));
    assert!(text.contains("p99<1us") && text.contains("nearest"), "{text}");
    let text = refusal(&on_quad(&["micro", "--budget", "5s"]));
    assert!(text.contains("--budget") && text.contains("described"), "{text}");
    for option in ["--calibrate", "--calibration=costs.toml"] {
        let text = refusal(&on_quad(&["micro", option]));
        assert!(text.contains(&option[..11]) && text.contains("--machine"), "{text}");
    }
    let text = refusal(&on_quad(&["micro", "--multisite", "0,20"]));
    assert!(text.contains("--multisite") && text.contains("one value"), "{text}");
    let text = refusal(&on_quad(&["micro", "--designs", "plp-leaf"]));
    assert!(text.contains("plp-leaf"), "{text}");
    let text = refusal(&on_quad(&["micro", "--map", "multisite,colour"]));
    assert!(text.contains("colour"), "{text}");
    let text = refusal(&on_quad(&["micro", "--explain", "1", "occ/7"]));
    assert!(text.contains("occ/7") && text.contains("design/islands"), "{text}");
    for wrong in [["--objective", "latency"], ["--settings", "oracle"]] {
        assert!(Cli::try_parse_from([&["atoll", "plan", "micro"][..], &wrong].concat()).is_err());
    }
}

#[test]
fn an_explanation_and_settings_of_a_described_machine() {
    let asked = on_quad(&["micro", "--op", "update", "--multisite", "20", "--channels", "uds"]);
    let question = Question::read(&asked, &Interrupt::default()).unwrap();
    let found = question.search().unwrap();
    let told = answer::explain(&question, &found, "conventional/1", "serial/24/uds").unwrap();
    assert!(told.differences.iter().any(|d| d.component == "messages" && d.ns() > 0.0), "{told}");
    let plan = answer::plan(&question, found).unwrap();
    let text = answer::settings(&question, &plan, advisor::settings::Server::Postgres).unwrap();
    let islands = plan.choice().candidate.islands;
    assert_eq!(text.matches("AllowedCPUs=").count(), islands, "{text}");
}

#[test]
fn fewer_workers_compete_where_a_worker_has_a_price() {
    let asked = on_quad(&["micro", "--objective", "tps-per-core"]);
    let question = Question::read(&asked, &Interrupt::default()).unwrap();
    let mut workers: Vec<usize> = question.candidates.iter().map(|c| c.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    assert_eq!(workers, [1, 3, 6, 12, 24]);
}

fn bench_with(words: &[&str]) -> Result<Box<BenchArgs>, Failure> {
    let typed: Vec<String> = [&["atoll", "bench"], words].concat().into_iter().map(str::to_owned).collect();
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(&typed).unwrap();
    let given = crate::given(&command, &matches);
    let Some(Command::Bench(args)) = Cli::from_arg_matches(&matches).unwrap().command else {
        panic!("bench")
    };
    adopt_bench(args, &given, &typed)
}

/// A plan file in a directory of its own.
fn file(plan: &Plan) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, plan.to_toml().unwrap()).unwrap();
    (dir, path)
}

#[test]
fn a_bench_takes_what_the_plan_says_unless_it_is_typed() {
    let plan = planned(&on_quad(&["micro", "--op", "update", "--multisite", "5", "--channels", "uds"]));
    let (_dir, path) = file(&plan);
    let path = path.to_str().unwrap();
    let args = bench_with(&["micro", "--plan", path]).unwrap();
    let choice = &plan.choice().candidate;
    assert_eq!(args.deployment.workers, [24]);
    assert_eq!(args.deployment.islands[0].to_string(), choice.islands.to_string());
    assert_eq!(args.requests.multisite, [5.0]);
    let typed = bench_with(&["micro", "--plan", path, "--multisite", "50", "--workers=4"]).unwrap();
    assert_eq!(
        (typed.requests.multisite.as_slice(), typed.deployment.workers.as_slice()),
        (&[50.0][..], &[4][..])
    );
    let other = bench_with(&["tpcb", "--plan", path]).err().unwrap().to_string();
    assert!(other.contains("a plan for micro, not for tpcb"), "{other}");
    let none = bench_with(&["micro", "--plan", "/nowhere/p.toml"]).err().unwrap().to_string();
    assert!(none.contains("/nowhere/p.toml") && none.contains("--out"), "{none}");
}

/// A calibration of the work of `logical`, without its factor being right.
fn kept(question: &Question<'_>) -> Kept {
    let cell = Cell {
        design: "logical".into(),
        islands: 24,
        workers: 24,
        channel: deploysim::Channel::Shm,
        multisite: 0.0,
        dataset: None,
        clients: 4,
        durability: deploysim::Durability::Async,
        tps: 1e7,
        tps_min: 0.9e7,
        tps_max: 1.1e7,
        windows: 2,
        is_disturbed: true,
    };
    Kept {
        version: deploysim::calibration::VERSION,
        unix_s: 0,
        date: "2026-11-25 20:00".into(),
        program: "0.1.0".into(),
        commit: "none".into(),
        seconds: 1.0,
        line_ns: vec![],
        memory_ns: None,
        flush_ns: None,
        solver: deploysim::calibration::SOLVER,
        conditions: question.conditions(),
        fits: vec![Fit { term: Term::Work, cell, factor: 1.0, tps: 1e7, is_assumed: false }],
    }
}

#[test]
fn cells_of_a_design_without_costs_put_it_into_the_ranking() {
    let asked = on_quad(&["micro", "--designs", "logical,conventional"]);
    let read = || Question::read(&asked, &Interrupt::default()).unwrap();
    let found = |question: &Question<'_>| answer::plan(question, question.search().unwrap()).unwrap();
    let tps = |plan: &Plan| {
        let is_cell = |e: &&Entry| e.candidate.design == "logical" && e.candidate.islands == 24;
        plan.ranking.iter().find(is_cell).map(|entry| entry.tps)
    };
    let mut question = read();
    let plan = found(&question);
    assert_eq!((tps(&plan), plan.search.calibrated.clone()), (None, None));
    assert!(plan.to_string().contains("not calibrated"), "{plan}");
    question.adopt(kept(&question)).unwrap();
    assert!(question.remarks.iter().any(|told| told.contains("1 of 1 cells")), "{:?}", question.remarks);
    let plan = found(&question);
    assert_eq!(plan.search.borrowed, ["logical"]);
    let told = plan.search.calibrated.clone().unwrap();
    assert!(told.starts_with("1 cell of 2026-11-25 20:00") && told.contains("windows 10 %"), "{told}");
    assert!(plan.to_string().lines().count() <= 20, "{plan}");
    assert_eq!(Plan::parse("p", &plan.to_toml().unwrap()).unwrap(), plan);
    // Its factor is taken as it is; that of another solver is solved again from the cell.
    let trusted = tps(&plan).unwrap();
    assert!((trusted.mid / 1e7 - 1.0).abs() > 0.1, "{trusted:?}");
    let mut question = read();
    question.adopt(Kept { solver: 0, ..kept(&question) }).unwrap();
    let solved = tps(&found(&question)).unwrap();
    assert!((solved.mid / 1e7 - 1.0).abs() < 0.03, "{solved:?}");
    // The spread of the windows widens the interval.
    assert!(solved.high / solved.mid > 1.19, "{solved:?}");
}

#[test]
fn a_page_shows_the_ranking_and_the_costs_or_the_map() {
    let args = on_quad(&["micro", "--multisite", "5", "--channels", "uds"]);
    let plan = planned(&args);
    let html = super::page::of_plan(&plan).html();
    for entry in plan.ranking.iter().take(3) {
        assert!(html.contains(&entry.candidate.to_string()), "{}", entry.candidate);
    }
    assert!(html.contains("id=\"ranking-0\"") && html.contains("id=\"costs-0\""));
    let choice = plan.choice();
    assert!(html.contains(&format!("{:.0}", choice.tps.mid)), "the table has the throughput");
    let map = advisor::Map {
        machine: "quad".into(),
        workload: "micro".into(),
        x: advisor::map::Axis { name: "multisite".into(), values: vec![0.0, 20.0] },
        y: advisor::map::Axis { name: "skew".into(), values: vec![0.5] },
        cells: vec![vec![won("serial", 4), won("occ", 1)]],
    };
    let html = super::page::of_map(&map).html();
    assert!(
        html.contains("A occ x1") && html.contains("B serial x4") && html.contains("A 25"),
        "letters, lead"
    );
}

fn won(design: &str, islands: usize) -> advisor::map::Cell {
    let choice = format!("{design}, {islands} islands");
    advisor::map::Cell { design: design.into(), islands, choice, tps: 1000.0, margin: Some(0.25) }
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_with_its_path() {
    let page = ["--page", "/nowhere/plan.html"];
    let args = on_quad(&[&["micro", "--designs", "occ", "--channels", "uds"], &page[..]].concat());
    let failure = run(&args, &Interrupt::default()).expect_err("no such directory");
    assert!(failure.to_string().contains("/nowhere/plan.html"), "{failure}");
}
