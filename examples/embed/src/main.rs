//! A small bank inside one program: a table, a procedure in Rust, several threads, a snapshot, a
//! backup.
//!
//! ```text
//! cargo run                 two islands, as threads of this process
//! cargo run -- processes    the same as child processes, of which one is killed meanwhile
//! cargo run -- crash        the program is killed, and what it was told as committed is there
//! ```

mod bank;

use atoll::{Database, Host, Options, Procedures};
use bank::{ACCOUNTS, OPENING, Transfer};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Threads that transfer at the same time.
const TELLERS: i64 = 3;
/// For how long an instance may be away.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let procedures = bank::procedures();
    // Does not return in a process that was started to host an instance.
    atoll::host_instance(&procedures)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(&procedures, Host::Threads),
        ["processes"] => demonstrate(&procedures, Host::Processes),
        ["crash"] => crash(&procedures),
        ["work", dir] => work(&procedures, Path::new(dir)),
        _ => Err("expected no argument, or processes, or crash".into()),
    }
}

fn options(procedures: &Procedures, host: Host) -> Options {
    Options::new().islands(2).workers(2).host(host).procedures(procedures)
}

fn demonstrate(procedures: &Procedures, host: Host) -> Result<(), Box<dyn Error>> {
    let dir = Temporary::new()?;
    let (path, copy) = (dir.0.join("bank"), dir.0.join("bank.tar"));
    let db = options(procedures, host).open(&path)?;
    bank::create(&db)?;

    let begun = Instant::now();
    let done = AtomicI64::new(0);
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<(), atoll::Error> {
        let (db, stops, done) = (&db, &stops, &done);
        let tellers: Vec<_> = (0..TELLERS).map(|n| scope.spawn(move || tell(db, n, stops, done))).collect();
        std::thread::sleep(Duration::from_millis(300));
        if let Some(pid) = db.pids().last() {
            // The database starts the instance again; transfers meanwhile get an error, or wait.
            let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
            println!("killed instance 1: {killed:?}");
            std::thread::sleep(Duration::from_secs(2));
        }
        let total = total_at_last(db);
        // Before any return: the scope ends only when the tellers have ended.
        stops.store(true, Ordering::Release);
        tellers.into_iter().try_for_each(|teller| teller.join().unwrap_or(Ok(())))?;
        let total = total?;
        println!("in the middle of it the accounts have {total} together");
        assert_eq!(total, ACCOUNTS * OPENING);
        Ok(())
    })?;
    let (done, seconds) = (done.into_inner(), begun.elapsed().as_secs_f64());
    println!("{done} transfers of {TELLERS} threads in {seconds:.1} s");
    db.close()?;

    atoll::back_up(&path, &copy)?;
    atoll::restore(&copy, dir.0.join("restored"))?;
    let restored = Database::open(dir.0.join("restored"))?;
    assert_eq!(bank::total(&restored)?, ACCOUNTS * OPENING);
    println!("the backup has the same total");
    Ok(restored.close()?)
}

/// The sum of all accounts, once each instance answers: one that was killed is being started again.
fn total_at_last(db: &Database) -> Result<i64, atoll::Error> {
    let begun = Instant::now();
    loop {
        match bank::total(db) {
            Err(error) if is_passing(&error) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            total => return total,
        }
    }
}

/// An instance is away, or the transaction has met another one.
fn is_passing(error: &atoll::Error) -> bool {
    matches!(error.sqlstate(), Some("08006" | "08007" | "40001" | "40P01"))
}

/// Transfers until it is stopped.
fn tell(db: &Database, teller: i64, stops: &AtomicBool, done: &AtomicI64) -> Result<(), atoll::Error> {
    let mut number = teller;
    while !stops.load(Ordering::Acquire) {
        number += 7;
        match db.call(&Transfer::number(number)) {
            Ok(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
            // Overdrawn, or it can be tried again.
            Err(error) if error.sqlstate() == Some("23514") || is_passing(&error) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Runs this program again, kills it at work, and looks for each transfer that it had told of.
fn crash(procedures: &Procedures) -> Result<(), Box<dyn Error>> {
    let dir = Temporary::new()?;
    let path = dir.0.join("bank");
    let db = options(procedures, Host::Threads).open(&path)?;
    bank::create(&db)?;
    db.close()?;
    let mut told = 0;
    for life in 0..3 {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg("work").arg(&path).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        for line in lines.take(20 + 30 * life) {
            told = line?.parse()?;
        }
        child.kill()?;
        child.wait()?;
    }
    let db = options(procedures, Host::Threads).open(&path)?;
    let booked: i64 = db.query_one("SELECT count(*) FROM booking", ())?.at(0)?;
    println!("{told} transfers were told of before the last kill -9, {booked} are booked");
    // One more may have committed before it could be told.
    assert!((told..=told + 1).contains(&booked));
    assert_eq!(bank::total(&db)?, ACCOUNTS * OPENING);
    Ok(db.close()?)
}

/// Transfers, and prints after each how many are booked.
fn work(procedures: &Procedures, path: &Path) -> Result<(), Box<dyn Error>> {
    let db = options(procedures, Host::Threads).open(path)?;
    let mut number: i64 = db.query_one("SELECT count(*) FROM booking", ())?.at(0)?;
    loop {
        db.call(&Transfer::number(number))?;
        number += 1;
        writeln!(std::io::stdout(), "{number}")?;
    }
}

/// A directory that is removed at the end.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new() -> std::io::Result<Temporary> {
        let path = std::env::temp_dir().join(format!("atoll-embed-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left there harms nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
