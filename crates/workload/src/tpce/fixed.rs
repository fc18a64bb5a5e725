//! Fixed contents: the tables that are in every instance, and the rates and names that rules of the
//! population share.

use super::geometry::stream;
use super::names::{self, ZIP_CODES};
use super::ops::insert;
use super::rows::*;
use txn::{Abort, Access};

pub(super) const STATUSES: [(&str, &str); 5] = [
    ("PNDG", "Pending"),
    ("SBMT", "Submitted"),
    ("CMPT", "Completed"),
    ("CNCL", "Canceled"),
    ("ACTV", "Active"),
];
/// TT_ID, TT_NAME, TT_IS_SELL, TT_IS_MRKT.
pub(super) const TRADE_TYPES: [(&str, &str, i64, i64); 5] = [
    ("TMB", "Market-Buy", 0, 1),
    ("TMS", "Market-Sell", 1, 1),
    ("TSL", "Stop-Loss", 1, 0),
    ("TLS", "Limit-Sell", 1, 0),
    ("TLB", "Limit-Buy", 0, 0),
];
pub(super) const EXCHANGES: [(&str, &str); 4] = [
    ("NYSE", "New York Stock Exchange"),
    ("NASDAQ", "National Association of Securities Dealers"),
    ("AMEX", "American Stock Exchange"),
    ("PCX", "Pacific Exchange"),
];
/// CH_CHRG by trade type and tier, in cents.
const CHARGES: [(&str, [i64; 3]); 5] = [
    ("TMB", [500, 450, 250]),
    ("TMS", [500, 450, 250]),
    ("TSL", [650, 550, 350]),
    ("TLS", [600, 500, 300]),
    ("TLB", [600, 500, 300]),
];
/// CR_FROM_QTY, CR_TO_QTY and the rate of tier 1 outside of PCX, in hundredths of a per cent.
const COMMISSIONS: [(i64, i64, i64); 4] =
    [(1, 200, 40), (201, 500, 36), (501, 2_000, 32), (2_001, 999_999, 20)];
/// SC_ID, SC_NAME, number of industries.
pub(super) const SECTORS: [(&str, &str, u32); 12] = [
    ("SV", "Services", 25),
    ("CC", "Consumer Cyclical", 12),
    ("BM", "Basic Materials", 11),
    ("TC", "Technology", 11),
    ("FN", "Financial", 10),
    ("CN", "Consumer Non-Cyclical", 8),
    ("CG", "Capital Goods", 7),
    ("TR", "Transportation", 6),
    ("HC", "Healthcare", 4),
    ("EN", "Energy", 4),
    ("UT", "Utilities", 3),
    ("CO", "Conglomerates", 1),
];
pub(super) const INDUSTRIES: u32 = 102;

/// CH_CHRG.
pub(super) fn charge(trade_type: &str, tier: i64) -> i64 {
    let row = CHARGES.iter().find(|row| row.0 == trade_type).expect("one of the five types");
    row.1[tier as usize - 1]
}

/// CR_RATE.
pub(super) fn commission_rate(tier: i64, exchange: &str, quantity: i64) -> i64 {
    let row = COMMISSIONS.iter().find(|row| (row.0..=row.1).contains(&quantity)).expect("a quantity");
    row.2 - 4 * (tier - 1) + if exchange == "PCX" { 8 } else { 0 }
}

/// IN_ID.
pub(super) fn industry_id(industry: u32) -> String {
    let letter = |d: u32| (b'A' + d as u8) as char;
    format!("{}{}", letter(industry / 26), letter(industry % 26))
}

/// IN_NAME.
pub(super) fn industry_name(industry: u32) -> String {
    let (mut first, mut sector) = (0, 0);
    while industry >= first + SECTORS[sector].2 {
        first += SECTORS[sector].2;
        sector += 1;
    }
    format!("{} Industry {}", SECTORS[sector].1, industry - first + 1)
}

/// The tables that are in every instance.
pub(super) async fn load<A: Access>(access: &mut A) -> Result<(), Abort> {
    for (id, name) in STATUSES {
        insert(access, STATUS_TYPE, |row| {
            row.set_text(status_type::ST_ID, id);
            row.set_text(status_type::ST_NAME, name);
        })
        .await?;
    }
    for (id, name, sell, market) in TRADE_TYPES {
        insert(access, TRADE_TYPE, |row| {
            row.set_text(trade_type::TT_ID, id);
            row.set_text(trade_type::TT_NAME, name);
            row.set_int(trade_type::TT_IS_SELL, sell);
            row.set_int(trade_type::TT_IS_MRKT, market);
        })
        .await?;
        for tier in 1..=3 {
            insert(access, CHARGE, |row| {
                row.set_text(charge::CH_TT_ID, id);
                row.set_int(charge::CH_C_TIER, tier);
                row.set_int(charge::CH_CHRG, charge(id, tier));
            })
            .await?;
            commissions(access, tier, id).await?;
        }
    }
    let mut industry = 0;
    for (id, name, industries) in SECTORS {
        insert(access, SECTOR, |row| {
            row.set_text(sector::SC_ID, id);
            row.set_text(sector::SC_NAME, name);
        })
        .await?;
        for _ in 0..industries {
            insert(access, INDUSTRY, |row| {
                row.set_text(industry::IN_ID, &industry_id(industry));
                row.set_text(industry::IN_NAME, &industry_name(industry));
                row.set_text(industry::IN_SC_ID, id);
            })
            .await?;
            industry += 1;
        }
    }
    for zip in 0..ZIP_CODES {
        insert(access, ZIP_CODE, |row| {
            row.set_text(zip_code::ZC_CODE, &names::zip_code(zip));
            row.set_text(zip_code::ZC_TOWN, &format!("Town {zip}"));
            row.set_text(zip_code::ZC_DIV, &names::division_code(names::division(zip)));
        })
        .await?;
    }
    Ok(())
}

async fn commissions<A: Access>(access: &mut A, tier: i64, trade_type: &str) -> Result<(), Abort> {
    for (exchange, _) in EXCHANGES {
        for (from, to, _) in COMMISSIONS {
            insert(access, COMMISSION_RATE, |row| {
                use commission_rate::*;
                row.set_int(CR_C_TIER, tier);
                row.set_text(CR_TT_ID, trade_type);
                row.set_text(CR_EX_ID, exchange);
                row.set_int(CR_FROM_QTY, from);
                row.set_int(CR_TO_QTY, to);
                row.set_int(CR_RATE, commission_rate(tier, exchange, from));
            })
            .await?;
        }
    }
    Ok(())
}

/// An address; the second line is empty in 60 of 100.
pub(super) async fn address<A: Access>(access: &mut A, site: u32, id: i64, zip: u32) -> Result<(), Abort> {
    let mut random = stream(21, id as u64);
    insert(access, ADDRESS, |row| {
        use address::*;
        row.set_int(P, site.into());
        row.set_int(AD_ID, id);
        row.set_text(AD_LINE1, &names::street(&mut random));
        if random.chance(40.0) {
            let kind = if random.chance(75.0) { "Apt." } else { "Suite" };
            row.set_text(AD_LINE2, &format!("{kind} {}", random.between(1..=999)));
        } else {
            row.set_text(AD_LINE2, "");
        }
        row.set_text(AD_ZC_CODE, &names::zip_code(zip));
        row.set_text(AD_CTRY, if names::is_us(zip) { "USA" } else { "CANADA" });
    })
    .await
}
