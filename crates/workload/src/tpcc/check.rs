//! The consistency conditions (clause 3.3.2), and a few more that follow from the transactions.
//!
//! An instance checks its own warehouses, and decides there the conditions 1 to 9, 12, and the
//! bounds of S_QUANTITY. For conditions that span instances it reports parts that must cancel out
//! or add up over all instances. For example, the payments of a customer are in the history of the
//! warehouse that took them (condition 10, given 12); stock is counted at the supplying warehouse,
//! while the order lines that took it are at the order's home. Condition 11 holds only directly
//! after loading.

use super::TpccOptions;
use super::rows::*;
use crate::findings::{Findings, check_cover};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use txn::workload::Verdict;
use txn::{Abort, Access, Direction, Flow, Row};

/// Warehouse, district, customer.
type Customer = (u32, u32, u32);

/// The findings of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TpccAudit {
    pub sites: Range<u32>,
    /// NewOrders and Payments since loading.
    pub orders: u64,
    pub payments: u64,
    /// By customer: C_YTD_PAYMENT, if this instance has the customer, minus the H_AMOUNTs that this
    /// instance has; only nonzero values.
    pub open_payments: Vec<(Customer, i64)>,
    /// By warehouse: the orders, quantity and remote orders that its stock has counted since
    /// loading.
    pub stock: Vec<(u32, [i64; 3])>,
    /// By supplying warehouse: the lines, quantity and remote lines since loading.
    pub lines: Vec<(u32, [i64; 3])>,
    /// Violations, one per line.
    pub damage: Vec<String>,
}

#[derive(Default, Clone)]
struct District {
    ytd: i64,
    next_order: u32,
    paid: i64,
    orders: u64,
    open: u64,
    first_open: u32,
    last_open: u32,
    last_order: u32,
    promised_lines: i64,
    lines: i64,
}

/// An order while its lines are counted.
struct Order {
    id: [u32; 3],
    customer: u32,
    lines: u32,
    open: bool,
    all_local: bool,
    listed: bool,
    counted: u32,
    remote: bool,
}

struct Books {
    sites: Range<u32>,
    customers: u32,
    damage: Findings,
    warehouses: Vec<i64>,
    districts: Vec<District>,
    /// Delivered amounts, by customer of this instance.
    delivered: Vec<i64>,
    payments: BTreeMap<Customer, i64>,
    payments_made: u64,
    orders: Vec<Order>,
    stock: BTreeMap<u32, [i64; 3]>,
    lines: BTreeMap<u32, [i64; 3]>,
}

fn ints<const N: usize>(row: &Row<'_>, columns: [u16; N]) -> [u32; N] {
    columns.map(|c| row.int(c) as u32)
}

impl Books {
    fn new(options: &TpccOptions, sites: Range<u32>) -> Books {
        let warehouses = sites.len();
        Books {
            customers: options.customers,
            damage: Findings::default(),
            warehouses: vec![0; warehouses],
            districts: vec![District::default(); warehouses * DISTRICTS as usize],
            delivered: vec![0; warehouses * (DISTRICTS * options.customers) as usize],
            payments: BTreeMap::new(),
            payments_made: 0,
            orders: Vec::new(),
            stock: BTreeMap::new(),
            lines: BTreeMap::new(),
            sites,
        }
    }

    /// The index of a district's sums; notes a district that does not exist.
    fn at(&mut self, table: &str, w: u32, d: u32) -> Option<usize> {
        if self.sites.contains(&w) && (1..=DISTRICTS).contains(&d) {
            return Some(((w - self.sites.start) * DISTRICTS + d - 1) as usize);
        }
        self.damage.add(|| format!("{table}: a row of warehouse {w}, district {d}, which is not here"));
        None
    }

    fn customer(&self, district: usize, c: u32) -> Option<usize> {
        (1..=self.customers).contains(&c).then(|| district * self.customers as usize + c as usize - 1)
    }

    fn history(&mut self, row: &Row<'_>) {
        use history::*;
        let [w, d, cw, cd, c] = ints(row, [H_W_ID, H_D_ID, H_C_W_ID, H_C_D_ID, H_C_ID]);
        let amount = row.int(H_AMOUNT);
        self.payments_made += 1;
        *self.payments.entry((cw, cd, c)).or_default() -= amount;
        if let Some(at) = self.at("HISTORY", w, d) {
            self.districts[at].paid += amount;
        }
    }

    fn order(&mut self, row: &Row<'_>) {
        use orders::*;
        let [w, d, o, customer, lines, all_local] =
            ints(row, [O_W_ID, O_D_ID, O_ID, O_C_ID, O_OL_CNT, O_ALL_LOCAL]);
        let Some(at) = self.at("ORDERS", w, d) else { return };
        let open = row.is_null(O_CARRIER_ID);
        let district = &mut self.districts[at];
        district.orders += 1;
        district.last_order = district.last_order.max(o);
        district.promised_lines += i64::from(lines);
        let (all_local, listed, counted, remote) = (all_local == 1, false, 0, false);
        self.orders.push(Order { id: [w, d, o], customer, lines, open, all_local, listed, counted, remote });
    }

    fn find(&self, id: [u32; 3]) -> Option<usize> {
        self.orders.binary_search_by_key(&id, |order| order.id).ok()
    }

    fn new_order(&mut self, row: &Row<'_>) {
        let id = ints(row, [0, 1, 2]);
        let Some(at) = self.at("NEW_ORDER", id[0], id[1]) else { return };
        let district = &mut self.districts[at];
        district.first_open = if district.open == 0 { id[2] } else { district.first_open.min(id[2]) };
        district.last_open = district.last_open.max(id[2]);
        district.open += 1;
        match self.find(id) {
            Some(at) => self.orders[at].listed = true,
            None => self.damage.add(|| format!("5: NEW_ORDER {id:?} has no order")),
        }
    }

    fn line(&mut self, row: &Row<'_>) {
        use order_line::*;
        let [w, d, o, number, supply, quantity] =
            ints(row, [OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER, OL_SUPPLY_W_ID, OL_QUANTITY]);
        let Some(district) = self.at("ORDER_LINE", w, d) else { return };
        self.districts[district].lines += 1;
        if o > self.customers {
            let sums = self.lines.entry(supply).or_default();
            let added = [1, i64::from(quantity), i64::from(supply != w)];
            sums.iter_mut().zip(added).for_each(|(sum, n)| *sum += n);
        }
        let Some(order) = self.find([w, d, o]) else {
            return self
                .damage
                .add(|| format!("6: line {number} of order {:?}, which does not exist", [w, d, o]));
        };
        let order = &mut self.orders[order];
        order.counted += 1;
        order.remote |= supply != w;
        let (open, customer) = (order.open, order.customer);
        let undelivered = row.is_null(OL_DELIVERY_D);
        if undelivered != open {
            self.damage.add(|| {
                format!("7: line {number} of order {:?}: delivery date and carrier disagree", [w, d, o])
            });
        }
        if !undelivered {
            match self.customer(district, customer) {
                Some(at) => self.delivered[at] += row.int(OL_AMOUNT),
                None => self
                    .damage
                    .add(|| format!("order {:?} of customer {customer}, which does not exist", [w, d, o])),
            }
        }
    }

    fn paying(&mut self, row: &Row<'_>) {
        use customer::*;
        let [w, d, c] = ints(row, [C_W_ID, C_D_ID, C_ID]);
        let place = self.at("CUSTOMER", w, d).and_then(|at| self.customer(at, c));
        let Some(at) = place else {
            return self.damage.add(|| format!("CUSTOMER ({w}, {d}, {c}) is not one that was loaded"));
        };
        let (balance, paid) = (row.int(C_BALANCE), row.int(C_YTD_PAYMENT));
        let what = || format!("12: balance and payments against deliveries, customer ({w}, {d}, {c})");
        if balance + paid != self.delivered[at] {
            self.damage.expect(&what(), self.delivered[at], balance + paid);
        }
        *self.payments.entry((w, d, c)).or_default() += paid;
    }

    fn stock(&mut self, row: &Row<'_>) {
        use stock::*;
        let [w, item] = ints(row, [S_W_ID, S_I_ID]);
        let quantity = row.int(S_QUANTITY);
        if !(10..=110).contains(&quantity) {
            self.damage.add(|| format!("STOCK ({w}, {item}): quantity {quantity}, expected 10 to 110"));
        }
        let sums = self.stock.entry(w).or_default();
        let added = [row.int(S_ORDER_CNT), row.int(S_YTD), row.int(S_REMOTE_CNT)];
        sums.iter_mut().zip(added).for_each(|(sum, n)| *sum += n);
    }

    /// Conditions 5 and 6, and that ALL_LOCAL is correct.
    fn judge_orders(&mut self) {
        for order in &self.orders {
            let Order { id, lines, open, listed, counted, all_local, remote, .. } = order;
            if open != listed {
                self.damage.add(|| format!("5: order {id:?}: no carrier: {open}, in NEW_ORDER: {listed}"));
            }
            if lines != counted {
                self.damage.add(|| format!("6: lines of order {id:?}: expected {lines}, found {counted}"));
            }
            if all_local == remote {
                self.damage.add(|| format!("order {id:?}: O_ALL_LOCAL does not tell the truth"));
            }
        }
    }

    /// Conditions 1 to 4, 8 and 9.
    fn judge_districts(&mut self) {
        for (i, w) in self.sites.clone().enumerate() {
            let districts = &self.districts[i * DISTRICTS as usize..(i + 1) * DISTRICTS as usize];
            let sum = |of: fn(&District) -> i64| districts.iter().map(of).sum::<i64>();
            self.damage.expect(
                &format!("1: W_YTD against D_YTD, warehouse {w}"),
                sum(|d| d.ytd),
                self.warehouses[i],
            );
            self.damage.expect(
                &format!("8: W_YTD against HISTORY, warehouse {w}"),
                sum(|d| d.paid),
                self.warehouses[i],
            );
            for (d, district) in (1u32..).zip(districts) {
                let at = format!("district ({w}, {d})");
                let last = district.next_order.wrapping_sub(1);
                self.damage.expect(&format!("2: newest order, {at}"), last, district.last_order);
                self.damage.expect(&format!("2: orders, {at}"), u64::from(last), district.orders);
                if district.open > 0 {
                    self.damage.expect(&format!("2: newest NEW_ORDER, {at}"), last, district.last_open);
                    let span = u64::from(district.last_open - district.first_open) + 1;
                    self.damage.expect(&format!("3: rows of NEW_ORDER, {at}"), span, district.open);
                }
                self.damage.expect(&format!("4: order lines, {at}"), district.promised_lines, district.lines);
                self.damage.expect(&format!("9: D_YTD against HISTORY, {at}"), district.paid, district.ytd);
            }
        }
    }

    fn close(mut self) -> TpccAudit {
        self.judge_orders();
        self.judge_districts();
        let loaded = u64::from(self.customers) * u64::from(DISTRICTS) * self.sites.len() as u64;
        TpccAudit {
            orders: (self.orders.len() as u64).wrapping_sub(loaded),
            payments: self.payments_made.wrapping_sub(loaded),
            open_payments: self.payments.into_iter().filter(|(_, open)| *open != 0).collect(),
            stock: self.stock.into_iter().collect(),
            lines: self.lines.into_iter().collect(),
            damage: self.damage.into_lines(),
            sites: self.sites,
        }
    }
}

async fn each<A: Access>(
    access: &mut A,
    table: base::TableId,
    mut f: impl FnMut(&Row<'_>),
) -> Result<u64, Abort> {
    let mut rows = 0;
    access
        .scan(table, txn::Range::ALL, Direction::Forward, |_, row| {
            f(&row);
            rows += 1;
            Flow::More
        })
        .await?;
    Ok(rows)
}

pub(super) async fn audit<A: Access>(
    options: &TpccOptions,
    sites: Range<u32>,
    access: &mut A,
) -> Result<TpccAudit, Abort> {
    let mut books = Books::new(options, sites.clone());
    each(access, WAREHOUSE, |row| {
        let w = row.int(warehouse::W_ID) as u32;
        if let Some(at) = books.at("WAREHOUSE", w, 1) {
            books.warehouses[at / DISTRICTS as usize] = row.int(warehouse::W_YTD);
        }
    })
    .await?;
    each(access, DISTRICT, |row| {
        let [w, d] = ints(row, [district::D_W_ID, district::D_ID]);
        if let Some(at) = books.at("DISTRICT", w, d) {
            books.districts[at].ytd = row.int(district::D_YTD);
            books.districts[at].next_order = row.int(district::D_NEXT_O_ID) as u32;
        }
    })
    .await?;
    each(access, HISTORY, |row| books.history(row)).await?;
    each(access, ORDERS, |row| books.order(row)).await?;
    each(access, NEW_ORDER, |row| books.new_order(row)).await?;
    each(access, ORDER_LINE, |row| books.line(row)).await?;
    let customers = each(access, CUSTOMER, |row| books.paying(row)).await?;
    let stock = each(access, STOCK, |row| books.stock(row)).await?;
    let items = each(access, ITEM, |_| ()).await?;
    let (warehouses, items_loaded) = (sites.len() as u64, u64::from(options.items));
    let expected = u64::from(options.customers) * u64::from(DISTRICTS) * warehouses;
    books.damage.expect("rows of CUSTOMER", expected, customers);
    books.damage.expect("rows of STOCK", items_loaded * warehouses, stock);
    books.damage.expect("rows of ITEM", items_loaded, items);
    Ok(books.close())
}

/// The parts of all instances, added up by key.
fn added<'a, K: Ord + Copy + 'a, const N: usize>(
    parts: impl Iterator<Item = &'a (K, [i64; N])>,
) -> BTreeMap<K, [i64; N]> {
    let mut all: BTreeMap<K, [i64; N]> = BTreeMap::new();
    for (key, values) in parts {
        all.entry(*key).or_insert([0; N]).iter_mut().zip(values).for_each(|(sum, n)| *sum += n);
    }
    all
}

/// `committed`: the number of NewOrders and Payments since loading.
pub(super) fn judge(options: &TpccOptions, audits: &[TpccAudit], committed: Option<u64>) -> Verdict {
    let mut findings = Findings::default();
    check_cover(audits.iter().map(|a| a.sites.clone()), options.warehouses, &mut findings);
    audits.iter().flat_map(|a| &a.damage).for_each(|line| findings.add(|| line.clone()));
    let mut open: BTreeMap<Customer, i64> = BTreeMap::new();
    for (customer, value) in audits.iter().flat_map(|a| &a.open_payments) {
        *open.entry(*customer).or_default() += value;
    }
    for (customer, value) in open.into_iter().filter(|(_, value)| *value != 0) {
        findings.add(|| format!("10: payments of customer {customer:?}: {value} cents not in HISTORY"));
    }
    let stock = added(audits.iter().flat_map(|a| &a.stock));
    let lines = added(audits.iter().flat_map(|a| &a.lines));
    for w in 0..options.warehouses {
        let of = |sums: &BTreeMap<u32, [i64; 3]>| sums.get(&w).copied().unwrap_or_default();
        for (i, what) in ["orders", "quantity", "remote orders"].into_iter().enumerate() {
            findings.expect(
                &format!("STOCK: {what} of warehouse {w} against order lines"),
                of(&lines)[i],
                of(&stock)[i],
            );
        }
    }
    if let Some(committed) = committed {
        let found = audits.iter().map(|a| a.orders + a.payments).sum::<u64>();
        findings.expect("NewOrders and Payments committed", committed, found);
    }
    findings.into_verdict()
}
