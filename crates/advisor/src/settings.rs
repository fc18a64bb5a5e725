//! The islands of a plan as settings of other database servers: an instance for each island, bound
//! to its cores and its memory by systemd, and the same as a `numactl` line.
//!
//! The text is a sequence of files. A line `### PATH` begins each; the rest are lines of that file.

use std::fmt::{self, Write};
use std::str::FromStr;

/// The cores and the memory of one island.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Isle {
    /// Numbers of the operating system, ascending; never empty.
    pub cpus: Vec<u32>,
    /// NUMA nodes of these CPUs, ascending; empty if the machine names none.
    pub nodes: Vec<u32>,
}

/// A database server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    Postgres,
    Mysql,
    Valkey,
}

impl Server {
    pub const ALL: [Server; 3] = [Server::Postgres, Server::Mysql, Server::Valkey];

    pub fn name(self) -> &'static str {
        match self {
            Server::Postgres => "postgres",
            Server::Mysql => "mysql",
            Server::Valkey => "valkey",
        }
    }

    /// The first instance's port; the others follow.
    fn port(self) -> usize {
        match self {
            Server::Postgres => 5432,
            Server::Mysql => 3306,
            Server::Valkey => 6379,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        let known = Server::ALL.into_iter().find(|server| server.name() == text);
        known.ok_or_else(|| format!("{text:?}: expected postgres, mysql or valkey"))
    }
}

/// The settings of `server` for these islands. `memory_bytes` is the machine's memory, of which
/// each island gets its share by cores; `None` leaves the sizes of caches to the administrator.
pub fn settings(server: Server, isles: &[Isle], memory_bytes: Option<u64>) -> String {
    let mut out = String::new();
    let cores: usize = isles.iter().map(|isle| isle.cpus.len()).sum();
    for (number, isle) in isles.iter().enumerate() {
        let share = memory_bytes.map(|bytes| bytes / cores as u64 * isle.cpus.len() as u64);
        let port = server.port() + number;
        let _ = match server {
            Server::Postgres => postgres(&mut out, number, port, isle, share),
            Server::Mysql => mysql(&mut out, number, port, isle, share),
            Server::Valkey => valkey(&mut out, number, port, isle, share),
        };
    }
    out
}

/// PostgreSQL's manual proposes a quarter of the memory for `shared_buffers`, since it also uses
/// the system's cache.
fn postgres(out: &mut String, n: usize, port: usize, isle: &Isle, memory: Option<u64>) -> fmt::Result {
    let data = format!("/var/lib/postgresql/island-{n}");
    let start = format!("/usr/bin/postgres -D {data}");
    unit(out, &format!("postgresql-island-{n}"), "postgres", &start, isle)?;
    writeln!(out, "### {data}/postgresql.auto.conf")?;
    writeln!(out, "port = {port}")?;
    if let Some(memory) = memory {
        writeln!(out, "shared_buffers = '{}MB'", mib(memory / 4))?;
        writeln!(out, "effective_cache_size = '{}MB'", mib(memory / 4 * 3))?;
    }
    writeln!(out, "max_worker_processes = {}", isle.cpus.len())?;
    writeln!(out, "max_parallel_workers = {}\n", isle.cpus.len())
}

/// InnoDB reads past the system's cache, so its pool takes most of the memory: MySQL's manual
/// proposes 50 to 75 %.
fn mysql(out: &mut String, n: usize, port: usize, isle: &Isle, memory: Option<u64>) -> fmt::Result {
    let config = format!("/etc/mysql/island-{n}.cnf");
    let start = format!("/usr/sbin/mysqld --defaults-file={config}");
    unit(out, &format!("mysql-island-{n}"), "mysql", &start, isle)?;
    writeln!(out, "### {config}\n[mysqld]")?;
    writeln!(out, "port = {port}\nserver_id = {}\nmysqlx = 0", n + 1)?;
    writeln!(out, "datadir = /var/lib/mysql-island-{n}")?;
    writeln!(out, "socket = /run/mysqld/island-{n}.sock")?;
    writeln!(out, "pid_file = /run/mysqld/island-{n}.pid")?;
    if let Some(memory) = memory {
        writeln!(out, "innodb_buffer_pool_size = {}M", mib(memory / 10 * 7))?;
    }
    // The units bind the memory; interleaving would spread it again.
    writeln!(out, "innodb_numa_interleave = OFF")?;
    writeln!(out, "innodb_read_io_threads = {0}\ninnodb_write_io_threads = {0}\n", isle.cpus.len().min(64))
}

/// Valkey runs commands in one thread; further cores serve its sockets. Snapshots copy pages, so it
/// gets half of the memory.
fn valkey(out: &mut String, n: usize, port: usize, isle: &Isle, memory: Option<u64>) -> fmt::Result {
    let config = format!("/etc/valkey/island-{n}.conf");
    let start = format!("/usr/bin/valkey-server {config} --supervised systemd --daemonize no");
    unit(out, &format!("valkey-island-{n}"), "valkey", &start, isle)?;
    writeln!(out, "### {config}\nport {port}\ndir /var/lib/valkey/island-{n}")?;
    if let Some(memory) = memory {
        writeln!(out, "maxmemory {}mb", mib(memory / 2))?;
    }
    writeln!(out, "io-threads {}\nserver-cpulist {}\n", isle.cpus.len(), list(&isle.cpus, ","))
}

fn unit(out: &mut String, name: &str, user: &str, start: &str, isle: &Isle) -> fmt::Result {
    writeln!(
        out,
        "### /etc/systemd/system/{name}.service\n[Unit]\nDescription={name}\nAfter=network.target"
    )?;
    writeln!(out, "\n[Service]\nType=notify\nUser={user}\nExecStart={start}")?;
    writeln!(out, "AllowedCPUs={}", list(&isle.cpus, " "))?;
    if !isle.nodes.is_empty() {
        writeln!(out, "AllowedMemoryNodes={}", list(&isle.nodes, " "))?;
    }
    writeln!(out, "\n[Install]\nWantedBy=multi-user.target")?;
    let memory = match isle.nodes.is_empty() {
        true => String::new(),
        false => format!(" --membind={}", list(&isle.nodes, ",")),
    };
    writeln!(out, "# without systemd: numactl --physcpubind={}{memory} {start}\n", list(&isle.cpus, ","))
}

/// `0-3,8` with the given separator.
fn list(numbers: &[u32], separator: &str) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let run = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(separator)
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isles() -> Vec<Isle> {
        vec![Isle { cpus: vec![0, 1, 2, 8], nodes: vec![0] }, Isle { cpus: vec![3, 4, 5, 9], nodes: vec![1] }]
    }

    /// The whole text for two islands of a machine with 16 GiB; a change must be meant.
    #[test]
    fn the_text_for_each_server_is_the_reviewed_one() {
        for server in Server::ALL {
            let path = format!("{}/tests/settings/{server}.txt", env!("CARGO_MANIFEST_DIR"));
            let text = settings(server, &isles(), Some(16 << 30));
            if std::env::var_os("ADVISOR_BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(text, reviewed, "{path}");
        }
    }

    #[test]
    fn unknown_memory_and_nodes_are_left_out() {
        let one = [Isle { cpus: vec![5], nodes: vec![] }];
        for server in Server::ALL {
            let text = settings(server, &one, None);
            assert!(text.contains("AllowedCPUs=5\n") && text.contains("--physcpubind=5 /usr"), "{text}");
            assert!(!text.contains("MemoryNodes") && !text.contains("membind"), "{text}");
            assert!(["shared_buffers", "buffer_pool", "maxmemory"].iter().all(|w| !text.contains(w)));
        }
    }

    #[test]
    fn each_instance_has_a_port_and_cores_of_its_own() {
        let text = settings(Server::Postgres, &isles(), None);
        assert!(text.contains("port = 5432") && text.contains("port = 5433"));
        assert!(text.contains("AllowedCPUs=0-2 8") && text.contains("AllowedCPUs=3-5 9"));
        assert!("oracle".parse::<Server>().unwrap_err().contains("valkey"));
    }
}
