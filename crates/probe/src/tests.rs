//! Profiles of worker loops that are made up here: time adds up, and counts belong to the right
//! transaction.

use crate::worker::{TIMING, WORKER};
use crate::*;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Keeps the processor busy for at least this time, by a clock that the profile does not use.
fn work(ns: u64) {
    let start = world::now_ns();
    while world::now_ns() - start < ns {
        std::hint::spin_loop();
    }
}

/// Pending once.
async fn park(wait: Wait) {
    let mut parked = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut parked, true) { Poll::Ready(()) } else { parks(wait, Poll::Pending) }
    })
    .await;
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A worker's loop over tasks, one poll of each in turn, until all have ended.
fn run(mut tasks: Vec<Task<'_>>) {
    let mut cx = Context::from_waker(Waker::noop());
    while !tasks.is_empty() {
        tasks.retain_mut(|task| task.as_mut().poll(&mut cx).is_pending());
        round(Round::Worked);
    }
}

fn at<const N: usize>(ns: &[u64; N], what: usize) -> u64 {
    ns[what]
}

fn assert_adds_up(profile: &Profile) {
    let sum = profile.busy_ns.iter().sum::<u64>() + profile.idle_ns;
    let off = sum.abs_diff(profile.window_ns) as f64 / profile.window_ns as f64;
    assert!(off < 0.01, "{sum} ns of components in a window of {} ns", profile.window_ns);
}

const MS: u64 = 1_000_000;

#[test]
fn off_means_that_nothing_is_there() {
    count(Counter::Records);
    enter(Section::LockBucket);
    within(Component::Locking, || charge(Role::Home, || ()));
    assert_eq!(window(), None);
    profile(Profiling::ON);
    let profile_of_nothing = window().unwrap();
    assert_eq!(profile_of_nothing.counts, [0; Counter::COUNT]);
    profile(Profiling::Off);
    assert_eq!(window(), None);
}

#[test]
fn spans_nest_and_add_up() {
    profile(Profiling::OneIn(1));
    charge(Role::Home, || {
        work(2 * MS);
        within(Component::Locking, || {
            work(3 * MS);
            within(Component::Logging, || work(4 * MS));
            work(MS);
        });
        let _span = span(Component::Execution);
        work(MS);
    });
    communicating(|| work(MS));
    round(Round::Worked);
    work(MS);
    round(Round::Idle);
    let profile = window().unwrap();
    let busy = |c| at(&profile.busy_ns, c as usize);
    assert!(busy(Component::Management) >= 2 * MS - MS / 10);
    assert!(busy(Component::Locking) >= 4 * MS - MS / 10);
    assert!(busy(Component::Logging) >= 4 * MS - MS / 10);
    assert!(busy(Component::Execution) >= MS - MS / 10);
    assert!(busy(Component::Communication) >= MS - MS / 10);
    assert!(profile.idle_ns >= MS - MS / 10);
    assert_eq!(busy(Component::Latching), 0);
    assert_adds_up(&profile);
}

/// While one task waits for a lock, another works: the worker's time is the other's, and the first
/// task's time is a wait.
#[test]
fn a_span_lasts_over_an_await_and_its_wait_is_no_work() {
    profile(Profiling::OneIn(1));
    let first = charged(Role::Home, async {
        let _span = span(Component::Execution);
        work(MS);
        park(Wait::Lock).await;
        work(2 * MS);
    });
    let second = charged(Role::Home, async {
        let _span = span(Component::Logging);
        work(3 * MS);
        park(Wait::Log).await;
    });
    run(vec![Box::pin(first), Box::pin(second)]);
    let profile = window().unwrap();
    let own = |c| at(&profile.own_ns, c as usize);
    let waited = |w| at(&profile.wait_ns, w as usize);
    assert!(own(Component::Execution) >= 3 * MS - MS / 10, "{profile:?}");
    assert!(own(Component::Logging) >= 3 * MS - MS / 10, "{profile:?}");
    assert!(waited(Wait::Lock) >= 3 * MS - MS / 10, "{profile:?}");
    assert!(waited(Wait::Log) >= 2 * MS - MS / 10, "{profile:?}");
    assert_eq!((waited(Wait::Turn), waited(Wait::Reply)), (0, 0));
    assert_adds_up(&profile);
    // Two time lines, each as long as the first task except for the second one's start and end.
    assert!(profile.elapsed_ns() >= 11 * MS - MS / 2);
}

#[test]
fn the_innermost_reason_to_wait_counts() {
    profile(Profiling::OneIn(1));
    let task = charged(Role::Home, async {
        let mut inner = std::pin::pin!(park(Wait::Page));
        std::future::poll_fn(|cx| parks(Wait::Reply, inner.as_mut().poll(cx))).await;
    });
    let other = charged(Role::Served, async { work(MS) });
    run(vec![Box::pin(task), Box::pin(other)]);
    let profile = window().unwrap();
    assert!(at(&profile.wait_ns, Wait::Page as usize) >= MS - MS / 10);
    assert_eq!(at(&profile.wait_ns, Wait::Reply as usize), 0);
    let (own, busy) = (profile.own_ns.iter().sum::<u64>(), profile.busy_ns.iter().sum::<u64>());
    assert!(own + MS - MS / 10 <= busy, "served work is not a transaction's own: {profile:?}");
}

#[test]
fn a_request_run_inside_another_task_is_charged_once() {
    profile(Profiling::OneIn(1));
    let task = charged(Role::Served, async {
        work(MS);
        charged(Role::Home, async {
            work(2 * MS);
            park(Wait::Log).await;
        })
        .await;
        work(MS);
    });
    run(vec![Box::pin(task)]);
    let profile = window().unwrap();
    let own = profile.own_ns.iter().sum::<u64>();
    let busy = profile.busy_ns.iter().sum::<u64>();
    // Wide bounds: on a machine that loses its cores to others, the length of a tick is calibrated
    // badly.
    assert!(own >= MS && busy >= own + MS, "{profile:?}");
    assert_adds_up(&profile);
}

/// Tasks that alternate between two kinds of work: sampling sees both equally often, although they
/// come regularly.
#[test]
fn a_sample_stands_for_all() {
    profile(Profiling::OneIn(8));
    const POLLS: u64 = 20_000;
    let mut timed = [0; 2];
    for i in 0..POLLS {
        charge(Role::Home, || {
            let component = if i % 2 == 0 { Component::Locking } else { Component::Logging };
            within(component, || work(500));
            timed[(i % 2) as usize] += u64::from(WORKER.with(|w| w.mode.get()) == TIMING);
        });
        count(Counter::Records);
    }
    let profile = window().unwrap();
    assert_eq!((profile.polls, profile.count(Counter::Records)), (POLLS, POLLS));
    assert_eq!(profile.timed_polls, timed[0] + timed[1]);
    // 1250 of each are expected, with a standard deviation of 33; polls after an interruption come
    // on top.
    assert!(timed.iter().all(|n| (1000..5000).contains(n)), "{timed:?} of {POLLS} were timed");
    assert!(at(&profile.own_ns, Component::Locking as usize) > 0);
    assert!(at(&profile.own_ns, Component::Logging as usize) > 0);
    assert_eq!(at(&profile.own_ns, Component::Latching as usize), 0);
    assert_adds_up(&profile);
}

#[test]
fn pages_are_different_within_a_transaction_only() {
    profile(Profiling::OneIn(1));
    let transaction = |pages: &'static [u32]| {
        charged(Role::Home, async move {
            part_begins();
            for &id in pages {
                visited(|| 4, id, Latched::No);
                park(Wait::Page).await;
            }
            visited(|| 1, 7, Latched::No);
            visited(|| 2, 1, Latched::No);
            part_ends();
        })
    };
    run(vec![Box::pin(transaction(&[1, 2, 2, 1]))]);
    run(vec![Box::pin(transaction(&[1, 1]))]);
    let profile = window().unwrap();
    assert_eq!((profile.count(Counter::HeapPages), profile.count(Counter::IndexPages)), (6, 2));
    assert_eq!((profile.count(Counter::UniqueHeapPages), profile.count(Counter::UniqueIndexPages)), (3, 2));
}

/// The second transaction begins while the first is parked and its list of pages is in use.
#[test]
fn two_transactions_at_once_do_not_mix_their_pages() {
    profile(Profiling::OneIn(1));
    let transaction = |id: u32| {
        charged(Role::Home, async move {
            part_begins();
            visited(|| 4, id, Latched::No);
            park(Wait::Lock).await;
            visited(|| 4, id, Latched::No);
            part_ends();
        })
    };
    run(vec![Box::pin(transaction(1)), Box::pin(transaction(2))]);
    assert_eq!(window().unwrap().count(Counter::UniqueHeapPages), 2);
}

#[test]
fn sections_are_counted_by_component_and_kind() {
    profile(Profiling::ON);
    enter(Section::LockBucket);
    enter(Section::LockBucket);
    latching(contended);
    visited(|| 1, 5, Latched::Yes);
    let row = window().unwrap().per_transaction(2);
    assert_eq!(row.critical_sections_per_txn["locking"]["unbounded"], 1.0);
    assert_eq!(row.critical_sections_per_txn["latching"]["unbounded"], 0.5);
    assert_eq!(row.contended_sections_per_txn["latching"]["unbounded"], 0.5);
    assert_eq!(row.contended_sections_per_txn["locking"]["unbounded"], 0.0);
    assert_eq!(row.latches_per_txn["index"], 0.5);
    assert_eq!(row.critical_sections_per_txn.len(), Component::COUNT);
    assert!(row.critical_sections_per_txn.values().all(|kinds| kinds.len() == Kind::COUNT));
}

#[test]
fn lock_calls_follow_from_what_is_counted() {
    profile(Profiling::ON);
    for (counter, n) in [
        (Counter::RowLocks, 10),
        (Counter::HigherLocks, 3),
        (Counter::LockRepeats, 9),
        (Counter::LockFast, 1),
        (Counter::LockInherited, 2),
    ] {
        add(counter, n);
    }
    let profile = window().unwrap();
    assert_eq!((profile.count(Counter::LockRequests), profile.count(Counter::LockTableVisits)), (22, 10));
}

#[test]
fn profiles_travel_and_merge() {
    let mut one = Profile { window_ns: 5, idle_ns: 1, polls: 3, ..Profile::default() };
    one.busy_ns[2] = 4;
    one.counts[Counter::COUNT - 1] = 9;
    let bytes = postcard::to_stdvec(&one).unwrap();
    let mut sum: Profile = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(sum, one);
    sum.merge(&one);
    assert_eq!((sum.window_ns, sum.idle_ns, sum.busy_ns[2], sum.counts[Counter::COUNT - 1]), (10, 2, 8, 18));
    let mut measured = Measured { profile: Some(Box::new(one.clone())), ..Measured::default() };
    measured.merge(&Measured::default());
    measured.merge(&Measured { profile: Some(Box::new(one)), ..Measured::default() });
    assert_eq!(measured.profile.unwrap().polls, 6);
}

/// Two workers' counts add up. An event that only one of them counts is not reported for both. A
/// reason is kept.
#[test]
fn hardware_counts_are_figures_of_all_workers_or_none() {
    let counted = |cycles, branches| {
        let mut hardware = Hardware::default();
        hardware.counts[Event::Cycles as usize] = Some(cycles);
        hardware.counts[Event::BranchMisses as usize] = branches;
        Profile { hardware: Some(hardware), ..Profile::default() }
    };
    let mut sum = Profile::default();
    [counted(900, Some(5)), counted(100, None)].iter().for_each(|p| sum.merge(p));
    let row = sum.per_transaction(10);
    assert_eq!(row.hardware, Some([("cycles".to_string(), 100.0)].into()));
    assert_eq!(row.hardware_missing, None);
    let refused = Hardware { reason: Some("forbidden".into()), ..Hardware::default() };
    sum.merge(&Profile { hardware: Some(refused), ..Profile::default() });
    let row = sum.per_transaction(10);
    assert_eq!((row.hardware, row.hardware_missing.as_deref()), (None, Some("forbidden")));
}

/// On every machine: figures, or the reason why there are none.
#[test]
fn a_window_says_what_the_processor_counted_or_why_not() {
    profile(Profiling::ON);
    work(MS);
    let row = window().unwrap().per_transaction(1);
    profile(Profiling::Off);
    assert_ne!(row.hardware.is_some(), row.hardware_missing.is_some(), "{row:?}");
}

/// A part that waits between its begin and its end holds its locks all the time. A part that began
/// before the window is left out.
#[test]
fn locks_are_held_from_begin_to_release() {
    profile(Profiling::OneIn(1));
    let part = charged(Role::Home, async {
        let hold = part_begins();
        park(Wait::Reply).await;
        held(hold);
    });
    let other = charged(Role::Home, async { work(3 * MS) });
    run(vec![Box::pin(part), Box::pin(other)]);
    let measured = window().unwrap();
    assert_eq!(measured.holds, 1);
    assert!(measured.per_transaction(5).lock_hold_ns.unwrap() >= (3 * MS - MS / 10) as f64);
    held(Hold::default());
    assert_eq!(window().unwrap().per_transaction(5).lock_hold_ns, None);
    profile(Profiling::Off);
}

/// One list defines every counter, and the document has all of it.
#[test]
fn the_measuring_page_has_every_counter() {
    let page = include_str!("../../../results/counters.md");
    let missing: Vec<_> =
        table::markdown().lines().filter(|l| !page.contains(*l)).map(String::from).collect();
    assert!(missing.is_empty(), "results/counters.md lacks these lines:\n{}", missing.join("\n"));
}

#[test]
fn every_group_is_a_field_of_the_row() {
    let text = format!("{:?}", PerTransaction::default());
    Group::ALL.iter().for_each(|g| assert!(text.contains(g.name()), "{} in {text}", g.name()));
}
