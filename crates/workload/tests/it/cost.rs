//! The benchmark of the language on a tiny scale: all forms give the same result, and the future of
//! a transaction stays small.

use crate::abstraction::{Setup, by_boxed_steps, by_bytes, by_hand, by_steps};

#[test]
fn the_forms_that_are_compared_do_the_same() {
    let setup = Setup::new(200);
    let mut storage = setup.storage();
    for r in setup.requests() {
        let expected = by_hand(&mut storage, r).unwrap();
        assert_eq!(expected.account_balance, r.delta);
        assert_eq!(by_steps(setup.tpcb(), &mut storage, r), Ok(expected));
        assert_eq!(by_boxed_steps(setup.tpcb(), &mut storage, r), Ok(expected));
        by_bytes(&mut storage, r, &mut [vec![], vec![]]).unwrap();
    }
    assert!(setup.measure(3, 500).iter().all(|ns| *ns > 0.0));
}

/// A larger future costs more copying: growth is the first sign that a step was moved into it by
/// value.
#[test]
fn the_future_of_a_transaction_stays_small() {
    let bytes = Setup::new(1).future_bytes();
    assert!(bytes <= 1_024, "{bytes} bytes");
}
