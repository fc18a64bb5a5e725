//! What each relay must do, against the real services: three servers that the tests start, kill,
//! stop and cut off themselves. `cargo xtask relay` runs all of it.
//!
//! Plain `cargo test` skips them with a word, unless `ATOLL_RELAY` names the services to test
//! (`nats`, `kafka`, `memory`). The programs come from `scripts/relay-services install`.

use relay::files::{Opening, Part, Replicated, follow, milestone, trim};
use relay::memory::{Line, Service as Speed, Shelf};
use relay::{
    Address, Entry, Fault, Kind, Place, RelayLog, Signs, TakeOver, Tape, Term, Verdict, Walker, take_over,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use world::sim::Disk;
use world::{Files, Open};

/// The services are tested one after the other: they share the machine.
static ONE: Mutex<()> = Mutex::new(());

fn script(args: &[&str], env: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/relay-services");
    // The servers outlive the script, and must not keep its standard error open.
    let output = Command::new(path)
        .args(args)
        .envs(env.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .expect("scripts/relay-services runs");
    assert!(output.status.success(), "relay-services {args:?} failed");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

enum Backing {
    Memory(Mutex<HashMap<String, Arc<Shelf>>>),
    Servers { dir: tempfile::TempDir, address: String },
}

/// The services of one test, ended with it.
struct Services {
    place: Backing,
    _one: MutexGuard<'static, ()>,
}

impl Services {
    /// `None`, with a word, if they are not asked for.
    fn of(kind: &str, env: &[(&str, &str)]) -> Option<Services> {
        let asked = std::env::var("ATOLL_RELAY").unwrap_or_default();
        if kind != "memory" && !asked.split(',').any(|k| k == kind) {
            eprintln!("skipped: no {kind} is asked for; `cargo xtask relay` tests the relays");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        if kind == "memory" {
            return Some(Services { place: Backing::Memory(Mutex::default()), _one: one });
        }
        let dir = tempfile::tempdir().expect("a folder");
        let address = script(&["up", kind, dir.path().to_str().unwrap()], env);
        Some(Services { place: Backing::Servers { dir, address }, _one: one })
    }

    fn tape(&self, name: &str) -> Arc<dyn Tape> {
        match &self.place {
            Backing::Memory(shelves) => {
                let shelf = shelves.lock().unwrap().entry(name.to_owned()).or_default().clone();
                Arc::new(Line::new(&shelf, Speed::Prompt))
            }
            Backing::Servers { address, .. } => {
                let address: Address = address.parse().unwrap();
                // Right after its start, or while servers die, a service takes some attempts.
                let until = Instant::now() + Duration::from_secs(60);
                loop {
                    match address.open(name) {
                        Ok(tape) => return tape,
                        Err(fault) => assert!(Instant::now() < until, "{fault}"),
                    }
                }
            }
        }
    }

    fn server(&self, what: &str, n: usize) {
        if let Backing::Servers { dir, .. } = &self.place {
            script(&[what, dir.path().to_str().unwrap(), &n.to_string()], &[]);
        }
    }

    fn is_memory(&self) -> bool {
        matches!(self.place, Backing::Memory(_))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if let Backing::Servers { dir, .. } = &self.place {
            script(&["down", dir.path().to_str().unwrap()], &[]);
        }
    }
}

fn number(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().unwrap())
}

/// Takes the log over from its beginning. Entry n holds number n.
fn own(services: &Services, name: &str, claim: Option<Term>) -> Result<(RelayLog, u64), Fault> {
    let mut found = 0;
    let how = TakeOver { claim, patience: Duration::from_secs(60), ..TakeOver::default() };
    let opened = take_over(services.tape(name), &how, &mut |place, payload| {
        found += 1;
        assert_eq!((place.counted, number(payload)), (found, found));
        Ok(())
    })?;
    assert_eq!(opened.place.counted, found);
    Ok((opened.log, found))
}

fn append(log: &RelayLog) -> u64 {
    let mut payload = vec![7; 2000];
    payload[..8].copy_from_slice(&log.next_index().to_le_bytes());
    log.append(&payload)
}

/// Appends until told to end, a few ahead of what is kept. Returns the fault that ended it.
fn write(log: &RelayLog, stop: &AtomicBool, kept: &AtomicU64) -> Option<Fault> {
    while !stop.load(Ordering::Relaxed) && log.fault().is_none() {
        let index = append(log);
        if let Err(fault) = log.wait(index.saturating_sub(8)) {
            return Some(fault);
        }
        kept.store(log.kept(), Ordering::Release);
    }
    log.fault()
}

fn in_order_and_found_again(services: &Services) {
    let (log, found) = own(services, "order", None).unwrap();
    assert_eq!(found, 0);
    let last = (0..200).map(|_| append(&log)).reduce(|_, last| last).unwrap();
    log.wait(last).unwrap();
    assert_eq!((last, log.kept(), log.fault()), (200, 200, None));
    drop(log);
    let (log, found) = own(services, "order", None).unwrap();
    assert_eq!((found, log.term()), (200, Term(2)));
    let large = vec![1; log.most()];
    let index = log.append(&[&201u64.to_le_bytes()[..], &large[8..]].concat());
    log.wait(index).unwrap();
    drop(log);
    assert_eq!(own(services, "order", None).unwrap().1, 201);
}

fn terms_only_grow(services: &Services) {
    drop(own(services, "terms", Some(Term(5))).unwrap());
    for claim in [5, 4] {
        let fault = own(services, "terms", Some(Term(claim))).map(drop).unwrap_err();
        assert_eq!(fault, Fault::OldTerm { own: Term(claim), found: Term(5) });
    }
    assert_eq!(own(services, "terms", Some(Term(6))).unwrap().0.term(), Term(6));
}

/// Owners that are taken over while they write: each successor has what the one before counted.
fn two_writers(services: &Services) {
    for round in 0..5 {
        let name = format!("writers-{round}");
        let (first, _) = own(services, &name, None).unwrap();
        let (stop, kept) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&first, &stop, &kept));
            while kept.load(Ordering::Acquire) < 50 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let (second, found) = own(services, &name, None).unwrap();
            let fault = writer.join().unwrap().expect("the first owner learns of the second");
            assert_eq!(fault, Fault::Deposed { own: Term(1), by: Term(2) });
            assert!(found >= first.kept(), "the first counted {}, the second found {found}", first.kept());
            let last = (0..50).map(|_| append(&second)).reduce(|_, last| last).unwrap();
            second.wait(last).unwrap();
        });
        let (_, found) = own(services, &name, None).unwrap();
        assert!(found >= first.kept() + 50);
    }
}

/// Servers die and come back while an owner writes.
fn kills(services: &Services) {
    let (log, _) = own(services, "kills", None).unwrap();
    let (stop, kept) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = world::entropy();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stop, &kept));
        for round in 0..4 {
            std::thread::sleep(Duration::from_secs(2));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let all = round == 3;
            let victims: Vec<usize> = if all { vec![1, 2, 3] } else { vec![1 + (random >> 33) as usize % 3] };
            victims.iter().for_each(|n| services.server("kill", *n));
            std::thread::sleep(Duration::from_secs(1));
            victims.iter().for_each(|n| services.server("start", *n));
            let (before, until) = (kept.load(Ordering::Acquire), Instant::now() + Duration::from_secs(90));
            while kept.load(Ordering::Acquire) < before + 20 {
                assert!(Instant::now() < until, "nothing counts any more after the kill of {victims:?}");
                assert_eq!(log.fault(), None);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(writer.join().unwrap(), None);
    });
    let (_, found) = own(services, "kills", None).unwrap();
    assert!(found >= log.kept(), "{} counted, {found} are there", log.kept());
    eprintln!("kills: {} counted, {found} found", log.kept());
}

/// A server that does not answer for a while: positions become unknown, appends arrive late. The
/// owner goes on meanwhile, whichever server it speaks to: the others are a quorum.
fn pauses(services: &Services) {
    let (log, _) = own(services, "pauses", None).unwrap();
    let (stop, kept) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stop, &kept));
        for n in 1..=3 {
            std::thread::sleep(Duration::from_secs(1));
            services.server("stop", n);
            let began = Instant::now();
            std::thread::sleep(Duration::from_secs(6));
            // What was under way at the stop may have counted.
            let before = kept.load(Ordering::Acquire);
            let goes_on = || kept.load(Ordering::Acquire) > before + 40;
            while !goes_on() && log.fault().is_none() && began.elapsed() < Duration::from_secs(90) {
                std::thread::sleep(Duration::from_millis(50));
            }
            services.server("cont", n);
            assert!(goes_on(), "nothing counts while server {n} is stopped: {:?}", log.fault());
            eprintln!(
                "pauses: server {n} was stopped, and {:.1?} later the owner had gone on",
                began.elapsed()
            );
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(writer.join().unwrap(), None);
    });
    let (_, found) = own(services, "pauses", None).unwrap();
    assert!(found >= log.kept());
}

/// Late entries of a deposed owner, behind the seal and between the successor's entries.
fn late_entries(services: &Services) {
    let tape = services.tape("late");
    let put = |bytes: Vec<u8>| {
        let (landed, landings) = std::sync::mpsc::channel();
        let landed = Mutex::new(landed);
        tape.append(
            0,
            Arc::new(bytes),
            None,
            &(Arc::new(move |_, at| landed.lock().unwrap().send(at).unwrap()) as _),
        );
        landings.recv().unwrap()
    };
    let (first, _) = own(services, "late", None).unwrap();
    let last = (0..3).map(|_| append(&first)).reduce(|_, last| last).unwrap();
    first.wait(last).unwrap();
    let stale = |index: u64| {
        let Place { term, owner, chain, .. } = first.place();
        let payload = index.to_le_bytes();
        Entry { term, owner, index, chain, counted: 3, kind: Kind::Bytes, payload: &payload }.encode()
    };
    let (second, found) = own(services, "late", None).unwrap();
    assert_eq!(found, 3);
    put(stale(4));
    let index = append(&second);
    put(stale(5));
    second.wait(index).unwrap();
    let index = append(&second);
    second.wait(index).unwrap();
    assert_eq!((second.kept(), second.fault()), (5, None));
    assert_eq!(own(services, "late", None).unwrap().1, 5);
    // The same by hand: the walker has a verdict on each position.
    let (mut walker, mut stale) = (Walker::default(), 0);
    let (begin, end) = tape.range().unwrap();
    tape.read(begin, end, &mut |position, bytes| {
        stale += u32::from(walker.offer(position, bytes).unwrap() == Verdict::Stale);
    })
    .unwrap();
    assert!(stale >= 2, "{stale} stale entries");
}

/// The log is trimmed behind a folder that follows it, while its owner writes. The trimmed log
/// survives the death of servers, and a reader that needs more of it is told so.
fn trimming(services: &Services) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let (dir, tape) = (Path::new("/db"), services.tape("trim"));
    let [owner, copy, stale] = [(); 3].map(|()| Disk::new());
    let open = |disk: &Disk| {
        let how = Opening { patience: PATIENCE, ..Opening::new(Part::All) };
        Replicated::open(disk.files(), dir, services.tape("trim"), &how)
    };
    let write = |files: &Replicated, numbers: std::ops::Range<u64>| {
        let file = files.open(&dir.join("a"), Open::Create).unwrap();
        for n in numbers {
            file.write_all_at(&n.to_le_bytes(), n * 8).unwrap();
            file.sync().unwrap();
        }
    };
    let follow =
        |disk: &Disk, known| follow(disk.files(), dir, (&*tape, known), Part::All, PATIENCE).unwrap();
    let files = open(&owner).unwrap();
    write(&files, 0..30);
    let known = follow(&stale, Signs::default()).signs;
    write(&files, 30..50);
    drop(files);
    let at = milestone(&*tape, "the copy", PATIENCE).unwrap();
    let files = open(&owner).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&files, 50..150));
        while files.log().kept() < 80 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let followed = follow(&copy, known);
        assert!(followed.milestones == [at] && followed.signs.floor > at, "{followed:?}, milestone at {at}");
        assert_eq!(trim(&*tape, at, "the copy", PATIENCE), Ok(at - 1));
        writer.join().unwrap();
    });
    assert_eq!(files.log().fault(), None);
    // As many as the owner's entries: it waited for each.
    assert_eq!(files.log().kept(), 150);
    drop(files);
    let first = || {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            match tape.range() {
                Ok((first, _)) => break first,
                Err(trouble) => assert!(Instant::now() < until, "{trouble}"),
            }
        }
    };
    assert_eq!(first(), at);
    let fault = open(&stale).map(drop).unwrap_err();
    assert!(
        matches!(&fault, Fault::Trimmed { first, note, .. } if *first == at && note == "the copy"),
        "{fault}"
    );
    // Brokers of Kafka note a beginning once a minute: it may come back if they die before.
    for n in 1..=3 {
        services.server("kill", n);
        assert!(first() <= at, "while server {n} is gone");
        services.server("start", n);
        assert!(first() <= at);
    }
    (1..=3).for_each(|n| services.server("kill", n));
    (1..=3).for_each(|n| services.server("start", n));
    assert!(first() <= at);
    let bytes: Vec<u8> = (0..150_u64).flat_map(u64::to_le_bytes).collect();
    for disk in [&copy, &owner] {
        drop(open(disk).unwrap());
        assert!(disk.bytes(&dir.join("a")).unwrap() == bytes);
    }
    eprintln!("trimming: the log begins at position {} after its servers died, {at} before", first());
}

/// The owner's host is cut off, writes on, and is joined again after its successor has begun.
fn cut_off(kind: &str) {
    let asked = std::env::var("ATOLL_RELAY").unwrap_or_default();
    if !asked.split(',').any(|k| k == kind) {
        return eprintln!("skipped: no {kind} is asked for; `cargo xtask relay` tests the relays");
    }
    let Some(net) = Net::up() else {
        return eprintln!("skipped: network namespaces need root and `ip`");
    };
    let hosts = "10.78.4.1 10.78.4.2 10.78.4.3";
    let Some(services) = Services::of(kind, &[("RELAY_HOSTS", hosts), ("RELAY_NS", "arl1 arl2 arl3")]) else {
        return;
    };
    let Backing::Servers { address, dir } = &services.place else { unreachable!() };
    drop(own(&services, "cut", None).unwrap());
    let counted = dir.path().join("counted");
    let mut owner = Command::new("ip")
        .args(["netns", "exec", "arl4"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "owner_in_a_namespace", "--nocapture"])
        .env("ATOLL_RELAY_OWNER", address)
        .env("ATOLL_RELAY_COUNTED", &counted)
        .spawn()
        .unwrap();
    let read = || std::fs::read_to_string(&counted).unwrap_or_default();
    let kept = || read().lines().rev().find_map(|line| line.parse::<u64>().ok()).unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(60);
    while kept() < 100 {
        assert!(Instant::now() < until, "the owner in the namespace does not write");
        std::thread::sleep(Duration::from_millis(20));
    }
    net.link("arlp4", "down");
    let (second, found) = own(&services, "cut", None).unwrap();
    let last = (0..100).map(|_| append(&second)).reduce(|_, last| last).unwrap();
    second.wait(last).unwrap();
    net.link("arlp4", "up");
    let until = Instant::now() + Duration::from_secs(60);
    while owner.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            owner.kill().unwrap();
            panic!("the deposed owner does not learn of its successor");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(read().contains("another owner"), "{}", read());
    assert!(found >= kept(), "{} counted for the owner that was cut off, {found} found", kept());
    let last = (0..100).map(|_| append(&second)).reduce(|_, last| last).unwrap();
    second.wait(last).unwrap();
    assert_eq!(own(&services, "cut", None).unwrap().1, found + 200);
    eprintln!("cut off: {} counted before, {found} found", kept());
}

/// The body of the owner that is cut off: it writes down what counts, and why it ends.
#[test]
fn owner_in_a_namespace() {
    let Ok(address) = std::env::var("ATOLL_RELAY_OWNER") else { return };
    let out = PathBuf::from(std::env::var("ATOLL_RELAY_COUNTED").unwrap());
    let tape = address.parse::<Address>().unwrap().open("cut").unwrap();
    let log = take_over(tape, &TakeOver::default(), &mut |_, _| Ok(())).unwrap().log;
    let mut file = std::fs::File::create(out).unwrap();
    use std::io::Write;
    let fault = loop {
        let index = append(&log);
        if let Err(fault) = log.wait(index.saturating_sub(8)) {
            break fault;
        }
        writeln!(file, "{}", log.kept()).unwrap();
    };
    writeln!(file, "{}\n{fault}", log.kept()).unwrap();
}

/// Four hosts on a switch, and this one.
struct Net;

impl Net {
    fn run(line: &str) -> bool {
        let mut words = line.split(' ');
        let program = words.next().unwrap();
        Command::new(program).args(words).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }

    fn up() -> Option<Net> {
        Net::down();
        if !Net::run("ip netns add arlsw") {
            return None;
        }
        let net = Net;
        let mut lines =
            vec!["ip -n arlsw link add br0 type bridge".to_owned(), "ip -n arlsw link set br0 up".to_owned()];
        for i in 1..=4 {
            lines.extend([
                format!("ip netns add arl{i}"),
                format!("ip link add arlp{i} type veth peer name eth0 netns arl{i}"),
                format!("ip link set arlp{i} netns arlsw"),
                format!("ip -n arlsw link set arlp{i} master br0"),
                format!("ip -n arlsw link set arlp{i} up"),
                format!("ip -n arl{i} addr add 10.78.4.{i}/24 dev eth0"),
                format!("ip -n arl{i} link set eth0 up"),
                format!("ip -n arl{i} link set lo up"),
            ]);
        }
        lines.extend([
            "ip link add arlp9 type veth peer name arlr9".to_owned(),
            "ip link set arlp9 netns arlsw".to_owned(),
            "ip -n arlsw link set arlp9 master br0".to_owned(),
            "ip -n arlsw link set arlp9 up".to_owned(),
            "ip addr add 10.78.4.100/24 dev arlr9".to_owned(),
            "ip link set arlr9 up".to_owned(),
        ]);
        lines.iter().all(|line| Net::run(line)).then_some(net)
    }

    fn link(&self, name: &str, state: &str) {
        assert!(Net::run(&format!("ip -n arlsw link set {name} {state}")));
    }

    fn down() {
        Net::run("ip link del arlr9");
        ["arl1", "arl2", "arl3", "arl4", "arlsw"]
            .iter()
            .for_each(|ns| _ = Net::run(&format!("ip netns del {ns}")));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        Net::down();
    }
}

/// The whole contract for one service.
fn contract(kind: &str) {
    let Some(services) = Services::of(kind, &[]) else { return };
    in_order_and_found_again(&services);
    terms_only_grow(&services);
    two_writers(&services);
    late_entries(&services);
    trimming(&services);
    if !services.is_memory() {
        kills(&services);
        pauses(&services);
    }
}

#[test]
fn memory() {
    contract("memory");
}

#[test]
fn nats() {
    contract("nats");
}

#[test]
fn kafka() {
    contract("kafka");
}

#[test]
fn nats_owner_cut_off() {
    cut_off("nats");
}

#[test]
fn kafka_owner_cut_off() {
    cut_off("kafka");
}
