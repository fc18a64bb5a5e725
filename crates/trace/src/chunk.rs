//! Streams in pieces, each compressed by itself while the stream is written: u32 bytes before
//! compression, u32 bytes, then the bytes of an LZ4 block.

/// The bytes after which a writer closes a chunk.
pub const CHUNK: usize = 1 << 20;
/// A longer chunk is no chunk.
const LONGEST: usize = 4 * CHUNK;

/// One chunk of these events.
pub fn pack(events: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(events);
    let mut chunk = Vec::with_capacity(packed.len() + 8);
    chunk.extend((events.len() as u32).to_le_bytes());
    chunk.extend((packed.len() as u32).to_le_bytes());
    chunk.extend(packed);
    chunk
}

/// The events of all chunks of a stream; `None` if a chunk is cut or is none.
pub fn unpack(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut events = Vec::new();
    while !chunks.is_empty() {
        let number = |at: usize| {
            let bytes = chunks.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let (whole, packed) = (number(0)?, number(4)?);
        let content = chunks.get(8..8 + packed)?;
        if whole > LONGEST {
            return None;
        }
        let unpacked = lz4_flex::block::decompress(content, whole).ok()?;
        if unpacked.len() != whole {
            return None;
        }
        events.extend(unpacked);
        chunks = &chunks[8 + packed..];
    }
    Some(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_and_cut_ones_do_not() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
        let mut stream = pack(&bytes);
        stream.extend(pack(b"more"));
        assert_eq!(unpack(&stream), Some([&bytes[..], b"more"].concat()));
        for cut in [1, 5, stream.len() / 2] {
            assert_eq!(unpack(&stream[..stream.len() - cut]), None);
        }
    }
}
