//! Payment (clause 2.5): a customer pays. Warehouse, district and customer keep sums, and a history
//! row records the payment. 15 % of the customers belong to another warehouse, and 60 % are given
//! by name.

use super::rows::{self, CUSTOMER, DISTRICT, HISTORY, WAREHOUSE, definition, key};
use super::{Tpcc, Who, customer_id, found, route};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cell::Cell;
use txn::step::{Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, RowBuf, RowMut};

type Text = SmallVec<[u8; 24]>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PaymentRequest {
    pub w: u32,
    pub d: u32,
    pub customer_w: u32,
    pub customer_d: u32,
    pub who: Who,
    /// In cents.
    pub amount: i64,
    pub date: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PaymentReply {
    pub customer: u32,
    /// The number of customers with the requested name; 0 for a request by id.
    pub bearers: u32,
    /// In cents.
    pub balance: i64,
    /// For a customer with bad credit, the first 200 bytes of C_DATA.
    pub data: Option<Vec<u8>>,
}

/// The customer's part; returns the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PayingCustomer(pub PaymentRequest);

/// The district and the warehouse; returns the text for the history row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PaymentHome {
    pub request: PaymentRequest,
    /// The customer for which the history row is inserted in this step, if its id is known already.
    pub customer: Option<u32>,
}

/// Inserts the history row, once the customer's id is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InsertHistory {
    pub request: PaymentRequest,
    pub customer: u32,
    pub data: Text,
}

pub(super) async fn run<T: Transaction>(
    tpcc: &Tpcc,
    r: &PaymentRequest,
    txn: &mut T,
) -> Result<PaymentReply, Abort> {
    tpcc.place(r.w, r.d)?;
    tpcc.place(r.customer_w, r.customer_d)?;
    if !(0..=i64::from(i32::MAX)).contains(&r.amount) {
        return Err(Abort::BadRequest);
    }
    if let Who::Id(id) = r.who {
        let home = PaymentHome { request: *r, customer: Some(id) };
        return Ok(txn.last((PayingCustomer(*r), home)).await?.0);
    }
    let home = PaymentHome { request: *r, customer: None };
    let (reply, data) = txn.last_elsewhere((PayingCustomer(*r), home)).await?;
    txn.last(InsertHistory { request: *r, customer: reply.customer, data }).await?;
    Ok(reply)
}

/// Fills all columns of a history row but its text.
pub(super) fn fill_history(
    row: &mut RowMut<'_>,
    (w, d): (u32, u32),
    customer: (u32, u32, u32),
    amount: i64,
    date: i64,
) {
    use rows::history::*;
    let (cw, cd, c) = customer;
    for (column, value) in [(H_W_ID, w), (H_D_ID, d), (H_C_W_ID, cw), (H_C_D_ID, cd), (H_C_ID, c)] {
        row.set_int(column, value.into());
    }
    row.set_int(H_AMOUNT, amount);
    row.set_int(H_DATE, date);
}

thread_local! {
    /// The buffer of a history row, taken out while in use.
    static ROW: Cell<Option<RowBuf>> = const { Cell::new(None) };
}

async fn append_history<A: Access>(
    access: &mut A,
    r: &PaymentRequest,
    c: u32,
    data: &[u8],
) -> Result<(), Abort> {
    let mut buf = ROW.take().unwrap_or_else(|| RowBuf::new(&definition(HISTORY)));
    let mut row = buf.start();
    fill_history(&mut row, (r.w, r.d), (r.customer_w, r.customer_d, c), r.amount, r.date);
    row.set_bytes(rows::history::H_DATA, data);
    let appended = access.append(HISTORY, buf.bytes()).await;
    ROW.set(Some(buf));
    appended
}

impl Step for PayingCustomer {
    const ID: StepId = 4;
    type Output = PaymentReply;

    fn route(&self) -> Route {
        route(self.0.customer_w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<PaymentReply, Abort> {
        use rows::customer::*;
        let r = &self.0;
        let (c, bearers) = customer_id(access, (r.customer_w, r.customer_d), r.who, Effect::Writes).await?;
        let pay = |row: &mut RowMut<'_>| {
            let balance = row.int(C_BALANCE) - r.amount;
            row.set_int(C_BALANCE, balance);
            row.set_int(C_YTD_PAYMENT, row.int(C_YTD_PAYMENT) + r.amount);
            row.set_int(C_PAYMENT_CNT, row.int(C_PAYMENT_CNT) + 1);
            let data = (row.row().bytes(C_CREDIT) == b"BC").then(|| {
                let note = format!("{c} {} {} {} {} {} ", r.customer_d, r.customer_w, r.d, r.w, r.amount);
                let mut data: SmallVec<[u8; 512]> = SmallVec::from_slice(note.as_bytes());
                data.extend_from_slice(row.row().bytes(C_DATA));
                data.truncate(500);
                row.set_bytes(C_DATA, &data);
                data[..data.len().min(200)].to_vec()
            });
            PaymentReply { customer: c, bearers, balance, data }
        };
        found(access.update(CUSTOMER, &key([r.customer_w, r.customer_d, c]), pay).await?)
    }
}

impl Step for PaymentHome {
    const ID: StepId = 5;
    type Output = Text;

    fn route(&self) -> Route {
        route(self.request.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Text, Abort> {
        use rows::{district::*, warehouse::*};
        let r = &self.request;
        let district = |row: &mut RowMut<'_>| {
            row.set_int(D_YTD, row.int(D_YTD) + r.amount);
            Text::from_slice(row.row().bytes(D_NAME))
        };
        let d_name = found(access.update(DISTRICT, &key([r.w, r.d]), district).await?)?;
        let warehouse = |row: &mut RowMut<'_>| {
            row.set_int(W_YTD, row.int(W_YTD) + r.amount);
            Text::from_slice(row.row().bytes(W_NAME))
        };
        let mut data = found(access.update(WAREHOUSE, &key([r.w]), warehouse).await?)?;
        data.extend_from_slice(b"    ");
        data.extend_from_slice(&d_name);
        if let Some(c) = self.customer {
            append_history(access, r, c, &data).await?;
        }
        Ok(data)
    }
}

impl Step for InsertHistory {
    const ID: StepId = 6;
    type Output = ();

    fn route(&self) -> Route {
        route(self.request.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        append_history(access, &self.request, self.customer, &self.data).await
    }
}
