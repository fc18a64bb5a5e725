//! One file behind a volatile cache: what the device has for sure, what programs see, and what lies between.

use super::blocks::Blocks;
use super::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit a device writes whole (512 bytes), and the one newer devices do.
const SECTORS: [u64; 2] = [512, 4096];

#[derive(Clone)]
pub(crate) enum Change {
    Write { at: u64, bytes: Arc<[u8]> },
    Length(u64),
}

/// `current` is `stable` with all of `pending` in order, until a sync fails: then `current` stays as programs last saw
/// it, some of the pending changes are in `stable` and the others nowhere.
#[derive(Clone, Default)]
pub(crate) struct Node {
    pub stable: Blocks,
    pub current: Blocks,
    pub pending: Vec<Change>,
}

/// How a crash treats the changes of one disk that were not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Everything,
    Nothing,
    /// Each file's changes all reached the device, or none did.
    Files,
    /// Each change did or did not, for itself.
    Changes,
    /// Each sector of this many bytes has one of the contents it ever had since the last sync, and so has the length.
    Sectors(u64),
}

impl Loss {
    pub fn draw(random: &mut Random) -> Loss {
        match random.below(8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Files,
            3 | 4 => Loss::Changes,
            n => Loss::Sectors(SECTORS[n % 2]),
        }
    }
}

fn apply(blocks: &mut Blocks, change: &Change) {
    match change {
        Change::Write { at, bytes } => blocks.write(*at, bytes),
        Change::Length(len) => blocks.set_len(*len),
    }
}

impl Node {
    pub fn holding(bytes: Blocks) -> Node {
        Node { stable: bytes.clone(), current: bytes, pending: Vec::new() }
    }

    pub fn change(&mut self, change: Change) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        let stable = &mut self.stable;
        self.pending.drain(..).for_each(|c| apply(stable, &c));
    }

    /// A sync that failed: what had not reached the device yet never will, though programs go on seeing it.
    pub fn fail_sync(&mut self, random: &mut Random) {
        self.stable = self.survivor(Loss::Changes, random);
        self.pending.clear();
    }

    /// What the device has after the power went.
    pub fn survivor(&self, loss: Loss, random: &mut Random) -> Blocks {
        let mut bytes = self.stable.clone();
        let all = |bytes: &mut Blocks| self.pending.iter().for_each(|c| apply(bytes, c));
        match loss {
            _ if self.pending.is_empty() => {}
            Loss::Everything => {}
            Loss::Nothing => all(&mut bytes),
            Loss::Files if random.coin() => all(&mut bytes),
            Loss::Files => {}
            Loss::Changes => self.pending.iter().filter(|_| random.coin()).for_each(|c| apply(&mut bytes, c)),
            Loss::Sectors(size) => self.sectors(&mut bytes, size, random),
        }
        bytes
    }

    /// Plays the changes once, keeping each sector as it is after each of them, and draws one content for each.
    fn sectors(&self, bytes: &mut Blocks, size: u64, random: &mut Random) {
        let mut cache = self.stable.clone();
        let mut lengths = vec![cache.len()];
        let mut drawn: BTreeMap<u64, (usize, Vec<u8>)> = BTreeMap::new();
        for change in &self.pending {
            let before = cache.len();
            apply(&mut cache, change);
            lengths.push(cache.len());
            let touched = match change {
                Change::Write { at, bytes } => *at..at + bytes.len() as u64,
                // Cut off and lengthened again, it reads as zeros; lengthened only, nothing changes.
                Change::Length(len) => *len..before.max(*len).min(before),
            };
            let sectors = touched.start / size..touched.end.div_ceil(size);
            for sector in sectors.filter(|_| !touched.is_empty()) {
                let now = sector_of(&cache, sector, size);
                let (seen, content) =
                    drawn.entry(sector).or_insert_with(|| (1, sector_of(&self.stable, sector, size)));
                *seen += 1;
                // Each content so far is the one kept with the same chance.
                if random.below(*seen) == 0 {
                    *content = now;
                }
            }
        }
        for (sector, (_, content)) in drawn {
            bytes.write(sector * size, &content);
        }
        bytes.set_len(lengths[random.below(lengths.len())]);
    }
}

fn sector_of(bytes: &Blocks, sector: u64, size: u64) -> Vec<u8> {
    let mut content = vec![0; size as usize];
    bytes.read(sector * size, &mut content);
    content
}
