//! Takes an input apart into numbers and pieces. Bytes that are missing at its end read as zeros.

/// The rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let piece = self.take(N);
        bytes[..piece.len()].copy_from_slice(piece);
        bytes
    }

    /// The next `n` bytes, or as many as there are.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        piece
    }

    /// A piece with its length before it.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = self.u16() as usize;
        self.take(length)
    }
}

/// Appends a piece in the form that [`Input::piece`] reads; at most 65,535 bytes of it.
pub fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    let piece = &piece[..piece.len().min(usize::from(u16::MAX))];
    out.extend((piece.len() as u16).to_le_bytes());
    out.extend(piece);
}
