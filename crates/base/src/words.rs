//! Numbers in sentences.

/// A count with its noun: `1 instance`, `2 instances`. `noun` is the singular, and the plural adds
/// an `s`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into() {
        Ok(1) => format!("1 {noun}"),
        Ok(count) => format!("{count} {noun}s"),
        // Only numbers wider than 64 bits, and negative ones, do not fit.
        Err(_) => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_one() {
        assert_eq!(counted(0u16, "finding"), "0 findings");
        assert_eq!(counted(1usize, "instance"), "1 instance");
        assert_eq!(counted(2u64, "row"), "2 rows");
    }
}
