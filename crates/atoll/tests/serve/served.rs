//! A server of the built binary, on a database of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// On a loaded machine a server starts slowly; nothing else takes long.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Served {
    /// With the database in `db`, and the log of each run of the server in `log`.
    pub dir: TempDir,
    options: Vec<String>,
    child: Child,
    pub port: u16,
}

impl Served {
    /// Starts a server with these options on a new database.
    pub fn start(options: &[&str]) -> Served {
        // The Unix sockets of a deployment are below it, so its path must be short.
        Served::start_in(tempfile::Builder::new().prefix("s-").tempdir().unwrap(), options)
    }

    /// As [`Served::start`], with the database in this directory.
    pub fn start_in(dir: TempDir, options: &[&str]) -> Served {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let (child, port) = launch(dir.path(), 0, &options);
        Served { dir, options, child, port }
    }

    /// Starts a server on a copy of this one's database, with other options. This one must not run.
    pub fn start_copy(&self, options: &[&str]) -> Served {
        let dir = tempfile::Builder::new().prefix("s-").tempdir().unwrap();
        let (from, to) = (self.dir.path().join("db"), dir.path().join("db"));
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
        Served::start_in(dir, options)
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What the server has said so far on standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn config(&self) -> String {
        format!("host=127.0.0.1 port={} user=atoll dbname=test", self.port)
    }

    pub async fn client(&self) -> Client {
        connect(&self.config()).await.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// The processes of the instances.
    pub fn instances(&self) -> Vec<u32> {
        let parent = self.child.id().to_string();
        let is_own = |pid: &u32| {
            // State and parent follow the name, which ends with the last parenthesis.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(parent.as_str()))
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_own).collect()
    }

    /// Ends the server as a crash does, and waits until its instances have ended too.
    pub fn kill(&mut self) {
        let instances = self.instances();
        self.signal(rustix::process::Signal::KILL);
        self.child.wait().unwrap();
        let begun = Instant::now();
        while instances.iter().any(|pid| Path::new(&format!("/proc/{pid}/exe")).exists()) {
            assert!(begun.elapsed() < PATIENCE, "instances outlive their server");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server as Ctrl-C does; it must end in order.
    pub fn stop(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        self.await_end();
    }

    /// Waits for a server that was told to end.
    pub fn await_end(&mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        signal_to(self.child.id(), signal);
    }

    /// Starts the server again on its database, at the same port.
    pub fn start_again(&mut self) {
        (self.child, self.port) = launch(self.dir.path(), self.port, &self.options);
    }

    /// The environment in which clients find the server.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", "127.0.0.1".into()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", "atoll".into()),
            ("PGDATABASE", "test".into()),
        ]
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have been ended already. Its instances end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the log of the server:\n{}", self.log());
        }
    }
}

pub fn signal_to(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub async fn connect(config: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
    // Its end is seen by the client.
    tokio::spawn(connection);
    Ok(client)
}

/// The built binary, or the one that a campaign names.
pub fn program() -> std::ffi::OsString {
    std::env::var_os("ATOLL_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_atoll").into())
}

/// Starts a server and waits until it is ready; port 0 stands for any free one.
fn launch(dir: &Path, port: u16, options: &[String]) -> (Child, u16) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    let mut child = Command::new(program())
        .args(["serve", "--data"])
        .arg(dir.join("db"))
        .args(["--workers", "2", "--memory", "64M", "--listen", &format!("127.0.0.1:{port}")])
        .args(options)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut said = String::new();
    let begun = Instant::now();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    while !said.starts_with("ready at ") {
        said.clear();
        let read = output.read_line(&mut said).unwrap();
        let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(read > 0 && begun.elapsed() < PATIENCE, "the server does not start: {}", log());
    }
    let address = said.split([' ', ';']).nth(2).unwrap();
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    (child, port.unwrap_or_else(|| panic!("no port in: {said}")))
}
