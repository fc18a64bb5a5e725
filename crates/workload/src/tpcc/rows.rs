//! The nine tables: their columns, keys and secondary indexes.
//!
//! Every key begins with the warehouse, the routing key, which counts from 0 as routing keys do;
//! districts, customers, orders, order lines and items count from 1. ITEM is never changed and lies
//! in every instance. Money is in cents and rates are in ten-thousandths, so that sums are exact.
//! Dates are numbers from the request, because this crate has no clock.

use crate::columns::columns;
use base::{Key, TableId};
use txn::schema::{Column, IndexDef, Schema, TableDef, Type};

pub const WAREHOUSE: TableId = TableId(1);
pub const DISTRICT: TableId = TableId(2);
pub const CUSTOMER: TableId = TableId(3);
/// CUSTOMER by (warehouse, district, last name, first name).
pub const CUSTOMER_NAME: TableId = TableId(4);
pub const HISTORY: TableId = TableId(5);
pub const NEW_ORDER: TableId = TableId(6);
pub const ORDERS: TableId = TableId(7);
/// ORDERS by (warehouse, district, customer, order).
pub const ORDERS_CUSTOMER: TableId = TableId(8);
pub const ORDER_LINE: TableId = TableId(9);
pub const ITEM: TableId = TableId(10);
pub const STOCK: TableId = TableId(11);

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;

columns! { warehouse:
    W_ID I32; W_TAX I32; W_YTD I64; W_STATE Char(2); W_ZIP Char(9); W_NAME Text(10); W_STREET_1 Text(20); W_STREET_2 Text(20);
    W_CITY Text(20);
}
columns! { district:
    D_W_ID I32; D_ID I32; D_TAX I32; D_YTD I64; D_NEXT_O_ID I32; D_STATE Char(2); D_ZIP Char(9); D_NAME Text(10);
    D_STREET_1 Text(20); D_STREET_2 Text(20); D_CITY Text(20);
}
columns! { customer:
    C_W_ID I32; C_D_ID I32; C_ID I32; C_SINCE I64; C_CREDIT_LIM I64; C_DISCOUNT I32; C_BALANCE I64; C_YTD_PAYMENT I64;
    C_PAYMENT_CNT I32; C_DELIVERY_CNT I32; C_CREDIT Char(2); C_MIDDLE Char(2); C_STATE Char(2); C_ZIP Char(9); C_PHONE Char(16);
    C_FIRST Text(16); C_LAST Text(16); C_STREET_1 Text(20); C_STREET_2 Text(20); C_CITY Text(20); C_DATA Text(500);
}
columns! { history:
    H_W_ID I32; H_D_ID I32; H_C_W_ID I32; H_C_D_ID I32; H_C_ID I32; H_DATE I64; H_AMOUNT I32; H_DATA Text(24);
}
columns! { new_order: NO_W_ID I32; NO_D_ID I32; NO_O_ID I32; }
columns! { orders:
    O_W_ID I32; O_D_ID I32; O_ID I32; O_C_ID I32; O_ENTRY_D I64; O_CARRIER_ID I32, nullable; O_OL_CNT I32; O_ALL_LOCAL I32;
}
columns! { order_line:
    OL_W_ID I32; OL_D_ID I32; OL_O_ID I32; OL_NUMBER I32; OL_I_ID I32; OL_SUPPLY_W_ID I32; OL_DELIVERY_D I64, nullable;
    OL_QUANTITY I32; OL_AMOUNT I64; OL_DIST_INFO Char(24);
}
columns! { item: I_ID I32; I_IM_ID I32; I_PRICE I32; I_NAME Text(24); I_DATA Text(50); }
columns! { stock:
    S_W_ID I32; S_I_ID I32; S_QUANTITY I32; S_YTD I64; S_ORDER_CNT I32; S_REMOTE_CNT I32; S_DIST_01 Char(24); S_DIST_02 Char(24);
    S_DIST_03 Char(24); S_DIST_04 Char(24); S_DIST_05 Char(24); S_DIST_06 Char(24); S_DIST_07 Char(24); S_DIST_08 Char(24);
    S_DIST_09 Char(24); S_DIST_10 Char(24); S_DATA Text(50);
}

pub(super) fn schema(warehouses: u32) -> Schema {
    let w = u64::from(warehouses);
    let mut tables = vec![
        TableDef::new(WAREHOUSE, "WAREHOUSE", warehouse::list(), &[0], w),
        TableDef::new(DISTRICT, "DISTRICT", district::list(), &[0, 1], w),
        TableDef::new(CUSTOMER, "CUSTOMER", customer::list(), &[0, 1, 2], w),
        TableDef::new(HISTORY, "HISTORY", history::list(), &[], w),
        TableDef::new(NEW_ORDER, "NEW_ORDER", new_order::list(), &[0, 1, 2], w),
        TableDef::new(ORDERS, "ORDERS", orders::list(), &[0, 1, 2], w),
        TableDef::new(ORDER_LINE, "ORDER_LINE", order_line::list(), &[0, 1, 2, 3], w),
        TableDef::new(ITEM, "ITEM", item::list(), &[0], 0),
        TableDef::new(STOCK, "STOCK", stock::list(), &[0, 1], w),
    ];
    tables[2].indexes = vec![IndexDef {
        id: CUSTOMER_NAME,
        name: "CUSTOMER_NAME".into(),
        columns: vec![customer::C_W_ID, customer::C_D_ID, customer::C_LAST, customer::C_FIRST],
    }];
    tables[5].indexes = vec![IndexDef {
        id: ORDERS_CUSTOMER,
        name: "ORDERS_CUSTOMER".into(),
        // An entry ends with O_ID, the only column of the primary key that is not listed here.
        columns: vec![orders::O_W_ID, orders::O_D_ID, orders::O_C_ID],
    }];
    Schema { tables }
}

/// The definition of one table, for building its rows.
pub(super) fn definition(id: TableId) -> TableDef {
    schema(1).tables.into_iter().find(|t| t.id == id).expect("one of the nine")
}

/// A key of any of the tables, from its columns in order.
#[inline]
pub(crate) fn key<const N: usize>(columns: [u32; N]) -> Key {
    Key::of_i64s(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names_agree() {
        let schema = schema(3);
        let names = [
            (CUSTOMER, "C_DATA", customer::C_DATA),
            (STOCK, "S_DATA", stock::S_DATA),
            (ORDERS, "O_ALL_LOCAL", orders::O_ALL_LOCAL),
        ];
        for (id, name, position) in names {
            assert_eq!(schema.table(id).unwrap().column(name), Some(position));
        }
        let mut ids: Vec<_> =
            schema.tables.iter().flat_map(|t| t.indexes.iter().map(|i| i.id).chain([t.id])).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 11);
    }
}
