//! Unit tests of the owner map; `models` runs it under loom.

use crate::chart::Chart;

#[test]
fn a_stamp_is_good_until_the_receiver_gives_its_sites_away() {
    let chart = Chart::new([0, 0, 1, 1]);
    assert_eq!([0, 1, 2, 3, 9].map(|site| chart.owner(site)), [0, 0, 1, 1, 1]);
    let mut stamp = chart.stamp();
    stamp.widen(1);
    assert!(chart.holds(0, &stamp));
    chart.give(2..3, 0);
    assert!(chart.holds(0, &stamp), "another change, and the site is where it was");
    chart.give(1..2, 1);
    assert!(!chart.holds(0, &stamp) && chart.holds(1, &stamp));
    let mut wide = chart.stamp();
    [3, 0].into_iter().for_each(|site| wide.widen(site));
    assert!(chart.holds(0, &wide), "the stamp says that nothing has changed");
    chart.give(0..1, 1);
    assert!(!chart.holds(0, &wide) && !chart.holds(1, &wide), "between the two lies one that is the other's");
    assert_eq!(chart.version(), 3);
}
