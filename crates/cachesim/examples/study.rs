//! The rows of a study as lines of JSON, without the engines: two builds of this crate can be
//! compared by their rows and their speed.
//!
//! `cargo run --release -p cachesim --example study TRACE chapter-6|chapter-7|chapter-8|SCHEDULER
//! [TRANSACTIONS [WARM]]`; a scheduler runs on 16 cores, and its speed goes to standard error.

use cachesim::Course;
use cachesim::machine::Machine;
use cachesim::run::settings::{Scheduler, Settings};
use cachesim::study::{Row, chapter_6, chapter_7, chapter_8, one_run};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;
use trace::Trace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, study, numbers @ ..] = words.as_slice() else {
        return Err("expected a trace and a study".into());
    };
    let mut trace = Trace::read(Path::new(path))?;
    if let Some(most) = numbers.first() {
        trace.transactions.truncate(most.parse()?);
    }
    let given: Option<usize> = numbers.get(1).map(|warm| warm.parse()).transpose()?;
    let half = trace.transactions.len() / 2;
    let (chip, course) = (Machine::built_in("zesto")?, Course::default());
    let settings = Settings::default();
    let begun = Instant::now();
    let rows = match study.as_str() {
        "chapter-6" => {
            chapter_6(&trace, &Machine::built_in("xeon-e5-2660")?, given.unwrap_or(half), &course)?
        }
        "chapter-7" => chapter_7(&trace, &chip, &settings, given.unwrap_or(0), &course)?,
        "chapter-8" => chapter_8(&trace, &chip, &settings, given.unwrap_or(half), &course)?,
        name => {
            let scheduler = Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name);
            let scheduler = scheduler.ok_or("expected chapter-6, -7, -8 or a scheduler")?;
            one_run(&trace, &chip, &Settings { scheduler, ..settings }, given.unwrap_or(0), &course)?
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    let instructions: u64 = trace.transactions.iter().map(|t| t.counts.instructions).sum();
    let each = instructions as f64 / seconds / 1e6;
    eprintln!("{seconds:.2} s; one run over the trace in this time: {each:.1} M instructions a second");
    rows.into_iter().for_each(|row: Row| println!("{}", Value::Object(row)));
    Ok(())
}
