//! Messages in a stream of bytes. A frame is a 4-byte little-endian length and that many bytes.
//!
//! A length is checked before memory is allocated for it, and the input buffer grows with the bytes
//! that have arrived, never with the promised length.

use crate::error::{Closed, SendError};
use crate::{MOST_HELD_BYTES, MOST_MESSAGE_BYTES};
use std::ops::Range;

/// Bytes of a frame's length.
const PREFIX: usize = 4;
/// When this much output is held, a link pushes it out within `send`, so that a long turn does not
/// accumulate more.
const PUSH_OUT_BYTES: usize = 256 * 1024;
/// First size of the input buffer: some hundred requests per system call.
const INPUT_BYTES: usize = 64 * 1024;

/// Frames that the channel has not taken.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    written: usize,
}

impl Outbox {
    /// Takes one message, the concatenation of `parts`, which together have this many bytes. The
    /// link holds `elsewhere` bytes besides. Returns whether so much is held that it is to be
    /// written at once.
    #[inline]
    pub(crate) fn take(
        &mut self,
        parts: &[&[u8]],
        bytes: usize,
        elsewhere: usize,
    ) -> Result<bool, SendError> {
        let held = self.held() + elsewhere;
        if held + bytes > MOST_HELD_BYTES {
            return Err(SendError::Full { held, most: MOST_HELD_BYTES });
        }
        self.bytes.extend_from_slice(&(bytes as u32).to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(self.held() + elsewhere >= PUSH_OUT_BYTES)
    }

    /// Writes what is held by `push`, which takes some of the bytes, or none if it has no room.
    /// Returns whether all were written.
    #[inline]
    pub(crate) fn write<E>(&mut self, mut push: impl FnMut(&[u8]) -> Result<usize, E>) -> Result<bool, E> {
        while self.held() > 0 {
            match push(&self.bytes[self.written..])? {
                0 => {
                    self.forget_written();
                    return Ok(false);
                }
                count => self.written += count,
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(2 * PUSH_OUT_BYTES);
        self.written = 0;
        Ok(true)
    }

    /// Moves the rest to the front once more than half of the buffer has been written.
    fn forget_written(&mut self) {
        if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() - self.written
    }
}

/// Bytes that have arrived.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The bytes that arrived and were not delivered.
    unread: Range<usize>,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox { bytes: vec![0; INPUT_BYTES], unread: 0..0 }
    }
}

impl Inbox {
    /// Takes the first unread message, if all of it has arrived: a range of [`Inbox::bytes`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>, Closed> {
        let Some(end) = self.whole_message()? else { return Ok(None) };
        let message = self.unread.start + PREFIX..end;
        self.unread.start = end;
        Ok(Some(message))
    }

    /// Whether [`Inbox::next`] has something to return.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.whole_message().map_or(true, |next| next.is_some())
    }

    /// The end of the first unread message, if all of it has arrived.
    #[inline]
    fn whole_message(&self) -> Result<Option<usize>, Closed> {
        let Some(prefix) = self.bytes[self.unread.clone()].first_chunk::<PREFIX>() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*prefix) as usize;
        if bytes > MOST_MESSAGE_BYTES {
            return Err(Closed::Corrupt("a message is longer than any may be"));
        }
        let end = self.unread.start + PREFIX + bytes;
        Ok((end <= self.unread.end).then_some(end))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether no part of a message is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// Free space after the unread bytes: by starting over, by moving them, or by doubling a full
    /// buffer.
    #[inline]
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.bytes.len() > 4 * INPUT_BYTES {
                self.bytes.truncate(INPUT_BYTES);
                self.bytes.shrink_to_fit();
            }
        } else if self.unread.end == self.bytes.len() {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.unread.end > self.bytes.len() / 2 {
                self.bytes.resize(2 * self.bytes.len(), 0);
            }
        }
        &mut self.bytes[self.unread.end..]
    }

    /// This many bytes have been written to the front of [`Inbox::space`].
    #[inline]
    pub(crate) fn filled(&mut self, count: usize) {
        self.unread.end += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves the held bytes over in pieces of this size; returns the lengths of the messages.
    fn through(out: &mut Outbox, inbox: &mut Inbox, piece: usize) -> Vec<usize> {
        let mut lengths = Vec::new();
        while out.held() > 0 {
            let mut room = piece;
            let all = out.write(|rest| {
                let space = inbox.space();
                let count = std::mem::take(&mut room).min(space.len()).min(rest.len());
                space[..count].copy_from_slice(&rest[..count]);
                inbox.filled(count);
                Ok::<_, Closed>(count)
            });
            assert_eq!(all.unwrap(), out.held() == 0);
            while let Some(message) = inbox.next().unwrap() {
                assert!(inbox.bytes()[message.clone()].iter().all(|b| *b == lengths.len() as u8));
                lengths.push(message.len());
            }
        }
        lengths
    }

    #[test]
    fn messages_of_all_sizes_pass_in_pieces_of_all_sizes() {
        let lengths = [0, 1, 4, 5, 4_096, INPUT_BYTES - 4, INPUT_BYTES, 3 * INPUT_BYTES, 0, 7];
        for piece in [1, 3, 4, 4_096, INPUT_BYTES, usize::MAX] {
            let (mut out, mut inbox) = (Outbox::default(), Inbox::default());
            for (n, length) in lengths.iter().enumerate() {
                let message = vec![n as u8; *length];
                let (a, b) = message.split_at(length / 3);
                out.take(&[a, b], *length, 0).unwrap();
            }
            assert_eq!(through(&mut out, &mut inbox, piece), lengths);
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn a_full_outbox_takes_nothing_more() {
        let mut out = Outbox::default();
        let message = vec![0; PUSH_OUT_BYTES - 5];
        assert!(!out.take(&[&message], message.len(), 0).unwrap());
        assert!(out.take(&[&[1]], 1, 0).unwrap());
        assert!(out.take(&[], 0, PUSH_OUT_BYTES).unwrap());
        let held = out.held();
        let elsewhere = MOST_HELD_BYTES - held;
        assert!(matches!(
            out.take(&[&[1]], 1, elsewhere),
            Err(SendError::Full { held: MOST_HELD_BYTES, .. })
        ));
        assert_eq!(out.held(), held);
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_come() {
        let mut inbox = Inbox::default();
        inbox.space()[..4].copy_from_slice(&(MOST_MESSAGE_BYTES as u32 + 1).to_le_bytes());
        inbox.filled(4);
        assert!(inbox.has_next());
        assert!(matches!(inbox.next(), Err(Closed::Corrupt(_))));
    }
}
