//! Transactions per second of one thread-hosted deployment: quick [design] [islands] [workers] [op] [multisite] [rows] [clients]
use base::InstanceId;
use channel::Address;
use instance::{Instance, InstanceConfig};
use txn::{Placement, Workload};
use workload::micro::{Micro, MicroOptions, Op};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let get = |i: usize, d: &str| a.get(i).cloned().unwrap_or(d.into());
    let islands: u16 = get(1, "1").parse().unwrap();
    let workers: usize = get(2, "1").parse().unwrap();
    let op = if get(3, "read") == "read" { Op::Read } else { Op::Update };
    let w = Micro::new(MicroOptions { op, multisite: get(4, "0").parse().unwrap(), rows: get(5, "10").parse().unwrap(), dataset: 240_000, ..MicroOptions::new(24) }).unwrap();
    let clients: usize = get(6, "4").parse().unwrap();
    let dir = std::env::temp_dir().join(format!("q{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    let inst: Vec<_> = (0..islands).map(|i| Instance::start(w.clone(), InstanceConfig { id: InstanceId(i), deployment: 1, placement: Placement::even(w.sites(), islands), design: get(0, "conventional").parse().unwrap(), durability: wal::Durability::Memory, dir: dir.join(i.to_string()), pool_pages: 20000, cpus: (0..workers).map(|k| Some((i as usize * workers + k) % 2)).collect(), node: None, listen: Some(Address::Shm(dir.join(format!("{i}.s")))), lock_timeout_ms: 50, spin_us: 50 }).unwrap()).collect();
    let addr: Vec<_> = inst.iter().enumerate().map(|(i, x)| (InstanceId(i as u16), x.address().unwrap())).collect();
    inst.iter().for_each(|i| i.connect(&addr));
    let t = std::time::Instant::now();
    inst.iter().for_each(|i| i.load(&|_, _| {}).unwrap());
    println!("loaded in {:?}", t.elapsed());
    inst.iter().for_each(|i| i.drive(clients, 1));
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..3 {
        inst.iter().for_each(|i| drop(i.measure()));
        std::thread::sleep(std::time::Duration::from_millis(1000));
        let mut m = probe::Measured::default();
        inst.iter().for_each(|i| m.merge(&i.measure()));
        println!("{} {:>9.0} tps p50 {} ns p99 {} distributed {} aborted {:?} pages {} cpu {:.2}", a.join(" "), m.committed_total() as f64 * 1e9 / m.window_ns as f64, m.latency.quantile(0.5), m.latency.quantile(0.99), m.distributed, m.aborted, m.pages, m.cpu_ns as f64/1e9);
    }
    inst.iter().for_each(|i| i.halt());
    std::fs::remove_dir_all(&dir).ok();
}
