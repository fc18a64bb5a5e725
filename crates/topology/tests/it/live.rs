//! Properties that only the machine under the test can show. All tests also pass on one CPU, and in
//! a container that forbids memory binding.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use topology::{
    Binding, CounterError, CounterSpec, CpuId, Machine, NodeId, Placement, ProbeError, ProbeSpec, Protection,
    Sharing, allowed_cpus, bind_area, bind_thread_memory, measure_latency, picture, pin_process, pin_thread,
    pin_thread_to, ping_pong_ns, run_counter, run_counters, with_memory_of,
};

use crate::synthetic;

const TINY: ProbeSpec = ProbeSpec { round_trips: 100, samples: 5, limit: Duration::from_secs(5) };

#[test]
fn the_live_machine_is_this_one() {
    let machine = Machine::parse("live").unwrap();
    assert!(machine.is_live() && !machine.model.is_empty());
    assert_eq!(machine.allowed_cpus(), allowed_cpus());
    assert!(machine.default_workers() >= 1 && !machine.allowed_islands().is_empty());
    assert!(picture(&machine).contains("island 0"));
}

#[test]
fn a_pinned_thread_stays_and_can_be_let_go() {
    thread::spawn(|| {
        let before = allowed_cpus();
        let last = *before.last().unwrap();
        pin_thread(last).unwrap();
        assert_eq!(allowed_cpus(), [last]);
        pin_thread_to(&before).unwrap();
        assert_eq!(allowed_cpus(), before);
        for absent in [CpuId(1023), CpuId(4_000_000)] {
            let error = pin_thread(absent).unwrap_err().to_string();
            assert!(error.contains(&format!("CPU {absent}")) && error.contains("expected"), "{error}");
        }
        assert_eq!(allowed_cpus(), before, "a refused pin changes nothing");
    })
    .join()
    .unwrap();
}

#[test]
fn a_process_can_be_pinned() {
    let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().unwrap();
    let first = allowed_cpus()[0];
    pin_process(child.id(), &[first]).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    assert_eq!(list.trim(), first.to_string());
    let gone = pin_process(child.id(), &[first]).unwrap_err().to_string();
    assert!(gone.contains(&format!("process {}", child.id())), "{gone}");
}

#[test]
fn memory_is_bound_or_the_reason_is_told() {
    let machine = Machine::live().unwrap();
    let node = machine.node_of(&allowed_cpus());
    let mut area = vec![0_u8; 1 << 20];
    thread::scope(|scope| {
        scope.spawn(|| match (bind_thread_memory(node), node) {
            (Binding::Bound(bound), Some(node)) => assert_eq!(bound, node),
            (Binding::OneNode, None) => {}
            (Binding::Refused(reason), Some(_)) => assert!(!reason.is_empty()),
            other => panic!("{other:?}"),
        });
    });
    match bind_area(&mut area, node) {
        Binding::Bound(bound) => {
            assert!(area.iter().all(|byte| *byte == 0), "binding moves pages and keeps what they hold");
            assert_policy(&area, bound);
        }
        Binding::OneNode => assert_eq!(node, None),
        Binding::Refused(reason) => assert!(!reason.is_empty()),
    }
    assert!(
        matches!(bind_area(&mut area[..10], Some(NodeId(0))), Binding::Refused(reason) if reason.contains("page"))
    );
    assert!(matches!(bind_thread_memory(Some(NodeId(1000))), Binding::Refused(_)));
    assert!(
        matches!(bind_thread_memory(Some(NodeId(5000))), Binding::Refused(reason) if reason.contains("5000"))
    );
    assert_eq!(bind_thread_memory(None), Binding::OneNode);
}

#[test]
fn a_thread_lent_to_a_node_has_its_own_policy_back() {
    let Some(node) = Machine::live().unwrap().node_of(&allowed_cpus()) else { return };
    let policy = || {
        let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap_or_default();
        maps.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let before = policy();
            let within = with_memory_of(Some(node), policy);
            assert!(within.is_empty() || within == format!("prefer:{}", node.0), "{within}");
            assert_eq!(policy(), before);
            assert_eq!(with_memory_of(None, policy), before);
        });
    });
}

/// The kernel's own report about the area, if it gives one: `7f.. prefer:0 anon=..`.
fn assert_policy(area: &[u8], node: NodeId) {
    let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else { return };
    let middle = area.as_ptr() as usize + area.len() / 2;
    let start = |line: &&str| usize::from_str_radix(line.split(' ').next().unwrap_or(""), 16).unwrap_or(0);
    let line = maps.lines().filter(|line| start(line) <= middle).max_by_key(start).unwrap();
    assert!(line.contains("prefer") && line.contains(&format!(":{node}")), "{line}");
}

#[test]
fn latency_is_measured_between_every_pair() {
    let machine = Machine::live().unwrap();
    let mut calls = Vec::new();
    let probe = measure_latency(&machine, TINY, |done, pairs| calls.push((done, pairs))).unwrap();
    let n = allowed_cpus().len();
    assert_eq!(probe.latency.cpus(), allowed_cpus());
    assert_eq!(calls.len(), n * (n - 1) / 2);
    if let Some((a, b)) = machine.stamp_pair() {
        let ns = ping_pong_ns(a, b).unwrap();
        assert!(ns > 1.0 && ns < 1e7, "{ns} ns");
    }
    let machine = machine.with_latency(probe.latency);
    assert!(!machine.islands.is_empty() && machine.latency.is_some());
}

#[test]
fn one_cpu_is_said_to_be_one() {
    let mut machine = Machine::live().unwrap();
    let first = allowed_cpus()[0];
    machine.pus.iter_mut().for_each(|pu| pu.allowed = pu.cpu == first);
    let probe = measure_latency(&machine, TINY, |_, _| panic!("there is no pair")).unwrap();
    assert!(probe.note.unwrap().contains("one CPU only"));
    assert_eq!(machine.stamp_pair(), None);
    let shown = picture(&machine.with_latency(probe.latency));
    assert!(shown.contains("one CPU only"), "{shown}");
    assert_eq!(ping_pong_ns(first, first), Err(ProbeError::SameCpu(first)));
    assert!(matches!(ping_pong_ns(first, CpuId(1022)), Err(ProbeError::Pin(_))));
    assert!(matches!(ping_pong_ns(CpuId(1022), first), Err(ProbeError::Pin(_))));
    let described = synthetic("package:2 core:2");
    assert_eq!(measure_latency(&described, TINY, |_, _| {}), Err(ProbeError::NotLive));
}

fn brief(workers: usize) -> CounterSpec {
    CounterSpec {
        workers,
        placement: Placement::Island,
        sharing: Sharing::Single,
        protection: Protection::Atomic,
        duration: Duration::from_millis(20),
        repeats: 2,
    }
}

#[test]
fn counters_count_every_increment() {
    let machine = Machine::live().unwrap();
    for protection in [Protection::Lock, Protection::Atomic] {
        let spec = CounterSpec { protection, ..brief(machine.default_workers()) };
        let mut seen = 0;
        let results = run_counters(&machine, spec, &Placement::ALL, |_| seen += 1).unwrap();
        assert_eq!(results.len(), seen);
        for result in results {
            assert!(result.consistent && result.per_second > 0.0, "{result:?}");
            assert!(result.per_second_min <= result.per_second && result.per_second <= result.per_second_max);
        }
    }
    let crowded =
        run_counter(&machine, CounterSpec { protection: Protection::Lock, ..brief(machine.cores() + 2) });
    let crowded = crowded.unwrap();
    assert!(crowded.consistent && crowded.oversubscribed && crowded.counters == 1);
}

#[test]
fn impossible_counters_are_refused() {
    let machine = Machine::live().unwrap();
    assert!(matches!(run_counter(&machine, brief(0)), Err(CounterError::Placement(_))));
    assert_eq!(run_counter(&machine, CounterSpec { repeats: 0, ..brief(1) }), Err(CounterError::NoRepeat));
    assert_eq!(run_counter(&synthetic("core:2"), brief(1)), Err(CounterError::NotLive));
    let mut phantom = machine;
    for pu in &mut phantom.pus {
        pu.cpu = CpuId(pu.cpu.0 + 900);
    }
    phantom.islands[0].cpus = phantom.allowed_cpus();
    phantom.islands.truncate(1);
    assert!(matches!(run_counter(&phantom, brief(1)), Err(CounterError::Pin(_))), "no hang, no panic");
}
