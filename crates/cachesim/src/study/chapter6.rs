//! Chapter 6: Figures 6.1 to 6.8.

use super::{Row, StudyError, has_operations, rounded, row, set};
use crate::code::Code;
use crate::course::Course;
use crate::footprint::{Common, Footprints, Group, footprints, is_probe_in};
use crate::hierarchy::CACHES;
use crate::machine::{LINE_BYTES, Machine};
use crate::microscope::{Misses, SWEEP_KB, ThreeC, observe};
use trace::Trace;
use trace::code::{OPERATIONS, name};

/// The owner of lines of the thread's own stack.
const STACK: &str = "stack";
/// The word for what is in no operation.
const ELSEWHERE: &str = "other";

/// All tables of the chapter, on one core of `machine`. The first `warm` transactions warm the
/// caches. The rows are not complete after `course` was stopped.
///
/// # Errors
/// [`StudyError`]: too few transactions, or no marks of operations.
pub fn chapter_6(
    trace: &Trace,
    machine: &Machine,
    warm: usize,
    course: &Course,
) -> Result<Vec<Row>, StudyError> {
    if trace.transactions.len() <= warm {
        return Err(StudyError::TooFew { found: trace.transactions.len(), needed: warm + 1 });
    }
    if !has_operations(trace) {
        return Err(StudyError::NoMarks { study: "chapter 6" });
    }
    let code = Code::of(trace);
    let all = trace.transactions.len();
    course.expect(all + all - warm);
    let (misses, prints) = std::thread::scope(|scope| {
        let prints = scope.spawn(|| footprints(trace, &code, warm, course));
        let misses = observe(trace, &code, machine, warm, course);
        (misses, prints.join().expect("the footprints are found"))
    });
    let mut rows = vec![summary(trace, &misses, &prints, warm)];
    rows.extend(caches(trace, &misses));
    rows.extend(three_c(trace, &misses));
    rows.extend(SWEEP_KB.iter().zip(misses.sweep).map(|(kb, missed)| {
        let mut row = row(trace, "l1i-size");
        set(&mut row, "kb", *kb as u64);
        set(&mut row, "mpki", rounded(missed as f64 * 1000.0 / misses.instructions.max(1) as f64));
        row
    }));
    rows.extend(operations(trace, &misses));
    rows.extend(components(trace, &misses));
    rows.extend(within(trace, &misses));
    rows.extend(code_footprints(trace, &prints));
    rows.extend(data_footprints(trace, &prints));
    rows.extend(parts(trace, &prints));
    rows.extend(reuse(trace, &prints));
    rows.extend(common_data(trace, &prints));
    for row in &mut rows {
        set(row, "machine", machine.name.as_str());
        set(row, "transactions", misses.transactions as u64);
    }
    Ok(rows)
}

fn summary(trace: &Trace, misses: &Misses, prints: &Footprints, warm: usize) -> Row {
    let mut row = row(trace, "summary");
    set(&mut row, "warm", warm as u64);
    set(&mut row, "instructions", misses.instructions);
    let each = misses.instructions as f64 / misses.transactions.max(1) as f64;
    set(&mut row, "instructions_per_txn", rounded(each));
    let measured = trace.transactions.iter().skip(warm).map(|t| t.counts);
    let (l1i, all_stalls) = (misses.stalls(0), (0..CACHES.len()).map(|c| misses.stalls(c)).sum::<f64>());
    set(&mut row, "stalls", rounded(all_stalls));
    set(&mut row, "l1i_mpki", rounded(misses.mpki(0)));
    set(&mut row, "l1i_stall_share", rounded(l1i / all_stalls.max(f64::MIN_POSITIVE)));
    let whole = prints.code.get(&(String::new(), Vec::new()));
    set(&mut row, "code_kb", kb(whole.map_or(0.0, Group::mean)));
    set(&mut row, "code_union_kb", kb(whole.map_or(0.0, |group| group.union() as f64)));
    let (loads, stores) = measured.fold((0, 0), |sum, c| (sum.0 + c.loads, sum.1 + c.stores));
    set(&mut row, "store_share", rounded(stores as f64 / (loads + stores).max(1) as f64));
    let common = prints.common.iter().filter(|common| common.owner != STACK);
    let (all, reads) = common.fold((0, 0), |sum, c| (sum.0 + c.accesses, sum.1 + c.loads));
    set(&mut row, "common_data_read_share", rounded(reads as f64 / all.max(1) as f64));
    row
}

fn caches(trace: &Trace, misses: &Misses) -> Vec<Row> {
    let of = |(cache, name): (usize, &&str)| {
        let mut row = row(trace, "caches");
        set(&mut row, "cache", *name);
        set(&mut row, "mpki", rounded(misses.mpki(cache)));
        set(&mut row, "stalls", rounded(misses.stalls(cache)));
        set(&mut row, "stall_share", rounded(misses.stall_share(cache)));
        row
    };
    CACHES.iter().enumerate().map(of).collect()
}

fn three_c(trace: &Trace, misses: &Misses) -> Vec<Row> {
    let of = |(cache, three): (&str, ThreeC)| {
        let mut row = row(trace, "three-c");
        let ThreeC { compulsory, capacity, conflict } = three;
        set(&mut row, "cache", cache);
        let all = (compulsory + capacity + conflict).max(1) as f64;
        for (name, n) in [("compulsory", compulsory), ("capacity", capacity), ("conflict", conflict)] {
            set(&mut row, name, n);
            set(&mut row, &format!("{name}_share"), rounded(n as f64 / all));
        }
        row
    };
    [("l1i", misses.l1i), ("l3d", misses.l3d)].map(of).into()
}

/// Operations by their numbers in [`Misses`].
fn operation_name(number: usize) -> &'static str {
    OPERATIONS.get(number).map_or(ELSEWHERE, |(_, name)| name)
}

fn shares(
    row: &mut Row,
    misses: &Misses,
    part: impl Fn(usize, usize) -> bool,
    whole: impl Fn(usize, usize) -> bool,
) {
    for (cache, name) in CACHES.iter().enumerate() {
        let (part, whole) = (misses.sum(cache, &part), misses.sum(cache, &whole));
        set(row, name, rounded(part as f64 / whole.max(1) as f64));
        let each = part as f64 * 1000.0 / misses.instructions.max(1) as f64;
        set(row, &format!("{name}_stalls"), rounded(each * misses.costs[cache]));
    }
    let (part, whole) = (misses.instructions_in(&part), misses.instructions_in(&whole));
    set(row, "instructions", rounded(part as f64 / whole.max(1) as f64));
}

fn operations(trace: &Trace, misses: &Misses) -> Vec<Row> {
    let of = |number: usize| {
        let mut row = row(trace, "operations");
        set(&mut row, "operation", operation_name(number));
        shares(&mut row, misses, |o, _| o == number, |_, _| true);
        row
    };
    (0..=OPERATIONS.len()).map(of).collect()
}

fn components(trace: &Trace, misses: &Misses) -> Vec<Row> {
    let of = |(number, name): (usize, &String)| {
        let mut row = row(trace, "components");
        set(&mut row, "component", name.as_str());
        shares(&mut row, misses, |_, c| c == number, |_, _| true);
        row
    };
    misses.components.iter().enumerate().map(of).collect()
}

fn within(trace: &Trace, misses: &Misses) -> Vec<Row> {
    let mut rows = Vec::new();
    for operation in 0..=OPERATIONS.len() {
        if misses.sum(0, |o, _| o == operation) == 0 {
            continue;
        }
        for (component, name) in misses.components.iter().enumerate() {
            let mut row = row(trace, "components-in-operation");
            set(&mut row, "operation", operation_name(operation));
            set(&mut row, "component", name.as_str());
            shares(&mut row, misses, |o, c| o == operation && c == component, |o, _| o == operation);
            rows.push(row);
        }
    }
    rows
}

fn kb(lines: f64) -> serde_json::Value {
    rounded(lines * LINE_BYTES as f64 / 1024.0)
}

fn overlaps(row: &mut Row, kind: &str, group: &Group) {
    set(row, "kind", if kind.is_empty() { "mix" } else { kind });
    set(row, "instances", group.instances);
    set(row, "kb", kb(group.mean()));
    set(row, "union_kb", kb(group.union() as f64));
    for (name, share) in [("in_all", 1.0), ("in_99", 0.99), ("in_90", 0.9), ("in_60", 0.6), ("in_30", 0.3)] {
        set(row, name, rounded(group.overlap(share)));
    }
}

fn code_footprints(trace: &Trace, prints: &Footprints) -> Vec<Row> {
    let short = prints.code.iter().filter(|((_, path), _)| path.len() <= 1);
    let of = |((kind, path), group): (&(String, Vec<u16>), &Group)| {
        let mut row = row(trace, "code");
        let operation = path.first().map_or(Some("transaction"), |&mark| name(mark))?;
        set(&mut row, "operation", operation);
        overlaps(&mut row, kind, group);
        Some(row)
    };
    short.filter_map(of).collect()
}

fn data_footprints(trace: &Trace, prints: &Footprints) -> Vec<Row> {
    let of = |((kind, _), group): (&(String, Vec<u16>), &Group)| {
        let mut row = row(trace, "data");
        overlaps(&mut row, kind, group);
        row
    };
    prints.data.iter().map(of).collect()
}

/// The code of each part of an operation, as a share of the code around it.
fn parts(trace: &Trace, prints: &Footprints) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((kind, path), group) in &prints.code {
        let Some((last, outer)) = path.split_last().filter(|(_, outer)| !outer.is_empty()) else { continue };
        let Some(around) = prints.code.get(&(kind.clone(), outer.to_vec())) else { continue };
        if is_probe_in(outer[0], path[1]) {
            continue;
        }
        let words: Option<Vec<&str>> = outer.iter().map(|&mark| name(mark)).collect();
        let (Some(words), Some(part)) = (words, name(*last)) else { continue };
        let mut row = row(trace, "parts");
        set(&mut row, "kind", if kind.is_empty() { "mix" } else { kind.as_str() });
        set(&mut row, "inside", words.join(" > "));
        set(&mut row, "part", part);
        set(&mut row, "kb", kb(group.union() as f64));
        set(&mut row, "share", rounded(group.union() as f64 / around.union().max(1) as f64));
        set(
            &mut row,
            "instances_each",
            rounded(f64::from(group.instances) / f64::from(around.instances.max(1))),
        );
        rows.push(row);
    }
    rows
}

/// Shares of instances by which lines are sorted in Figures 6.8 and 6.9.
const SHARES: [(&str, f64, f64); 5] = [
    ("0-30", 0.0, 0.3),
    ("30-60", 0.3, 0.6),
    ("60-90", 0.6, 0.9),
    ("90-100", 0.9, 1.0),
    ("100", 1.0, f64::INFINITY),
];

/// How often an instance touches a line of code, by the share of the instances that touch it.
fn reuse(trace: &Trace, prints: &Footprints) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((kind, path), group) in prints.code.iter().filter(|((_, path), _)| path.len() <= 1) {
        let Some(operation) = path.first().map_or(Some("transaction"), |&mark| name(mark)) else { continue };
        for (share, least, most) in SHARES {
            let (touches, lines) = group.reuse(least, most);
            let mut row = row(trace, "reuse");
            set(&mut row, "kind", if kind.is_empty() { "mix" } else { kind.as_str() });
            set(&mut row, "operation", operation);
            set(&mut row, "instances_share", share);
            set(&mut row, "lines", lines as u64);
            set(&mut row, "touches", rounded(touches));
            rows.push(row);
        }
    }
    rows
}

/// The data that all transactions touch, by the component that uses it most.
fn common_data(trace: &Trace, prints: &Footprints) -> Vec<Row> {
    let all: u64 = prints.common.iter().filter(|c| c.owner != STACK).map(|c| c.accesses).sum();
    let of = |common: &Common| {
        let mut row = row(trace, "common-data");
        set(&mut row, "component", common.owner.as_str());
        set(&mut row, "lines", common.lines);
        set(&mut row, "read_share", rounded(common.loads as f64 / common.accesses.max(1) as f64));
        if common.owner != STACK {
            set(&mut row, "share", rounded(common.accesses as f64 / all.max(1) as f64));
        }
        row
    };
    prints.common.iter().map(of).collect()
}
