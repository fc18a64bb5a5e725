//! The 33 tables, their keys and secondary indexes, and one table of sequences.
//!
//! Every table but the seven fixed ones begins with a column `P`, the site of the row: the routing
//! key. Every secondary index begins with it, too, so indexes are cut like their tables. Ids are
//! not shifted: customers, accounts, brokers, companies and addresses count from 0 over the whole
//! database, and a trade's id names its site (`Geometry::trade_id`). Symbols are text, as the
//! definition has them. A site takes two bytes in a row and a price four: nine thousand sites are
//! the most, and the definition gives a price eight digits.

use crate::columns::columns;
use base::TableId;
use std::ops::RangeInclusive;
use txn::schema::{Column, IndexDef, Schema, TableDef, Type};

/// Prices in cents: the definition gives them eight digits.
pub(super) const PRICES: RangeInclusive<i64> = 0..=99_999_999;

columns! { account_permission:
    P I16; AP_CA_ID I64; AP_TAX_ID Text(20); AP_ACL Char(4); AP_L_NAME Text(25); AP_F_NAME Text(20);
}
columns! { customer:
    P I16; C_ID I64; C_TAX_ID Text(20); C_ST_ID Char(4); C_L_NAME Text(25); C_F_NAME Text(20); C_M_NAME Char(1), nullable;
    C_GNDR Char(1), nullable; C_TIER I32; C_DOB Date; C_AD_ID I64;
    C_CTRY_1 Text(3), nullable; C_AREA_1 Text(3), nullable; C_LOCAL_1 Text(10), nullable; C_EXT_1 Text(5), nullable;
    C_CTRY_2 Text(3), nullable; C_AREA_2 Text(3), nullable; C_LOCAL_2 Text(10), nullable; C_EXT_2 Text(5), nullable;
    C_CTRY_3 Text(3), nullable; C_AREA_3 Text(3), nullable; C_LOCAL_3 Text(10), nullable; C_EXT_3 Text(5), nullable;
    C_EMAIL_1 Text(50), nullable; C_EMAIL_2 Text(50), nullable;
}
columns! { customer_account:
    P I16; CA_ID I64; CA_B_ID I64; CA_C_ID I64; CA_NAME Text(50), nullable; CA_TAX_ST I32; CA_BAL Decimal(2);
}
columns! { customer_taxrate: P I16; CX_TX_ID Char(4); CX_C_ID I64; }
columns! { holding:
    P I16; H_T_ID I64; H_CA_ID I64; H_S_SYMB Text(15); H_DTS Timestamp; H_PRICE ShortDecimal(2); H_QTY I32;
}
columns! { holding_history: P I16; HH_H_T_ID I64; HH_T_ID I64; HH_BEFORE_QTY I32; HH_AFTER_QTY I32; }
columns! { holding_summary: P I16; HS_CA_ID I64; HS_S_SYMB Text(15); HS_QTY I32; }
columns! { watch_item: P I16; WI_WL_ID I64; WI_S_SYMB Text(15); }
columns! { watch_list: P I16; WL_ID I64; WL_C_ID I64; }
columns! { broker:
    P I16; B_ID I64; B_ST_ID Char(4); B_NAME Text(49); B_NUM_TRADES I32; B_COMM_TOTAL Decimal(2);
}
columns! { cash_transaction: P I16; CT_T_ID I64; CT_DTS Timestamp; CT_AMT Decimal(2); CT_NAME Text(100), nullable; }
columns! { charge: CH_TT_ID Char(3); CH_C_TIER I32; CH_CHRG Decimal(2); }
columns! { commission_rate:
    CR_C_TIER I32; CR_TT_ID Char(3); CR_EX_ID Text(6); CR_FROM_QTY I32; CR_TO_QTY I32; CR_RATE Decimal(2);
}
columns! { settlement:
    P I16; SE_T_ID I64; SE_CASH_TYPE Text(40); SE_CASH_DUE_DATE Date; SE_AMT Decimal(2);
}
columns! { trade:
    P I16; T_ID I64; T_DTS Timestamp; T_ST_ID Char(4); T_TT_ID Char(3); T_IS_CASH Bool; T_S_SYMB Text(15); T_QTY I32;
    T_BID_PRICE ShortDecimal(2); T_CA_ID I64; T_EXEC_NAME Text(49); T_TRADE_PRICE ShortDecimal(2), nullable; T_CHRG Decimal(2);
    T_COMM Decimal(2); T_TAX Decimal(2); T_LIFO Bool;
}
columns! { trade_history: P I16; TH_T_ID I64; TH_ST_ID Char(4); TH_DTS Timestamp; }
columns! { trade_request:
    P I16; TR_T_ID I64; TR_TT_ID Char(3); TR_S_SYMB Text(15); TR_QTY I32; TR_BID_PRICE ShortDecimal(2); TR_B_ID I64;
}
columns! { trade_sequence: P I16; TQ_NEXT I64; TQ_DTS Timestamp; }
columns! { trade_type: TT_ID Char(3); TT_NAME Text(12); TT_IS_SELL Bool; TT_IS_MRKT Bool; }
columns! { company:
    P I16; CO_ID I64; CO_ST_ID Char(4); CO_NAME Text(60); CO_IN_ID Char(2); CO_SP_RATE Char(4); CO_CEO Text(46);
    CO_AD_ID I64; CO_DESC Text(150); CO_OPEN_DATE Date;
}
columns! { company_competitor: P I16; CP_CO_ID I64; CP_COMP_CO_ID I64; CP_IN_ID Char(2); }
columns! { daily_market:
    P I16; DM_S_SYMB Text(15); DM_DATE Date; DM_CLOSE ShortDecimal(2); DM_HIGH ShortDecimal(2); DM_LOW ShortDecimal(2); DM_VOL I64;
}
columns! { exchange:
    P I16; EX_ID Text(6); EX_NAME Text(100); EX_NUM_SYMB I32; EX_OPEN I32; EX_CLOSE I32; EX_DESC Text(150), nullable;
    EX_AD_ID I64;
}
columns! { financial:
    P I16; FI_CO_ID I64; FI_YEAR I32; FI_QTR I32; FI_QTR_START_DATE Date; FI_REVENUE Decimal(2); FI_NET_EARN Decimal(2);
    FI_BASIC_EPS Decimal(2); FI_DILUT_EPS Decimal(2); FI_MARGIN Decimal(2); FI_INVENTORY Decimal(2); FI_ASSETS Decimal(2);
    FI_LIABILITY Decimal(2); FI_OUT_BASIC I64; FI_OUT_DILUT I64;
}
columns! { industry: IN_ID Char(2); IN_NAME Text(50); IN_SC_ID Char(2); }
columns! { last_trade:
    P I16; LT_S_SYMB Text(15); LT_DTS Timestamp; LT_PRICE ShortDecimal(2); LT_OPEN_PRICE ShortDecimal(2); LT_VOL I64;
}
columns! { news_item:
    P I16; NI_ID I64; NI_HEADLINE Text(80); NI_SUMMARY Text(255); NI_ITEM Text(100_000); NI_DTS Timestamp; NI_SOURCE Text(30);
    NI_AUTHOR Text(30), nullable;
}
columns! { news_xref: P I16; NX_NI_ID I64; NX_CO_ID I64; }
columns! { sector: SC_ID Char(2); SC_NAME Text(30); }
columns! { security:
    P I16; S_SYMB Text(15); S_ISSUE Char(6); S_ST_ID Char(4); S_NAME Text(70); S_EX_ID Text(6); S_CO_ID I64; S_NUM_OUT I64;
    S_START_DATE Date; S_EXCH_DATE Date; S_PE Decimal(2); S_52WK_HIGH ShortDecimal(2); S_52WK_HIGH_DATE Date;
    S_52WK_LOW ShortDecimal(2); S_52WK_LOW_DATE Date; S_DIVIDEND Decimal(2); S_YIELD Decimal(2);
}
columns! { address:
    P I16; AD_ID I64; AD_LINE1 Text(80), nullable; AD_LINE2 Text(80), nullable; AD_ZC_CODE Text(12); AD_CTRY Text(80), nullable;
}
columns! { status_type: ST_ID Char(4); ST_NAME Text(10); }
columns! { taxrate: P I16; TX_ID Char(4); TX_NAME Text(50); TX_RATE Decimal(5); }
columns! { zip_code: ZC_CODE Text(12); ZC_TOWN Text(80); ZC_DIV Text(80); }

/// Declares the ids of tables and indexes: consecutive numbers from 1 on.
macro_rules! ids {
    (@number $n:expr; $name:ident $($rest:ident)*) => { pub const $name: TableId = TableId($n); ids!(@number $n + 1; $($rest)*); };
    (@number $n:expr;) => { #[cfg(test)] const IDS: u16 = $n; };
    ($($name:ident)+) => { ids!(@number 1; $($name)+); };
}

ids! {
    ACCOUNT_PERMISSION CUSTOMER CUSTOMER_TAX_ID CUSTOMER_ACCOUNT CUSTOMER_ACCOUNT_OWNER CUSTOMER_TAXRATE HOLDING HOLDING_ACCOUNT
    HOLDING_HISTORY HOLDING_HISTORY_TRADE HOLDING_SUMMARY WATCH_ITEM WATCH_LIST WATCH_LIST_OWNER
    BROKER BROKER_NAME CASH_TRANSACTION CHARGE COMMISSION_RATE SETTLEMENT TRADE TRADE_ACCOUNT TRADE_SYMBOL
    TRADE_HISTORY TRADE_REQUEST TRADE_REQUEST_SYMBOL TRADE_REQUEST_BROKER TRADE_TYPE TRADE_SEQUENCE
    COMPANY COMPANY_NAME COMPANY_INDUSTRY COMPANY_COMPETITOR DAILY_MARKET EXCHANGE FINANCIAL INDUSTRY INDUSTRY_NAME
    INDUSTRY_SECTOR LAST_TRADE NEWS_ITEM NEWS_XREF NEWS_XREF_COMPANY SECTOR SECTOR_NAME SECURITY SECURITY_COMPANY
    ADDRESS STATUS_TYPE TAXRATE ZIP_CODE
}

/// Adds tables with their indexes: id, name, columns, key, then index ids with their columns.
macro_rules! tables {
    ($sites:expr; $($id:ident $module:ident [$($key:ident)+] $domain:ident $({ $index:ident: $($column:ident)+ })*;)+) => {
        vec![$({
            let domain = tables!(@domain $sites, $domain);
            #[allow(unused_mut)]
            let mut table = TableDef::new($id, stringify!($id), $module::list(), &[$($module::$key),+], domain);
            $(table.indexes.push(IndexDef {
                id: $index,
                name: stringify!($index).into(),
                columns: vec![$($module::$column),+],
            });)*
            table
        }),+]
    };
    (@domain $sites:expr, sites) => { u64::from($sites) };
    (@domain $sites:expr, everywhere) => { 0 };
}

pub(super) fn schema(sites: u32) -> Schema {
    let tables = tables! { sites;
        ACCOUNT_PERMISSION account_permission [P AP_CA_ID AP_TAX_ID] sites;
        CUSTOMER customer [P C_ID] sites { CUSTOMER_TAX_ID: P C_TAX_ID };
        CUSTOMER_ACCOUNT customer_account [P CA_ID] sites { CUSTOMER_ACCOUNT_OWNER: P CA_C_ID };
        // The key leads with the customer: no transaction asks for the customers of a tax rate.
        CUSTOMER_TAXRATE customer_taxrate [P CX_C_ID CX_TX_ID] sites;
        HOLDING holding [P H_T_ID] sites { HOLDING_ACCOUNT: P H_CA_ID H_S_SYMB H_DTS };
        HOLDING_HISTORY holding_history [P HH_H_T_ID HH_T_ID] sites { HOLDING_HISTORY_TRADE: P HH_T_ID };
        HOLDING_SUMMARY holding_summary [P HS_CA_ID HS_S_SYMB] sites;
        WATCH_ITEM watch_item [P WI_WL_ID WI_S_SYMB] sites;
        WATCH_LIST watch_list [P WL_ID] sites { WATCH_LIST_OWNER: P WL_C_ID };
        BROKER broker [P B_ID] sites { BROKER_NAME: P B_NAME };
        CASH_TRANSACTION cash_transaction [P CT_T_ID] sites;
        CHARGE charge [CH_TT_ID CH_C_TIER] everywhere;
        COMMISSION_RATE commission_rate [CR_C_TIER CR_TT_ID CR_EX_ID CR_FROM_QTY] everywhere;
        SETTLEMENT settlement [P SE_T_ID] sites;
        // No index by state, which changes twice for each trade: open ones are among those of runs.
        TRADE trade [P T_ID] sites
            { TRADE_ACCOUNT: P T_CA_ID T_DTS } { TRADE_SYMBOL: P T_S_SYMB T_DTS };
        // No index by time: a trade has two or three rows, which are sorted where they are read.
        TRADE_HISTORY trade_history [P TH_T_ID TH_ST_ID] sites;
        TRADE_REQUEST trade_request [P TR_T_ID] sites
            { TRADE_REQUEST_SYMBOL: P TR_S_SYMB } { TRADE_REQUEST_BROKER: P TR_B_ID TR_S_SYMB };
        TRADE_SEQUENCE trade_sequence [P] sites;
        TRADE_TYPE trade_type [TT_ID] everywhere;
        COMPANY company [P CO_ID] sites { COMPANY_NAME: P CO_NAME } { COMPANY_INDUSTRY: P CO_IN_ID CO_ID };
        COMPANY_COMPETITOR company_competitor [P CP_CO_ID CP_COMP_CO_ID CP_IN_ID] sites;
        DAILY_MARKET daily_market [P DM_S_SYMB DM_DATE] sites;
        EXCHANGE exchange [P EX_ID] sites;
        FINANCIAL financial [P FI_CO_ID FI_YEAR FI_QTR] sites;
        INDUSTRY industry [IN_ID] everywhere { INDUSTRY_NAME: IN_NAME } { INDUSTRY_SECTOR: IN_SC_ID };
        LAST_TRADE last_trade [P LT_S_SYMB] sites;
        NEWS_ITEM news_item [P NI_ID] sites;
        NEWS_XREF news_xref [P NX_NI_ID NX_CO_ID] sites { NEWS_XREF_COMPANY: P NX_CO_ID };
        SECTOR sector [SC_ID] everywhere { SECTOR_NAME: SC_NAME };
        SECURITY security [P S_SYMB] sites { SECURITY_COMPANY: P S_CO_ID S_ISSUE };
        ADDRESS address [P AD_ID] sites;
        STATUS_TYPE status_type [ST_ID] everywhere;
        TAXRATE taxrate [P TX_ID] sites;
        ZIP_CODE zip_code [ZC_CODE] everywhere;
    };
    Schema { tables }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_33_tables_and_a_sequence_each_with_a_number() {
        let schema = schema(3);
        assert_eq!(schema.tables.len(), 33 + 1);
        let mut ids: Vec<_> =
            schema.tables.iter().flat_map(|t| t.indexes.iter().map(|i| i.id).chain([t.id])).collect();
        ids.sort_unstable();
        assert!(ids.iter().map(|id| id.0).eq(1..IDS), "{ids:?}");
    }

    /// A worker that owns sites owns the entries of its rows.
    #[test]
    fn every_index_of_a_divided_table_begins_with_the_site() {
        for table in schema(3).tables.iter().filter(|table| table.domain > 0) {
            assert!(table.key[0] == 0 && table.columns[0].name == "P", "{}", table.name);
            assert!(table.indexes.iter().all(|index| index.columns[0] == 0), "{}", table.name);
        }
    }
}
