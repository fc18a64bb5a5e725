//! TPC-E on the naive model: every transaction in several numbers of instances, the judge, the
//! exchange, and the population against the counts of its definition.

use base::{InstanceId, Key, TableId};
use std::collections::BTreeMap;
use txn::workload::Verdict;
use txn::{Abort, Access, Generator, RowMut, Workload};
use workload::oracle::{Model, Oracle, at_once};
use workload::tpce::{self, *};

/// Few rows: about six initial trades for each account.
fn small(mix: Mix, units: u32) -> Tpce {
    let base = TpceOptions::new(units);
    Tpce::new(TpceOptions { mix, unit: 200, sf: 20_000, market_days: 60, news_bytes: 300, ..base }).unwrap()
}

fn loaded(tpce: &Tpce, instances: u16) -> Oracle<Tpce> {
    let mut oracle = Oracle::new(tpce.clone(), instances);
    oracle.load().unwrap();
    oracle
}

/// The outcomes of some requests.
#[derive(Default)]
struct Outcomes {
    committed: BTreeMap<&'static str, u64>,
    results: u64,
    triggered: u64,
    rolled_back: u64,
}

impl Outcomes {
    fn of(&self, kind: &str) -> u64 {
        self.committed.get(kind).copied().unwrap_or(0)
    }
}

/// Draws and runs `n` transactions.
fn run(oracle: &mut Oracle<Tpce>, tpce: &Tpce, requests: &mut TpceGenerator, n: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for _ in 0..n {
        let request = requests.next();
        let received = postcard::from_bytes(&postcard::to_stdvec(&request).unwrap()).unwrap();
        match oracle.submit(&received) {
            Ok(reply) => {
                tpce.committed(&request, &reply);
                *outcomes.committed.entry(tpce.kind(&request)).or_default() += 1;
                match reply {
                    TpceReply::TradeResult(TradeResultReply::Done { .. }) => outcomes.results += 1,
                    TpceReply::MarketFeed(reply) => outcomes.triggered += reply.triggered.len() as u64,
                    _ => {}
                }
            }
            Err(Abort::User(ROLLED_BACK)) => outcomes.rolled_back += 1,
            Err(abort) => panic!("{abort:?}: {received:?}"),
        }
    }
    outcomes
}

#[test]
fn the_mix_holds_in_every_deployment() {
    for (instances, copies) in [(1, true), (2, true), (2, false), (7, true)] {
        let options = small(Mix::Full, 2).options().clone();
        let tpce = Tpce::new(TpceOptions { market_copies: copies, ..options }).unwrap();
        let mut oracle = loaded(&tpce, instances);
        assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default(), "loaded");
        let mut requests = tpce.generator(7, 0..tpce.sites());
        let outcomes = run(&mut oracle, &tpce, &mut requests, 2_500);
        let orders = outcomes.of("trade_order");
        assert_eq!(oracle.judge(Some(orders)).unwrap(), Verdict::default(), "{instances} {copies}");
        assert!(outcomes.results > 0 && outcomes.triggered > 0, "{:?}", outcomes.committed);
        assert!(outcomes.committed.len() >= 11, "{:?}", outcomes.committed);
        assert_eq!(oracle.distributed > 0, instances > 1);
    }
}

#[test]
fn every_transaction_holds_alone() {
    use Card::*;
    let cards = [
        BrokerVolume,
        CustomerPosition,
        MarketFeed,
        MarketWatch,
        SecurityDetail,
        TradeLookup,
        TradeOrder,
        TradeStatus,
        TradeUpdate,
        DataMaintenance,
    ];
    for card in cards {
        let tpce = small(Mix::Only(card), 1);
        let mut oracle = loaded(&tpce, 3);
        let outcomes = run(&mut oracle, &tpce, &mut tpce.generator(3, 0..tpce.sites()), 250);
        assert_eq!(oracle.judge(Some(outcomes.of("trade_order"))).unwrap(), Verdict::default(), "{card:?}");
        assert_eq!(outcomes.committed.len(), 1);
    }
}

/// The mixes of orders draw no other card.
#[test]
fn trading_and_results_are_orders_and_what_these_cause() {
    for (mix, kinds) in [
        (Mix::Trading, ["exchange_rebuild", "market_feed", "trade_order", "trade_result"].as_slice()),
        (Mix::Results, &["exchange_rebuild", "trade_order", "trade_result"]),
    ] {
        let tpce = small(mix, 1);
        let mut oracle = loaded(&tpce, 2);
        let outcomes = run(&mut oracle, &tpce, &mut tpce.generator(3, 0..tpce.sites()), 1_000);
        assert!(outcomes.committed.keys().copied().eq(kinds.iter().copied()), "{:?}", outcomes.committed);
        assert_eq!(oracle.judge(Some(outcomes.of("trade_order"))).unwrap(), Verdict::default(), "{mix:?}");
        let orders = outcomes.of("trade_order");
        assert!(
            mix == Mix::Trading || orders.abs_diff(outcomes.results) * 20 < orders,
            "{:?}",
            outcomes.committed
        );
    }
}

/// With scans forward, the same replies.
#[test]
fn the_newest_rows_are_the_same_without_scans_backward() {
    let backward = small(Mix::Full, 1);
    let forward = Tpce::new(TpceOptions { backward: false, ..backward.options().clone() }).unwrap();
    let (mut one, mut other) = (loaded(&backward, 1), loaded(&forward, 1));
    let mut requests = backward.generator(4, 0..backward.sites());
    for _ in 0..600 {
        let request = requests.next();
        let (a, b) = (one.submit(&request), other.submit(&request));
        assert_eq!(a, b, "{request:?}");
        if let Ok(reply) = a {
            backward.committed(&request, &reply);
        }
    }
}

/// A stream over sites that had none fills the exchange from the database: every order that was
/// open is completed, once.
#[test]
fn the_exchange_comes_back_after_a_crash() {
    let tpce = small(Mix::Trading, 1);
    let mut oracle = loaded(&tpce, 2);
    let mut requests = tpce.generator(1, 0..tpce.sites());
    let before = run(&mut oracle, &tpce, &mut requests, 500);
    // The streams are lost, and with them all that the exchange had.
    drop(requests);
    let open = |oracle: &mut Oracle<Tpce>| {
        let audits = oracle.audits().unwrap();
        audits.iter().map(|a| a.submitted + a.pending.len() as u64).sum::<u64>()
    };
    assert!(open(&mut oracle) > 10, "some orders are open");
    assert_eq!(before.of("trade_order"), before.results + open(&mut oracle));
    let mut requests = tpce.generator(2, 0..tpce.sites());
    let after = run(&mut oracle, &tpce, &mut requests, 500);
    let orders = before.of("trade_order") + after.of("trade_order");
    assert_eq!(oracle.judge(Some(orders)).unwrap(), Verdict::default());
    assert_eq!(orders, before.results + after.results + open(&mut oracle));
    assert_eq!(after.of("exchange_rebuild"), u64::from(tpce.sites()));
    assert!(after.results > before.results / 2);
}

#[test]
fn cleanup_cancels_what_is_open() {
    let options = TpceOptions { start: Start::Cleanup, ..small(Mix::Trading, 1).options().clone() };
    let tpce = Tpce::new(options).unwrap();
    let mut oracle = loaded(&tpce, 2);
    let before = run(&mut oracle, &tpce, &mut tpce.generator(1, 0..tpce.sites()), 300);
    let after = run(&mut oracle, &tpce, &mut tpce.generator(2, 0..tpce.sites()), u64::from(tpce.sites()));
    assert_eq!(after.of("trade_cleanup"), u64::from(tpce.sites()));
    let audits = oracle.audits().unwrap();
    assert!(audits.iter().all(|a| a.submitted == 0 && a.pending.is_empty() && a.requests.is_empty()));
    assert_eq!(oracle.judge(Some(before.of("trade_order"))).unwrap(), Verdict::default());
}

fn key(columns: &[i64]) -> Key {
    columns.iter().fold(Key::new(), |key, column| key.i64(*column))
}

/// Runs, corrupts instance 0, and returns the judge's words.
fn after(tamper: impl FnOnce(&mut Model)) -> String {
    let tpce = small(Mix::Full, 1);
    let mut oracle = loaded(&tpce, 2);
    run(&mut oracle, &tpce, &mut tpce.generator(5, 0..tpce.sites()), 300);
    tamper(oracle.model(InstanceId(0)));
    oracle.judge(None).unwrap().violations.join("; ")
}

#[test]
fn the_judge_has_teeth() {
    let schema = small(Mix::Full, 1).schema();
    let add = |table: TableId, id: &'static [i64], name: &str| {
        let column = schema.table(table).unwrap().column(name).unwrap();
        let change = move |row: &mut RowMut<'_>| row.set_int(column, row.int(column) + 1);
        after(move |m| at_once(m.update(table, &key(id), change)).unwrap().unwrap())
    };
    assert_eq!(after(|_| ()), "");
    use tpce::rows::*;
    for (found, words) in [
        (add(BROKER, &[2, 2], "B_NUM_TRADES"), "1: B_NUM_TRADES of broker 2"),
        (add(BROKER, &[2, 2], "B_COMM_TOTAL"), "2: B_COMM_TOTAL of broker 2"),
        (add(SETTLEMENT, &[0, 1], "SE_AMT"), "4: trade 1: settled"),
        (add(TRADE, &[0, 1], "T_QTY"), "5: change of holdings by trade 1"),
        (add(TRADE, &[0, 1], "T_COMM"), "2: B_COMM_TOTAL of broker"),
        (add(CUSTOMER_ACCOUNT, &[0, 0], "CA_BAL"), "CA_BAL: change of all balances"),
        (add(TRADE_SEQUENCE, &[1], "TQ_NEXT"), "TRADE: rows since loading, site 1"),
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let gone = |table: TableId, id: &'static [i64]| {
        after(move |m| assert!(at_once(m.delete(table, &key(id))).unwrap()))
    };
    assert!(gone(SETTLEMENT, &[0, 1]).contains("4: trade 1: completed"));
    assert!(gone(CUSTOMER, &[0, 1]).contains("rows of CUSTOMER"));
}

/// Shares of the population and of the initial trades.
#[test]
fn the_population_has_the_rows_of_its_definition() {
    let options =
        TpceOptions { unit: 1_000, sf: 10_000, market_days: 50, news_bytes: 300, ..TpceOptions::new(1) };
    let tpce = Tpce::new(options).unwrap();
    let mut oracle = loaded(&tpce, 1);
    let audit = oracle.audits().unwrap().remove(0);
    let rows = |table: TableId| audit.rows.iter().find(|(id, _)| *id == table.0).unwrap().1 as f64;
    use tpce::rows::*;
    let trades = rows(TRADE);
    assert!((trades - 57_600.0).abs() < 60.0, "{trades} trades");
    for (table, ratio, tolerance) in
        [(TRADE_HISTORY, 2.4, 0.01), (SETTLEMENT, 1.0, 0.0), (CASH_TRANSACTION, 0.92, 0.01)]
    {
        let found = rows(table) / trades;
        assert!((found - ratio).abs() <= tolerance * ratio, "{table}: {found}, expected {ratio}");
    }
    assert!((rows(CUSTOMER_ACCOUNT) - 5_000.0).abs() < 150.0);
    assert!((rows(WATCH_ITEM) - 100_000.0).abs() < 2_000.0);
    assert!((rows(ACCOUNT_PERMISSION) / rows(CUSTOMER_ACCOUNT) - 1.42).abs() < 0.02);
    assert_eq!((rows(COMPANY), rows(SECURITY), rows(BROKER)), (500.0, 685.0, 10.0));
}
