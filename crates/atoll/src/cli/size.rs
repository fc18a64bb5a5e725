//! Sizes as typed.

/// `512M`, `2G`, `1.5GiB`, `64K`: powers of 1024; a number alone is bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || format!("{text:?} is no size; expected e.g. 512M, 2G or a number of bytes");
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(expected()),
    };
    let bytes = number.parse::<f64>().map_err(|_| expected())? * (1u64 << shift) as f64;
    if !(1.0..=(1u64 << 50) as f64).contains(&bytes) {
        return Err(format!("{text:?} is out of range; expected 1 byte to 1024T"));
    }
    Ok(bytes as u64)
}
