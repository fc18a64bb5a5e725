//! Bytes that a client has sent and that no message was made of yet.
//!
//! ```text
//!   bytes   | taken | message | message | part of a message |
//!                    ^ taken             ^ more comes behind
//! ```

use std::ops::Deref;

/// Bytes of a message's head: its tag and its length.
pub const HEAD: usize = 5;

/// Bytes in the order in which they came. While there are none it holds no memory.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

/// The body of a message that was taken.
#[derive(Debug, Default)]
pub struct Body {
    bytes: Vec<u8>,
    from: usize,
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl Inbox {
    /// The bytes that are not taken.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The tag and the length of the next message, which counts itself; `None` if they are not here
    /// yet.
    pub fn head(&self) -> Option<(u8, usize)> {
        match *self.unread() {
            [tag, a, b, c, d, ..] => Some((tag, u32::from_be_bytes([a, b, c, d]) as usize)),
            _ => None,
        }
    }

    /// The tag and the body of the next message, if it is here as a whole and its length is at most
    /// `most`.
    pub fn message(&self, most: usize) -> Option<(u8, &[u8])> {
        let (tag, length) = self.head()?;
        let is_valid = (4..=most).contains(&length);
        is_valid.then_some(())?;
        Some((tag, self.unread().get(HEAD..length + 1)?))
    }

    /// Takes bytes that are here.
    pub fn take(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.bytes.len());
    }

    /// Takes a message of this length; all of it must be here. A message that is the last one is
    /// not copied.
    pub fn take_message(&mut self, length: usize) -> Body {
        if self.unread().len() > length + 1 {
            let bytes = self.unread()[HEAD..length + 1].to_vec();
            self.take(length + 1);
            return Body { bytes, from: 0 };
        }
        let from = self.taken + HEAD;
        self.taken = 0;
        Body { bytes: std::mem::take(&mut self.bytes), from }
    }

    pub fn push(&mut self, more: &[u8]) {
        if self.taken > 0 {
            // Less than a message is left.
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(more);
    }

    /// Gives its memory back if nothing is left.
    pub fn trim(&mut self) {
        if self.unread().is_empty() {
            *self = Inbox::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_were_sent_in_any_pieces() {
        let bytes = b"B\x00\x00\x00\x06abD\x00\x00\x00\x04S\x00\x00\x00\x05x";
        for piece in 1..bytes.len() {
            let (mut inbox, mut found) = (Inbox::default(), Vec::new());
            for part in bytes.chunks(piece) {
                inbox.trim();
                inbox.push(part);
                while let Some((tag, body)) = inbox.message(100) {
                    let (length, body) = (body.len() + 4, body.to_vec());
                    assert_eq!(inbox.take_message(length)[..], body[..]);
                    found.push((tag, body));
                }
            }
            assert_eq!(found, [(b'B', b"ab".to_vec()), (b'D', vec![]), (b'S', b"x".to_vec())], "{piece}");
            assert!(inbox.unread().is_empty());
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_no_message() {
        let mut inbox = Inbox::default();
        inbox.push(b"B\x00\x00\x00\x03");
        assert_eq!((inbox.head(), inbox.message(100)), (Some((b'B', 3)), None));
        let mut inbox = Inbox::default();
        inbox.push(b"B\xff\xff\xff\xff");
        assert_eq!((inbox.head(), inbox.message(100)), (Some((b'B', u32::MAX as usize)), None));
        inbox.take(5);
        assert_eq!(inbox.head(), None);
    }

    #[test]
    fn memory_is_held_for_bytes_only() {
        let mut inbox = Inbox::default();
        inbox.push(b"S\x00\x00\x00\x04");
        inbox.take(5);
        inbox.trim();
        assert_eq!(inbox.bytes.capacity(), 0);
    }
}
