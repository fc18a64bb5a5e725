//! `cargo xtask validate-plan`: predictions of `atoll plan` first, then measurements, then the
//! comparison.
//!
//! The run is a directory. Each step is a line appended to a file there, so that a run that was
//! interrupted (Ctrl-C included) goes on where it ended, and a step that was done is not done
//! again:
//!
//! ```text
//!   run.json           seed, date, commit, points
//!   calibration/       a file for each kind of workload, and for each point that was tried
//!   picks.jsonl        plan with probes and trials, for each point
//!   predictions.jsonl  scheme, point, choice, throughput of each deployment; written before ...
//!   windows.jsonl      ... the first window, with the hash of the predictions
//!   report.md
//! ```
//!
//! `--replay DIR` runs nothing: it predicts the points of a run again from its calibrations, by the
//! model as it is now, and compares with the run's windows.

use crate::validate::points::{Point, draw};
use crate::validate::report::{Scheme, Scored, every_cell, of_calibrations, tables};
use crate::validate::score::Measured;
use crate::validate::source::{Cell, Source, hash};
use crate::{Failed, cargo, root};
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The channels that a calibration of a kind measures.
const PROBED: &str = "shm,uds,tcp";

struct Options {
    /// A phase; empty for all.
    phase: String,
    seed: u64,
    points: usize,
    rounds: usize,
    /// No step begins after this many minutes; 0 for no limit.
    minutes: f64,
    /// The budget of each calibration, and of each plan with trials.
    seconds: u64,
    out: PathBuf,
    atoll: Option<PathBuf>,
    /// The directory of another run, with calibrations of another state of the machine.
    earlier: Option<PathBuf>,
    dry: bool,
    /// The directory of a run to predict again.
    replay: Option<PathBuf>,
}

const PHASES: [&str; 6] = ["", "calibrate", "try", "predict", "measure", "report"];
const KNOWN: &str = "[calibrate|try|predict|measure|report] [--points N] [--rounds N] [--minutes M] [--seconds S] \
                     [--seed S] [--out DIR] [--earlier DIR] [--atoll FILE] [--dry], or --replay DIR";

impl Options {
    fn read(args: &[String]) -> Result<Options, Failed> {
        let mut options = Options {
            phase: String::new(),
            seed: 1,
            points: 12,
            rounds: 3,
            minutes: 0.0,
            seconds: 60,
            out: root().join("target/validate-plan"),
            atoll: None,
            earlier: None,
            dry: false,
            replay: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let usage = |what: &str| Failed::Usage(format!("validate-plan {arg}: {what}"));
            if PHASES.contains(&arg.as_str()) {
                options.phase.clone_from(arg);
                continue;
            }
            if arg == "--dry" {
                options.dry = true;
                continue;
            }
            let value = args.next().ok_or_else(|| usage(&format!("expected {KNOWN}")))?;
            let number = || value.parse::<u64>().map_err(|_| usage("expected a number"));
            match arg.as_str() {
                "--seed" => options.seed = number()?,
                "--points" => options.points = number()?.max(1) as usize,
                "--rounds" => options.rounds = number()?.max(1) as usize,
                "--seconds" => options.seconds = number()?.max(1),
                "--minutes" => options.minutes = value.parse().map_err(|_| usage("expected a number"))?,
                "--out" => options.out = value.into(),
                "--atoll" => options.atoll = Some(value.into()),
                "--earlier" => options.earlier = Some(value.into()),
                "--replay" => options.replay = Some(value.into()),
                _ => return Err(usage(&format!("expected {KNOWN}"))),
            }
        }
        Ok(options)
    }
}

pub fn validate(args: &[String]) -> Result<(), Failed> {
    let options = Options::read(args)?;
    if let Some(dir) = &options.replay {
        return replay(dir);
    }
    let source = match (&options.atoll, options.dry) {
        (_, true) => Source::Simulated { seed: options.seed },
        (Some(program), false) => Source::Atoll(program.clone()),
        (None, false) => {
            cargo(&["build", "--profile", "quick", "--package", "atoll"], &[])?;
            Source::Atoll(root().join("target/quick/atoll"))
        }
    };
    let run = Run::open(options, source)?;
    let is = |phase: &str| run.options.phase.is_empty() || run.options.phase == phase;
    if is("calibrate") {
        run.calibrate()?;
    }
    if is("try") {
        run.try_out()?;
    }
    if is("predict") {
        run.predict()?;
    }
    if is("measure") {
        run.measure()?;
    }
    if is("report") {
        run.report()?;
    }
    Ok(())
}

struct Run {
    options: Options,
    source: Source,
    points: Vec<Point>,
    begun: Instant,
}

/// Predicts a run's points again and prints the tables.
fn replay(dir: &Path) -> Result<(), Failed> {
    let run = std::fs::read_to_string(dir.join("run.json"));
    let run = run.map_err(|e| failed(format!("--replay {}: run.json: {e}", dir.display())))?;
    let points =
        points_of(&run).ok_or_else(|| failed(format!("{}: run.json has no points", dir.display())))?;
    let example = ["run", "--quiet", "--profile", "quick", "-p", "advisor", "--example", "replay", "--"];
    let output = Command::new("cargo").args(example).arg(dir).stderr(Stdio::inherit()).output();
    let output = output.map_err(failed)?;
    if !output.status.success() {
        return Err(failed(format!("the example replay of advisor: {}", output.status)));
    }
    let predictions = parsed(&String::from_utf8_lossy(&output.stdout));
    let windows = std::fs::read_to_string(dir.join("windows.jsonl")).unwrap_or_default();
    let measured = scored_all(&points, &parsed(&windows));
    let (answers, cells): (Vec<Value>, Vec<Value>) =
        predictions.into_iter().partition(|line| line["tps"].is_object());
    println!("{}", tables(&measured, &schemes(&answers)));
    println!("{}", of_calibrations(&cells));
    println!("{}", every_cell(&measured, &schemes(&answers)));
    Ok(())
}

/// The whole lines of a file.
fn parsed(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn points_of(run: &str) -> Option<Vec<Point>> {
    let run: Value = serde_json::from_str(run).ok()?;
    run["points"].as_array()?.iter().map(Point::from_json).collect()
}

/// The points with windows.
fn scored_all(points: &[Point], windows: &[Value]) -> Vec<Scored> {
    points.iter().map(|point| scored(point, windows)).filter(|scored| !scored.cells.is_empty()).collect()
}

fn failed(what: impl std::fmt::Display) -> Failed {
    Failed::Validation(what.to_string())
}

impl Run {
    /// Begins a run, or goes on with the one in the directory.
    fn open(options: Options, source: Source) -> Result<Run, Failed> {
        let told = |e: std::io::Error| failed(format!("{}: {e}", options.out.display()));
        std::fs::create_dir_all(options.out.join("calibration")).map_err(told)?;
        let file = options.out.join("run.json");
        let points = match std::fs::read_to_string(&file) {
            Ok(text) => {
                let run: Value = serde_json::from_str(&text).map_err(failed)?;
                if run["seed"].as_u64() != Some(options.seed) || run["dry"].as_bool() != Some(options.dry) {
                    return Err(failed(format!(
                        "{}: a run with seed {}, dry {}; expected the same options, or another --out",
                        file.display(),
                        run["seed"],
                        run["dry"]
                    )));
                }
                let points = run["points"].as_array().map(|all| all.iter().filter_map(Point::from_json));
                points.map(Iterator::collect).unwrap_or_default()
            }
            Err(_) => {
                let points = draw(options.seed, options.points);
                let run = json!({
                    "seed": options.seed, "dry": options.dry, "date": date(), "commit": commit(),
                    "machine": source.machine(), "points": points.iter().map(Point::json).collect::<Vec<_>>(),
                });
                std::fs::write(&file, format!("{run:#}\n")).map_err(told)?;
                points
            }
        };
        Ok(Run { options, source, points, begun: Instant::now() })
    }

    /// Whether another step may begin.
    fn has_time(&self) -> bool {
        let minutes = self.begun.elapsed().as_secs_f64() / 60.0;
        let is_over = self.options.minutes > 0.0 && minutes >= self.options.minutes;
        if is_over {
            eprintln!("{minutes:.1} min are over; the same command goes on from here");
        }
        !is_over
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.options.out.join(file)).unwrap_or_default();
        // A line that an interruption cut off is no JSON, and its step is done again.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn append(&self, file: &str, line: &Value) -> Result<(), Failed> {
        let path = self.options.out.join(file);
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        // A line that an interruption cut off ends here.
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let written = opened.and_then(|mut file| file.write_all(format!("{end}{line}\n").as_bytes()));
        written.map_err(|e| failed(format!("{}: {e}", path.display())))
    }

    fn calibration(&self, name: &str) -> PathBuf {
        self.options.out.join(format!("calibration/{name}.toml"))
    }

    /// One calibration for each kind and durability, at the default options of its workload
    /// otherwise.
    fn calibrate(&self) -> Result<(), Failed> {
        let of =
            |point: &Point| (point.kind.clone(), point.option("durability").unwrap_or("async").to_owned());
        let kinds: BTreeSet<(String, String)> = self.points.iter().map(of).collect();
        for (kind, durability) in kinds {
            let file = self.calibration(&format!("{kind}-{durability}"));
            if file.exists() {
                continue;
            }
            if !self.has_time() {
                break;
            }
            eprintln!("calibrating {kind} with durability {durability}");
            let of = (kind.as_str(), durability.as_str());
            self.source.calibrate(of, PROBED, &file, self.options.seconds).map_err(failed)?;
        }
        Ok(())
    }

    /// Plans with probes and trials.
    fn try_out(&self) -> Result<(), Failed> {
        let done: BTreeSet<u64> =
            self.lines("picks.jsonl").iter().filter_map(|l| l["point"].as_u64()).collect();
        for point in self.points.iter().filter(|point| !done.contains(&(point.number as u64))) {
            if !self.has_time() {
                break;
            }
            eprintln!("point {}: {} over {}", point.number, point.words().join(" "), point.channel);
            let own = self.calibration(&format!("point-{}", point.number));
            let answer = self.source.try_out(point, &own, self.options.seconds).map_err(failed)?;
            let line = json!({"date": date(), "scheme": "trials", "point": point.number, "choice": answer.choice,
                "tps": answer.tps, "machine": self.source.machine()});
            self.append("picks.jsonl", &line)?;
        }
        Ok(())
    }

    /// Writes the predictions of each scheme: the built-in costs, the calibration of the kind, and
    /// that of the point itself where one was made; and the calibration of the kind in an earlier
    /// run, where one is named.
    fn predict(&self) -> Result<(), Failed> {
        let known = self.lines("predictions.jsonl");
        let done = |scheme: &str, point: u64| {
            known.iter().any(|line| line["scheme"] == scheme && line["point"].as_u64() == Some(point))
        };
        for point in &self.points {
            let own = self.calibration(&format!("point-{}", point.number));
            let durability = point.option("durability").unwrap_or("async");
            let name = format!("{}-{durability}", point.kind);
            let kind = self.calibration(&name);
            let earlier = self.options.earlier.as_ref();
            let earlier = earlier.map(|dir| ("earlier", Some(dir.join(format!("calibration/{name}.toml")))));
            let schemes = [("built-in", None), ("kind", Some(kind)), ("own", Some(own))];
            let schemes = schemes.into_iter().chain(earlier);
            for (scheme, calibration) in schemes {
                let is_there = calibration.as_ref().is_none_or(|file| file.exists());
                if !is_there || done(scheme, point.number as u64) {
                    continue;
                }
                let answer = self.source.plan(point, calibration.as_deref()).map_err(failed)?;
                let cells: Vec<Value> = answer.cells.iter().map(Cell::json).collect();
                let line = json!({"date": date(), "commit": commit(), "scheme": scheme, "point": point.number,
                    "choice": answer.choice, "tps": answer.tps, "cells": cells});
                self.append("predictions.jsonl", &line)?;
                eprintln!("point {}: {scheme} predicts {} deployments", point.number, answer.tps.len());
            }
        }
        Ok(())
    }

    /// The deployments of each point: all that a scheme predicts.
    fn cells(&self) -> BTreeMap<usize, BTreeMap<String, Cell>> {
        let mut all: BTreeMap<usize, BTreeMap<String, Cell>> = BTreeMap::new();
        for line in self.lines("predictions.jsonl") {
            let Some(point) = line["point"].as_u64() else { continue };
            let cells = line["cells"].as_array().into_iter().flatten().filter_map(Cell::from_json);
            all.entry(point as usize).or_default().extend(cells.map(|cell| (cell.deployment.clone(), cell)));
        }
        all
    }

    /// Measures a window of every deployment, then another one: rounds in an order of their own.
    fn measure(&self) -> Result<(), Failed> {
        let cells = self.cells();
        let text = std::fs::read_to_string(self.options.out.join("predictions.jsonl")).unwrap_or_default();
        let predictions = format!("{:016x}", hash(&[&text]));
        let mut done: BTreeSet<(u64, u64, String)> = BTreeSet::new();
        for line in self.lines("windows.jsonl") {
            let numbers = line["round"].as_u64().zip(line["point"].as_u64());
            done.extend(numbers.map(|(r, p)| (r, p, line["deployment"].as_str().unwrap_or("").to_owned())));
        }
        if self.has_time() {
            self.append("machine.jsonl", &json!({"date": date(), "machine": self.source.machine()}))?;
        }
        let total: usize = self.options.rounds * cells.values().map(BTreeMap::len).sum::<usize>();
        for round in 0..self.options.rounds {
            let of = |point: &Point| -> Vec<(Point, Cell)> {
                let cells = cells.get(&point.number).into_iter().flat_map(BTreeMap::values);
                cells.map(|cell| (point.clone(), cell.clone())).collect()
            };
            let mut order: Vec<(Point, Cell)> = self.points.iter().flat_map(of).collect();
            Rng::with_seed(self.options.seed ^ (round as u64 + 1)).shuffle(&mut order);
            for (point, cell) in order {
                let key = (round as u64, point.number as u64, cell.deployment.clone());
                if done.contains(&key) {
                    continue;
                }
                if !self.has_time() {
                    return Ok(());
                }
                let window = self.source.window(&point, &cell, round);
                let (tps, noise, error) = match window {
                    Ok(window) => (Some(window.tps), Some(window.noise), None),
                    Err(why) => (None, None, Some(why)),
                };
                eprintln!(
                    "{}/{total} {} of point {}: {tps:?} {}",
                    done.len() + 1,
                    cell.deployment,
                    point.number,
                    error.clone().unwrap_or_default()
                );
                let line = json!({"date": date(), "predictions": predictions, "round": round, "point": point.number,
                    "deployment": cell.deployment, "tps": tps, "noise": noise, "error": error});
                self.append("windows.jsonl", &line)?;
                done.insert(key);
            }
        }
        Ok(())
    }

    /// The tables, printed and written to `report.md`.
    fn report(&self) -> Result<(), Failed> {
        let windows = self.lines("windows.jsonl");
        let measured = scored_all(&self.points, &windows);
        let text = tables(&measured, &self.schemes());
        let path = self.options.out.join("report.md");
        std::fs::write(&path, &text).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        println!("{text}");
        Ok(())
    }

    fn schemes(&self) -> Vec<Scheme> {
        let mut lines = self.lines("predictions.jsonl");
        lines.extend(self.lines("picks.jsonl"));
        schemes(&lines)
    }
}

/// The schemes of lines of predictions and picks.
fn schemes(lines: &[Value]) -> Vec<Scheme> {
    let mut all: BTreeMap<String, Scheme> = BTreeMap::new();
    for line in lines {
        let (Some(name), Some(point)) = (line["scheme"].as_str(), line["point"].as_u64()) else {
            continue;
        };
        let tps = line["tps"].as_object().into_iter().flatten();
        let tps = tps.filter_map(|(cell, tps)| Some((cell.clone(), tps.as_f64()?)));
        // A plan with trials has measured: its figures are no predictions.
        let tps = if name == "trials" { BTreeMap::new() } else { tps.collect() };
        let choice = line["choice"].as_str().unwrap_or("").to_owned();
        let scheme = all
            .entry(name.to_owned())
            .or_insert_with(|| Scheme { name: name.to_owned(), answers: BTreeMap::new() });
        scheme.answers.insert(point as usize, (choice, tps));
    }
    all.into_values().collect()
}

/// A point with its windows by deployment and round.
fn scored(point: &Point, windows: &[Value]) -> Scored {
    let mut cells: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
    for line in windows.iter().filter(|line| line["point"].as_u64() == Some(point.number as u64)) {
        if let (Some(name), Some(round), Some(tps)) =
            (line["deployment"].as_str(), line["round"].as_u64(), line["tps"].as_f64())
        {
            cells.entry(name.to_owned()).or_default().insert(round, tps);
        }
    }
    let cells = cells.into_iter();
    let cells = cells
        .map(|(deployment, windows)| Measured { deployment, windows: windows.into_values().collect() })
        .collect();
    Scored { point: point.clone(), cells }
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    output.map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn date() -> String {
    said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])
}

fn commit() -> String {
    said("git", &["describe", "--always", "--dirty"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn out(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("validate-plan-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir); // of an earlier run of this process' number
        dir
    }

    #[test]
    fn a_dry_run_predicts_first_measures_then_and_finds_the_errors_of_the_formula() {
        let dir = out("whole");
        let args = words(&format!("--dry --points 9 --seed 3 --out {}", dir.display()));
        validate(&args).unwrap();
        let report = std::fs::read_to_string(dir.join("report.md")).unwrap();
        assert!(report.contains("9 points, 45 deployments"), "{report}");
        for scheme in ["| built-in | all | 45 |", "| kind | all |", "| trials | 9 |", "always occ/1"] {
            assert!(report.contains(scheme), "{scheme} in {report}");
        }
        // Predictions miss by up to 10 %, windows scatter by 2 %.
        let line = report.lines().find(|line| line.starts_with("| built-in | all |")).unwrap();
        let p90: f64 = line.split('|').nth(5).unwrap().trim().parse().unwrap();
        assert!(p90 > 4.0 && p90 < 13.0, "{line}");
        let lines = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap().lines().count();
        assert_eq!(lines("windows.jsonl"), 3 * 45);
        // The same command has nothing left to do, and reports the same.
        validate(&args).unwrap();
        assert_eq!(lines("windows.jsonl"), 3 * 45);
        assert_eq!(std::fs::read_to_string(dir.join("report.md")).unwrap(), report);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_run_goes_on_where_it_was_cut_off() {
        let dir = out("cut");
        let at = dir.display();
        let all = words(&format!("--dry --points 2 --out {at}"));
        validate(&all).unwrap();
        let file = dir.join("windows.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        // The last line is torn.
        std::fs::write(&file, &text[..text.len() - 9]).unwrap();
        validate(&all).unwrap();
        let again = std::fs::read_to_string(&file).unwrap();
        let whole = again.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
        assert_eq!(whole, text.lines().count(), "{again}");
        let other = validate(&words(&format!("--dry --seed 2 --out {at}"))).unwrap_err().to_string();
        assert!(other.contains("seed 1") && other.contains("--out"), "{other}");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn wrong_words_are_refused() {
        for (wrong, told) in [("guess", "expected"), ("--points many", "a number"), ("--out", "expected")] {
            let failure = validate(&words(wrong)).unwrap_err().to_string();
            assert!(failure.contains(told), "{failure}");
        }
    }
}
