//! The initial population, in parts that depend on nothing but their numbers: the data is the same
//! in every deployment.
//!
//! A site has three parts: its customers and broker (`people`), its share of the market (`market`),
//! and its trades (`trades`). Fixed tables are in every instance.

use super::geometry::stream;
use super::names::{self, ZIP_CODES};
use super::ops::insert;
use super::people::{self, COUNTRY_RATES, DIVISIONS};
use super::rows::*;
use super::{Tpce, market, market_time, trades};
use txn::{Abort, Access};

pub(super) const PARTS: u32 = 3;

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
pub(super) async fn fixed<A: Access>(access: &mut A) -> Result<(), Abort> {
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

pub(super) async fn load<A: Access>(tpce: &Tpce, site: u32, part: u32, access: &mut A) -> Result<(), Abort> {
    match part {
        0 => {
            taxes(site, access).await?;
            for c in tpce.geometry.customers_of(site) {
                customer(tpce, site, c, access).await?;
            }
            broker(tpce, site, access).await
        }
        1 => market::load(tpce, site, access).await,
        _ => trades::load(tpce, site, access).await,
    }
}

async fn taxes<A: Access>(site: u32, access: &mut A) -> Result<(), Abort> {
    let countries = COUNTRY_RATES.iter().map(|(id, rate)| {
        let place = if id.starts_with("US") { "U.S." } else { "Canadian" };
        ((*id).to_owned(), format!("{place} Income Tax for Bracket {}", id.trim_end()), *rate)
    });
    let divisions = (0..DIVISIONS).flat_map(|d| {
        (1..=people::rates_of(d)).map(move |n| {
            let name = format!("{} Income Tax for Group {n}", names::division_code(d));
            (people::division_rate(d, n), name, people::rate_of(d, n))
        })
    });
    for (id, name, rate) in countries.chain(divisions) {
        insert(access, TAXRATE, |row| {
            row.set_int(taxrate::P, site.into());
            row.set_text(taxrate::TX_ID, &id);
            row.set_text(taxrate::TX_NAME, &name);
            row.set_int(taxrate::TX_RATE, rate);
        })
        .await?;
    }
    Ok(())
}

async fn customer<A: Access>(tpce: &Tpce, site: u32, c: i64, access: &mut A) -> Result<(), Abort> {
    let (person, mut random, geometry) = (names::person(c as u64), stream(20, c as u64), &tpce.geometry);
    insert(access, CUSTOMER, |row| {
        use customer::*;
        row.set_int(P, site.into());
        row.set_int(C_ID, c);
        row.set_text(C_TAX_ID, &person.tax_id);
        row.set_text(C_ST_ID, "ACTV");
        row.set_text(C_L_NAME, &person.last);
        row.set_text(C_F_NAME, &person.first);
        row.set_bytes(C_M_NAME, &[b'A' + random.between(0..=25) as u8]);
        row.set_text(C_GNDR, if person.male { "M" } else { "F" });
        row.set_int(C_TIER, geometry.tier_of(c));
        row.set_int(C_DOB, born(&mut random));
        row.set_int(C_AD_ID, geometry.address_of_customer(c));
        for (n, extension) in [25.0, 15.0, 5.0].into_iter().enumerate() {
            let first = C_CTRY_1 + 4 * n as u16;
            row.set_text(first, "011");
            row.set_bytes(first + 1, &random.digits(3));
            row.set_bytes(first + 2, &random.digits(7));
            if random.chance(extension) {
                row.set_bytes(first + 3, &random.digits(3));
            }
        }
        row.set_text(C_EMAIL_1, &format!("{}.{}{c}@mail.com", person.first, person.last));
        row.set_text(C_EMAIL_2, &format!("{}{}@mindspring.com", person.last, c));
    })
    .await?;
    address(access, site, geometry.address_of_customer(c), people::zip_of(c)).await?;
    for (id, _) in people::taxes_of(c) {
        insert(access, CUSTOMER_TAXRATE, |row| {
            row.set_int(customer_taxrate::P, site.into());
            row.set_text(customer_taxrate::CX_TX_ID, &id);
            row.set_int(customer_taxrate::CX_C_ID, c);
        })
        .await?;
    }
    for ca in c * 10..c * 10 + geometry.accounts_of(c) {
        account(tpce, site, ca, &person, access).await?;
    }
    watch_list(tpce, site, c, access).await
}

/// A date of birth: shares of age groups.
fn born(random: &mut crate::random::Random) -> i64 {
    const GROUPS: [(u32, u32, u32); 9] = [
        (5, 5, 17),
        (16, 18, 24),
        (17, 25, 34),
        (19, 35, 44),
        (16, 45, 54),
        (11, 55, 64),
        (8, 65, 74),
        (7, 75, 84),
        (1, 85, 100),
    ];
    let mut draw = random.between(0..=99);
    let group = GROUPS.iter().find(|(share, ..)| {
        let hit = draw < *share;
        draw = draw.saturating_sub(*share);
        hit
    });
    let (_, from, to) = group.copied().unwrap_or(GROUPS[8]);
    let years = random.between(from..=to);
    market_time::date(2005, 1, 3) - i64::from(years) * 365 - i64::from(random.between(0..=364))
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

async fn account<A: Access>(
    tpce: &Tpce,
    site: u32,
    ca: i64,
    owner: &names::Person,
    access: &mut A,
) -> Result<(), Abort> {
    insert(access, CUSTOMER_ACCOUNT, |row| {
        use customer_account::*;
        const KINDS: [&str; 6] = ["Savings", "Joint", "Individual", "Family Trust", "Pension", "Business"];
        row.set_int(P, site.into());
        row.set_int(CA_ID, ca);
        row.set_int(CA_B_ID, tpce.geometry.broker_of(ca));
        row.set_int(CA_C_ID, ca / 10);
        row.set_text(CA_NAME, &format!("{} {} {}", owner.first, owner.last, KINDS[ca as usize % 6]));
        row.set_int(CA_TAX_ST, people::tax_status(ca));
        row.set_int(CA_BAL, people::balance(ca));
    })
    .await?;
    let owner = [(owner.clone(), "0000")];
    let others = people::permitted(ca).into_iter().map(names::person).zip(["0001", "0011"]);
    let mut added = Vec::new();
    for (person, acl) in owner.into_iter().chain(others) {
        if added.contains(&person.tax_id) {
            continue;
        }
        insert(access, ACCOUNT_PERMISSION, |row| {
            use account_permission::*;
            row.set_int(P, site.into());
            row.set_int(AP_CA_ID, ca);
            row.set_text(AP_TAX_ID, &person.tax_id);
            row.set_text(AP_ACL, acl);
            row.set_text(AP_L_NAME, &person.last);
            row.set_text(AP_F_NAME, &person.first);
        })
        .await?;
        added.push(person.tax_id);
    }
    Ok(())
}

async fn watch_list<A: Access>(tpce: &Tpce, site: u32, c: i64, access: &mut A) -> Result<(), Abort> {
    let list = tpce.geometry.watch_list_of(c);
    insert(access, WATCH_LIST, |row| {
        row.set_int(watch_list::P, site.into());
        row.set_int(watch_list::WL_ID, list);
        row.set_int(watch_list::WL_C_ID, c);
    })
    .await?;
    for security in tpce.geometry.watched_by(c) {
        insert(access, WATCH_ITEM, |row| {
            row.set_int(watch_item::P, site.into());
            row.set_int(watch_item::WI_WL_ID, list);
            row.set_bytes(watch_item::WI_S_SYMB, &super::geometry::symbol(security));
        })
        .await?;
    }
    Ok(())
}

/// The broker, with the sums over the initial trades of its accounts.
async fn broker<A: Access>(tpce: &Tpce, site: u32, access: &mut A) -> Result<(), Abort> {
    let (trades, commissions) = trades::broker_sums(tpce, site.into());
    insert(access, BROKER, |row| {
        use broker::*;
        row.set_int(P, site.into());
        row.set_int(B_ID, site.into());
        row.set_text(B_ST_ID, "ACTV");
        row.set_text(B_NAME, &names::broker_name(site.into()));
        row.set_int(B_NUM_TRADES, trades);
        row.set_int(B_COMM_TOTAL, commissions);
    })
    .await
}
