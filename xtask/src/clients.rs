//! `cargo xtask clients`: real clients of PostgreSQL, unmodified, each against a new database that
//! `atoll serve` serves. The programs are in the folder `clients`.

use crate::{Failed, cargo, root};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

const CLIENTS: [&str; 13] = [
    "psql",
    "pgbench",
    "sysbench",
    "psycopg2",
    "psycopg3",
    "asyncpg",
    "sqlalchemy",
    "alembic",
    "django",
    "pgx",
    "libpq",
    "pgjdbc",
    "tokio-postgres",
];

/// The exit code of `clients/run` for a client that is not to be had on this machine.
const NOT_HERE: i32 = 3;

struct Options {
    clients: Vec<String>,
    /// The program; `None` to build it.
    atoll: Option<PathBuf>,
    /// Further options of the server.
    serve: Vec<String>,
}

impl Options {
    fn read(args: &[String]) -> Result<Options, Failed> {
        let mut options = Options { clients: Vec::new(), atoll: None, serve: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--" => options.serve = args.by_ref().cloned().collect(),
                "--atoll" => {
                    let file = args.next().ok_or_else(|| Failed::Usage("--atoll: expected a file".into()))?;
                    options.atoll = Some(file.into());
                }
                name if CLIENTS.contains(&name) => options.clients.push(name.into()),
                other => {
                    let names = CLIENTS.join(", ");
                    return Err(Failed::Usage(format!("clients {other}: expected --atoll FILE, or {names}")));
                }
            }
        }
        if options.clients.is_empty() {
            options.clients = CLIENTS.map(String::from).to_vec();
        }
        Ok(options)
    }
}

/// What one client's checks have shown.
enum Shown {
    Skipped(String),
    Checks(Checks),
}

/// Counts of checks, and the first line of one that failed.
#[derive(Default)]
struct Checks {
    ok: usize,
    failed: usize,
    unsupported: usize,
    first: Option<String>,
}

impl Checks {
    fn of(lines: &str) -> Checks {
        let mut checks = Checks::default();
        for line in lines.lines() {
            match line.split(' ').next() {
                Some("ok") => checks.ok += 1,
                Some("FAILED") => checks.failed += 1,
                Some("unsupported") => checks.unsupported += 1,
                _ => continue,
            }
            if !line.starts_with("ok ") && checks.first.is_none() {
                checks.first = Some(line.to_owned());
            }
        }
        checks
    }
}

/// Runs the clients one after the other; fails if a check of any of them did.
pub fn clients(args: &[String]) -> Result<(), Failed> {
    let options = Options::read(args)?;
    let atoll = match &options.atoll {
        Some(atoll) => atoll.clone(),
        None => {
            cargo(&["build", "--release", "--package", "atoll"], &[])?;
            root().join("target/release/atoll")
        }
    };
    let scratch = root().join("target/clients");
    let mut shown = Vec::new();
    for client in &options.clients {
        eprintln!("+ {client}");
        shown.push((client, check(client, &atoll, &scratch, &options.serve)?));
    }
    println!("{:<16}{:>7}{:>7}{:>15}  first failure", "client", "passed", "failed", "unsupported");
    let mut bad = 0;
    for (client, shown) in &shown {
        match shown {
            Shown::Skipped(why) => println!("{client:<16}skipped: {why}"),
            Shown::Checks(checks) => {
                let Checks { ok, failed, unsupported, first } = checks;
                let first = first.as_deref().unwrap_or_default();
                println!("{client:<16}{ok:>7}{failed:>7}{unsupported:>15}  {first}");
                bad += usize::from(*ok == 0 || failed + unsupported > 0);
            }
        }
    }
    if bad == 0 { Ok(()) } else { Err(Failed::Clients(bad)) }
}

fn check(client: &str, atoll: &Path, scratch: &Path, options: &[String]) -> Result<Shown, Failed> {
    let unusable = |why: std::io::Error| Failed::Server(format!("{}: {why}", scratch.display()));
    let dir = scratch.join(client);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(unusable)?;
    }
    std::fs::create_dir_all(&dir).map_err(unusable)?;
    let mut server = Server::start(atoll, &dir, options)?;
    let output = Command::new(root().join("clients/run"))
        .arg(client)
        .arg(scratch.join("packages"))
        .envs([
            ("PGHOST", "127.0.0.1"),
            ("PGPORT", &server.port),
            ("PGUSER", "atoll"),
            ("PGDATABASE", "test"),
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(unusable)?;
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{said}");
    let alive = server.is_alive();
    server.stop();
    if output.status.code() == Some(NOT_HERE) {
        return Ok(Shown::Skipped(why.lines().last().unwrap_or_default().to_owned()));
    }
    let mut checks = Checks::of(&said);
    if !alive || (!output.status.success() && checks.first.is_none()) {
        let what = if alive { why.lines().last().unwrap_or_default() } else { "the server has ended" };
        checks.failed += 1;
        checks.first.get_or_insert(format!("FAILED {client}: {what}"));
    }
    Ok(Shown::Checks(checks))
}

/// A server with a database of its own.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(atoll: &Path, dir: &Path, options: &[String]) -> Result<Server, Failed> {
        let failed = |why: &dyn std::fmt::Display| Failed::Server(format!("{}: {why}", atoll.display()));
        let log = std::fs::File::create(dir.join("log")).map_err(|why| failed(&why))?;
        let mut child = Command::new(atoll)
            .args(["serve", "--listen", "127.0.0.1:0", "--islands", "2", "--data"])
            .arg(dir.join("db"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|why| failed(&why))?;
        let output = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let ready = output.map_while(Result::ok).find(|line| line.starts_with("ready at "));
        let port = ready.as_deref().and_then(|line| line.split([' ', ';']).nth(2)?.rsplit(':').next());
        match port {
            Some(port) => Ok(Server { port: port.to_owned(), child }),
            None => Err(failed(&format!("it has not started; see {}", dir.join("log").display()))),
        }
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its instances end with it.
    fn stop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the test of kills under a served database for more rounds.
pub fn kill(args: &[String]) -> Result<(), Failed> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut rounds, mut seed, mut atoll) = (50, now, None);
    let mut words = args.iter();
    while let Some(option) = words.next() {
        let usage = |what: &str| Failed::Usage(format!("kill serve {option}: {what}"));
        let value = words.next().ok_or_else(|| usage("a value is missing"))?;
        let number = || value.parse::<u64>().map_err(|_| usage("expected a number"));
        match option.as_str() {
            "--rounds" => rounds = number()?,
            "--seed" => seed = number()?,
            "--atoll" => atoll = Some(value.clone()),
            _ => return Err(usage("expected [--rounds N] [--seed S] [--atoll FILE]")),
        }
    }
    let atoll = match atoll {
        Some(atoll) => PathBuf::from(atoll),
        None => {
            cargo(&["build", "--release", "--package", "atoll"], &[])?;
            root().join("target/release/atoll")
        }
    };
    let (rounds, seed) = (rounds.to_string(), seed.to_string());
    let program = std::path::absolute(&atoll).unwrap_or(atoll);
    let program = program.to_string_lossy();
    cargo(
        &["test", "--package", "atoll", "--test", "serve", "kills::", "--", "--nocapture"],
        &[("ATOLL_PROGRAM", &program), ("KILL_ROUNDS", &rounds), ("KILL_SEED", &seed)],
    )
}
