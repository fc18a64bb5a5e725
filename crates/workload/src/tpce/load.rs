//! The initial population, in parts that depend on nothing but their numbers: the data is the same
//! in every deployment.
//!
//! A site has three parts: its customers and broker (`people`), its share of the market (`market`),
//! and its trades (`trades`). Fixed tables are in every instance.

use super::fixed::address;
use super::geometry::stream;
use super::names;
use super::ops::insert;
use super::people::{self, COUNTRY_RATES, DIVISIONS};
use super::rows::*;
use super::{Tpce, market, market_time, trades};
use txn::{Abort, Access};

pub(super) const PARTS: u32 = 3;

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
