//! TPC-C on the naive model in every deployment; its judge, and the distributions of its inputs.

use base::{InstanceId, Key, TableId};
use std::collections::BTreeMap;
use txn::step::Route;
use txn::workload::{Placement, Verdict};
use txn::{Abort, Access, Direction, Flow, Generator, Range, RowMut, Workload};
use workload::oracle::{Model, Oracle, at_once};
use workload::tpcc::{self, *};

const WAREHOUSES: u32 = 4;

fn small(mix: Mix, multisite: Option<f64>) -> Tpcc {
    Tpcc::new(TpccOptions { mix, multisite, items: 300, customers: 20, ..TpccOptions::new(WAREHOUSES) })
        .unwrap()
}

fn full(warehouses: u32) -> Tpcc {
    Tpcc::new(TpccOptions::new(warehouses)).unwrap()
}

/// Runs `n` transactions; returns the number of committed NewOrders and Payments, and of NewOrders
/// with an invalid item.
fn run(oracle: &mut Oracle<Tpcc>, tpcc: &Tpcc, n: u64) -> (u64, u64) {
    let mut requests = tpcc.generator(5, 0..tpcc.sites());
    let (mut committed, mut invalid) = (0, 0);
    for _ in 0..n {
        let received = postcard::from_bytes(&postcard::to_stdvec(&requests.next()).unwrap()).unwrap();
        match oracle.submit(&received) {
            Ok(TpccReply::NewOrder(_) | TpccReply::Payment(_)) => committed += 1,
            Ok(_) => {}
            Err(Abort::User(INVALID_ITEM)) => invalid += 1,
            Err(abort) => panic!("{abort:?}: {received:?}"),
        }
    }
    (committed, invalid)
}

fn loaded(tpcc: &Tpcc, instances: u16) -> Oracle<Tpcc> {
    let mut oracle = Oracle::new(tpcc.clone(), instances);
    oracle.load().unwrap();
    oracle
}

#[test]
fn every_mix_holds_in_every_deployment() {
    for mix in [Mix::Full, Mix::Payment, Mix::NewOrder, Mix::Prime] {
        for multisite in [None, Some(0.0), Some(100.0)] {
            for instances in [1, 2, 4] {
                if multisite.is_some() && mix != Mix::Full {
                    continue;
                }
                let tpcc = small(mix, multisite);
                let mut oracle = loaded(&tpcc, instances);
                assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default(), "loaded");
                let (committed, invalid) = run(&mut oracle, &tpcc, 400);
                assert_eq!(
                    oracle.judge(Some(committed)).unwrap(),
                    Verdict::default(),
                    "{mix:?} {multisite:?} {instances}"
                );
                assert_eq!(mix == Mix::Payment, invalid == 0, "{mix:?}: {invalid} invalid of 400");
                assert_eq!(
                    oracle.distributed > 0,
                    instances > 1 && multisite != Some(0.0),
                    "{mix:?} {multisite:?}"
                );
            }
        }
    }
}

#[test]
fn condition_11_holds_when_loaded() {
    let mut oracle = loaded(&small(Mix::Full, None), 1);
    let mut count = |table| {
        let mut n = 0;
        let each = |_: &[u8], _: txn::Row<'_>| {
            n += 1;
            Flow::More
        };
        at_once(oracle.model(InstanceId(0)).scan(table, Range::ALL, Direction::Forward, each)).unwrap();
        n
    };
    // In each of 40 districts, 14 of 20 orders have been delivered, the ratio of 2,100 to 3,000.
    assert_eq!((count(tpcc::ORDERS), count(tpcc::NEW_ORDER)), (20 * 40, 6 * 40));
}

fn key(columns: &[i64]) -> Key {
    columns.iter().fold(Key::new(), |key, column| key.i64(*column))
}

fn change(model: &mut Model, table: TableId, id: &[i64], f: impl FnOnce(&mut RowMut<'_>)) {
    at_once(model.update(table, &key(id), f)).unwrap().unwrap();
}

/// Runs, corrupts instance 1 (warehouses 2 and 3), and returns the judge's words.
fn after(tamper: impl FnOnce(&mut Model)) -> String {
    let tpcc = small(Mix::Full, None);
    let mut oracle = loaded(&tpcc, 2);
    run(&mut oracle, &tpcc, 100);
    tamper(oracle.model(InstanceId(1)));
    oracle.judge(None).unwrap().violations.join("; ")
}

#[test]
fn the_judge_has_teeth() {
    let column = |table: TableId, name: &str| {
        full(1).schema().table(table).unwrap().column(name).unwrap_or_else(|| panic!("no column {name}"))
    };
    let add = |table, id: &'static [i64], name| {
        let column = column(table, name);
        after(move |m| change(m, table, id, |row| row.set_int(column, row.int(column) + 1)))
    };
    assert_eq!(after(|_| ()), "");
    let first_open = 15;
    for (found, words) in [
        (add(WAREHOUSE, &[2], "W_YTD"), "1: W_YTD against D_YTD, warehouse 2"),
        (add(DISTRICT, &[2, 4], "D_NEXT_O_ID"), "2: newest order, district (2, 4)"),
        (add(ORDERS, &[3, 1, 5], "O_OL_CNT"), "4: order lines, district (3, 1)"),
        (add(ORDERS, &[3, 1, 5], "O_OL_CNT"), "6: lines of order [3, 1, 5]"),
        (add(WAREHOUSE, &[2], "W_YTD"), "8: W_YTD against HISTORY, warehouse 2"),
        (add(DISTRICT, &[3, 10], "D_YTD"), "9: D_YTD against HISTORY, district (3, 10)"),
        (
            add(CUSTOMER, &[3, 1, 7], "C_BALANCE"),
            "12: balance and payments against deliveries, customer (3, 1, 7)",
        ),
        (add(CUSTOMER, &[3, 1, 7], "C_YTD_PAYMENT"), "10: payments of customer (3, 1, 7)"),
        (add(STOCK, &[2, 9], "S_ORDER_CNT"), "STOCK: orders of warehouse 2"),
        (add(STOCK, &[2, 9], "S_YTD"), "STOCK: quantity of warehouse 2"),
        (
            after(|m| assert!(at_once(m.delete(ORDER_LINE, &key(&[2, 3, 8, 2]))).unwrap())),
            "6: lines of order [2, 3, 8]",
        ),
        (after(|m| assert!(at_once(m.delete(ITEM, &key(&[9]))).unwrap())), "rows of ITEM"),
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    let tpcc = small(Mix::Full, None);
    let mut oracle = loaded(&tpcc, 2);
    let (committed, _) = run(&mut oracle, &tpcc, 50);
    assert!(!oracle.judge(Some(committed + 1)).unwrap().holds(), "a lost transaction");
    let carrier = column(ORDERS, "O_CARRIER_ID");
    let taken = after(|m| change(m, ORDERS, &[2, 9, 20], |row| row.set_int(carrier, 3)));
    assert!(
        taken.contains("5: order [2, 9, 20]") && taken.contains("7: line 1 of order [2, 9, 20]"),
        "{taken}"
    );
    let lost = after(|m| assert!(at_once(m.delete(NEW_ORDER, &key(&[2, 9, first_open + 2]))).unwrap()));
    assert!(lost.contains("3: rows of NEW_ORDER, district (2, 9)"), "{lost}");
}

#[test]
fn replies_tell_what_the_terminal_shows() {
    let tpcc = small(Mix::Full, None);
    let mut oracle = loaded(&tpcc, 2);
    let line = |item, supply| Line { item, supply, quantity: 7 };
    let order = |items: &[Line]| {
        TpccRequest::NewOrder(Box::new(NewOrderRequest { w: 1, d: 2, c: 3, date: 9, lines: items.into() }))
    };
    let Ok(TpccReply::NewOrder(reply)) =
        oracle.submit(&order(&[line(5, 1), line(5, 3), line(4, 1), line(9, 0), line(5, 1)]))
    else {
        panic!("the order was refused")
    };
    assert_eq!((reply.order, reply.lines.len(), reply.total > 0), (21, 5, true));
    assert_eq!(
        reply.lines[0].1 - if reply.lines[0].1 >= 17 { 7 } else { -84 },
        reply.lines[4].1,
        "item 5 is taken twice"
    );
    assert_eq!(oracle.submit(&order(&[line(5, 1), line(301, 1)])), Err(Abort::User(INVALID_ITEM)));
    let status = TpccRequest::OrderStatus(OrderStatusRequest { w: 1, d: 2, who: Who::Id(3) });
    let Ok(TpccReply::OrderStatus(reply)) = oracle.submit(&status) else { panic!("no status") };
    assert_eq!((reply.order, reply.carrier, reply.lines.len()), (21, None, 5));
    assert_eq!(reply.lines[1].line, line(5, 3), "lines stay in the order of the request");
    let pay =
        PaymentRequest { w: 0, d: 1, customer_w: 3, customer_d: 4, who: Who::Name(6), amount: 500, date: 10 };
    let Ok(TpccReply::Payment(reply)) = oracle.submit(&TpccRequest::Payment(pay)) else { panic!("not paid") };
    assert_eq!((reply.customer, reply.balance), (7, -1_500));
    let deliver = TpccRequest::Delivery(DeliveryRequest { w: 1, carrier: 3, date: 11 });
    let Ok(TpccReply::Delivery(orders)) = oracle.submit(&deliver) else { panic!("not delivered") };
    assert_eq!(&orders[..], [15; 10]);
    let low = |threshold| TpccRequest::StockLevel(StockLevelRequest { w: 1, d: 2, threshold });
    let Ok(TpccReply::StockLevel(all)) = oracle.submit(&low(1_000)) else { panic!("no level") };
    assert!(all > 100 && oracle.submit(&low(0)) == Ok(TpccReply::StockLevel(0)), "{all}");
    assert_eq!(oracle.judge(None).unwrap(), Verdict::default());
}

#[test]
fn requests_out_of_bounds_are_refused() {
    let tpcc = small(Mix::Full, None);
    let mut oracle = loaded(&tpcc, 2);
    let line = Line { item: 1, supply: 0, quantity: 1 };
    let order = |w, d, c, lines: &[Line]| {
        TpccRequest::NewOrder(Box::new(NewOrderRequest { w, d, c, date: 0, lines: lines.into() }))
    };
    for bad in [
        order(4, 1, 1, &[line]),
        order(0, 11, 1, &[line]),
        order(0, 1, 21, &[line]),
        order(0, 1, 1, &[]),
        order(0, 1, 1, &[line; 16]),
        order(0, 1, 1, &[Line { supply: 4, ..line }]),
        order(0, 1, 1, &[Line { quantity: u32::MAX, ..line }]),
        TpccRequest::Delivery(DeliveryRequest { w: 9, carrier: 1, date: 0 }),
        TpccRequest::StockLevel(StockLevelRequest { w: 0, d: 0, threshold: 1 }),
        TpccRequest::OrderStatus(OrderStatusRequest { w: 0, d: 1, who: Who::Name(999) }),
    ] {
        assert_eq!(oracle.submit(&bad), Err(Abort::BadRequest), "{bad:?}");
    }
    assert_eq!(oracle.judge(Some(0)).unwrap(), Verdict::default());
}

#[test]
fn inputs_are_as_specified() {
    const DRAWS: usize = 200_000;
    let tpcc = full(20);
    let mut requests = tpcc.generator(42, 0..20);
    let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
    let (mut orders, mut lines, mut remote_lines, mut remote_orders, mut invalid) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let (mut payments, mut remote, mut by_name) = (0.0, 0.0, 0.0);
    for _ in 0..DRAWS {
        let request = requests.next();
        *kinds.entry(tpcc.kind(&request)).or_default() += 1.0;
        match request {
            TpccRequest::NewOrder(r) => {
                orders += 1.0;
                lines += r.lines.len() as f64;
                let elsewhere = r.lines.iter().filter(|l| l.supply != r.w).count();
                remote_lines += elsewhere as f64;
                remote_orders += f64::from(elsewhere > 0);
                let unused = r.lines.iter().position(|l| l.item > 100_000);
                invalid += f64::from(unused.is_some());
                assert!(unused.is_none_or(|at| at == r.lines.len() - 1), "the unused item is the last");
            }
            TpccRequest::Payment(r) => {
                payments += 1.0;
                remote += f64::from(r.customer_w != r.w);
                by_name += f64::from(matches!(r.who, Who::Name(_)));
                assert!(r.customer_w != r.w || r.customer_d == r.d);
            }
            _ => {}
        }
    }
    let near = |what: &str, found: f64, expected: f64, tolerance: f64| {
        assert!((found - expected).abs() <= tolerance, "{what}: expected {expected}, found {found}");
    };
    for (kind, share) in [
        ("new_order", 45.0),
        ("payment", 43.0),
        ("order_status", 4.0),
        ("delivery", 4.0),
        ("stock_level", 4.0),
    ] {
        near(kind, kinds[kind] * 100.0 / DRAWS as f64, share, 0.4);
    }
    near("lines", lines / orders, 10.0, 0.05);
    near("remote lines", remote_lines / lines * 100.0, 1.0, 0.05);
    near("orders with a remote line", remote_orders / orders * 100.0, 9.516, 0.35);
    near("invalid orders", invalid / orders * 100.0, 1.0, 0.1);
    near("remote payments", remote / payments * 100.0, 15.0, 0.5);
    near("by name", by_name / payments * 100.0, 60.0, 0.6);
}

/// 0.15 q of the Payments and 1 - E[(1 - 0.01 q)^n] of the NewOrders span several of P instances,
/// with q = (W - W/P) / (W - 1).
#[test]
fn the_distributed_share_is_as_derived() {
    let (w, draws) = (24.0, 100_000);
    let tpcc = full(24);
    for instances in [1u16, 2, 4, 24] {
        let q = (w - w / f64::from(instances)) / (w - 1.0);
        let new_orders = 1.0 - (5..=15).map(|n| (1.0 - 0.01 * q).powi(n)).sum::<f64>() / 11.0;
        let expected = 0.43 * 0.15 * q + 0.45 * new_orders;
        let placement = Placement::even(24, instances);
        let mut requests = tpcc.generator(1, 0..24);
        let distributed = (0..draws).filter(|_| {
            let mut owners = vec![];
            tpcc.routes(&requests.next(), &mut |route: Route| {
                owners.push(placement.owner(placement.site(route.key, 24)))
            });
            owners.iter().any(|owner| *owner != owners[0])
        });
        let found = distributed.count() as f64 / f64::from(draws);
        assert!((found - expected).abs() < 0.004, "{instances}: expected {expected}, found {found}");
    }
}

/// With the given difference between the constants of loading and running, a requested name has
/// this many bearers.
#[test]
fn a_name_has_as_many_bearers_as_the_specification_wants() {
    let tpcc = Tpcc::new(TpccOptions { items: 10, ..TpccOptions::new(1) }).unwrap();
    let mut oracle = loaded(&tpcc, 1);
    let mut bearers: BTreeMap<(i64, Vec<u8>), u32> = BTreeMap::new();
    let schema = tpcc.schema();
    let customers = schema.table(CUSTOMER).unwrap();
    let [d, last] = ["C_D_ID", "C_LAST"].map(|name| customers.column(name).unwrap());
    let each = |_: &[u8], row: txn::Row<'_>| {
        *bearers.entry((row.int(d), row.bytes(last).to_vec())).or_default() += 1;
        Flow::More
    };
    at_once(oracle.model(InstanceId(0)).scan(CUSTOMER, Range::ALL, Direction::Forward, each)).unwrap();
    let mut requests = tpcc.generator(3, 0..1);
    let (mut asked, mut matches) = (0, 0);
    while asked < 20_000 {
        if let TpccRequest::Payment(PaymentRequest { customer_d, who: Who::Name(number), .. }) =
            requests.next()
        {
            asked += 1;
            matches += bearers[&(customer_d.into(), last_name(number).into_bytes())];
        }
    }
    let mean = f64::from(matches) / f64::from(asked);
    assert!((1.8..=3.9).contains(&mean), "{mean}");
}
