//! StockLevel (clause 2.8): counts the items of a district's last twenty orders that are low in
//! stock.

use super::rows::{self, DISTRICT, ORDER_LINE, STOCK, key};
use super::{found, route};
use base::Key;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Range};

/// The number of orders that are read.
const LAST_ORDERS: u32 = 20;
/// Stock rows per batched look-up.
const ABREAST: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StockLevelRequest {
    pub w: u32,
    pub d: u32,
    pub threshold: u32,
}

/// The whole transaction; returns the number of distinct items with stock below the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountLow(pub StockLevelRequest);

impl Step for CountLow {
    const ID: StepId = 9;
    const EFFECT: Effect = Effect::Reads;
    type Output = u32;

    fn route(&self) -> Route {
        route(self.0.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u32, Abort> {
        let StockLevelRequest { w, d, threshold } = self.0;
        let next =
            access.read(DISTRICT, &key([w, d]), |row| row.int(rows::district::D_NEXT_O_ID) as u32).await?;
        let next = found(next)?;
        let mut items = Vec::with_capacity(LAST_ORDERS as usize * super::new_order::MOST_LINES);
        let (low, high) = (key([w, d, next.saturating_sub(LAST_ORDERS)]), key([w, d, next]));
        access.expect(items.capacity());
        access
            .scan(ORDER_LINE, Range::new(&low, &high), Direction::Forward, |_, row| {
                items.push(row.int(rows::order_line::OL_I_ID) as u32);
                Flow::More
            })
            .await?;
        items.sort_unstable();
        items.dedup();
        let mut count = 0;
        for items in items.chunks(ABREAST) {
            let keys: SmallVec<[Key; ABREAST]> = items.iter().map(|item| key([w, *item])).collect();
            access.prefetch(STOCK, &keys);
            for key in &keys {
                let left = access.read(STOCK, key, |row| row.int(rows::stock::S_QUANTITY)).await?;
                count += u32::from(found(left)? < i64::from(threshold));
            }
        }
        Ok(count)
    }
}
