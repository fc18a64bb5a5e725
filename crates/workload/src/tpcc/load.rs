//! The initial population (clause 4.3.3.1), in pieces that depend only on the seed: the data is the
//! same in every deployment.
//!
//! A warehouse is loaded in this order: its row with its districts; its stock; then for each
//! district, chunk by chunk, customers with their history and as many orders with lines. The newest
//! 30 % of the orders are not delivered yet.

use super::TpccOptions;
use super::draw::{C_LAST_LOAD, last_name, permutation};
use super::rows::*;
use crate::random::Random;
use txn::{Abort, Access, Inserted, RowBuf, RowMut};

/// Stock rows per loading transaction.
const STOCK_CHUNK: u32 = 1_000;
/// Customers, and orders, per loading transaction.
const CUSTOMER_CHUNK: u32 = 100;
/// Delivered orders out of ten thousand.
const DELIVERED: u32 = 7_000;
const SEED: u64 = 0x7bc_c0de;
/// The date of all initial data.
pub(super) const LOAD_DATE: i64 = 1;

/// The delivered orders out of `n`: 2,100 of 3,000.
pub(super) fn delivered(n: u32) -> u32 {
    (u64::from(n) * u64::from(DELIVERED) / 10_000) as u32
}

enum Piece {
    Head,
    Stock(u32),
    Customers { district: u32, chunk: u32 },
}

fn stock_chunks(options: &TpccOptions) -> u32 {
    options.items.div_ceil(STOCK_CHUNK)
}

fn customer_chunks(options: &TpccOptions) -> u32 {
    options.customers.div_ceil(CUSTOMER_CHUNK)
}

pub(super) fn parts(options: &TpccOptions) -> u32 {
    1 + stock_chunks(options) + DISTRICTS * customer_chunks(options)
}

fn piece(options: &TpccOptions, part: u32) -> Piece {
    let stock = stock_chunks(options);
    match part.checked_sub(1) {
        None => Piece::Head,
        Some(n) if n < stock => Piece::Stock(n),
        Some(n) => {
            let chunks = customer_chunks(options);
            Piece::Customers { district: (n - stock) / chunks + 1, chunk: (n - stock) % chunks }
        }
    }
}

/// A seed for each piece of the data.
fn seed(of: [u32; 3]) -> u64 {
    of.into_iter().fold(SEED, |seed, n| base::hash64(&(seed ^ u64::from(n)).to_le_bytes()))
}

/// Builds rows of one table and inserts them.
struct Filler {
    table: base::TableId,
    row: RowBuf,
}

impl Filler {
    fn new(table: base::TableId) -> Filler {
        Filler { table, row: RowBuf::new(&definition(table)) }
    }

    async fn add<A: Access, const N: usize>(
        &mut self,
        access: &mut A,
        id: [u32; N],
        fill: impl FnOnce(&mut RowMut<'_>),
    ) -> Result<(), Abort> {
        let mut row = self.row.start();
        for (column, value) in id.into_iter().enumerate() {
            row.set_int(column as u16, i64::from(value));
        }
        fill(&mut row);
        match access.insert(self.table, &key(id), self.row.bytes()).await? {
            Inserted::Done => Ok(()),
            Inserted::Exists => Err(Abort::BadRequest),
        }
    }
}

/// Fills the five address columns: two streets and the city, in `streets`, then state and zip.
fn address(row: &mut RowMut<'_>, random: &mut Random, (state, zip): (u16, u16), streets: [u16; 3]) {
    for column in streets {
        row.set_bytes(column, &random.letters(10..=20));
    }
    let letters: Vec<u8> = (0..2).map(|_| b'A' + random.between(0..=25) as u8).collect();
    row.set_bytes(state, &letters);
    row.set_bytes(zip, &[&random.digits(4)[..], b"11111"].concat());
}

pub(super) async fn items<A: Access>(options: &TpccOptions, access: &mut A) -> Result<(), Abort> {
    let (mut random, mut items) = (Random::new(seed([0, 0, 0])), Filler::new(ITEM));
    for id in 1..=options.items {
        items
            .add(access, [id], |row| {
                row.set_int(item::I_IM_ID, random.between(1..=10_000).into());
                row.set_int(item::I_PRICE, random.between(100..=10_000).into());
                row.set_bytes(item::I_NAME, &random.letters(14..=24));
                row.set_bytes(item::I_DATA, &random.item_data());
            })
            .await?;
    }
    Ok(())
}

pub(super) async fn load<A: Access>(
    options: &TpccOptions,
    w: u32,
    part: u32,
    access: &mut A,
) -> Result<(), Abort> {
    let mut random = Random::new(seed([1, w, part]));
    match piece(options, part) {
        Piece::Head => head(options, w, &mut random, access).await,
        Piece::Stock(chunk) => stocks(options, w, chunk, &mut random, access).await,
        Piece::Customers { district, chunk } => {
            let first = chunk * CUSTOMER_CHUNK + 1;
            let ids = first..(first + CUSTOMER_CHUNK).min(options.customers + 1);
            customers(w, district, ids.clone(), &mut random, access).await?;
            orders_of(options, w, district, ids, &mut random, access).await
        }
    }
}

async fn head<A: Access>(
    options: &TpccOptions,
    w: u32,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    use district::*;
    use warehouse::*;
    Filler::new(WAREHOUSE)
        .add(access, [w], |row| {
            row.set_int(W_TAX, random.between(0..=2_000).into());
            row.set_int(W_YTD, i64::from(DISTRICTS) * options.district_ytd());
            row.set_bytes(W_NAME, &random.letters(6..=10));
            address(row, random, (W_STATE, W_ZIP), [W_STREET_1, W_STREET_2, W_CITY]);
        })
        .await?;
    let mut districts = Filler::new(DISTRICT);
    for d in 1..=DISTRICTS {
        districts
            .add(access, [w, d], |row| {
                row.set_int(D_TAX, random.between(0..=2_000).into());
                row.set_int(D_YTD, options.district_ytd());
                row.set_int(D_NEXT_O_ID, i64::from(options.customers) + 1);
                row.set_bytes(D_NAME, &random.letters(6..=10));
                address(row, random, (D_STATE, D_ZIP), [D_STREET_1, D_STREET_2, D_CITY]);
            })
            .await?;
    }
    Ok(())
}

async fn stocks<A: Access>(
    options: &TpccOptions,
    w: u32,
    chunk: u32,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    let mut stocks = Filler::new(STOCK);
    let first = chunk * STOCK_CHUNK + 1;
    for id in first..(first + STOCK_CHUNK).min(options.items + 1) {
        stocks
            .add(access, [w, id], |row| {
                row.set_int(stock::S_QUANTITY, random.between(10..=100).into());
                for column in stock::S_DIST_01..=stock::S_DIST_10 {
                    row.set_bytes(column, &random.letters(24..=24));
                }
                row.set_bytes(stock::S_DATA, &random.item_data());
            })
            .await?;
    }
    Ok(())
}

async fn customers<A: Access>(
    w: u32,
    d: u32,
    ids: std::ops::Range<u32>,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    use customer::*;
    let (mut customers, mut paid) = (Filler::new(CUSTOMER), RowBuf::new(&definition(HISTORY)));
    for c in ids {
        let name = if c <= 1_000 { c - 1 } else { random.non_uniform(255, C_LAST_LOAD, 0..=999) };
        customers
            .add(access, [w, d, c], |row| {
                row.set_int(C_SINCE, LOAD_DATE);
                row.set_int(C_CREDIT_LIM, 5_000_000);
                row.set_int(C_DISCOUNT, random.between(0..=5_000).into());
                row.set_int(C_BALANCE, -1_000);
                row.set_int(C_YTD_PAYMENT, 1_000);
                row.set_int(C_PAYMENT_CNT, 1);
                row.set_bytes(C_CREDIT, if random.chance(10.0) { b"BC" } else { b"GC" });
                row.set_bytes(C_MIDDLE, b"OE");
                row.set_bytes(C_PHONE, &random.digits(16));
                row.set_bytes(C_FIRST, &random.letters(8..=16));
                row.set_bytes(C_LAST, last_name(name).as_bytes());
                row.set_bytes(C_DATA, &random.letters(300..=500));
                address(row, random, (C_STATE, C_ZIP), [C_STREET_1, C_STREET_2, C_CITY]);
            })
            .await?;
        let mut row = paid.start();
        super::payment::fill_history(&mut row, (w, d), (w, d, c), 1_000, LOAD_DATE);
        row.set_bytes(history::H_DATA, &random.letters(12..=24));
        access.append(HISTORY, paid.bytes()).await?;
    }
    Ok(())
}

async fn orders_of<A: Access>(
    options: &TpccOptions,
    w: u32,
    d: u32,
    ids: std::ops::Range<u32>,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    use order_line::*;
    let customers = permutation(options.customers, seed([2, w, d]));
    let old = delivered(options.customers);
    let (mut orders_, mut lines, mut open) =
        (Filler::new(ORDERS), Filler::new(ORDER_LINE), Filler::new(NEW_ORDER));
    for o in ids {
        let count = random.between(5..=15);
        orders_
            .add(access, [w, d, o], |row| {
                row.set_int(orders::O_C_ID, customers[o as usize - 1].into());
                row.set_int(orders::O_ENTRY_D, LOAD_DATE);
                if o <= old {
                    row.set_int(orders::O_CARRIER_ID, random.between(1..=10).into());
                }
                row.set_int(orders::O_OL_CNT, count.into());
                row.set_int(orders::O_ALL_LOCAL, 1);
            })
            .await?;
        for number in 1..=count {
            lines
                .add(access, [w, d, o, number], |row| {
                    row.set_int(OL_I_ID, random.between(1..=options.items).into());
                    row.set_int(OL_SUPPLY_W_ID, w.into());
                    row.set_int(OL_QUANTITY, 5);
                    if o <= old {
                        row.set_int(OL_DELIVERY_D, LOAD_DATE);
                    } else {
                        row.set_int(OL_AMOUNT, random.between(1..=999_999).into());
                    }
                    row.set_bytes(OL_DIST_INFO, &random.letters(24..=24));
                })
                .await?;
        }
        if o > old {
            open.add(access, [w, d, o], |_| ()).await?;
        }
    }
    Ok(())
}
