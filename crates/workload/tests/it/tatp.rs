//! TATP on the naive model in every deployment; its success rates, the distributions of its inputs,
//! and its judge.

use base::{InstanceId, Key, TableId};
use std::collections::BTreeMap;
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Generator, RowMut, Workload};
use workload::oracle::{Model, Oracle, at_once};
use workload::tatp::{self, *};
use workload::{AnyWorkload, Benchmark, WorkloadSpec};

const SITES: u32 = 4;

fn tatp(options: TatpOptions) -> Tatp {
    Tatp::new(options).unwrap()
}

fn small(mix: Mix) -> TatpOptions {
    TatpOptions { mix, subscribers: 60, rows: 25, ..TatpOptions::new(SITES) }
}

fn loaded(tatp: &Tatp, instances: u16) -> Oracle<Tatp> {
    let mut oracle = Oracle::new(tatp.clone(), instances);
    oracle.load().unwrap();
    oracle
}

/// Attempts and successes, by kind.
type Counts = BTreeMap<String, (u64, u64)>;

fn run(oracle: &mut Oracle<Tatp>, tatp: &Tatp, seed: u64, n: u64) -> Counts {
    let mut requests = tatp.generator(seed, 0..tatp.sites());
    let mut counts = Counts::new();
    for _ in 0..n {
        let received = postcard::from_bytes(&postcard::to_stdvec(&requests.next()).unwrap()).unwrap();
        let (tries, successes) = counts.entry(tatp.kind(&received).into()).or_default();
        *tries += 1;
        match oracle.submit(&received) {
            Ok(_) => *successes += 1,
            Err(Abort::User(_)) => {}
            Err(abort) => panic!("{abort:?}: {received:?}"),
        }
    }
    counts
}

fn committed(counts: &Counts) -> BTreeMap<String, u64> {
    counts.iter().map(|(kind, n)| (kind.clone(), n.1)).collect()
}

#[test]
fn every_form_holds_in_every_deployment() {
    for form in Tatp::FORMS {
        for index in ["aligned", "nonaligned"] {
            let rows = (form.name == "tatp-scan").then_some(25);
            let spec = WorkloadSpec { rows, ..WorkloadSpec::new(form.name, SITES) };
            let spec = spec.with("subscribers", 60).with("index", index).with("ids", "uniform");
            let Ok(AnyWorkload::Tatp(tatp)) = spec.build() else { panic!("{form:?}") };
            assert_eq!(tatp.name(), form.name);
            for instances in [1, 3, 4] {
                let mut oracle = loaded(&tatp, instances);
                assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default(), "loaded");
                let counts = run(&mut oracle, &tatp, 5, 150);
                let effects = tatp.effects(&committed(&counts));
                assert_eq!(oracle.judge(effects).unwrap(), Verdict::default(), "{} {index}", form.name);
                // A subscriber's rows lie together; only scans, and look-ups in an index at another
                // site, span instances.
                let by_number = ["tatp", "tatp-update-location"].contains(&form.name)
                    || form.name.ends_with("call-forwarding");
                let reaches = form.name == "tatp-scan" || by_number && index == "nonaligned";
                assert_eq!(oracle.distributed > 0, instances > 1 && reaches, "{} {index}", form.name);
            }
        }
    }
}

/// The success rate of 100,000 uniform attempts on the initial population; the rates of inserts and
/// deletes hold only for that population, so their transactions are undone.
fn rate(kind: Kind, distribution: Population, predicate: Predicate) -> f64 {
    const TRIES: u64 = 100_000;
    // The model reads a whole secondary index for each look-up: with the numbers in a table of
    // their own it is fast, and the rates are the same.
    let index = Index::NonAligned;
    let options = TatpOptions { mix: Mix::Only(kind), distribution, predicate, index, ..TatpOptions::new(1) };
    let tatp = tatp(TatpOptions { popularity: Popularity::Uniform, subscribers: 3_000, ..options });
    let mut oracle = loaded(&tatp, 1);
    let mut requests = tatp.generator(11, 0..1);
    let mut successes = 0u64;
    for _ in 0..TRIES {
        let result = at_once(tatp.run(&requests.next(), &mut Undone(oracle.model(InstanceId(0)))));
        oracle.model(InstanceId(0)).end(false);
        assert!(matches!(result, Ok(_) | Err(Abort::User(1..=6))), "{result:?}");
        successes += u64::from(result.is_ok());
    }
    assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default());
    successes as f64 / TRIES as f64 * 100.0
}

/// A transaction on one model; the caller ends it.
struct Undone<'a>(&'a mut Model);

impl txn::Transaction for Undone<'_> {
    async fn all<S: txn::Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self.0).await
    }
    async fn last<S: txn::Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self.0).await
    }
}

#[test]
fn success_rates_are_the_exact_ones() {
    use Kind::*;
    let (subset, standard) = (Population::Subset, Predicate::Standard);
    for (kind, distribution, predicate, expected) in [
        (GetSubscriberData, subset, standard, 100.0),
        (GetAccessData, subset, standard, 62.5),
        (UpdateSubscriberData, subset, standard, 62.5),
        (UpdateLocation, subset, standard, 100.0),
        (InsertCallForwarding, subset, standard, 31.25),
        (DeleteCallForwarding, subset, standard, 31.25),
        (GetNewDestination, subset, standard, 14.8),
        (GetNewDestination, subset, Predicate::Reversed, 24.6),
        (GetNewDestination, Population::Prefix, standard, 13.2),
        (GetNewDestination, Population::Prefix, Predicate::Reversed, 15.7),
    ] {
        let found = rate(kind, distribution, predicate);
        let what = format!("{kind:?} {distribution:?} {predicate:?}");
        assert!((found - expected).abs() < 1.0, "{what}: expected {expected}, found {found}");
    }
}

#[test]
fn the_mix_is_as_defined_and_a_quarter_of_it_fails() {
    const N: u64 = 200_000;
    let options = TatpOptions { subscribers: 3_000, index: Index::NonAligned, ..TatpOptions::new(1) };
    let tatp = tatp(options);
    let mut oracle = loaded(&tatp, 1);
    let mut requests = tatp.generator(42, 0..1);
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for _ in 0..N {
        *shares.entry(tatp.kind(&requests.next())).or_default() += 100.0 / N as f64;
    }
    let expected = [
        ("get_subscriber_data", 35.0),
        ("get_new_destination", 10.0),
        ("get_access_data", 35.0),
        ("update_subscriber_data", 2.0),
        ("update_location", 14.0),
        ("insert_call_forwarding", 2.0),
        ("delete_call_forwarding", 2.0),
    ];
    for (kind, share) in expected {
        assert!((shares[kind] - share).abs() < 0.4, "{kind}: expected {share} %, found {} %", shares[kind]);
    }
    let counts = run(&mut oracle, &tatp, 3, 20_000);
    let failed: u64 = counts.values().map(|(tries, successes)| tries - successes).sum();
    assert!((failed as f64 / 200.0 - 25.1).abs() < 1.5, "{failed} of 20,000");
    assert_eq!(oracle.judge(tatp.effects(&committed(&counts))).unwrap(), Verdict::default());
}

/// The concentration of the definition's formula, compared with published samples; uniform ids have
/// none.
#[test]
fn some_subscribers_are_as_popular_as_the_formula_makes_them() {
    const DRAWS: usize = 400_000;
    let top = |popularity, subscribers: u32| {
        let mix = Mix::Only(Kind::GetSubscriberData);
        let tatp = tatp(TatpOptions { popularity, subscribers, mix, ..TatpOptions::new(10) });
        let mut requests = tatp.generator(1, 0..10);
        let mut hits = vec![0u32; subscribers as usize * 10];
        for _ in 0..DRAWS {
            let TatpRequest::GetSubscriberData { s } = requests.next() else { panic!("another kind") };
            hits[s as usize - 1] += 1;
        }
        hits.sort_unstable_by(|a, b| b.cmp(a));
        let share = |n: usize| f64::from(hits[..n].iter().sum::<u32>()) / DRAWS as f64 * 100.0;
        (share(hits.len() / 100), share(hits.len() / 10))
    };
    let (one, ten) = top(Popularity::NonUniform, 10_000);
    assert!((one - 35.0).abs() < 2.0 && (ten - 76.0).abs() < 2.0, "{one} {ten}");
    let (one, ten) = top(Popularity::Uniform, 1_000);
    // Poisson counts with mean 40: their highest per cent and tenth lie 2.67 and 1.75 standard
    // deviations of 6.3 above it.
    assert!((one - 1.42).abs() < 0.05 && (ten - 12.78).abs() < 0.15, "{one} {ten}");
    assert_eq!(tatp(TatpOptions::new(2)).clients(), Clients::Routed);
    let bound = tatp(TatpOptions { popularity: Popularity::Uniform, ..TatpOptions::new(4) });
    assert_eq!(bound.clients(), Clients::Bound);
    let mut requests = bound.generator(1, 1..3);
    for _ in 0..2_000 {
        bound_home(&bound, &requests.next(), 10_001..=30_000);
    }
}

fn bound_home(tatp: &Tatp, request: &TatpRequest, subscribers: std::ops::RangeInclusive<u64>) {
    let mut home = None;
    tatp.routes(request, &mut |route| home = home.or(Some(route.key)));
    assert!(subscribers.contains(&home.unwrap()), "{request:?}");
}

/// Inserts and deletes draw the same ids, so the share of taken starts stays at its initial value,
/// as published.
#[test]
fn the_table_of_the_benches_keeps_its_size() {
    for mix in [Mix::Insert, Mix::Delete, Mix::InsertDelete] {
        let tatp = tatp(small(mix));
        let mut oracle = loaded(&tatp, 2);
        let counts = run(&mut oracle, &tatp, 9, 4_000);
        assert!(counts.values().all(|(tries, successes)| tries == successes), "{counts:?}");
        assert_eq!(tatp.effects(&committed(&counts)), None);
        assert_eq!(oracle.judge(None).unwrap(), Verdict::default());
        let audits = oracle.audits().unwrap();
        let (now, first): (u64, u64) =
            audits.iter().fold((0, 0), |(n, f), a| (n + a.forwarded, f + a.forwarded_at_first));
        let change = now.abs_diff(first) as f64 / first as f64;
        assert!(change < 0.15, "{mix:?}: from {first} to {now}");
    }
}

#[test]
fn scans_see_every_row_once() {
    for index in [Index::Aligned, Index::NonAligned] {
        let tatp = tatp(TatpOptions { index, ..small(Mix::Scan) });
        let mut oracle = loaded(&tatp, 3);
        let mut scan = |number, rows| oracle.submit(&TatpRequest::Scan(ScanRequest { number, rows }));
        let Ok(TatpReply::Scanned(all)) = scan(1, 240) else { panic!("no scan") };
        let parts: Vec<_> =
            [(1, 59), (60, 2), (62, 178), (240, 50)].into_iter().map(|(n, r)| scan(n, r)).collect();
        let mut sum = Scanned::default();
        for part in parts {
            let Ok(TatpReply::Scanned(part)) = part else { panic!("no scan") };
            sum.rows += part.rows;
            sum.msc_locations += part.msc_locations;
        }
        assert_eq!((all.rows, sum.rows, sum.msc_locations > all.msc_locations), (240, 240, false));
        assert_eq!(sum, all);
        assert!(
            [(0, 5), (241, 5), (1, 0), (1, 10_001)]
                .into_iter()
                .all(|(n, r)| scan(n, r) == Err(Abort::BadRequest))
        );
    }
}

#[test]
fn replies_tell_what_was_read_and_written() {
    for index in [Index::Aligned, Index::NonAligned] {
        let tatp = tatp(TatpOptions { index, ..small(Mix::Full) });
        let mut oracle = loaded(&tatp, 2);
        let mut submit = |request| oracle.submit(&request);
        assert_eq!(
            submit(TatpRequest::UpdateLocation { number: 239, location: u32::MAX }),
            Ok(TatpReply::Done)
        );
        let Ok(TatpReply::Subscriber(row)) = submit(TatpRequest::GetSubscriberData { s: 239 }) else {
            panic!("no subscriber")
        };
        assert_eq!((row.vlr_location, &row.number), (u32::MAX, b"000000000000239"));
        // Every pair of facility and start of one subscriber is inserted and deleted again.
        let (mut inserted, mut parents) = (0, 0);
        for sf_type in 1..=4 {
            for start in [0, 8, 16] {
                let insert =
                    TatpRequest::InsertCallForwarding { number: 7, sf_type, start, end: 24, numberx: 99 };
                let delete = TatpRequest::DeleteCallForwarding { number: 7, sf_type, start };
                match submit(insert) {
                    Ok(_) => inserted += 1,
                    Err(Abort::User(FORWARDED_ALREADY)) => {}
                    other => {
                        assert_eq!(other, Err(Abort::User(NO_PARENT)));
                        assert_eq!(submit(delete), Err(Abort::User(NOT_FORWARDED)));
                        continue;
                    }
                }
                parents += 1;
                assert_eq!(submit(insert), Err(Abort::User(FORWARDED_ALREADY)));
                assert_eq!(
                    (submit(delete), submit(delete)),
                    (Ok(TatpReply::Done), Err(Abort::User(NOT_FORWARDED)))
                );
                let toggle =
                    |first| TatpRequest::Toggle(Flip { s: 7, sf_type, start, end: 24, numberx: 99, first });
                assert_eq!(submit(toggle(First::Insert)), Ok(TatpReply::Toggled(Flipped::Inserted)));
                assert_eq!(submit(toggle(First::Insert)), Ok(TatpReply::Toggled(Flipped::Deleted)));
                assert_eq!(submit(toggle(First::Delete)), Ok(TatpReply::Toggled(Flipped::Inserted)));
                let find = |start, end, predicate| Destination { s: 7, sf_type, start, end, predicate };
                let mut find =
                    |at, end, predicate| submit(TatpRequest::GetNewDestination(find(at, end, predicate)));
                for found in [find(16, 23, Predicate::Standard), find(0, 23, Predicate::Reversed)] {
                    let expected = Ok(TatpReply::Destinations([*b"000000000000099"].into_iter().collect()));
                    assert!(found == expected || found == Err(Abort::User(NO_DESTINATION)), "{found:?}");
                }
                assert_eq!(find(16, 24, Predicate::Standard), Err(Abort::User(NO_DESTINATION)), "24 < 24");
                assert_eq!(submit(delete), Ok(TatpReply::Done));
            }
        }
        assert!(inserted > 0 && parents % 3 == 0 && parents > 0);
    }
}

#[test]
fn requests_out_of_bounds_are_refused() {
    let tatp = tatp(small(Mix::Full));
    let mut oracle = loaded(&tatp, 2);
    let flip = Flip { s: 1, sf_type: 1, start: 0, end: 1, numberx: 1, first: First::Insert };
    for bad in [
        TatpRequest::GetSubscriberData { s: 0 },
        TatpRequest::GetAccessData { s: 241, ai_type: 1 },
        TatpRequest::UpdateLocation { number: u32::MAX, location: 1 },
        TatpRequest::InsertCallForwarding { number: 1, sf_type: 5, start: 0, end: 1, numberx: 1 },
        TatpRequest::InsertCallForwarding { number: 1, sf_type: 1, start: 6, end: 1, numberx: 1 },
        TatpRequest::DeleteCallForwarding { number: 0, sf_type: 1, start: 0 },
        TatpRequest::Toggle(Flip { s: 241, ..flip }),
        TatpRequest::Toggle(Flip { end: 25, ..flip }),
    ] {
        assert_eq!(oracle.submit(&bad), Err(Abort::BadRequest), "{bad:?}");
        tatp.routes(&bad, &mut |_| ());
    }
    assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default());
}

fn key(columns: &[i64]) -> Key {
    columns.iter().fold(Key::new(), |key, column| key.i64(*column))
}

/// Runs, corrupts instance 1 (subscribers 121 to 240), and returns the judge's words.
fn after(index: Index, tamper: impl FnOnce(&mut Model)) -> String {
    let tatp = tatp(TatpOptions { index, ..small(Mix::Full) });
    let mut oracle = loaded(&tatp, 2);
    let counts = run(&mut oracle, &tatp, 1, 300);
    tamper(oracle.model(InstanceId(1)));
    oracle.judge(tatp.effects(&committed(&counts))).unwrap().violations.join("; ")
}

#[test]
fn the_judge_has_teeth() {
    let schema = tatp(small(Mix::Full)).schema();
    let set = |table: TableId, id: &'static [i64], name: &str, value: i64| {
        let column = schema.table(table).unwrap().column(name).unwrap();
        after(Index::Aligned, move |m| {
            let change = |row: &mut RowMut<'_>| row.set_int(column, value);
            at_once(m.update(table, &key(id), change)).unwrap().unwrap();
        })
    };
    let first_of = |m: &mut Model, table| {
        let mut found = None;
        let each = |key: &[u8], _: txn::Row<'_>| {
            found = Some(key.to_vec());
            txn::Flow::Enough
        };
        at_once(m.scan(table, txn::Range::ALL, txn::Direction::Forward, each)).unwrap();
        found.unwrap()
    };
    let lose = |table| {
        after(Index::Aligned, move |m| {
            let first = first_of(m, table);
            assert!(at_once(m.delete(table, &first)).unwrap());
        })
    };
    assert_eq!(after(Index::Aligned, |_| ()), "");
    assert_eq!(after(Index::NonAligned, |_| ()), "");
    let number = after(Index::Aligned, |m| {
        at_once(m.update(SUBSCRIBER, &key(&[130]), |row| row.set_bytes(1, b"000000000000131")))
            .unwrap()
            .unwrap();
    });
    let moved = after(Index::NonAligned, |m| {
        let place = key(&[121]).bytes(b"000000000000001");
        at_once(m.update(NUMBER, &place, |row| row.set_int(2, 2))).unwrap().unwrap();
    });
    for (found, words) in [
        (lose(SUBSCRIBER), "2: SUBSCRIBER: expected 121, found 122"),
        (lose(SUBSCRIBER), "4: index by number: expected 121, found 122"),
        (lose(ACCESS_INFO), "2: ACCESS_INFO of 121: expected types"),
        (lose(SPECIAL_FACILITY), "2: SPECIAL_FACILITY of 121: expected types"),
        (lose(CALL_FORWARDING), "3: rows of CALL_FORWARDING"),
        (number, "4: SUBSCRIBER 130: its number is 000000000000131"),
        (moved, "4: NUMBER: the entry at 121 is another subscriber's"),
        (set(SUBSCRIBER, &[140], "HEX_10", 16), "SUBSCRIBER 140: a column is out of its domain"),
        (set(SUBSCRIBER, &[140], "VLR_LOCATION", 1 << 32), "SUBSCRIBER 140: a column is out of its domain"),
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let orphaned = after(Index::Aligned, |m| {
        let first = first_of(m, CALL_FORWARDING);
        let parent = &first[..first.len() - key(&[0]).len()];
        assert!(at_once(m.delete(SPECIAL_FACILITY, parent)).unwrap());
    });
    assert!(orphaned.contains("1: CALL_FORWARDING (") && orphaned.contains("has no facility"), "{orphaned}");
    let end = after(Index::Aligned, |m| {
        let first = first_of(m, CALL_FORWARDING);
        at_once(m.update(CALL_FORWARDING, &first, |row| row.set_int(3, 25))).unwrap().unwrap();
    });
    assert!(end.contains("4: CALL_FORWARDING (") && end.contains("to 25"), "{end}");
    let tatp = tatp(small(Mix::Full));
    let mut oracle = loaded(&tatp, 2);
    assert!(!oracle.judge(Some(1)).unwrap().holds() && !oracle.judge(Some(u64::MAX)).unwrap().holds());
    assert!(!tatp.judge(oracle.audits().unwrap().split_off(1), None).holds(), "a missing audit");
}

#[test]
fn digits_are_padded_with_zeros() {
    assert_eq!((&tatp::digits(0), &tatp::digits(1_234_567)), (b"000000000000000", b"000000001234567"));
}
