//! Text that users type and write: options, machines, the papers' claims.
//!
//! An input is text. Bytes that are not valid text are replaced. Where one target has several
//! readers, the first byte selects one.

use crate::{Pace, Target};
use claims::Experiment;
use claims::expression::{Condition, Expression, Names};
use claims::judge::Evaluators;
use claims::ledger::Ledger;
use std::fmt::Display;
use std::str::FromStr;
use topology::{IslandCount, LatencyMatrix, Machine, Placement};
use traffic::{ArrivalStream, Arrivals, Rate};

/// Values of options on the command line.
pub const OPTIONS: Target = Target { name: "options", seeds: options, run: option, pace: Pace::Brisk };
/// Machines: synthetic strings, hwloc XML, latency files.
pub const MACHINE: Target = Target { name: "machine", seeds: machines, run: machine, pace: Pace::Brisk };
/// The ledger, experiments, evaluators and expressions of the claims.
pub const CLAIMS: Target = Target { name: "claims", seeds: claims, run: claim, pace: Pace::Brisk };

pub fn with_head(head: u8, text: &str) -> Vec<u8> {
    [&[head], text.as_bytes()].concat()
}

pub fn split(bytes: &[u8]) -> (u8, String) {
    let (head, rest) = bytes.split_first().unwrap_or((&0, &[]));
    (*head, String::from_utf8_lossy(rest).into_owned())
}

/// Checks that a value that was read can be printed, and that the printed form is read as a value
/// that prints alike.
fn shown<T: FromStr + Display>(text: &str) -> Option<T> {
    let value = text.parse::<T>().ok()?;
    let again = value.to_string();
    match again.parse::<T>() {
        Ok(same) => assert_eq!(same.to_string(), again, "{text:?} is shown as {again:?}"),
        Err(_) => panic!("{text:?} is shown as {again:?}, which is refused"),
    }
    Some(value)
}

/// Values that options take, in the order of the readers in [`option`].
const OPTIONS_TYPED: &[&str] = &[
    "1000..50000/30s",
    "1.5m",
    "50/30@40",
    "50% of requests to 30% of keys from 40%",
    "poisson",
    "exponential",
    "spread",
    "auto",
    "shm:/a",
    "25:1000",
    "2s",
    "sync",
];

fn options() -> Vec<Vec<u8>> {
    let heads = 0..OPTIONS_TYPED.len() as u8;
    heads.flat_map(|head| OPTIONS_TYPED.iter().map(move |text| with_head(head, text))).collect()
}

fn option(bytes: &[u8]) {
    let (head, text) = split(bytes);
    match head % 13 {
        0 => drop(shown::<Rate>(&text).map(rate)),
        1 => {
            if let Ok(time) = traffic::parse_time(&text) {
                assert!(time.as_millis() >= 1 && time.as_secs() <= 86_400);
            }
        }
        2 => drop(shown::<workload::Hot>(&text).map(hot)),
        3 => drop(text.parse::<Arrivals>()),
        4 => drop(text.parse::<traffic::Think>()),
        5 => drop(text.parse::<Placement>()),
        6 => drop(text.parse::<IslandCount>()),
        7 => drop(text.parse::<exec::DesignKind>()),
        8 => drop(text.parse::<channel::Address>()),
        9 => drop(shown::<locks::Escalation>(&text)),
        10 => drop(text.parse::<wal::Durability>()),
        11 => drop(text.parse::<channel::ipc::Mechanism>()),
        _ => drop(text.parse::<channel::ipc::Waiting>()),
    }
}

/// A rate that was accepted is one at which requests can arrive.
fn rate(rate: Rate) {
    for seconds in [0.0, 0.5, 3600.0, 1e9] {
        let at = rate.at(seconds);
        assert!(at > 0.0 && at.is_finite(), "{rate} after {seconds} s is {at}");
    }
    let between = rate.requests_between(0.25, 100.0);
    assert!(between.is_finite() && between >= 0.0);
    for arrivals in [Arrivals::Poisson, Arrivals::Uniform] {
        let mut stream = ArrivalStream::new(arrivals, rate, 1, 0.5, 1000);
        let mut last = 0;
        for n in 0..20 {
            let due = stream.take();
            assert!(due >= last, "{rate}: arrival {n} is due before the one before it");
            last = due;
        }
        stream.change(rate.scaled(0.5), 1 << 31);
        let _ = (stream.take(), rate.at_rest());
    }
}

fn hot(hot: workload::Hot) {
    for keys in [1, 2, 7, 1 << 40] {
        let range = hot.range(keys);
        assert!(range.start < range.end && range.end <= keys, "{hot:?} of {keys}: {range:?}");
    }
}

/// A few CPUs in two packages.
const XML: &str = r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0"><info name="CPUModel" value="x"/>
<object type="Package" os_index="0"><object type="NUMANode" os_index="0" local_memory="1024"/>
<object type="L3Cache" cache_size="33554432"><object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="4"/></object></object></object>
<object type="Package" os_index="1"><object type="NUMANode" os_index="1" local_memory="1024"/>
<object type="L3Cache" cache_size="33554432"><object type="Core" os_index="0"><object type="PU" os_index="1"/></object></object></object>
</object><distances2 type="NUMANode" nbobjs="2" kind="5" indexing="os"><indexes length="4">0 1 </indexes><u64values length="12">10 21 21 10 </u64values></distances2></topology>"#;

fn machines() -> Vec<Vec<u8>> {
    let texts = [
        "package:2 l3:2 core:4 pu:2",
        "machine:1 numa:4 package:1 core:3",
        "package:2 [numa(memory=1GB)] l3:2(size=32MB) core:6",
        "\n1,\n10,2\n30.5,40,5\n",
        "x latency\n       0       1       2\n 0\n 1    57±6\n 2   12±1   300±9\n",
        ",,,\n20,,,\n120,120,,\n121,122,20,\n",
        XML,
    ];
    texts.iter().flat_map(|text| [with_head(0, text), with_head(1, text)]).collect()
}

fn machine(bytes: &[u8]) {
    let (head, text) = split(bytes);
    let read = match head % 2 {
        // As typed, unless the text would be taken for the name of a file.
        0 if text.contains(':') && !text.contains(['/', '.']) => Machine::parse(&text),
        0 => return,
        _ => Machine::from_text("machine.xml", &text),
    };
    match read {
        Ok(machine) => use_machine(&machine),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Calls every query of a machine; larger machines are only counted.
fn use_machine(machine: &Machine) {
    let cpus = machine.allowed_cpus();
    let _ = (machine.cores(), machine.l3_groups(), machine.packages(), machine.default_workers());
    if cpus.len() > 64 {
        return;
    }
    let islands = machine.allowed_islands();
    let covered: usize = islands.iter().map(|island| island.cpus.len()).sum();
    assert_eq!(covered, cpus.len(), "islands leave CPUs out or have them twice");
    let _ = (topology::picture(machine).len(), machine.stamp_pair(), machine.cores_of(&cpus));
    if let Some(matrix) = &machine.latency {
        let _ = (LatencyMatrix::median(matrix), topology::find_levels(matrix).len());
    }
    for workers in [1, 3, machine.default_workers()] {
        for instances in topology::default_islands(machine, workers) {
            for placement in Placement::ALL {
                if let Ok(layout) = topology::place(machine, instances, workers, placement) {
                    assert_eq!((layout.workers(), layout.instances.len()), (workers, instances));
                }
            }
        }
    }
    cpus.iter().for_each(|&cpu| _ = (machine.pu(cpu).is_some(), machine.l3_bytes(cpu)));
}

fn claims() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        with_head(0, "id = \"a-1\"\ncaption = \"c\"\nruns = [\"micro --op read\"]\n"),
        with_head(1, "[[figure]]\nid = \"a-1\"\ncaption = \"c\"\nwaits = \"islands\"\n"),
        with_head(
            2,
            "[columns]\nx = \"tps / 2\"\n[[claim]]\nid = \"ISL-1\"\nexperiments = [\"a-1\"]\nvalues = [\"v = max(tps)\"]\nholds = [\"v > 1\"]\n",
        ),
        with_head(
            3,
            "id\tsource\tworkload\tsetup\tmetric\tclaim\texpected\thow\nISL-001\ta\tb\tc\td\te\tf\tshape\n",
        ),
    ];
    for text in [
        "tps[op=read, islands=max] / tps[op=read, islands=min]",
        "slope(islands, tps[op!='update'|write]) - -3.5e-2 * abs(or_zero(latency_us.p50))",
        "((((((1))))))",
    ] {
        seeds.push(with_head(4, text));
        seeds.push(with_head(5, &format!("0 < {text} <= 7")));
    }
    seeds
}

fn claim(bytes: &[u8]) {
    let (head, text) = split(bytes);
    let said = match head % 6 {
        0 => Experiment::parse("a-1.toml", &text).err().map(|e| e.to_string()),
        1 => Experiment::parse_later("later.toml", &text).err().map(|e| e.to_string()),
        2 => Evaluators::parse("claims.toml", &text).err().map(|e| e.to_string()),
        3 => Ledger::parse("ledger.tsv", &text).err().map(|e| e.to_string()),
        4 => Expression::parse(&text).map(|e| evaluate(&e)).err().map(|e| e.to_string()),
        _ => Condition::parse(&text).map(|c| decide(&c)).err().map(|e| e.to_string()),
    };
    assert!(said.is_none_or(|said| !said.is_empty()));
}

fn evaluate(expression: &Expression) {
    on_rows(|rows| match expression.values(rows, &Names::default()) {
        Ok(values) => assert!(values.iter().all(|value| value.is_finite())),
        Err(error) => drop(error.to_string()),
    });
}

fn decide(condition: &Condition) {
    on_rows(|rows| drop(condition.holds(rows, &Names::default()).map_err(|error| error.to_string())));
}

fn on_rows(look: impl FnOnce(&[&claims::Row])) {
    let lines = [
        r#"{"op":"read","islands":1,"tps":1000.5,"latency_us":{"p50":3}}"#,
        r#"{"op":"read","islands":4,"tps":3000,"latency_us":{"p50":2}}"#,
        r#"{"op":"write","islands":4,"tps":0}"#,
    ];
    let rows: Vec<claims::Row> = lines.iter().filter_map(|line| claims::Row::parse(line).ok()).collect();
    look(&rows.iter().collect::<Vec<_>>());
}
