//! How many instructions a transaction takes, by kind and design, and in which functions. Other
//! work on the machine does not change this figure.
//!
//! ```text
//! RUSTFLAGS=--cfg=rustix_use_libc cargo build --profile quick -p instance --example instructions
//! valgrind --tool=callgrind --fair-sched=yes --instr-atstart=no --callgrind-out-file=/tmp/out.%p \
//!     target/quick/examples/instructions serial tpcb [clustered] [on] [advise] [transactions]
//! ```
//!
//! Kinds: `read` and `update` (micro, 10 rows), `get` (TATP's GetSubscriberData: one row), `tpcb`,
//! `payment`, `neworder`, `tpcc`. `on`: with the profile. `clustered`: on clustered tables.
//! `advise`, with `logical`: counts steps as for a balancer (`--balance`). Without valgrind it only
//! runs the transactions. Prints the commits by kind; `callgrind_annotate` divides the
//! instructions, of which the measurement itself takes some. One worker drives one client. Counting
//! is turned on between loading and driving, and off once the client has halted.

use exec::{DesignKind, EngineOptions};
use instance::{Balance, Instance, InstanceConfig, Mode};
use probe::Profiling;
use std::process::{Command, Stdio};
use std::time::Duration;
use txn::{Placement, TableKind, Workload};
use workload::AnyWorkload;
use workload::micro::{Micro, MicroOptions, Op};
use workload::tatp::{Kind, Mix as TatpMix, Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Mix, Tpcc, TpccOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let design = DesignKind::ALL.into_iter().find(|d| has(&d.to_string())).unwrap_or(DesignKind::Serial);
    let profiling = if has("on") { DRAWN } else { Profiling::Off };
    let transactions = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(5_000);
    let kind = arguments.iter().find(|a| KINDS.contains(&a.as_str())).map_or("tpcb", String::as_str);
    let micro = |op| MicroOptions { dataset: 20_000, op, ..MicroOptions::new(1) };
    let tpcc = |mix| Tpcc::new(TpccOptions { items: 10_000, customers: 300, mix, ..TpccOptions::new(1) });
    let tables = if has("clustered") { TableKind::Clustered } else { TableKind::Heap };
    let balance =
        Balance { mode: if has("advise") { Mode::Advise } else { Mode::Off }, ..Balance::default() };
    let ask = (design, tables, balance, profiling, transactions);
    let workload = match kind {
        "read" => AnyWorkload::Micro(Micro::new(micro(Op::Read)).expect("valid options")),
        "update" => AnyWorkload::Micro(Micro::new(micro(Op::Update)).expect("valid options")),
        "get" => {
            let mix = TatpMix::Only(Kind::GetSubscriberData);
            let tatp = TatpOptions { subscribers: 10_000, mix, ..TatpOptions::new(2) };
            AnyWorkload::Tatp(Tatp::new(tatp).expect("valid options"))
        }
        "payment" => AnyWorkload::Tpcc(tpcc(Mix::Payment).expect("valid options")),
        "neworder" => AnyWorkload::Tpcc(tpcc(Mix::NewOrder).expect("valid options")),
        "tpcc" => AnyWorkload::Tpcc(tpcc(Mix::Full).expect("valid options")),
        _ => {
            let tpcb = TpcbOptions { accounts: 10_000, ..TpcbOptions::new(2) };
            AnyWorkload::Tpcb(Tpcb::new(tpcb).expect("valid options"))
        }
    };
    count(workload, ask);
}

/// Under valgrind the clock runs on while a poll is simulated, so all polls would count as rare and
/// be timed.
const DRAWN: Profiling = Profiling::Drawn(64);

const KINDS: [&str; 7] = ["read", "update", "get", "tpcb", "payment", "neworder", "tpcc"];

/// Turns callgrind's counting on or off.
fn counting(switch: &str) {
    let ask = Command::new("callgrind_control")
        .args(["-i", switch, &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status();
    if !ask.is_ok_and(|s| s.success()) {
        eprintln!("callgrind is not counting");
    }
}

fn count(
    workload: AnyWorkload,
    (design, tables, balance, profiling, transactions): (DesignKind, TableKind, Balance, Profiling, u64),
) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let placement = Placement::even(workload.sites(), 1);
    let config = InstanceConfig::new(dir.path().into(), placement, design);
    let config = InstanceConfig {
        pool_pages: 20_000,
        spin_us: 0,
        options: EngineOptions { tables, balance, lock_timeout_ms: 100_000, ..config.options },
        ..config
    };
    let instance = Instance::start(workload, config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    instance.profile(profiling).unwrap();
    instance.measure().unwrap();
    counting("on");
    instance.drive(1, 1 << 32);
    let mut measured = instance.measure().unwrap();
    while measured.committed_total() < transactions {
        std::thread::sleep(Duration::from_millis(300));
        measured.merge(&instance.measure().unwrap());
    }
    instance.halt().unwrap();
    counting("off");
    measured.merge(&instance.measure().unwrap());
    println!("{} {:?}", measured.committed_total(), measured.committed);
    instance.stop().expect("stopped");
}
