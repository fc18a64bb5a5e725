//! Events as bytes. An event is one LEB128 number, `value << 2 | tag`:
//!
//! | tag | event | value |
//! |---|---|---|
//! | 0 | a basic block runs | its number less that of the block before, zigzag |
//! | 1 | a load | the line (address / 64) less that of the access before, zigzag |
//! | 2 | a store | as for a load |
//! | 3 | a mark | its code |
//!
//! More LEB128 numbers follow some marks:
//!
//! | mark | what follows |
//! |---|---|
//! | [`TRANSACTION`] | the kind; the line of the stack where it began |
//! | its end | instructions, loads, stores, further rounds of `rep` instructions |
//! | [`TASK`] | the number of the task that goes on |
//!
//! The blocks and lines before the first event are 0. An access that crosses the border of a line
//! is two events. A `rep` instruction is one run of its block, with all accesses of its rounds.

use crate::code::{END, TASK, TRANSACTION};

/// The work of a transaction, as the tracer counted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    /// Rounds of `rep` instructions after the first one of each.
    pub repeats: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The basic block of this number runs.
    Block(u32),
    /// The line that is loaded: an address / 64.
    Load(u64),
    Store(u64),
    Begin {
        kind: u32,
        /// The line of the stack.
        stack: u64,
    },
    End(Counts),
    Task(u32),
    /// Any other mark.
    Mark(u16),
}

/// Appends events to bytes.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    pub bytes: Vec<u8>,
    block: u32,
    line: u64,
}

impl Encoder {
    #[inline]
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    #[inline]
    fn put_delta(&mut self, delta: i64, tag: u64) {
        self.put((((delta << 1) ^ (delta >> 63)) as u64) << 2 | tag);
    }

    #[inline]
    pub fn push(&mut self, event: Event) {
        match event {
            Event::Block(block) => {
                self.put_delta(i64::from(block) - i64::from(self.block), 0);
                self.block = block;
            }
            Event::Load(line) => self.access(line, 1),
            Event::Store(line) => self.access(line, 2),
            Event::Begin { kind, stack } => {
                self.mark(TRANSACTION);
                self.put(kind.into());
                self.put(stack);
            }
            Event::End(counts) => {
                self.mark(TRANSACTION | END);
                let Counts { instructions, loads, stores, repeats } = counts;
                [instructions, loads, stores, repeats].into_iter().for_each(|n| self.put(n));
            }
            Event::Task(task) => {
                self.mark(TASK);
                self.put(task.into());
            }
            Event::Mark(code) => self.mark(code),
        }
    }

    fn mark(&mut self, code: u16) {
        self.put(u64::from(code) << 2 | 3);
    }

    #[inline]
    fn access(&mut self, line: u64, tag: u64) {
        self.put_delta(line.wrapping_sub(self.line) as i64, tag);
        self.line = line;
    }
}

/// Reads events from bytes. The iteration ends at the end of the bytes, or where they are no event;
/// [`Decoder::is_done`] tells which.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    block: u32,
    line: u64,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0, block: 0, line: 0 }
    }

    /// Whether all bytes were read.
    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next number. Of up to eight bytes, as nearly all have, it is put together without a
    /// branch on their number, which no processor can predict.
    #[inline(always)]
    fn take(&mut self) -> Option<u64> {
        let word = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>());
        let word = word.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        let last = !word & 0x8080_8080_8080_8080;
        if last == 0 {
            return self.take_long();
        }
        self.at += last.trailing_zeros() as usize / 8 + 1;
        // The bits up to the last byte's; then groups of 7, 14 and 28 bits move together.
        let word = word & (last ^ (last - 1));
        let word = (word & 0x7f00_7f00_7f00_7f00) >> 1 | word & 0x007f_007f_007f_007f;
        let word = (word & 0x3fff_0000_3fff_0000) >> 2 | word & 0x0000_3fff_0000_3fff;
        Some((word & 0x0fff_ffff_0000_0000) >> 4 | word & 0x0000_0000_0fff_ffff)
    }

    #[cold]
    fn take_long(&mut self) -> Option<u64> {
        let mut value = 0;
        for (i, &byte) in self.bytes[self.at..].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Some(value);
            }
        }
        None
    }

    /// The events that follow a mark; the position is behind its code.
    fn marked(&mut self, code: u64) -> Option<Event> {
        match u16::try_from(code).ok()? {
            TRANSACTION => {
                Some(Event::Begin { kind: u32::try_from(self.take()?).ok()?, stack: self.take()? })
            }
            TASK => Some(Event::Task(u32::try_from(self.take()?).ok()?)),
            code if code == TRANSACTION | END => Some(Event::End(Counts {
                instructions: self.take()?,
                loads: self.take()?,
                stores: self.take()?,
                repeats: self.take()?,
            })),
            code => Some(Event::Mark(code)),
        }
    }
}

impl Iterator for Decoder<'_> {
    type Item = Event;

    // Once for each event that a simulator runs: without a call.
    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        let start = self.at;
        let word = self.take()?;
        let value = word >> 2;
        let delta = (value >> 1) as i64 ^ -((value & 1) as i64);
        match word & 3 {
            0 => {
                let block = i64::from(self.block) + delta;
                self.block = block as u32;
                Some(Event::Block(self.block))
            }
            1 => {
                self.line = self.line.wrapping_add(delta as u64);
                Some(Event::Load(self.line))
            }
            2 => {
                self.line = self.line.wrapping_add(delta as u64);
                Some(Event::Store(self.line))
            }
            _ => {
                let event = self.marked(value);
                if event.is_none() {
                    self.at = start;
                }
                event
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back() {
        let mut random = fastrand::Rng::with_seed(7);
        let events: Vec<Event> = (0..20_000)
            .map(|_| match random.u32(0..20) {
                0 => Event::Begin { kind: random.u32(0..9), stack: random.u64(..) >> 6 },
                1 => {
                    Event::End(Counts { instructions: random.u64(..), loads: 3, stores: 1 << 40, repeats: 0 })
                }
                2 => Event::Task(random.u32(..)),
                3 => Event::Mark(random.u16(4..0x100)),
                4..10 => Event::Load(random.u64(..) >> random.u32(6..60)),
                10..14 => Event::Store(random.u64(..) >> random.u32(6..60)),
                _ => Event::Block(random.u32(..) >> random.u32(0..31)),
            })
            .collect();
        let mut encoder = Encoder::default();
        events.iter().for_each(|&event| encoder.push(event));
        let mut decoder = Decoder::new(&encoder.bytes);
        assert!(decoder.by_ref().eq(events));
        assert!(decoder.is_done());
    }

    #[test]
    fn a_cut_event_is_noticed() {
        let mut encoder = Encoder::default();
        encoder.push(Event::Begin { kind: 1, stack: 1 << 30 });
        let cut = &encoder.bytes[..encoder.bytes.len() - 1];
        let mut decoder = Decoder::new(cut);
        assert_eq!(decoder.next(), None);
        assert!(!decoder.is_done());
    }
}
