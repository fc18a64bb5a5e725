//! NewOrder (clause 2.4): orders five to fifteen items; one order in a hundred names an item that
//! does not exist.

use super::draw::is_original;
use super::rows::{
    self, CUSTOMER, DISTRICT, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE, definition, key,
};
use super::{INVALID_ITEM, Tpcc, found, route};
use base::{Key, TableId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::cell::Cell;
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Inserted, RowBuf, RowMut};

/// The greatest number of lines of an order.
pub(super) const MOST_LINES: usize = 15;
type Lines<T> = SmallVec<[T; MOST_LINES]>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    pub item: u32,
    /// The warehouse that supplies the item.
    pub supply: u32,
    pub quantity: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewOrderRequest {
    pub w: u32,
    pub d: u32,
    pub c: u32,
    pub date: i64,
    pub lines: Lines<Line>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewOrderReply {
    pub order: u32,
    /// With discount and taxes, in cents.
    pub total: i64,
    pub last_name: SmallVec<[u8; 16]>,
    pub credit: [u8; 2],
    /// For each line, in the request's order: whether item and stock are both "ORIGINAL", and the
    /// remaining stock.
    pub lines: Vec<(bool, i64)>,
}

/// Takes the stock that one warehouse supplies for an order; returns the values that the order's
/// lines need.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakeStock {
    pub supply: u32,
    pub w: u32,
    pub d: u32,
    /// Item and quantity of each line, by item.
    pub lines: Lines<(u32, u32)>,
}

/// A stock row after the update.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taken {
    pub left: i64,
    pub original: bool,
    /// S_DIST for the order's district.
    pub info: [u8; 24],
}

/// Reads the customer and updates the district, which gives the order its number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenOrder {
    pub w: u32,
    pub d: u32,
    pub c: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opened {
    pub order: u32,
    /// In ten-thousandths.
    pub d_tax: i64,
    pub discount: i64,
    pub last_name: SmallVec<[u8; 16]>,
    pub credit: [u8; 2],
}

/// Reads the items and the warehouse.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PriceItems {
    pub w: u32,
    pub items: Lines<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Priced {
    /// In ten-thousandths.
    pub w_tax: i64,
    /// The price of each item, and whether it is "ORIGINAL".
    pub items: Lines<(i64, bool)>,
}

/// Inserts the order, its lines and its entry in NEW_ORDER.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InsertOrder {
    pub w: u32,
    pub d: u32,
    pub c: u32,
    pub order: u32,
    pub date: i64,
    pub lines: Lines<OrderLine>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderLine {
    pub line: Line,
    pub amount: i64,
    pub info: [u8; 24],
}

/// The lines by supplier in ascending order, and by item within a supplier, with the position of
/// each line in the request.
fn by_supplier(r: &NewOrderRequest) -> (Each<TakeStock, 2>, Lines<usize>) {
    let mut order: Lines<usize> = (0..r.lines.len()).collect();
    order.sort_unstable_by_key(|&i| (r.lines[i].supply, r.lines[i].item, i));
    let mut steps: SmallVec<[TakeStock; 2]> = SmallVec::new();
    for &i in &order {
        let Line { item, supply, quantity } = r.lines[i];
        match steps.last_mut() {
            Some(step) if step.supply == supply => step.lines.push((item, quantity)),
            _ => {
                let lines = std::iter::once((item, quantity)).collect();
                steps.push(TakeStock { supply, w: r.w, d: r.d, lines });
            }
        }
    }
    (Each(steps), order)
}

pub(super) async fn run<T: Transaction>(
    tpcc: &Tpcc,
    r: &NewOrderRequest,
    txn: &mut T,
) -> Result<NewOrderReply, Abort> {
    tpcc.place(r.w, r.d)?;
    let known = |line: &Line| line.supply < tpcc.options.warehouses && line.quantity < 1_000;
    if r.lines.is_empty() || r.lines.len() > MOST_LINES || !r.lines.iter().all(known) {
        return Err(Abort::BadRequest);
    }
    let (stock, order) = by_supplier(r);
    let items = r.lines.iter().map(|line| line.item).collect();
    // The next phase, order and lines, runs only at home, so the suppliers prepare with this
    // message. The district comes before the stock, as in StockLevel, and the warehouse, which all
    // transactions need, as late as possible.
    let open = OpenOrder { w: r.w, d: r.d, c: r.c };
    let (opened, taken, priced) = txn.last_elsewhere((open, stock, PriceItems { w: r.w, items })).await?;
    let mut lines: Lines<OrderLine> = SmallVec::new();
    let mut shown = Vec::with_capacity(r.lines.len());
    let mut of_line: Lines<Option<Taken>> = smallvec::smallvec![None; r.lines.len()];
    for (&i, taken) in order.iter().zip(taken.into_iter().flatten()) {
        of_line[i] = Some(taken);
    }
    for ((line, taken), (price, original)) in r.lines.iter().zip(&of_line).zip(&priced.items) {
        let taken = found(*taken)?;
        lines.push(OrderLine { line: *line, amount: i64::from(line.quantity) * price, info: taken.info });
        shown.push((taken.original && *original, taken.left));
    }
    let amount: i64 = lines.iter().map(|line| line.amount).sum();
    let total =
        amount * (10_000 - opened.discount) / 10_000 * (10_000 + priced.w_tax + opened.d_tax) / 10_000;
    txn.last(InsertOrder { w: r.w, d: r.d, c: r.c, order: opened.order, date: r.date, lines }).await?;
    Ok(NewOrderReply {
        order: opened.order,
        total,
        last_name: opened.last_name,
        credit: opened.credit,
        lines: shown,
    })
}

impl Step for TakeStock {
    const ID: StepId = 1;
    type Output = Lines<Taken>;

    fn route(&self) -> Route {
        route(self.supply)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Lines<Taken>, Abort> {
        use rows::stock::*;
        let mut all = SmallVec::new();
        if !(1..=super::DISTRICTS).contains(&self.d) {
            return Err(Abort::BadRequest);
        }
        let keys: Lines<Key> = self.lines.iter().map(|&(item, _)| key([self.supply, item])).collect();
        access.prefetch(STOCK, &keys);
        for (&(_, quantity), key) in self.lines.iter().zip(&keys) {
            let take = |row: &mut RowMut<'_>| {
                let (had, quantity) = (row.int(S_QUANTITY), i64::from(quantity));
                let left = if had >= quantity + 10 { had - quantity } else { had - quantity + 91 };
                row.set_int(S_QUANTITY, left);
                row.set_int(S_YTD, row.int(S_YTD) + quantity);
                row.set_int(S_ORDER_CNT, row.int(S_ORDER_CNT) + 1);
                if self.supply != self.w {
                    row.set_int(S_REMOTE_CNT, row.int(S_REMOTE_CNT) + 1);
                }
                let row = row.row();
                let mut info = [0; 24];
                info.copy_from_slice(row.bytes(S_DIST_01 + self.d as u16 - 1));
                Taken { left, original: is_original(row.bytes(S_DATA)), info }
            };
            let taken = access.update(STOCK, key, take).await?;
            // The unused item has no stock either; the step that reads ITEM aborts with the
            // specified message.
            all.push(taken.ok_or(Abort::User(INVALID_ITEM))?);
        }
        Ok(all)
    }
}

impl Step for OpenOrder {
    const ID: StepId = 2;
    type Output = Opened;

    fn route(&self) -> Route {
        route(self.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Opened, Abort> {
        use rows::{customer::*, district::*};
        let customer = |row: txn::Row<'_>| {
            let mut credit = [0; 2];
            credit.copy_from_slice(row.bytes(C_CREDIT));
            (row.int(C_DISCOUNT), SmallVec::from_slice(row.bytes(C_LAST)), credit)
        };
        let (discount, last_name, credit) =
            found(access.read(CUSTOMER, &key([self.w, self.d, self.c]), customer).await?)?;
        let number = |row: &mut RowMut<'_>| {
            let order = row.int(D_NEXT_O_ID);
            row.set_int(D_NEXT_O_ID, order + 1);
            (row.int(D_TAX), order as u32)
        };
        let (d_tax, order) = found(access.update(DISTRICT, &key([self.w, self.d]), number).await?)?;
        Ok(Opened { order, d_tax, discount, last_name, credit })
    }
}

impl Step for PriceItems {
    const ID: StepId = 10;
    const EFFECT: Effect = Effect::Reads;
    type Output = Priced;

    fn route(&self) -> Route {
        route(self.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Priced, Abort> {
        use rows::{item::*, warehouse::*};
        let mut items: Lines<(i64, bool)> = SmallVec::new();
        let keys: Lines<Key> = self.items.iter().map(|&id| key([id])).collect();
        access.prefetch(ITEM, &keys);
        for key in &keys {
            let item =
                access.read(ITEM, key, |row| (row.int(I_PRICE), is_original(row.bytes(I_DATA)))).await?;
            items.push(item.ok_or(Abort::User(INVALID_ITEM))?);
        }
        let w_tax = found(access.read(WAREHOUSE, &key([self.w]), |row| row.int(W_TAX)).await?)?;
        Ok(Priced { w_tax, items })
    }
}

impl Step for InsertOrder {
    const ID: StepId = 3;
    type Output = ();

    fn route(&self) -> Route {
        route(self.w)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let mut rows = ROWS.take().unwrap_or_else(Rows::new);
        let inserted = self.insert(access, &mut rows).await;
        ROWS.set(Some(rows));
        inserted
    }
}

impl InsertOrder {
    async fn insert<A: Access>(&self, access: &mut A, rows: &mut Rows) -> Result<(), Abort> {
        use rows::{order_line::*, orders::*};
        let place = [self.w, self.d, self.order];
        let mut row = start(&mut rows.order, place);
        row.set_int(O_C_ID, self.c.into());
        row.set_int(O_ENTRY_D, self.date);
        row.set_int(O_OL_CNT, self.lines.len() as i64);
        row.set_int(O_ALL_LOCAL, self.lines.iter().all(|l| l.line.supply == self.w).into());
        insert(access, ORDERS, &key(place), &rows.order).await?;
        start(&mut rows.new_order, place);
        insert(access, NEW_ORDER, &key(place), &rows.new_order).await?;
        start(&mut rows.line, place);
        for (number, OrderLine { line, amount, info }) in (1u32..).zip(&self.lines) {
            // The columns that all lines share are kept.
            let mut row = rows.line.again();
            row.set_int(OL_NUMBER, number.into());
            row.set_int(OL_I_ID, line.item.into());
            row.set_int(OL_SUPPLY_W_ID, line.supply.into());
            row.set_int(OL_QUANTITY, line.quantity.into());
            row.set_int(OL_AMOUNT, *amount);
            row.set_bytes(OL_DIST_INFO, info);
            insert(access, ORDER_LINE, &key([self.w, self.d, self.order, number]), &rows.line).await?;
        }
        Ok(())
    }
}

/// Buffers for the rows of an order.
struct Rows {
    order: RowBuf,
    new_order: RowBuf,
    line: RowBuf,
}

thread_local! {
    /// Kept from one order to the next, because their layouts are expensive to build; taken out
    /// while in use.
    static ROWS: Cell<Option<Rows>> = const { Cell::new(None) };
}

impl Rows {
    fn new() -> Rows {
        let of = |table| RowBuf::new(&definition(table));
        Rows { order: of(ORDERS), new_order: of(NEW_ORDER), line: of(ORDER_LINE) }
    }
}

/// Begins a row with its warehouse, district and order.
fn start(row: &mut RowBuf, place: [u32; 3]) -> RowMut<'_> {
    let mut row = row.start();
    (0..).zip(place).for_each(|(column, value)| row.set_int(column, value.into()));
    row
}

/// Inserts a row of an order. The order's number is unique, so the row cannot exist yet.
async fn insert<A: Access>(access: &mut A, table: TableId, key: &Key, row: &RowBuf) -> Result<(), Abort> {
    match access.insert(table, key, row.bytes()).await? {
        Inserted::Done => Ok(()),
        Inserted::Exists => Err(Abort::BadRequest),
    }
}
