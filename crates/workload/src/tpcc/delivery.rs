//! Delivery (clause 2.7): in each district of a warehouse the oldest new order is delivered.

use super::rows::{self, CUSTOMER, DISTRICTS, NEW_ORDER, ORDER_LINE, ORDERS, key};
use super::{found, route};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use txn::step::{Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Range};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliveryRequest {
    pub w: u32,
    pub carrier: u32,
    pub date: i64,
}

/// The whole transaction; gives the order of each district, 0 where none was open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliverAll(pub DeliveryRequest);

impl DeliverAll {
    /// Removes the oldest new order of a district from the list.
    async fn oldest<A: Access>(&self, access: &mut A, d: u32) -> Result<Option<u32>, Abort> {
        let w = self.0.w;
        loop {
            let mut oldest = None;
            let (low, high) = (key([w, d]), key([w, d]).prefix_end());
            let range = Range { low: Some(&low), high: high.as_deref() };
            let first = |_: &[u8], row: txn::Row<'_>| {
                oldest = Some(row.int(rows::new_order::NO_O_ID) as u32);
                Flow::Enough
            };
            // Two Deliveries that both read the oldest first would each wait for the other to delete it.
            access.scan_for_update(NEW_ORDER, range, Direction::Forward, first).await?;
            match oldest {
                Some(order) if !access.delete(NEW_ORDER, &key([w, d, order])).await? => {}
                found => return Ok(found),
            }
        }
    }

    async fn deliver<A: Access>(&self, access: &mut A, d: u32, order: u32) -> Result<(), Abort> {
        use rows::{customer::*, order_line::*, orders::*};
        let DeliveryRequest { w, carrier, date } = self.0;
        let take = |row: &mut txn::RowMut<'_>| {
            row.set_int(O_CARRIER_ID, carrier.into());
            (row.int(O_C_ID) as u32, row.int(O_OL_CNT) as u32)
        };
        let (customer, lines) = found(access.update(ORDERS, &key([w, d, order]), take).await?)?;
        let mut sum = 0;
        for number in 1..=lines {
            let arrive = |row: &mut txn::RowMut<'_>| {
                row.set_int(OL_DELIVERY_D, date);
                row.int(OL_AMOUNT)
            };
            sum += found(access.update(ORDER_LINE, &key([w, d, order, number]), arrive).await?)?;
        }
        let owe = |row: &mut txn::RowMut<'_>| {
            row.set_int(C_BALANCE, row.int(C_BALANCE) + sum);
            row.set_int(C_DELIVERY_CNT, row.int(C_DELIVERY_CNT) + 1);
        };
        found(access.update(CUSTOMER, &key([w, d, customer]), owe).await?)
    }
}

impl Step for DeliverAll {
    const ID: StepId = 8;
    type Output = SmallVec<[u32; DISTRICTS as usize]>;

    fn route(&self) -> Route {
        route(self.0.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        let mut all = SmallVec::new();
        for d in 1..=DISTRICTS {
            let order = self.oldest(access, d).await?;
            if let Some(order) = order {
                self.deliver(access, d, order).await?;
            }
            all.push(order.unwrap_or(0));
        }
        Ok(all)
    }
}
