//! Lives: kills the instances of a bank under distributed deposits, or of a brokerage with its
//! exchange, and restarts it with another number of workers each time.
//!
//! ```text
//!   round   bench, every deposit over several instances; or TPC-E over two, each with a load unit
//!           | kill -9 of one instance, then of all and their parent |
//!           check: the conditions hold
//!           bench with other workers, nothing distributed
//!           | after some time: kill -9 of all |
//!           check: the conditions hold, and nothing is in doubt
//! ```
//!
//! A transaction in doubt at the end of a round was in doubt at the first kill of the round,
//! because no distributed transaction has begun since. The brokerage's exchange is lost at each
//! kill and comes back from the orders in the database: each has one settlement, or is open. The
//! program is the real one, and each instance is a process (over `ring` it is a thread, and only
//! the whole process can be killed).
//!
//! This file uses only the standard library, `fastrand` and `serde_json`, because a test of the
//! command line includes it too.

use fastrand::Rng;
use serde_json::Value;
use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const DESIGNS: [&str; 7] =
    ["conventional", "logical", "plp-regular", "plp-partition", "plp-leaf", "serial", "occ"];
pub const CHANNELS: [&str; 4] = ["shm", "uds", "tcp", "ring"];

/// The promise: no transaction is in doubt for longer than this once every instance is up.
pub const CALM: Duration = Duration::from_secs(5);
/// A program that has not started after this time has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Branches, and accounts per branch: few, so that checks are short.
const BANK: [&str; 6] = ["bench", "tpcb", "--scale", "15", "--accounts", "200"];
/// Two load units of few customers, with few initial trades.
const BROKERAGE: [&str; 10] =
    ["--scale", "2", "--unit", "200", "--sf", "20000", "--market-days", "60", "--news-bytes", "300"];

/// The work of the instances that are killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Business {
    /// TPC-B, with accounts at other instances.
    Bank,
    /// TPC-E.
    Brokerage,
}

/// The counts of some rounds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub rounds: u32,
    pub kills: u32,
    /// Transactions in doubt directly after a kill.
    pub doubts: u64,
    /// Rounds with such transactions.
    pub doubtful: u32,
}

/// A database under one design and channel, from its load on.
pub struct Bank<'a> {
    business: Business,
    atoll: &'a Path,
    dir: PathBuf,
    design: &'static str,
    channel: &'static str,
    islands: u32,
    durability: &'static str,
    tables: &'static str,
    random: Rng,
    tally: Tally,
}

impl<'a> Bank<'a> {
    /// Loads a database in the empty directory `dir`; `atoll` is the program.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn load(
        atoll: &'a Path,
        dir: &Path,
        (design, channel): (&'static str, &'static str),
        business: Business,
        seed: u64,
    ) -> Result<Bank<'a>, String> {
        let mut random = Rng::with_seed(seed);
        let islands = random.u32(2..=3);
        let mut bank = Bank {
            business,
            atoll,
            dir: dir.to_owned(),
            design,
            channel,
            islands: if business == Business::Brokerage { 2 } else { islands },
            durability: if random.u8(..3) == 0 { "async" } else { "sync" },
            tables: if random.bool() { "heap" } else { "clustered" },
            random,
            tally: Tally::default(),
        };
        std::fs::create_dir_all(dir.join("tmp")).map_err(|why| format!("{}: {why}", dir.display()))?;
        let workers = bank.workers(design);
        let args = match business {
            Business::Bank => bank.args(design, workers, &["--multisite", "50", "--duration", "50ms"]),
            Business::Brokerage => bank.args(design, workers, &["--duration", "50ms"]),
        };
        let output = bank.command(&args).output().map_err(|why| bank.cannot_run(&why))?;
        if !output.status.success() {
            return Err(bank.failed(&args, &output));
        }
        Ok(bank)
    }

    pub fn describe(&self) -> String {
        let Bank { business, design, channel, islands, durability, tables, .. } = self;
        format!("{business:?}, {design} x{islands} over {channel}, {durability}, {tables} tables")
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Runs one round; returns a description of it.
    ///
    /// # Errors
    /// A description: a condition that does not hold, transactions in doubt, a program that fails.
    pub fn round(&mut self) -> Result<String, String> {
        let workers = self.workers(self.design);
        let multisite = if self.random.bool() { "100" } else { "40" };
        let args = match self.business {
            Business::Bank => self.args(self.design, workers, &["--multisite", multisite, "--clients", "12"]),
            Business::Brokerage => self.args(self.design, workers, &["--clients", "12"]),
        };
        let mut life = self.live(&args)?;
        let mut kills = 1;
        // One run in four is killed while it opens the database.
        match self.random.u8(..4) {
            0 => life.work(Duration::from_millis(self.random.u64(20..200)))?,
            _ => {
                life.ready()?;
                std::thread::sleep(Duration::from_millis(self.random.u64(..400)));
            }
        }
        if self.channel != "ring" && self.random.bool() {
            let one = self.random.usize(..self.islands as usize);
            life.kill_one(one)?;
            kills += 1;
            // The other instances go on until they notice, or until their parent notices and gives
            // up.
            std::thread::sleep(Duration::from_millis(self.random.u64(..300)));
        }
        life.kill_all()?;
        let doubts = self.check(&args)?;

        let others: &[&str] = match self.design {
            "conventional" | "logical" | "serial" => &["conventional", "logical", "serial"],
            _ => &[self.design],
        };
        let design = others[self.random.usize(..others.len())];
        let other_workers = self.workers(design);
        // Few requests, so that the database stays small and its checks short. Those of the
        // brokerage read: its writers may be distributed.
        let few = ["--load-model", "open", "--rate", "200"];
        let args = match self.business {
            Business::Bank => self.args(design, other_workers, &[&["--multisite", "0"][..], &few].concat()),
            Business::Brokerage => {
                let mut args = self.args(design, other_workers, &few);
                args[1] = "tpce-tradestatus".into();
                args
            }
        };
        let mut life = self.live(&args)?;
        life.ready()?;
        std::thread::sleep(CALM);
        life.kill_all()?;
        let left = self.check(&args)?;
        if left > 0 {
            let text = format!("{left} transactions are in doubt after {} s", CALM.as_secs());
            return Err(self.told(&args, &text));
        }
        self.tally.rounds += 1;
        self.tally.kills += kills + 1;
        self.tally.doubts += doubts;
        self.tally.doubtful += u32::from(doubts > 0);
        Ok(format!(
            "{kills} kills with {workers} workers each, {doubts} in doubt, none with {other_workers} of {design}"
        ))
    }

    /// The number of workers per instance.
    fn workers(&mut self, design: &str) -> u32 {
        if design == "serial" { 1 } else { self.random.u32(1..=5) }
    }

    fn args(&mut self, design: &str, workers: u32, more: &[&str]) -> Vec<String> {
        let seed = self.random.u32(..).to_string();
        let (islands, workers) = (self.islands.to_string(), (workers * self.islands).to_string());
        let data = self.dir.join("data").display().to_string();
        let mut args = match self.business {
            Business::Bank => BANK.to_vec(),
            Business::Brokerage => [&["bench", "tpce"][..], &BROKERAGE].concat(),
        };
        args.extend([
            "--tables",
            self.tables,
            "--design",
            design,
            "--channel",
            self.channel,
            "--durability",
            self.durability,
        ]);
        args.extend([
            "--islands",
            &islands,
            "--workers",
            &workers,
            "--data",
            &data,
            "--keep",
            "--seed",
            &seed,
        ]);
        args.extend(["--warmup", "1ms", "--repeat", "1", "--json", "--progress", "100ms"]);
        if design == "occ" {
            args.extend(["--memory", "256M"]);
        }
        if design.starts_with("plp") {
            // By default the number of partitions follows from the workers, which differ at the
            // next start.
            args.extend(["--partitions", "1"]);
        }
        args.extend(more);
        if !more.contains(&"--duration") {
            args.extend(["--duration", "60m"]);
        }
        args.into_iter().map(str::to_owned).collect()
    }

    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(self.atoll);
        command.args(args).env("TMPDIR", self.dir.join("tmp")).stdin(Stdio::null());
        command
    }

    fn live(&self, args: &[String]) -> Result<Life, String> {
        let log = self.dir.join("said");
        let said = File::create(&log).map_err(|why| format!("{}: {why}", log.display()))?;
        let parent = self.command(args).stdout(Stdio::null()).stderr(said).spawn();
        let parent = parent.map_err(|why| self.cannot_run(&why))?;
        let instances = if self.channel == "ring" { 0 } else { self.islands as usize };
        Ok(Life { parent, instances, log, command: args.join(" "), known: Vec::new() })
    }

    /// Checks that the conditions hold; returns the number of transactions in doubt.
    fn check(&self, after: &[String]) -> Result<u64, String> {
        let args = ["check", "--json", "--data", &self.dir.join("data").display().to_string()];
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let output = self.command(&args).output().map_err(|why| self.cannot_run(&why))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let summary: Value =
            text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let sound = summary["sound"] == true && summary["conditions_checked"] == true;
        if !output.status.success() || !sound {
            return Err(self.told(after, &self.failed(&args, &output)));
        }
        let instances = summary["instances"].as_array().cloned().unwrap_or_default();
        Ok(instances.iter().filter_map(|instance| instance["in_doubt"].as_u64()).sum())
    }

    fn told(&self, after: &[String], what: &str) -> String {
        format!("{}: after `atoll {}`: {what}", self.describe(), after.join(" "))
    }

    fn cannot_run(&self, why: &Error) -> String {
        format!("{} cannot be run: {why}", self.atoll.display())
    }

    fn failed(&self, args: &[String], output: &Output) -> String {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("`atoll {}` ended with {}\n{}\n{}", args.join(" "), output.status, out.trim(), err.trim())
    }
}

/// A running deployment.
struct Life {
    parent: Child,
    /// The number of its processes besides the parent.
    instances: usize,
    /// Its output on standard error.
    log: PathBuf,
    command: String,
    /// Its processes at the time when one of them was killed.
    known: Vec<u32>,
}

impl Life {
    /// Waits until each of its processes has used this much processor time.
    fn work(&mut self, busy: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let processes = self.processes()?;
            let workers: Vec<_> = match self.instances {
                0 => processes,
                _ => processes.into_iter().skip(1).collect(),
            };
            let all = workers.len() >= self.instances.max(1);
            if all && workers.iter().all(|(_, worked)| *worked >= busy) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let text = format!("it does not work after {} s: {workers:?}", PATIENCE.as_secs());
                return Err(self.ended(&text));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The parent first: process ids, with the processor time of each.
    fn processes(&mut self) -> Result<Vec<(u32, Duration)>, String> {
        if let Ok(Some(status)) = self.parent.try_wait() {
            return Err(self.ended(&format!("it has ended with {status}")));
        }
        let parent = self.parent.id();
        let mut all = processes();
        all.retain(|p| p.is_alive && (p.pid == parent || p.parent == parent));
        all.sort_by_key(|p| (p.pid != parent, p.pid));
        Ok(all.into_iter().map(|p| (p.pid, p.worked)).collect())
    }

    /// Waits until all instances are up and execute transactions: the first line of `--progress`.
    fn ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while !std::fs::read_to_string(&self.log).unwrap_or_default().contains(" tps,") {
            self.processes()?;
            if begun.elapsed() > PATIENCE {
                return Err(self.ended(&format!("nothing is carried out after {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn kill_one(&mut self, one: usize) -> Result<(), String> {
        self.known = self.processes()?.into_iter().map(|(pid, _)| pid).collect();
        match self.known.get(one + 1) {
            Some(&pid) => kill(&[pid]),
            None => Err(self.ended(&format!("it has no instance {one}"))),
        }
    }

    /// Kills all processes at once and waits until they are gone.
    fn kill_all(mut self) -> Result<(), String> {
        let mut pids = std::mem::take(&mut self.known);
        match self.processes() {
            Ok(now) => pids.extend(now.into_iter().map(|(pid, _)| pid)),
            // The parent has given up, and the other processes end now.
            Err(_) if !pids.is_empty() => {}
            Err(what) => return Err(what),
        }
        kill(&pids)?;
        let _ = self.parent.wait(); // ignored: the parent existed a moment ago
        let begun = Instant::now();
        while processes().iter().any(|p| p.is_alive && pids.contains(&p.pid)) {
            if begun.elapsed() > PATIENCE {
                return Err(self.ended("killed processes stay"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn ended(&self, what: &str) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        format!("`atoll {}`: {what}\n{}", self.command, said.trim())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // The instances end with their parent.
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

fn kill(pids: &[u32]) -> Result<(), String> {
    let all: Vec<String> = pids.iter().map(u32::to_string).collect();
    // A process that has ended meanwhile is no failure.
    let script = format!("kill -9 {} 2>/dev/null || true", all.join(" "));
    let status = Command::new("sh").args(["-c", &script]).status();
    status.map(drop).map_err(|why| format!("sh cannot be run: {why}"))
}

struct Process {
    pid: u32,
    parent: u32,
    /// Whether it is more than a zombie: a thread of it may still hold files.
    is_alive: bool,
    worked: Duration,
}

/// Every process of this machine, from /proc.
fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| process(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Parses a line of /proc/PID/stat. A tick is a hundredth of a second on every Linux.
fn process(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        is_alive: !matches!(fields.first(), Some(&"Z" | &"X")) || number(17)? > 1,
        worked: Duration::from_millis((number(11)? + number(12)?) * 10),
    })
}
