//! One file behind a volatile cache: the bytes that are surely on the device, the bytes that
//! programs see, and the changes between the two.

use super::blocks::Blocks;
use super::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The units that devices write atomically: 512 bytes, and 4096 on newer devices.
const SECTORS: [u64; 2] = [512, 4096];

#[derive(Clone)]
pub(crate) enum PendingChange {
    Write { at: u64, bytes: Arc<[u8]> },
    Length(u64),
}

/// `current` is `stable` with all of `pending` applied in order, until a sync fails. After that,
/// `current` stays as programs last saw it, and of the pending changes some are in `stable` and the
/// others are lost.
#[derive(Clone, Default)]
pub(crate) struct Node {
    pub stable: Blocks,
    pub current: Blocks,
    pub pending: Vec<PendingChange>,
}

/// How a crash treats the unsynced changes of one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Everything,
    Nothing,
    /// For each file, either all its changes reached the device, or none did.
    Files,
    /// Each change reached the device or did not, independently.
    Changes,
    /// Each sector of this many bytes has one of the contents that it had since the last sync; the
    /// length likewise.
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

fn apply(blocks: &mut Blocks, change: &PendingChange) {
    match change {
        PendingChange::Write { at, bytes } => blocks.write(*at, bytes),
        PendingChange::Length(len) => blocks.set_len(*len),
    }
}

impl Node {
    pub fn holding(bytes: Blocks) -> Node {
        Node { stable: bytes.clone(), current: bytes, pending: Vec::new() }
    }

    pub fn change(&mut self, change: PendingChange) {
        apply(&mut self.current, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        let stable = &mut self.stable;
        self.pending.drain(..).for_each(|c| apply(stable, &c));
    }

    /// A sync that failed: changes that have not reached the device yet never will, but programs
    /// continue to see them.
    pub fn fail_sync(&mut self, random: &mut Random) {
        self.stable = self.survivor(Loss::Changes, random);
        self.pending.clear();
    }

    /// The bytes on the device after the power went.
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

    /// Applies the changes one after the other and draws, for each sector, one of the contents that
    /// it has had since the last sync, and one of the file's lengths. The draws are independent: a
    /// device writes sectors in any order, and the length is not in them.
    fn sectors(&self, bytes: &mut Blocks, size: u64, random: &mut Random) {
        let mut cache = self.stable.clone();
        let mut lengths = vec![cache.len()];
        let mut drawn: BTreeMap<u64, (usize, Vec<u8>)> = BTreeMap::new();
        for change in &self.pending {
            let before = cache.len();
            apply(&mut cache, change);
            lengths.push(cache.len());
            let touched = match change {
                PendingChange::Write { at, bytes } => *at..at + bytes.len() as u64,
                // A range that was cut off reads as zeros when the file is lengthened again.
                PendingChange::Length(len) => *len..before,
            };
            if touched.is_empty() {
                // Lengthening alone changes no sector.
                continue;
            }
            for sector in touched.start / size..touched.end.div_ceil(size) {
                let now = sector_of(&cache, sector, size);
                let (seen, content) =
                    drawn.entry(sector).or_insert_with(|| (1, sector_of(&self.stable, sector, size)));
                *seen += 1;
                // Each content so far is the kept one with equal probability.
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
