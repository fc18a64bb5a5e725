//! Predictions and windows of a point's deployments: by the program, or by a formula.

use super::points::Point;
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The designs of the formula, with the throughput of one local worker.
const DESIGNS: [(&str, f64); 3] = [("conventional", 5e5), ("occ", 7e5), ("serial", 8e5)];

/// A deployment of a point: its name, and its options for `bench`.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// `conventional/2`: the design and the islands.
    pub deployment: String,
    pub words: Vec<String>,
}

impl Cell {
    pub fn json(&self) -> Value {
        json!({"deployment": self.deployment, "words": self.words})
    }

    pub fn from_json(value: &Value) -> Option<Cell> {
        let words = value["words"].as_array()?.iter().map(|word| Some(word.as_str()?.to_owned()));
        Some(Cell {
            deployment: value["deployment"].as_str()?.to_owned(),
            words: words.collect::<Option<_>>()?,
        })
    }
}

/// The answer of `plan`: the choice, and the predicted throughput of every deployment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    pub choice: String,
    pub tps: BTreeMap<String, f64>,
    pub cells: Vec<Cell>,
}

/// A measured window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    pub tps: f64,
    /// The share of the window that other work took.
    pub noise: f64,
}

/// The side that predicts and measures.
pub enum Source {
    /// This program.
    Atoll(PathBuf),
    /// A formula with noise: nothing runs. Its predictions miss by up to 10 %.
    Simulated { seed: u64 },
}

impl Source {
    /// Plans a point without trials, with this calibration or with none.
    ///
    /// # Errors
    /// The program failed, with its last words.
    pub fn plan(&self, point: &Point, calibration: Option<&Path>) -> Result<Answer, String> {
        let Source::Atoll(program) = self else { return Ok(self.formula(point)) };
        let mut words = vec!["--no-trials".to_owned(), "--channels".to_owned(), point.channel.clone()];
        // Without a calibration the built-in costs predict, and no file of the user is read.
        let file = calibration.map(|path| path.display().to_string());
        words.extend(file.iter().flat_map(|file| ["--calibration".to_owned(), file.clone()]));
        let cache = std::env::temp_dir().join("validate-plan-no-cache");
        let text = run(program, &[&["plan".to_owned()], &*point.words(), &words].concat(), Some(&cache))?;
        answer(&text)
    }

    /// Plans a point as a user does, with probes and trials in `seconds`.
    ///
    /// # Errors
    /// As [`Source::plan`].
    pub fn try_out(&self, point: &Point, calibration: &Path, seconds: u64) -> Result<Answer, String> {
        let Source::Atoll(program) = self else { return Ok(self.formula(point)) };
        let file = calibration.display().to_string();
        let more = ["--channels", &point.channel, "--calibration", &file, "--budget", &format!("{seconds}s")];
        let more: Vec<String> = more.map(str::to_owned).to_vec();
        answer(&run(program, &[&["plan".to_owned()], &*point.words(), &more].concat(), None)?)
    }

    /// Measures the costs for a kind of workload and a durability, in `seconds`.
    ///
    /// # Errors
    /// As [`Source::plan`].
    pub fn calibrate(
        &self,
        (kind, durability): (&str, &str),
        channels: &str,
        file: &Path,
        seconds: u64,
    ) -> Result<(), String> {
        let Source::Atoll(program) = self else {
            return std::fs::write(file, "simulated\n").map_err(|e| e.to_string());
        };
        let path = file.display().to_string();
        let more =
            ["--no-trials", "--channels", channels, "--durability", durability, "--calibration", &path];
        let more = more.map(str::to_owned);
        let budget = [format!("--calibrate={seconds}s")];
        let words = [&["plan".to_owned()], &*Point::kind_words(kind), &more, &budget].concat();
        run(program, &words, None).map(drop)
    }

    /// One window of a deployment.
    ///
    /// # Errors
    /// As [`Source::plan`].
    pub fn window(&self, point: &Point, cell: &Cell, round: usize) -> Result<Window, String> {
        let Source::Atoll(program) = self else { return Ok(self.noisy(point, cell, round)) };
        let windows = [
            "--warmup",
            "300ms",
            "--duration",
            "700ms",
            "--repeat",
            "1",
            "--seed",
            &format!("{}", round + 1),
        ]
        .map(str::to_owned);
        let words = [&["bench".to_owned()], &*point.words(), &cell.words, &windows].concat();
        let text = run(program, &words, None)?;
        let line = text.lines().find(|line| line.starts_with('{')).ok_or("bench printed no row")?;
        let row: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if row["consistent"] == false {
            return Err(format!("inconsistent: {line}"));
        }
        let tps = row["tps"].as_f64().filter(|tps| *tps > 0.0).ok_or("the row has no throughput")?;
        Ok(Window { tps, noise: row["noise"].as_f64().unwrap_or(0.0) })
    }

    /// The state of the machine: one-way ns between its cores, and the load.
    pub fn machine(&self) -> Value {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let Source::Atoll(program) = self else { return json!({"load": load.trim()}) };
        let probe = run(program, &["topology".to_owned(), "--probe".to_owned()], None).unwrap_or_default();
        let probe: Option<Value> = serde_json::from_str(&probe).ok();
        let latency = probe.map(|machine| machine["latency"].clone());
        json!({"load": load.trim(), "latency": latency})
    }

    fn seed(&self) -> u64 {
        match self {
            Source::Atoll(_) => 0,
            Source::Simulated { seed } => *seed,
        }
    }

    /// The formula: a distributed transaction costs more, and a shared instance has no messages.
    fn formula(&self, point: &Point) -> Answer {
        let mut answer = Answer::default();
        for (design, one) in DESIGNS {
            for islands in [1, 2] {
                if design == "serial" && islands == 1 {
                    continue;
                }
                let deployment = format!("{design}/{islands}");
                let error =
                    Rng::with_seed(hash(&[&deployment, &point.number.to_string()]) ^ self.seed()).f64();
                let tps = truth(point, one, islands) * (0.9 + 0.2 * error);
                let words = ["--design", design, "--islands", &islands.to_string()].map(str::to_owned);
                answer.tps.insert(deployment.clone(), tps);
                answer.cells.push(Cell { deployment, words: words.to_vec() });
            }
        }
        let best = answer.tps.iter().max_by(|a, b| a.1.total_cmp(b.1));
        answer.choice = best.map(|(name, _)| name.clone()).unwrap_or_default();
        answer
    }

    fn noisy(&self, point: &Point, cell: &Cell, round: usize) -> Window {
        let (design, islands) = cell.deployment.split_once('/').unwrap_or(("", "1"));
        let one = DESIGNS.iter().find(|(name, _)| *name == design).map_or(1.0, |(_, one)| *one);
        let mark = [cell.deployment.as_str(), &point.number.to_string(), &round.to_string()];
        let noise = Rng::with_seed(hash(&mark) ^ self.seed().rotate_left(7)).f64();
        let tps = truth(point, one, islands.parse().unwrap_or(1)) * (0.98 + 0.04 * noise);
        Window { tps, noise: 0.0 }
    }
}

fn truth(point: &Point, one: f64, islands: usize) -> f64 {
    let share: f64 = point.option("multisite").and_then(|p| p.parse().ok()).unwrap_or(0.0);
    let message = match point.channel.as_str() {
        "shm" => 2.0,
        "uds" => 5.0,
        _ => 8.0,
    };
    match islands {
        1 => 2.0 * one * 0.8,
        _ => 2.0 * one / (1.0 + message * share / 100.0),
    }
}

/// FNV-1a of the texts.
pub fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Runs the program with `--json`; returns its output.
fn run(program: &Path, words: &[String], cache: Option<&Path>) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(words).arg("--json").stdin(Stdio::null());
    if let Some(cache) = cache {
        command.env("XDG_CACHE_HOME", cache);
    }
    let output = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it said nothing");
    Err(format!("{} {} ({}): {last}", program.display(), words.join(" "), output.status))
}

/// The JSON object of `plan`.
fn answer(text: &str) -> Result<Answer, String> {
    let plan: Value = serde_json::from_str(text).map_err(|e| format!("plan printed no JSON: {e}"))?;
    let ranking = plan["ranking"].as_array().ok_or("the plan has no ranking")?;
    let mut answer = Answer::default();
    for entry in ranking {
        let candidate = &entry["candidate"];
        let text = |name: &str| candidate[name].as_str().map(str::to_owned);
        let (Some(design), Some(islands)) = (text("design"), candidate["islands"].as_u64()) else {
            return Err("a candidate without design or islands".into());
        };
        let tps = entry["tps"]["mid"].as_f64().ok_or("an entry without throughput")?;
        let workers = candidate["workers"].as_u64().unwrap_or(islands);
        let deployment = format!("{design}/{islands}");
        let mut words = vec!["--design".to_owned(), design, "--islands".to_owned(), islands.to_string()];
        words.extend(["--workers".to_owned(), workers.to_string()]);
        words.extend(text("channel").into_iter().flat_map(|channel| ["--channel".to_owned(), channel]));
        if answer.choice.is_empty() {
            answer.choice.clone_from(&deployment);
        }
        answer.tps.insert(deployment.clone(), tps);
        answer.cells.push(Cell { deployment, words });
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_with_its_choice_and_deployments() {
        let text = r#"{"ranking": [
            {"tps": {"mid": 5.0}, "candidate": {"design": "occ", "islands": 1, "workers": 2}},
            {"tps": {"mid": 4.0}, "candidate": {"design": "serial", "islands": 2, "workers": 2, "channel": "uds"}}]}"#;
        let answer = answer(text).unwrap();
        assert_eq!((answer.choice.as_str(), answer.tps["serial/2"]), ("occ/1", 4.0));
        assert_eq!(answer.cells[1].words.join(" "), "--design serial --islands 2 --workers 2 --channel uds");
        assert_eq!(Cell::from_json(&answer.cells[1].json()).as_ref(), Some(&answer.cells[1]));
        assert!(super::answer("{}").is_err() && super::answer("no").is_err());
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let none = Source::Atoll("/nowhere/atoll".into());
        let point = &crate::validate::points::draw(1, 1)[0];
        assert!(none.plan(point, None).unwrap_err().contains("/nowhere/atoll"));
    }
}
