//! The status of a server over HTTP, for programs and for people.
//!
//! ```text
//!   GET /             a page, which asks for the values each second
//!   GET /status.json  the values
//!   GET /metrics      counts in the text format of Prometheus
//! ```
//!
//! One request a connection. There is no password: the values have no data of tables, but the names
//! of tables that are waited for.

use crate::counters::Latency;
use crate::engine::Engine;
use crate::shared::{Shared, stopped};
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What is to be told besides the server's own counts.
#[derive(Clone, Debug)]
pub struct Status {
    pub listen: SocketAddr,
    pub about: About,
    pub recent: Recent,
}

/// The deployment behind the server.
#[derive(Clone, Debug)]
pub struct About {
    pub version: String,
    pub design: String,
    pub durability: String,
    /// In order of their numbers.
    pub islands: Arc<[Island]>,
}

/// One instance.
#[derive(Debug)]
pub struct Island {
    pub workers: usize,
    /// The slots of rows that it owns: the first and the last one.
    pub slots: (u64, u64),
    /// How often it has died and was started again.
    pub restarts: AtomicU64,
}

/// The last lines of the log.
#[derive(Clone, Default, Debug)]
pub struct Recent(Arc<Mutex<VecDeque<String>>>);

/// Lines of the log that are kept, and bytes of each.
const LINES: usize = 200;
const LINE_BYTES: usize = 1000;

impl Recent {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }
}

/// One event of the log a call.
impl io::Write for Recent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = String::from_utf8_lossy(bytes).trim_end().to_owned();
        line.truncate(line.floor_char_boundary(LINE_BYTES));
        let mut lines = self.lock();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PAGE: &str = include_str!("status.html");
/// Connections at a time, and the longest wait for each part of one.
const CONNECTIONS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// A statement that runs for longer is in the list of those under way.
const LONG: Duration = Duration::from_millis(100);
/// Statements in the list at most: the longest ones.
const LISTED: usize = 50;

/// Answers requests until the server stops.
pub(crate) async fn serve<E: Engine>(listener: TcpListener, status: Status, shared: Arc<Shared<E>>) {
    let began = Instant::now();
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let stops = stopped(shared.stopping.clone());
    tokio::pin!(stops);
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = &mut stops => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (status, shared) = (status.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let answered = answer(stream, began, &status, &shared);
            // A reader that is too slow, or has gone, gets no answer.
            let _ = tokio::time::timeout(2 * PATIENCE, answered).await;
            drop(permit);
        });
    }
}

async fn answer<E: Engine>(
    mut stream: TcpStream,
    began: Instant,
    status: &Status,
    shared: &Shared<E>,
) -> io::Result<()> {
    let request = tokio::time::timeout(PATIENCE, head(&mut stream)).await??;
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (code, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/") => ("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
        ("GET" | "HEAD", "/status.json") => {
            ("200 OK", "application/json", values(began, status, shared).to_string())
        }
        ("GET" | "HEAD", "/metrics") => ("200 OK", "text/plain; version=0.0.4", metrics(status, shared)),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", "expected /, /status.json or /metrics\n".into())
        }
        _ => ("405 Method Not Allowed", "text/plain", "expected GET\n".into()),
    };
    let length = body.len();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  img-src data:";
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// A request up to its empty line.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() > MOST_REQUEST_BYTES || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn metrics<E: Engine>(status: &Status, shared: &Shared<E>) -> String {
    let mut text = shared.counters.text();
    let activities = shared.activities();
    let active = activities.iter().filter(|(_, runs_for)| runs_for.is_some()).count();
    for (name, help, value) in [
        ("sessions", "Connected clients.", activities.len()),
        ("sessions_active", "Clients with a statement under way.", active),
    ] {
        text += &format!("# HELP atoll_{name} {help}\n# TYPE atoll_{name} gauge\natoll_{name} {value}\n");
    }
    let requests = shared.engine.requests();
    let restarts = status.about.islands.iter().map(|island| island.restarts.load(Ordering::Relaxed));
    for (name, help, counts) in [
        ("island_requests", "Requests of clients, by the instance where they began.", requests),
        ("island_restarts", "Instances that died and were started again.", restarts.collect()),
    ] {
        text += &format!("# HELP atoll_{name}_total {help}\n# TYPE atoll_{name}_total counter\n");
        for (island, count) in counts.iter().enumerate() {
            text += &format!("atoll_{name}_total{{island=\"{island}\"}} {count}\n");
        }
    }
    text
}

fn values<E: Engine>(began: Instant, status: &Status, shared: &Shared<E>) -> serde_json::Value {
    let activities = shared.activities();
    let mut long: Vec<_> = activities
        .iter()
        .filter_map(|(session, runs_for)| Some((*session, (*runs_for)?)))
        .filter(|(_, runs_for)| *runs_for >= LONG)
        .collect();
    long.sort_by_key(|(_, runs_for)| std::cmp::Reverse(*runs_for));
    long.truncate(LISTED);
    let requests = shared.engine.requests();
    let islands = status.about.islands.iter().enumerate().map(|(number, island)| {
        json!({
            "number": number,
            "workers": island.workers,
            "slots": [island.slots.0, island.slots.1],
            "restarts": island.restarts.load(Ordering::Relaxed),
            "requests": requests.get(number).copied().unwrap_or(0),
        })
    });
    let catalog = shared.catalog();
    let tables = shared.guards.waits().into_iter().map(|(oid, waiting)| {
        let name = catalog.tables.get(&oid).map_or_else(|| oid.0.to_string(), |table| table.name.clone());
        json!({ "table": name, "waiting": waiting })
    });
    let counters = shared.counters.totals().map(|(name, _, value)| (name.to_owned(), value.into()));
    let states = shared.counters.states();
    let states = states.iter().map(|(state, count)| (state.as_str().to_owned(), (*count).into()));
    json!({
        "version": status.about.version,
        "design": status.about.design,
        "durability": status.about.durability,
        "uptime_s": began.elapsed().as_secs_f64(),
        "islands": islands.collect::<Vec<_>>(),
        "sessions": activities.len(),
        "active": activities.iter().filter(|(_, runs_for)| runs_for.is_some()).count(),
        "counters": serde_json::Map::from_iter(counters),
        "states": states.collect::<serde_json::Map<_, _>>(),
        "latency": { "bounds_us": Latency::bounds_us(), "counts": shared.counters.latency.counts() },
        "long": long.iter().map(|(session, time)| json!({ "session": session, "ms": time.as_millis() as u64 }))
            .collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "log": status.recent.lines(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines_of_the_log_are_kept() {
        let mut recent = Recent::default();
        for i in 0..LINES + 5 {
            writeln!(&mut recent, "event {i}").unwrap();
        }
        recent.write_all("ü".repeat(LINE_BYTES).as_bytes()).unwrap();
        let lines = recent.lines();
        assert_eq!(lines.len(), LINES);
        assert!(lines.last().unwrap().len() <= LINE_BYTES);
    }
}
