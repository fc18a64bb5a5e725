//! Copies of a few bytes. A call of `memcpy` first has to examine the length, which takes longer
//! than such a copy itself.

/// Copies `from` to all of `to`. Up to 64 bytes it uses two moves that may overlap: the pieces of
/// rows and log records are mostly no longer.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a copy of another length");
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..4 => ends::<2>(to, from),
        4..8 => ends::<4>(to, from),
        8..=16 => ends::<8>(to, from),
        17..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes.
#[inline(always)]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(place), Some(first)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *place = *first;
    }
    if let (Some(place), Some(last)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *place = *last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_beside_it() {
        let from: Vec<u8> = (1..=200).collect();
        for len in 0..=from.len() {
            let mut to = vec![0; len + 2];
            copy_short(&mut to[1..=len], &from[..len]);
            assert_eq!((to[0], &to[1..=len], to[len + 1]), (0, &from[..len], 0), "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "another length")]
    fn a_copy_of_another_length_is_refused() {
        copy_short(&mut [0; 3], &[1; 4]);
    }
}
