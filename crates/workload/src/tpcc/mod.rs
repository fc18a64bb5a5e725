//! TPC-C: an order-entry business over warehouses; five transactions on nine tables (revision 5 of
//! the specification).
//!
//! ```text
//! warehouse w    every row with a key that begins with w, stock included: a logical site
//! ITEM           in every instance
//!
//! NewOrder       all { customer, district | stock of each supplying warehouse | items, warehouse }
//!                ->  last { order and lines }
//! Payment        all { customer, perhaps elsewhere | district, warehouse }
//!                ->  last { history }            (one phase if the customer is given by id)
//! OrderStatus    one step
//! Delivery       one step, ten districts
//! StockLevel     one step
//! ```
//!
//! Rows are locked in one order: customer, district, order lines or stock by warehouse and item,
//! warehouse. So NewOrder, Payment and StockLevel never wait for each other in a circle at one
//! instance. The warehouse row comes last because every transaction needs it. StockLevel learns
//! from the district's order lines which stock to read, so the district comes before the stock. An
//! invalid item is found after stock was taken, so its rollback has work to do. A customer given by
//! name is looked up at its own warehouse, within the same request. Choices that the specification
//! leaves open: warehouses count from 0, all other numbers from 1; dates are logical; Delivery is
//! one transaction.

mod benchmark;
mod check;
mod delivery;
mod draw;
mod generator;
mod load;
mod new_order;
mod order_status;
mod payment;
mod rows;
mod statistics;
mod stock_level;

pub use check::TpccAudit;
pub use delivery::{DeliverAll, DeliveryRequest};
pub use draw::last_name;
pub use generator::TpccGenerator;
pub use new_order::{InsertOrder, Line, NewOrderReply, NewOrderRequest, OpenOrder, PriceItems, TakeStock};
pub use order_status::{OrderStatusReply, OrderStatusRequest, Ordered, ReadOrder};
pub use payment::{InsertHistory, PayingCustomer, PaymentHome, PaymentReply, PaymentRequest};
pub use rows::{
    CUSTOMER, CUSTOMER_NAME, DISTRICT, DISTRICTS, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS,
    ORDERS_CUSTOMER, STOCK, WAREHOUSE,
};
pub use stock_level::{CountLow, StockLevelRequest};

use crate::spec::{SpecError, in_range};
use base::{Key, KeyReader, SiteId, TableId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use txn::schema::Schema;
use txn::step::{Effect, Route, StepId, Transaction};
use txn::workload::Verdict;
use txn::{Abort, Access, Clients, Direction, Flow, Pauses, Workload};

/// "Item number is not valid": one order in a hundred is rolled back with this reason.
pub const INVALID_ITEM: u16 = 1;

/// The transactions that are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mix {
    /// 45 % NewOrder, 43 % Payment, and 4 % each of OrderStatus, Delivery and StockLevel.
    Full,
    Payment,
    NewOrder,
    /// Half NewOrder, half Payment: TPC-C′ of the thesis.
    Prime,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TpccOptions {
    pub warehouses: u32,
    pub mix: Mix,
    /// Share of remote Payments, and of NewOrders with one remote line, in per cent; `None` for the
    /// specified 15 % of the Payments and 1 % of the lines.
    pub multisite: Option<f64>,
    /// Items, and stock rows of a warehouse; 100,000 by default.
    pub items: u32,
    /// Customers, and initial orders, of a district; 3,000 by default.
    pub customers: u32,
}

impl TpccOptions {
    pub fn new(warehouses: u32) -> TpccOptions {
        TpccOptions { warehouses, mix: Mix::Full, multisite: None, items: 100_000, customers: 3_000 }
    }

    /// The initial D_YTD of a district, in cents: each customer has paid 10.
    fn district_ytd(&self) -> i64 {
        i64::from(self.customers) * 1_000
    }
}

/// The customer in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Who {
    Id(u32),
    /// The number of a last name; selects the middle one of the customers with this name, ordered
    /// by first name.
    Name(u32),
}

/// The inputs of one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TpccRequest {
    /// In a box: a request of any kind is moved several times, and takes the place of its largest
    /// kind.
    NewOrder(Box<NewOrderRequest>),
    Payment(PaymentRequest),
    OrderStatus(OrderStatusRequest),
    Delivery(DeliveryRequest),
    StockLevel(StockLevelRequest),
}

/// The output that a terminal shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TpccReply {
    NewOrder(NewOrderReply),
    Payment(PaymentReply),
    OrderStatus(OrderStatusReply),
    /// The order delivered in each district, 0 if the district had no new order.
    Delivery(SmallVec<[u32; DISTRICTS as usize]>),
    /// The number of items below the threshold.
    StockLevel(u32),
}

#[derive(Clone, Debug)]
pub struct Tpcc {
    options: TpccOptions,
}

impl Tpcc {
    /// # Errors
    /// An option out of its range, named with the expected range.
    pub fn new(options: TpccOptions) -> Result<Tpcc, SpecError> {
        in_range("scale", options.warehouses, 1..=65_536)?;
        in_range("multisite", options.multisite.unwrap_or(0.0), 0.0..=100.0)?;
        in_range("items", options.items, 1..=100_000)?;
        in_range("customers", options.customers, 1..=3_000)?;
        Ok(Tpcc { options })
    }

    pub fn options(&self) -> &TpccOptions {
        &self.options
    }

    /// Checks that a request names an existing warehouse and district.
    fn place(&self, w: u32, d: u32) -> Result<(), Abort> {
        let exists = w < self.options.warehouses && (1..=DISTRICTS).contains(&d);
        if exists { Ok(()) } else { Err(Abort::BadRequest) }
    }
}

fn route(w: u32) -> Route {
    Route { table: WAREHOUSE, key: u64::from(w) }
}

/// Unwraps a row that the schema guarantees.
fn found<R>(row: Option<R>) -> Result<R, Abort> {
    row.ok_or(Abort::BadRequest)
}

/// Visits the rows of a table or index with a key that begins with `prefix`.
async fn scan_prefix<A: Access>(
    access: &mut A,
    index: TableId,
    prefix: &Key,
    direction: Direction,
    f: impl FnMut(&[u8], txn::Row<'_>) -> Flow,
) -> Result<(), Abort> {
    let end = prefix.prefix_end();
    access.scan(index, txn::Range { low: Some(prefix), high: end.as_deref() }, direction, f).await
}

/// The id of a customer, and the number of customers with the name. By name: the match at position
/// n/2, rounded up, in the order of first names. `next` is the operation on the customer that
/// follows.
async fn customer_id<A: Access>(
    access: &mut A,
    (w, d): (u32, u32),
    who: Who,
    next: Effect,
) -> Result<(u32, u32), Abort> {
    let number = match who {
        Who::Id(id) => return Ok((id, 0)),
        Who::Name(number) => number,
    };
    let mut ids: SmallVec<[u32; 16]> = SmallVec::new();
    let prefix = rows::key([w, d]).str(&last_name(number));
    let end = prefix.prefix_end();
    let range = txn::Range { low: Some(&prefix), high: end.as_deref() };
    // The entries are ordered by first name, and end with the customer's number.
    let each = |entry: &[u8]| {
        ids.extend(KeyReader::last_i64(entry).map(|id| id as u32));
        Flow::More
    };
    match next {
        Effect::Reads => access.scan_keys(CUSTOMER_NAME, range, Direction::Forward, each).await?,
        Effect::Writes => access.scan_keys_for_update(CUSTOMER_NAME, range, Direction::Forward, each).await?,
    }
    found(ids.get(ids.len().div_ceil(2).wrapping_sub(1)).map(|id| (*id, ids.len() as u32)))
}

impl Workload for Tpcc {
    type Request = TpccRequest;
    type Reply = TpccReply;
    type Generator = TpccGenerator;
    type Audit = TpccAudit;

    fn name(&self) -> String {
        let named = Mix::NAMES.iter().find(|m| m.1 == self.options.mix);
        named.map_or("tpcc", |m| m.0).into()
    }

    fn schema(&self) -> Schema {
        rows::schema(self.options.warehouses)
    }

    fn sites(&self) -> u32 {
        self.options.warehouses
    }

    async fn run<T: Transaction>(&self, request: &TpccRequest, txn: &mut T) -> Result<TpccReply, Abort> {
        match request {
            TpccRequest::NewOrder(r) => new_order::run(self, r, txn).await.map(TpccReply::NewOrder),
            TpccRequest::Payment(r) => payment::run(self, r, txn).await.map(TpccReply::Payment),
            TpccRequest::OrderStatus(r) => {
                self.place(r.w, r.d)?;
                txn.last(ReadOrder(*r)).await.map(TpccReply::OrderStatus)
            }
            TpccRequest::Delivery(r) => {
                self.place(r.w, 1)?;
                txn.last(DeliverAll(*r)).await.map(TpccReply::Delivery)
            }
            TpccRequest::StockLevel(r) => {
                self.place(r.w, r.d)?;
                txn.last(CountLow(*r)).await.map(TpccReply::StockLevel)
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; OpenOrder, TakeStock, PriceItems, InsertOrder, PaymentHome, PayingCustomer, InsertHistory, ReadOrder, DeliverAll, CountLow)
    }

    fn routes(&self, request: &TpccRequest, visit: &mut dyn FnMut(Route)) {
        match request {
            TpccRequest::NewOrder(r) => {
                visit(route(r.w));
                r.lines.iter().filter(|line| line.supply != r.w).for_each(|line| visit(route(line.supply)));
            }
            TpccRequest::Payment(r) => {
                visit(route(r.w));
                if r.customer_w != r.w {
                    visit(route(r.customer_w));
                }
            }
            TpccRequest::OrderStatus(r) => visit(route(r.w)),
            TpccRequest::Delivery(r) => visit(route(r.w)),
            TpccRequest::StockLevel(r) => visit(route(r.w)),
        }
    }

    #[inline]
    fn wants(&self, request: &TpccRequest, visit: &mut impl FnMut(TableId, &[u8])) {
        match request {
            TpccRequest::NewOrder(r) => {
                visit(rows::CUSTOMER, &rows::key([r.w, r.d, r.c]));
                for line in &r.lines {
                    visit(rows::STOCK, &rows::key([line.supply, line.item]));
                    visit(rows::ITEM, &rows::key([line.item]));
                }
            }
            TpccRequest::Payment(r) => {
                if let Who::Id(c) = r.who {
                    visit(rows::CUSTOMER, &rows::key([r.customer_w, r.customer_d, c]));
                }
            }
            // The steps of these transactions find out their rows themselves.
            TpccRequest::OrderStatus(_) | TpccRequest::Delivery(_) | TpccRequest::StockLevel(_) => {}
        }
    }

    fn only_reads(&self, request: &TpccRequest) -> bool {
        matches!(request, TpccRequest::OrderStatus(_) | TpccRequest::StockLevel(_))
    }

    fn kind(&self, request: &TpccRequest) -> &'static str {
        match request {
            TpccRequest::NewOrder(_) => "new_order",
            TpccRequest::Payment(_) => "payment",
            TpccRequest::OrderStatus(_) => "order_status",
            TpccRequest::Delivery(_) => "delivery",
            TpccRequest::StockLevel(_) => "stock_level",
        }
    }

    fn observe(
        &self,
        request: &TpccRequest,
        reply: Option<&TpccReply>,
        add: &mut dyn FnMut(&'static str, u64),
    ) {
        statistics::observe(request, reply, add);
    }

    /// A terminal keeps its warehouse for the whole run (clause 2.4.1.1).
    fn clients(&self) -> Clients {
        Clients::Homed
    }

    /// The keying and think times of clause 5.2.5.7.
    fn pauses(&self, request: &TpccRequest) -> Option<Pauses> {
        let (keying_s, think_s) = match request {
            TpccRequest::NewOrder(_) => (18.0, 12.0),
            TpccRequest::Payment(_) => (3.0, 12.0),
            TpccRequest::OrderStatus(_) => (2.0, 10.0),
            TpccRequest::Delivery(_) | TpccRequest::StockLevel(_) => (2.0, 5.0),
        };
        Some(Pauses { keying_s, think_s })
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> TpccGenerator {
        TpccGenerator::new(self.options.clone(), seed, sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        load::parts(&self.options)
    }

    /// Warehouse and district, if the table has districts; the row for STOCK, which all districts
    /// of a warehouse share.
    fn lock_columns(&self, table: TableId) -> u8 {
        if [WAREHOUSE, ITEM].contains(&table) { 1 } else { 2 }
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        load::load(&self.options, site.0, part, access).await
    }

    async fn load_replicated<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        load::items(&self.options, access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<TpccAudit, Abort> {
        check::audit(&self.options, sites, access).await
    }

    fn judge(&self, audits: Vec<TpccAudit>, committed: Option<u64>) -> Verdict {
        check::judge(&self.options, &audits, committed)
    }
}
