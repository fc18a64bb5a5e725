//! Trading time, dates, and the price of a security at a time.
//!
//! Trading time counts milliseconds from the begin of the initial period, Monday 2005-01-03 09:00,
//! and skips nights and weekends: a work day has eight hours. Stamps in rows are milliseconds since
//! 1970.

/// Milliseconds of a work day.
pub const DAY_MS: i64 = 28_800_000;
/// Days from 1970-01-01 to the first work day.
const FIRST_DAY: i64 = 12_786;
const OPENS_MS: i64 = 9 * 3_600_000;
const CALENDAR_DAY_MS: i64 = 86_400_000;

/// The first day of DAILY_MARKET, Monday 2000-01-03, and the number of its weekdays.
pub const FIRST_MARKET_DAY: i64 = 10_959;
pub const MARKET_DAYS: i64 = 1_305;

/// The stamp of a moment in trading time.
pub fn stamp(trading_ms: i64) -> i64 {
    let (day, rest) = (trading_ms.div_euclid(DAY_MS), trading_ms.rem_euclid(DAY_MS));
    let date = FIRST_DAY + day.div_euclid(5) * 7 + day.rem_euclid(5);
    date * CALENDAR_DAY_MS + OPENS_MS + rest
}

/// The trading time of a stamp; moments outside of trading hours count as the next opening.
pub fn trading_ms(stamp: i64) -> i64 {
    let (date, rest) = (stamp.div_euclid(CALENDAR_DAY_MS), stamp.rem_euclid(CALENDAR_DAY_MS));
    let (week, day) = ((date - FIRST_DAY).div_euclid(7), (date - FIRST_DAY).rem_euclid(7));
    let rest = if day < 5 { (rest - OPENS_MS).clamp(0, DAY_MS) } else { 0 };
    (week * 5 + day.min(5)) * DAY_MS + rest
}

/// The date of a stamp, in days since 1970.
pub fn date_of(stamp: i64) -> i64 {
    stamp.div_euclid(CALENDAR_DAY_MS)
}

/// The stamp of a date at 00:00.
pub fn midnight(date: i64) -> i64 {
    date * CALENDAR_DAY_MS
}

/// The `n`-th weekday of DAILY_MARKET, from 0 on.
pub fn market_day(n: i64) -> i64 {
    FIRST_MARKET_DAY + n / 5 * 7 + n % 5
}

/// Year, month and day of the month of a date (civil calendar).
pub fn civil(date: i64) -> (i64, i64, i64) {
    let z = date + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The date of a day in the civil calendar.
pub fn date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Milliseconds of a period of the price: half of it up, half down.
const PERIOD_MS: i64 = 900_000;
const HALF_MS: i64 = PERIOD_MS / 2;
/// Lowest and highest price, in cents.
pub const LOW: i64 = 2_000;
pub const HIGH: i64 = 3_000;

fn phase(security: u32, trading_ms: i64) -> i64 {
    (556_237 * i64::from(security) + 253_791 + trading_ms).rem_euclid(PERIOD_MS)
}

/// In cents.
pub fn price(security: u32, trading_ms: i64) -> i64 {
    let phase = phase(security, trading_ms);
    let up = if phase < HALF_MS { phase } else { PERIOD_MS - phase };
    LOW + (up * (HIGH - LOW) + HALF_MS / 2) / HALF_MS
}

/// The condition on the price that lets a limit order be traded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// At the limit or below: limit-buy and stop-loss.
    AtMost,
    /// At the limit or above: limit-sell.
    AtLeast,
}

impl Trigger {
    /// The condition of an order of this type; `None` for a market order.
    pub fn of(trade_type: &[u8]) -> Option<Trigger> {
        match trade_type {
            b"TLB" | b"TSL" => Some(Trigger::AtMost),
            b"TLS" => Some(Trigger::AtLeast),
            _ => None,
        }
    }

    pub fn holds(self, price: i64, limit: i64) -> bool {
        match self {
            Trigger::AtMost => price <= limit,
            Trigger::AtLeast => price >= limit,
        }
    }
}

/// Milliseconds from a moment until the price meets a limit between [`LOW`] and [`HIGH`]; 0 if it
/// does then.
pub fn wait_for(security: u32, trading_ms: i64, trigger: Trigger, limit: i64) -> i64 {
    if trigger.holds(price(security, trading_ms), limit) {
        return 0;
    }
    let rise = (limit.clamp(LOW, HIGH) - LOW) * HALF_MS / (HIGH - LOW);
    let meets = match trigger {
        Trigger::AtMost => PERIOD_MS - rise,
        Trigger::AtLeast => rise,
    };
    (meets - phase(security, trading_ms)).rem_euclid(PERIOD_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trading_time_skips_nights_and_weekends() {
        for (ms, day, hour) in
            [(0, (2005, 1, 3), 9), (DAY_MS * 5, (2005, 1, 10), 9), (DAY_MS - 1, (2005, 1, 3), 16)]
        {
            let stamp = stamp(ms);
            assert_eq!((civil(date_of(stamp)), stamp % CALENDAR_DAY_MS / 3_600_000), (day, hour));
        }
        for ms in [0, 1, DAY_MS - 1, DAY_MS, 7 * DAY_MS + 12_345] {
            assert_eq!(trading_ms(stamp(ms)), ms);
        }
        assert_eq!((market_day(0), civil(market_day(0))), (date(2000, 1, 3), (2000, 1, 3)));
        assert_eq!(civil(market_day(MARKET_DAYS - 1)), (2004, 12, 31));
    }

    /// Measured on the official loader's data: security 0 costs 25.64 at the begin of a day.
    #[test]
    fn prices_follow_the_curve_and_meet_limits_when_they_should() {
        assert_eq!((price(0, 0), price(0, 3 * DAY_MS)), (2_564, 2_564));
        for security in 0..50 {
            for (trigger, limit) in [(Trigger::AtMost, 2_210), (Trigger::AtLeast, 2_777)] {
                let wait = wait_for(security, 5_000, trigger, limit);
                assert!((0..PERIOD_MS).contains(&wait));
                assert!(trigger.holds(price(security, 5_000 + wait), limit), "security {security}");
                let before = 5_000 + wait - 1_000;
                assert!(wait == 0 || !trigger.holds(price(security, before), limit), "security {security}");
            }
        }
    }
}
