//! A PostgreSQL server started by this process. A transaction is one call of a stored procedure,
//! serialisable.
//!
//! If this process runs as root, the server's directory belongs to the user `postgres`, because the
//! server refuses to run as root. The server listens only on a unix socket in that directory.
//! Unsynced commits are `synchronous_commit = off`. The server's CPU time belongs to other
//! processes and is not counted.

use crate::bench::Served as Bench;
use crate::contestant::{Commits, Contestant, Rate, Work};
use crate::fault::PeerFault;
use crate::peer::Intent;
use crate::threads::{Client, drive};
use postgres::error::SqlState;
use postgres::{Config, NoTls, Statement};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use txn::{Generator, Workload};

pub(crate) fn fault(what: impl ToString) -> PeerFault {
    PeerFault::Engine { engine: "postgres", what: what.to_string() }
}

pub(crate) fn refused(error: postgres::Error) -> PeerFault {
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => PeerFault::Conflict,
        _ => fault(error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// A running server. It is stopped and removed when dropped.
pub(crate) struct Server {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    dir: TempDir,
}

/// The directory of commands of the newest installed version.
fn installed() -> Result<PathBuf, PeerFault> {
    let version = |path: &Path| path.file_name().and_then(|n| n.to_str()?.parse::<u32>().ok());
    let all = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = all.filter_map(|entry| Some((version(&entry.path())?, entry.path()))).max();
    newest
        .map(|(_, path)| path.join("bin"))
        .ok_or_else(|| fault("not installed: expected Debian's package postgresql"))
}

/// The ids of the user and group `postgres`, if this process runs as root.
fn user(of: &Path) -> Result<Option<(u32, u32)>, PeerFault> {
    if std::fs::metadata(of).map_err(PeerFault::io(of))?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = users.lines().find(|l| l.starts_with("postgres:")).map(|l| l.split(':').collect::<Vec<_>>());
    let id = |at: usize| fields.as_ref()?.get(at)?.parse().ok();
    id(2)
        .zip(id(3))
        .map(Some)
        .ok_or_else(|| fault("the server needs the user 'postgres', which does not exist"))
}

impl Server {
    /// Creates a database cluster in the nearest directory around `near` that another user may
    /// enter, and starts it.
    fn start(near: &Path, commits: Commits) -> Result<Server, PeerFault> {
        Server::start_on(near, commits, None)
    }

    /// As [`Server::start`], with all its processes on one core.
    pub fn start_on(near: &Path, commits: Commits, cpu: Option<u32>) -> Result<Server, PeerFault> {
        let enters = |p: &&&Path| std::fs::metadata(p).is_ok_and(|m| m.mode() & 0o001 != 0);
        let around: Vec<&Path> = near.ancestors().collect();
        let parent = around.iter().rev().take_while(enters).last().copied().unwrap_or(Path::new("/"));
        let dir = tempfile::Builder::new().prefix("atoll-postgres-").tempdir_in(parent);
        let dir = dir.map_err(PeerFault::io(parent))?;
        let server = Server { bin: installed()?, user: user(dir.path())?, dir };
        if let Some((uid, gid)) = server.user {
            let path = server.dir.path();
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(PeerFault::io(path))?;
        }
        let data = server.data();
        server.command(
            "initdb",
            &["-D", &data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale"],
        )?;
        let commit = if commits == Commits::Synced { "on" } else { "off" };
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c synchronous_commit={commit} -c shared_buffers=1GB \
             -c max_connections=100 -c default_transaction_isolation=serializable -c max_wal_size=4GB",
            server.dir.path().display()
        );
        let log = format!("{}/log", server.dir.path().display());
        let start = ["-D", &data, "-l", &log, "-o", &options, "-w", "start"];
        match cpu.map(|cpu| cpu.to_string()) {
            None => server.command("pg_ctl", &start)?,
            Some(cpu) => {
                let program = server.bin.join("pg_ctl").display().to_string();
                server.command("/usr/bin/taskset", &[&["-c", &cpu, &program][..], &start].concat())?;
            }
        }
        Ok(server)
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Result<(), PeerFault> {
        let mut command = Command::new(self.bin.join(name));
        command.args(arguments).current_dir(self.dir.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        // The server inherits the output of `pg_ctl`: a pipe would stay open as long as the server
        // runs.
        let log = self.dir.path().join("commands");
        let file = std::fs::File::create(&log).map_err(PeerFault::io(&log))?;
        let errors = file.try_clone().map_err(PeerFault::io(&log))?;
        let status = command.stdin(std::process::Stdio::null()).stdout(file).stderr(errors).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(fault(std::fs::read_to_string(&log).unwrap_or_default().trim())),
            Err(error) => Err(fault(format!("{name}: {error}"))),
        }
    }

    pub fn connect(&self) -> Result<postgres::Client, PeerFault> {
        Config::new()
            .host_path(self.dir.path())
            .user("postgres")
            .dbname("postgres")
            .connect(NoTls)
            .map_err(refused)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are ignored, because the server's data is thrown away.
        let _ = self.command("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

/// A workload on the server.
pub struct Served<B> {
    name: &'static str,
    bench: B,
    server: Server,
    updates: u64,
}

struct Caller<'a, B: Bench> {
    client: postgres::Client,
    call: Statement,
    bench: &'a B,
    requests: <B::W as Workload>::Generator,
    numbers: Vec<i64>,
}

impl<B: Bench> Client for Caller<'_, B> {
    fn draw(&mut self) {
        self.numbers = self.bench.numbers(&self.requests.next());
    }

    fn attempt(&mut self) -> Result<(), PeerFault> {
        self.client.query_one(&self.call, &[&self.numbers]).map(drop).map_err(refused)
    }
}

impl<B: Bench> Served<B> {
    /// # Errors
    /// The server is not installed, does not start, or refuses a statement.
    pub fn load(name: &'static str, bench: B, commits: Commits, near: &Path) -> Result<Self, PeerFault> {
        let server = Server::start(near, commits)?;
        let mut client = server.connect()?;
        for statement in bench.setup() {
            client.batch_execute(&statement).map_err(refused)?;
        }
        client.batch_execute("VACUUM ANALYZE").map_err(refused)?;
        drop(client);
        Ok(Served { name, bench, server, updates: 0 })
    }
}

impl<B: Bench> Contestant for Served<B> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        let workload = self.bench.workload(work.op)?;
        let intent = self.bench.intent(work.op);
        let call = if intent == Intent::Writes { "SELECT run_update($1)" } else { "SELECT run_read($1)" };
        let caller = |number| {
            let mut client = self.server.connect()?;
            let call = client.prepare(call).map_err(refused)?;
            let requests = workload.generator(work.stream(number), 0..workload.sites());
            Ok(Caller { client, call, bench: &self.bench, requests, numbers: Vec::new() })
        };
        // The server's processes do the work, and the kernel places them, so the client threads are
        // not pinned.
        let (rate, committed) = drive(self.name, work, &[], caller)?;
        if intent == Intent::Writes {
            self.updates += committed;
        }
        Ok(Rate { per_cpu_second: 0.0, ..rate })
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        let row = self.server.connect()?.query_one(&self.bench.check(), &[]).map_err(refused)?;
        let (updates, broken): (i64, i64) = (row.get(0), row.get(1));
        if updates == self.updates as i64 && broken == 0 {
            return Ok(());
        }
        let violation = format!("{updates} updates, expected {}; {broken} rules broken", self.updates);
        Err(PeerFault::Wrong { name: self.name.into(), violations: vec![violation] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench as _, Table};
    use workload::micro::Op;

    #[test]
    fn the_functions_of_the_server_say_why_they_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let near = dir.path().join("a/b");
        std::fs::create_dir_all(&near).unwrap();
        let table = Table { dataset: 10, rows: 2, sites: 1 };
        assert_eq!(table.workload(Op::Read).unwrap().sites(), 1);
        let served = match installed() {
            Ok(_) => Served::load("postgres", table, Commits::Unsynced, &near).unwrap(),
            Err(why) => return assert!(why.to_string().contains("postgresql")),
        };
        let error =
            served.server.connect().unwrap().batch_execute("SELECT nonsense").map_err(refused).unwrap_err();
        assert!(error.to_string().contains("nonsense"), "{error}");
    }
}
