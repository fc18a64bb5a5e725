//! The initial data. The rows of a subscriber follow from a seed and the subscriber alone. So they
//! are the same in every deployment, and the consistency check and the generator know them without
//! reading the database.

use super::rows::*;
use super::{Index, Population, TatpOptions};
use crate::random::Random;
use txn::{Abort, Access, Inserted, RowBuf, RowMut};

/// Subscribers per loading transaction: about a thousand rows.
const CHUNK: u32 = 100;
/// Active special facilities, in per cent.
const ACTIVE: f64 = 85.0;
const SEED: u64 = 0x7a7_b0a7;

/// A set of types 1 to 4, or of starts 0, 8 and 16: bit i is the i-th of them.
pub(super) type Set = u8;

/// The initial rows of a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Kit {
    pub access: Set,
    pub facilities: Set,
    pub active: Set,
    /// The starts of call forwardings, by facility.
    pub forwarded: [Set; 4],
}

/// The positions of the members of a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = u32> {
    (0..8).filter(move |i| set & (1 << i) != 0)
}

fn draw_set(random: &mut Random, population: Population, size: u32, of: u32) -> Set {
    if population == Population::Prefix {
        return (1 << size) - 1;
    }
    let mut set: Set = 0;
    while set.count_ones() < size {
        set |= 1 << random.between(0..=of - 1);
    }
    set
}

fn random(subscriber: u32, purpose: u64) -> Random {
    let seed = SEED ^ purpose << 32;
    Random::new(base::hash64(&(seed ^ u64::from(subscriber) << 8).to_le_bytes()))
}

pub(super) fn kit(population: Population, subscriber: u32) -> Kit {
    let mut random = random(subscriber, 1);
    let mut kit = Kit::default();
    let size = random.between(1..=4);
    kit.access = draw_set(&mut random, population, size, 4);
    let size = random.between(1..=4);
    kit.facilities = draw_set(&mut random, population, size, 4);
    for facility in members(kit.facilities) {
        kit.active |= Set::from(random.chance(ACTIVE)) << facility;
        let size = random.between(0..=3);
        kit.forwarded[facility as usize] = draw_set(&mut random, population, size, 3);
    }
    kit
}

pub(super) fn parts(options: &TatpOptions) -> u32 {
    options.subscribers.div_ceil(CHUNK)
}

fn letters(random: &mut Random, n: usize) -> Vec<u8> {
    (0..n).map(|_| b'A' + random.between(0..=25) as u8).collect()
}

/// Builds rows and inserts them.
struct Filler<'a, A> {
    options: &'a TatpOptions,
    rows: Vec<(base::TableId, RowBuf)>,
    access: &'a mut A,
}

impl<A: Access> Filler<'_, A> {
    async fn add(
        &mut self,
        table: base::TableId,
        key: base::Key,
        fill: impl FnOnce(&mut RowMut<'_>),
    ) -> Result<(), Abort> {
        let row = self.rows.iter_mut().find(|row| row.0 == table).ok_or(Abort::BadRequest)?;
        let row = &mut row.1;
        fill(&mut row.start());
        match self.access.insert(table, &key, row.bytes()).await? {
            Inserted::Done => Ok(()),
            Inserted::Exists => Err(Abort::BadRequest),
        }
    }

    async fn subscriber(&mut self, s: u32) -> Result<(), Abort> {
        let (mut random, kit) = (random(s, 2), kit(self.options.distribution, s));
        let fill = |row: &mut RowMut<'_>| {
            use subscriber::*;
            row.set_int(S_ID, s.into());
            row.set_bytes(SUB_NBR, &digits(s.into()));
            for (first, most) in TENS {
                (first..first + 10).for_each(|c| row.set_int(c, random.between(0..=most).into()));
            }
            row.set_int(MSC_LOCATION, random.between(0..=u32::MAX).into());
            row.set_int(VLR_LOCATION, random.between(0..=u32::MAX).into());
        };
        self.add(SUBSCRIBER, key([s]), fill).await?;
        for i in members(kit.access) {
            let fill = |row: &mut RowMut<'_>| {
                use access_info::*;
                row.set_int(S_ID, s.into());
                row.set_int(AI_TYPE, (i + 1).into());
                row.set_int(DATA1, random.between(0..=255).into());
                row.set_int(DATA2, random.between(0..=255).into());
                row.set_bytes(DATA3, &letters(&mut random, 3));
                row.set_bytes(DATA4, &letters(&mut random, 5));
            };
            self.add(ACCESS_INFO, key([s, i + 1]), fill).await?;
        }
        for i in members(kit.facilities) {
            self.facility(s, i, &kit, &mut random).await?;
        }
        Ok(())
    }

    async fn facility(&mut self, s: u32, i: u32, kit: &Kit, random: &mut Random) -> Result<(), Abort> {
        let fill = |row: &mut RowMut<'_>| {
            use special_facility::*;
            row.set_int(S_ID, s.into());
            row.set_int(SF_TYPE, (i + 1).into());
            row.set_int(IS_ACTIVE, (kit.active >> i & 1).into());
            row.set_int(ERROR_CNTRL, random.between(0..=255).into());
            row.set_int(DATA_A, random.between(0..=255).into());
            row.set_bytes(DATA_B, &letters(random, 5));
        };
        self.add(SPECIAL_FACILITY, key([s, i + 1]), fill).await?;
        for start in members(kit.forwarded[i as usize]).map(|n| n * 8) {
            let fill = |row: &mut RowMut<'_>| {
                let end = start + random.between(1..=8);
                let numberx: Digits = random.digits(15).try_into().unwrap_or([b'0'; 15]);
                fill_forwarding(row, (s, i + 1, start), end, &numberx);
            };
            self.add(CALL_FORWARDING, key([s, i + 1, start]), fill).await?;
        }
        Ok(())
    }
}

/// A row of CALL_FORWARDING.
pub(super) fn fill_forwarding(row: &mut RowMut<'_>, id: (u32, u32, u32), end: u32, numberx: &Digits) {
    use call_forwarding::*;
    for (column, value) in [(S_ID, id.0), (SF_TYPE, id.1), (START_TIME, id.2), (END_TIME, end)] {
        row.set_int(column, value.into());
    }
    row.set_bytes(NUMBERX, numberx);
}

pub(super) async fn load<A: Access>(
    options: &TatpOptions,
    site: u32,
    part: u32,
    access: &mut A,
) -> Result<(), Abort> {
    let places = options.subscribers_of(site..site + 1);
    let first = places.start + part * CHUNK;
    let rows = schema(options).tables.iter().map(|t| (t.id, RowBuf::new(t))).collect();
    let mut filler = Filler { options, rows, access };
    for place in first..(first + CHUNK).min(places.end) {
        filler.subscriber(place).await?;
    }
    if options.index == Index::NonAligned {
        for slot in first..(first + CHUNK).min(places.end) {
            let s = options.subscriber_in(slot);
            let fill = |row: &mut RowMut<'_>| {
                row.set_int(number::SLOT, slot.into());
                row.set_bytes(number::SUB_NBR, &digits(s.into()));
                row.set_int(number::S_ID, s.into());
            };
            filler.add(NUMBER, number_key(slot, s), fill).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of the population, over enough subscribers to see a tenth of a per cent.
    #[test]
    fn subscribers_have_what_the_definition_says() {
        const N: u32 = 100_000;
        for population in [Population::Subset, Population::Prefix] {
            let kits: Vec<Kit> = (1..=N).map(|s| kit(population, s)).collect();
            let share = |what: &str, expected: f64, found: f64, tolerance: f64| {
                assert!(
                    (expected - found).abs() < tolerance,
                    "{population:?} {what}: {expected}, found {found}"
                );
            };
            let count = |sets: &mut dyn Iterator<Item = Set>| sets.map(|s| s.count_ones()).sum::<u32>();
            let rows = |n: u32| f64::from(n) / f64::from(N);
            let facilities = count(&mut kits.iter().map(|k| k.facilities));
            share("access", 2.5, rows(count(&mut kits.iter().map(|k| k.access))), 0.012);
            share("facilities", 2.5, rows(facilities), 0.012);
            share("forwarded", 3.75, rows(count(&mut kits.iter().flat_map(|k| k.forwarded))), 0.025);
            let active = count(&mut kits.iter().map(|k| k.active));
            share("active", 0.85, f64::from(active) / f64::from(facilities), 0.003);
            for size in 1..=4u32 {
                let found = kits.iter().filter(|k| k.access.count_ones() == size).count() as f64;
                share("size", 0.25, found / f64::from(N), 0.006);
            }
            for i in 0..4u32 {
                let expected =
                    if population == Population::Subset { 0.625 } else { 1.0 - 0.25 * f64::from(i) };
                let found = kits.iter().filter(|k| k.facilities & 1 << i != 0).count() as f64;
                share("type", expected, found / f64::from(N), 0.006);
            }
            assert!(kits.iter().all(|k| (0..4).all(|i| k.facilities & 1 << i != 0 || k.forwarded[i] == 0)));
        }
    }
}
