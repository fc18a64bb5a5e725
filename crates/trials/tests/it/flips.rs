//! Flipped bits.

use trials::flips::campaign;
use txn::TableKind;

#[test]
fn no_turned_bit_goes_unnoticed() {
    let outcome = campaign(&TableKind::ALL, 800, 11).unwrap();
    assert!(outcome.silent.is_empty(), "{:#?}", outcome.silent);
    assert!(outcome.detected > 100 && outcome.harmless > 100, "{outcome:?}");
    assert!(outcome.files.len() >= 4, "{outcome:?}");
}
