//! Data-Maintenance: changes of seldom changed tables, one table after the other. A change of a
//! market's row is made in every copy of the market.

use super::geometry::{Geometry, security_of, symbol};
use super::market_time::{self, civil, date};
use super::ops::{found, insert, key, scan_prefix, symbol_key, text};
use super::people::COUNTRY_RATES;
use super::rows::*;
use super::{Tpce, route};
use serde::{Deserialize, Serialize};
use txn::step::{Each, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range, RowMut};

/// The change, with the number of the account, customer, company, security or tax rate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Maintained {
    AccountPermission { ca: i64 },
    CustomerAddress { c: i64 },
    CompanyAddress { company: u32 },
    Company { company: u32 },
    Customer { c: i64 },
    CustomerTaxrate { c: i64 },
    DailyMarket { security: u32, day: i64, by: i64 },
    Exchange,
    Financial { company: u32 },
    NewsItem { company: u32 },
    Security { security: u32 },
    Taxrate { id: String },
    WatchItem { c: i64 },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataMaintenanceRequest {
    pub home: u32,
    pub what: Maintained,
    pub now: i64,
}

/// The change at one site; returns the number of rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Maintain {
    pub site: u32,
    pub what: Maintained,
    pub now: i64,
    /// Securities of the database.
    pub securities: u32,
}

/// CO_SP_RATE, AD_LINE2 and other texts with two values.
fn toggled(old: &str, [usual, other]: [&'static str; 2]) -> &'static str {
    if old.trim_end() == usual { other } else { usual }
}

impl Maintain {
    async fn permission<A: Access>(&self, access: &mut A, ca: i64) -> Result<u32, Abort> {
        use account_permission::*;
        let mut rows = Vec::new();
        scan_prefix(access, ACCOUNT_PERMISSION, &key(self.site, [ca]), Direction::Forward, |_, row| {
            rows.push((text(&row, AP_ACL), text(&row, AP_TAX_ID)));
            Flow::More
        })
        .await?;
        let highest = rows.iter().map(|row| row.0.clone()).max().ok_or(Abort::BadRequest)?;
        let new = if highest == "1111" { "0011" } else { "1111" };
        let mut changed = 0;
        for (_, tax_id) in rows.iter().filter(|row| row.0 == highest) {
            let key = key(self.site, [ca]).str(tax_id);
            found(access.update(ACCOUNT_PERMISSION, &key, |row| row.set_text(AP_ACL, new)).await?)?;
            changed += 1;
        }
        Ok(changed)
    }

    async fn address<A: Access>(&self, access: &mut A, id: i64) -> Result<u32, Abort> {
        let change = |row: &mut RowMut<'_>| {
            let new = toggled(row.row().text(address::AD_LINE2), ["Apt. 10C", "Apt. 22"]);
            row.set_text(address::AD_LINE2, new);
        };
        found(access.update(ADDRESS, &key(self.site, [id]), change).await?)?;
        Ok(1)
    }

    /// The bracket of the country moves on to the next one: the row gets another key.
    async fn taxrate<A: Access>(&self, access: &mut A, c: i64) -> Result<u32, Abort> {
        use customer_taxrate::*;
        let mut brackets: Vec<String> = Vec::new();
        scan_prefix(access, CUSTOMER_TAXRATE, &key(self.site, [c]), Direction::Forward, |_, row| {
            brackets.push(row.text(CX_TX_ID).to_owned());
            Flow::More
        })
        .await?;
        let place = |id: &String| COUNTRY_RATES.iter().position(|rate| rate.0 == id);
        let at = found(brackets.iter().find_map(place))?;
        let next = if at < 5 { (at + 1) % 5 } else { 5 + (at - 4) % 4 };
        access.delete(CUSTOMER_TAXRATE, &key(self.site, [c]).str(COUNTRY_RATES[at].0)).await?;
        insert(access, CUSTOMER_TAXRATE, |row| {
            row.set_int(P, self.site.into());
            row.set_int(CX_C_ID, c);
            row.set_text(CX_TX_ID, COUNTRY_RATES[next].0);
        })
        .await?;
        Ok(1)
    }

    /// All rows of a security with this day of the month.
    async fn volumes<A: Access>(
        &self,
        access: &mut A,
        security: u32,
        day: i64,
        by: i64,
    ) -> Result<u32, Abort> {
        let mut dates = Vec::new();
        let prefix = symbol_key(self.site, &symbol(security));
        let end = prefix.prefix_end();
        let range = Range { low: Some(&prefix), high: end.as_deref() };
        access
            .scan_for_update(DAILY_MARKET, range, Direction::Forward, |_, row| {
                let date = row.int(daily_market::DM_DATE);
                dates.extend((civil(date).2 == day).then_some(date));
                Flow::More
            })
            .await?;
        for date in &dates {
            let add = |row: &mut RowMut<'_>| {
                row.set_int(daily_market::DM_VOL, row.int(daily_market::DM_VOL) + by);
            };
            found(access.update(DAILY_MARKET, &prefix.clone().i64(*date), add).await?)?;
        }
        Ok(dates.len() as u32)
    }

    async fn exchanges<A: Access>(&self, access: &mut A) -> Result<u32, Abort> {
        const MARK: &str = " LAST UPDATED ";
        for (id, _) in super::fixed::EXCHANGES {
            let change = |row: &mut RowMut<'_>| {
                let old = row.row().text(exchange::EX_DESC);
                let kept = old.split(MARK).next().unwrap_or(old);
                row.set_text(exchange::EX_DESC, &format!("{kept}{MARK}{}", self.now));
            };
            found(access.update(EXCHANGE, &symbol_key(self.site, id.as_bytes()), change).await?)?;
        }
        Ok(4)
    }

    /// First days of quarters become second days, and back.
    async fn financials<A: Access>(&self, access: &mut A, company: u32) -> Result<u32, Abort> {
        use financial::*;
        let mut quarters = Vec::new();
        scan_prefix(access, FINANCIAL, &key(self.site, [company.into()]), Direction::Forward, |_, row| {
            quarters.push((row.int(FI_YEAR), row.int(FI_QTR)));
            Flow::More
        })
        .await?;
        for (year, quarter) in &quarters {
            let change = |row: &mut RowMut<'_>| {
                let (y, m, d) = civil(row.int(FI_QTR_START_DATE));
                row.set_int(FI_QTR_START_DATE, date(y, m, 3 - d));
            };
            let key = key(self.site, [company.into(), *year, *quarter]);
            found(access.update(FINANCIAL, &key, change).await?)?;
        }
        Ok(quarters.len() as u32)
    }

    async fn news<A: Access>(&self, access: &mut A, company: u32) -> Result<u32, Abort> {
        let (mut ids, prefix) = (Vec::new(), key(self.site, [company.into()]));
        scan_prefix(access, NEWS_XREF_COMPANY, &prefix, Direction::Forward, |_, row| {
            ids.push(row.int(news_xref::NX_NI_ID));
            Flow::More
        })
        .await?;
        for id in &ids {
            let later = |row: &mut RowMut<'_>| {
                row.set_int(news_item::NI_DTS, row.int(news_item::NI_DTS) + market_time::midnight(1));
            };
            found(access.update(NEWS_ITEM, &key(self.site, [*id]), later).await?)?;
        }
        Ok(ids.len() as u32)
    }

    /// The middle symbol of the customer's list is replaced by the next larger one that is not on
    /// it.
    async fn watched<A: Access>(&self, access: &mut A, c: i64) -> Result<u32, Abort> {
        let (mut list, mut items) = (None, Vec::new());
        scan_prefix(access, WATCH_LIST_OWNER, &key(self.site, [c]), Direction::Forward, |_, row| {
            list = Some(row.int(watch_list::WL_ID));
            Flow::Enough
        })
        .await?;
        let list = found(list)?;
        scan_prefix(access, WATCH_ITEM, &key(self.site, [list]), Direction::Forward, |_, row| {
            items.extend(security_of(row.bytes(watch_item::WI_S_SYMB)));
            Flow::More
        })
        .await?;
        let middle = *items.get(items.len() / 2).ok_or(Abort::BadRequest)?;
        // Symbols are in the order of the securities' numbers.
        let next = (1..self.securities)
            .map(|step| (middle + step) % self.securities)
            .find(|security| !items.contains(security));
        let Some(next) = next else { return Ok(0) };
        access.delete(WATCH_ITEM, &key(self.site, [list]).bytes(&symbol(middle))).await?;
        insert(access, WATCH_ITEM, |row| {
            row.set_int(watch_item::P, self.site.into());
            row.set_int(watch_item::WI_WL_ID, list);
            row.set_bytes(watch_item::WI_S_SYMB, &symbol(next));
        })
        .await?;
        Ok(1)
    }

    async fn one<A: Access>(
        &self,
        access: &mut A,
        (table, key): (base::TableId, base::Key),
        change: impl FnOnce(&mut RowMut<'_>),
    ) -> Result<u32, Abort> {
        found(access.update(table, &key, change).await?)?;
        Ok(1)
    }
}

impl Step for Maintain {
    const ID: StepId = 32;
    type Output = u32;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u32, Abort> {
        let site = self.site;
        match &self.what {
            Maintained::AccountPermission { ca } => self.permission(access, *ca).await,
            Maintained::CompanyAddress { company } => {
                self.address(access, Geometry::address_of_company(*company)).await
            }
            Maintained::CustomerAddress { c } => {
                let read = |row: txn::Row<'_>| row.int(customer::C_AD_ID);
                let id = found(access.read(CUSTOMER, &key(site, [*c]), read).await?)?;
                self.address(access, id).await
            }
            Maintained::Company { company } => {
                let change = |row: &mut RowMut<'_>| {
                    let new = toggled(row.row().text(company::CO_SP_RATE), ["ABA", "AAA"]);
                    row.set_text(company::CO_SP_RATE, &format!("{new} "));
                };
                self.one(access, (COMPANY, key(site, [(*company).into()])), change).await
            }
            Maintained::Customer { c } => {
                let change = |row: &mut RowMut<'_>| {
                    let old = row.row().text(customer::C_EMAIL_2);
                    let name = old.split('@').next().unwrap_or(old);
                    let host = if old.ends_with("@mindspring.com") { "earthlink" } else { "mindspring" };
                    row.set_text(customer::C_EMAIL_2, &format!("{name}@{host}.com"));
                };
                self.one(access, (CUSTOMER, key(site, [*c])), change).await
            }
            Maintained::CustomerTaxrate { c } => self.taxrate(access, *c).await,
            Maintained::DailyMarket { security, day, by } => self.volumes(access, *security, *day, *by).await,
            Maintained::Exchange => self.exchanges(access).await,
            Maintained::Financial { company } => self.financials(access, *company).await,
            Maintained::NewsItem { company } => self.news(access, *company).await,
            Maintained::Security { security } => {
                let later = |row: &mut RowMut<'_>| {
                    row.set_int(security::S_EXCH_DATE, row.int(security::S_EXCH_DATE) + 1);
                };
                self.one(access, (SECURITY, symbol_key(site, &symbol(*security))), later).await
            }
            Maintained::Taxrate { id } => {
                let change = |row: &mut RowMut<'_>| {
                    let old = row.row().text(taxrate::TX_NAME);
                    let new = match old.contains(" Tax ") {
                        true => old.replace(" Tax ", " tax "),
                        false => old.replace(" tax ", " Tax "),
                    };
                    row.set_text(taxrate::TX_NAME, &new);
                };
                self.one(access, (TAXRATE, symbol_key(site, id.as_bytes())), change).await
            }
            Maintained::WatchItem { c } => self.watched(access, *c).await,
        }
    }
}

/// The sites with a copy of the rows that are changed.
pub(super) fn sites(tpce: &Tpce, what: &Maintained) -> Result<Vec<u32>, Abort> {
    let geometry = &tpce.geometry;
    let of_company = |company: u32| {
        (0..geometry.groups()).map(|group| geometry.place_of_company(company, group)).collect::<Vec<_>>()
    };
    match what {
        Maintained::AccountPermission { ca } => Ok(vec![tpce.customer_site(ca / 10)?]),
        Maintained::CustomerAddress { c }
        | Maintained::Customer { c }
        | Maintained::CustomerTaxrate { c }
        | Maintained::WatchItem { c } => Ok(vec![tpce.customer_site(*c)?]),
        Maintained::CompanyAddress { company }
        | Maintained::Company { company }
        | Maintained::Financial { company }
        | Maintained::NewsItem { company } => match *company < geometry.companies() {
            true => Ok(of_company(*company)),
            false => Err(Abort::BadRequest),
        },
        Maintained::DailyMarket { security, .. } | Maintained::Security { security } => {
            match *security < geometry.securities() {
                true => Ok(of_company(super::geometry::company_of(*security))),
                false => Err(Abort::BadRequest),
            }
        }
        Maintained::Exchange | Maintained::Taxrate { .. } => Ok((0..geometry.sites()).collect()),
    }
}

/// Returns the number of rows that were changed, counted in one copy.
pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &DataMaintenanceRequest,
    txn: &mut T,
) -> Result<u32, Abort> {
    let securities = tpce.geometry.securities();
    let step = |site| Maintain { site, what: r.what.clone(), now: r.now, securities };
    let steps = Each::<Maintain>(sites(tpce, &r.what)?.into_iter().map(step).collect());
    Ok(txn.last(steps).await?.first().copied().unwrap_or(0))
}
