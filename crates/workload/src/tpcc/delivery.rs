//! Delivery (clause 2.7): delivers the oldest new order in each district of a warehouse.

use super::new_order::MOST_LINES;
use super::rows::{self, CUSTOMER, DISTRICTS, NEW_ORDER, ORDER_LINE, ORDERS, key};
use super::{found, route};
use base::Key;
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

/// The whole transaction; returns the order of each district, 0 if the district has no new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliverAll(pub DeliveryRequest);

impl DeliverAll {
    /// Removes the oldest new order of a district from NEW_ORDER.
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
            // The scan locks for update: two Deliveries that both read the oldest order under a
            // shared lock would each wait for the other to delete it.
            access.scan_for_update(NEW_ORDER, range, Direction::Forward, first).await?;
            match oldest {
                Some(order) if !access.delete(NEW_ORDER, &key([w, d, order])).await? => {}
                found => return Ok(found),
            }
        }
    }

    /// Assigns the order to the carrier; returns its customer and its number of lines.
    async fn hand_over<A: Access>(&self, access: &mut A, order: &Key) -> Result<(u32, u32), Abort> {
        use rows::orders::*;
        let take = |row: &mut txn::RowMut<'_>| {
            row.set_int(O_CARRIER_ID, self.0.carrier.into());
            (row.int(O_C_ID) as u32, row.int(O_OL_CNT) as u32)
        };
        found(access.update(ORDERS, order, take).await?)
    }

    /// Sets the delivery date of an order's lines; returns the sum of their amounts.
    async fn arrive<A: Access>(
        &self,
        access: &mut A,
        (d, order): (u32, u32),
        lines: u32,
    ) -> Result<i64, Abort> {
        use rows::order_line::*;
        let of = |number| key([self.0.w, d, order, number]);
        let keys: SmallVec<[Key; MOST_LINES]> = (1..=lines).map(of).collect();
        access.prefetch(ORDER_LINE, &keys);
        let mut sum = 0;
        for key in &keys {
            let arrive = |row: &mut txn::RowMut<'_>| {
                row.set_int(OL_DELIVERY_D, self.0.date);
                row.int(OL_AMOUNT)
            };
            sum += found(access.update(ORDER_LINE, key, arrive).await?)?;
        }
        Ok(sum)
    }

    async fn owe<A: Access>(&self, access: &mut A, customer: &Key, sum: i64) -> Result<(), Abort> {
        use rows::customer::*;
        let owe = |row: &mut txn::RowMut<'_>| {
            row.set_int(C_BALANCE, row.int(C_BALANCE) + sum);
            row.set_int(C_DELIVERY_CNT, row.int(C_DELIVERY_CNT) + 1);
        };
        found(access.update(CUSTOMER, customer, owe).await?)
    }
}

impl Step for DeliverAll {
    const ID: StepId = 8;
    type Output = SmallVec<[u32; DISTRICTS as usize]>;

    fn route(&self) -> Route {
        route(self.0.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        let w = self.0.w;
        let mut all = SmallVec::new();
        for d in 1..=DISTRICTS {
            all.push(self.oldest(access, d).await?.unwrap_or(0));
        }
        // Table by table, so that all rows of a table can be requested at once.
        type Each<T> = SmallVec<[T; DISTRICTS as usize]>;
        let open = (1..=DISTRICTS).zip(all.iter().copied()).filter(|(_, order)| *order > 0);
        let open: Each<(u32, u32)> = open.collect();
        let orders: Each<Key> = open.iter().map(|(d, order)| key([w, *d, *order])).collect();
        access.prefetch(ORDERS, &orders);
        let mut whose: Each<(u32, u32)> = SmallVec::new();
        for order in &orders {
            whose.push(self.hand_over(access, order).await?);
        }
        let mut sums: Each<i64> = SmallVec::new();
        for (order, (_, lines)) in open.iter().zip(&whose) {
            sums.push(self.arrive(access, *order, *lines).await?);
        }
        let payers = open.iter().zip(&whose).map(|((d, _), (customer, _))| key([w, *d, *customer]));
        let payers: Each<Key> = payers.collect();
        access.prefetch(CUSTOMER, &payers);
        for (customer, sum) in payers.iter().zip(sums) {
            self.owe(access, customer, sum).await?;
        }
        Ok(all)
    }
}
