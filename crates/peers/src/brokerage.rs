//! Three reading transactions of TPC-E on Atoll and on a PostgreSQL server, by turns: Trade-Status,
//! Customer-Position and Market-Watch.
//!
//! Both have the same rows, from the workload's own loader. The server has the tables that these
//! transactions read, with the keys and indexes of the definition, and the transactions as
//! functions in PL/pgSQL, at `read committed`, which the definition asks for. Its processes run on
//! one core, and the clients here on the others. Atoll is the program itself (`atoll bench`) with
//! one worker, because TPC-E's procedures are built into it: to build them into this program, too,
//! takes as long as Atoll.
//!
//! - [`tables`]: the server's tables, filled by the workload's loader.
//! - [`functions`]: the transactions.

pub mod functions;
pub mod tables;

use crate::contestant::{Commits, Rate, Work};
use crate::fault::PeerFault;
use crate::figures::Size;
use crate::postgres::{Server, fault, refused};
use crate::rounds::{HEADS, Series, cells, thousands};
use crate::threads::{Client, drive};
use exec::DesignKind;
use functions::{Asked, FUNCTIONS};
use postgres::Statement;
use std::path::{Path, PathBuf};
use std::process::Command;
use txn::{Generator, Workload};
use workload::WorkloadSpec;
use workload::micro::Op;
use workload::tpce::{Card, Mix, Tpce, TpceOptions};

/// The transactions, and the names of Atoll's benchmarks.
pub const COMPARED: [(Card, &str); 3] = [
    (Card::TradeStatus, "tpce-tradestatus"),
    (Card::CustomerPosition, "tpce-customerposition"),
    (Card::MarketWatch, "tpce-marketwatch"),
];

/// What is compared, and how large.
#[derive(Clone, Debug)]
pub struct Brokerage {
    /// The program `atoll`, a release build.
    pub atoll: PathBuf,
    pub options: TpceOptions,
    /// Connections, and clients of Atoll's worker.
    pub clients: u16,
    /// The designs of Atoll, each with a database of its own.
    pub designs: Vec<DesignKind>,
}

impl Brokerage {
    fn workload(&self, card: Card) -> Result<Tpce, PeerFault> {
        Ok(Tpce::new(TpceOptions { mix: Mix::Only(card), ..self.options.clone() })?)
    }

    fn own(&self) -> [(&'static str, u32); 5] {
        let o = &self.options;
        [
            ("days", o.days),
            ("unit", o.unit),
            ("sf", o.sf),
            ("market-days", o.market_days),
            ("news-bytes", o.news_bytes),
        ]
    }

    /// Runs Atoll for a window, on a copy of the design's database, which the first run loads.
    fn atoll(&self, design: DesignKind, name: &str, seed: u64, size: &Size) -> Result<f64, PeerFault> {
        let data = size.dir.join(design.name());
        let seconds = |time: std::time::Duration| format!("{}ms", time.as_millis());
        let mut command = Command::new(&self.atoll);
        command.args(["bench", name, "--islands", "1", "--workers", "1", "--durability", "memory"]);
        command.args(["--repeat", "1", "--json", "--data"]).arg(data);
        command.args(["--design", design.name()]);
        command.args(["--scale", &self.options.units.to_string(), "--clients", &self.clients.to_string()]);
        command.args(["--duration", &seconds(size.times.window), "--warmup", &seconds(size.times.warm_up)]);
        command.args(["--seed", &seed.to_string()]);
        for (option, value) in self.own() {
            command.args([format!("--{option}"), value.to_string()]);
        }
        let output = command.output().map_err(PeerFault::io(&self.atoll))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let row = text.lines().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let consistent = row.as_ref().is_some_and(|row| row["consistent"] == true);
        row.and_then(|row| row["tps"].as_f64()).filter(|_| output.status.success() && consistent).ok_or_else(
            || PeerFault::Engine {
                engine: "atoll",
                what: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            },
        )
    }
}

/// The server with the tables and functions, its processes on the last core.
pub struct Loaded {
    server: Server,
}

impl Loaded {
    /// # Errors
    /// The server is not installed, does not start, or refuses a statement.
    pub fn load(options: &TpceOptions, near: &Path) -> Result<Loaded, PeerFault> {
        let cpu = topology::allowed_cpus().last().map(|cpu| cpu.0);
        let server = Server::start_on(near, Commits::Unsynced, cpu)?;
        let mut client = server.connect()?;
        client
            .batch_execute("ALTER DATABASE postgres SET default_transaction_isolation = 'read committed'")
            .map_err(refused)?;
        let tpce = Tpce::new(options.clone())?;
        tables::fill(&tpce, &mut client)?;
        client.batch_execute(FUNCTIONS).map_err(refused)?;
        client.batch_execute("VACUUM ANALYZE").map_err(refused)?;
        Ok(Loaded { server })
    }

    /// # Errors
    /// The server does not answer.
    pub fn connect(&self) -> Result<postgres::Client, PeerFault> {
        self.server.connect()
    }

    fn run(&self, tpce: &Tpce, work: &Work) -> Result<Rate, PeerFault> {
        let caller = |number| {
            let mut client = self.connect()?;
            let calls = functions::prepare(&mut client)?;
            let requests = tpce.generator(work.stream(number), 0..tpce.sites());
            Ok(Caller { client, calls, requests, asked: None })
        };
        let (rate, _) = drive("postgres", work, &[], caller)?;
        Ok(Rate { per_cpu_second: 0.0, ..rate })
    }
}

struct Caller {
    client: postgres::Client,
    calls: [Statement; 3],
    requests: <Tpce as Workload>::Generator,
    asked: Option<Asked>,
}

impl Client for Caller {
    fn draw(&mut self) {
        self.asked = Asked::of(&self.requests.next());
    }

    fn attempt(&mut self) -> Result<(), PeerFault> {
        let asked = self.asked.as_ref().ok_or_else(|| fault("a request without a function"))?;
        let rows = functions::call(&mut self.client, &self.calls, asked)?;
        if rows.is_empty() { Err(fault(format!("no rows for {asked:?}"))) } else { Ok(()) }
    }
}

/// A Markdown table: each transaction on both, by turns.
///
/// # Errors
/// Either fails.
pub fn compare(brokerage: &Brokerage, size: &Size) -> Result<String, PeerFault> {
    // Every option has a name that Atoll accepts, too.
    let spec = brokerage.own().into_iter().fold(
        WorkloadSpec { scale: Some(brokerage.options.units), ..WorkloadSpec::new("tpce", 1) },
        |spec, (option, value)| spec.with(option, value),
    );
    spec.build()?;
    eprintln!("loading PostgreSQL");
    let served = Loaded::load(&brokerage.options, size.dir)?;
    for design in &brokerage.designs {
        eprintln!("loading Atoll, {design}");
        brokerage.atoll(*design, COMPARED[0].1, 1, size)?;
    }
    let mut text = format!(
        "| {} clients, 1 core | engine | {HEADS} | Atoll is x |\n|---|---|---:|---:|---:|---:|\n",
        brokerage.clients
    );
    for (card, name) in COMPARED {
        let tpce = brokerage.workload(card)?;
        let named = |design: &DesignKind| Series::new(format!("Atoll, {design}"));
        let mut ours: Vec<Series> = brokerage.designs.iter().map(named).collect();
        let mut theirs = Series::new("PostgreSQL");
        for round in 0..size.rounds {
            let seed = size.seed + u64::from(round);
            let (warm_up, window) = (size.times.warm_up, size.times.window);
            let work = Work { op: Op::Read, clients: brokerage.clients.into(), seed, warm_up, window };
            for (design, series) in brokerage.designs.iter().zip(&mut ours) {
                series.values.push(brokerage.atoll(*design, name, seed, size)?);
            }
            theirs.values.push(served.run(&tpce, &work)?.tps);
            let last = |series: &Series| thousands(series.values.last().copied().unwrap_or(0.0));
            let all: Vec<String> = ours.iter().chain([&theirs]).map(last).collect();
            eprintln!("{name}: {} tps", all.join(", "));
        }
        let mut first = format!("`{name}`");
        for series in &ours {
            let ratio = series.median() / theirs.median();
            text += &format!("| {first} | {} | {} | {ratio:.1} |\n", series.name, cells(series, thousands));
            first.clear();
        }
        text += &format!("| | {} | {} | |\n", theirs.name, cells(&theirs, thousands));
    }
    Ok(text)
}
