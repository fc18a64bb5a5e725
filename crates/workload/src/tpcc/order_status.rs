//! OrderStatus (clause 2.6): reads a customer's newest order and its lines.

use super::new_order::{Line, MOST_LINES};
use super::rows::{self, CUSTOMER, ORDER_LINE, ORDERS_CUSTOMER, key};
use super::{Who, customer_id, found, route, scan_prefix};
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderStatusRequest {
    pub w: u32,
    pub d: u32,
    pub who: Who,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderStatusReply {
    pub customer: u32,
    /// The number of customers with the requested name; 0 for a request by id.
    pub bearers: u32,
    /// In cents.
    pub balance: i64,
    /// 0 if the customer has no order.
    pub order: u32,
    pub carrier: Option<i64>,
    pub lines: Vec<Ordered>,
}

/// A line of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ordered {
    pub line: Line,
    /// In cents.
    pub amount: i64,
    pub delivered: Option<i64>,
}

/// The whole transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadOrder(pub OrderStatusRequest);

impl Step for ReadOrder {
    const ID: StepId = 7;
    const EFFECT: Effect = Effect::Reads;
    type Output = OrderStatusReply;

    fn route(&self) -> Route {
        route(self.0.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<OrderStatusReply, Abort> {
        use rows::{order_line::*, orders::*};
        let OrderStatusRequest { w, d, who } = self.0;
        let (customer, bearers) = customer_id(access, (w, d), who, Effect::Reads).await?;
        let balance =
            access.read(CUSTOMER, &key([w, d, customer]), |row| row.int(rows::customer::C_BALANCE)).await?;
        let (mut order, mut carrier) = (0, None);
        scan_prefix(access, ORDERS_CUSTOMER, &key([w, d, customer]), Direction::Backward, |_, row| {
            order = row.int(O_ID) as u32;
            carrier = (!row.is_null(O_CARRIER_ID)).then(|| row.int(O_CARRIER_ID));
            Flow::Enough
        })
        .await?;
        let mut lines = Vec::with_capacity(MOST_LINES);
        access.expect(MOST_LINES);
        scan_prefix(access, ORDER_LINE, &key([w, d, order]), Direction::Forward, |_, row| {
            let delivered = (!row.is_null(OL_DELIVERY_D)).then(|| row.int(OL_DELIVERY_D));
            let [item, supply, quantity] = [OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY].map(|c| row.int(c) as u32);
            let line = Line { item, supply, quantity };
            lines.push(Ordered { line, amount: row.int(OL_AMOUNT), delivered });
            Flow::More
        })
        .await?;
        Ok(OrderStatusReply { customer, bearers, balance: found(balance)?, order, carrier, lines })
    }
}
