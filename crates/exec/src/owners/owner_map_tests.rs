//! Unit tests of the owner map; `models` runs it under loom.

use crate::owners::owner_map::OwnerMap;

#[test]
fn a_stamp_is_good_until_the_receiver_gives_its_sites_away() {
    let map = OwnerMap::new([0, 0, 1, 1]);
    assert_eq!([0, 1, 2, 3, 9].map(|site| map.owner(site)), [0, 0, 1, 1, 1]);
    let mut map_version = map.map_version();
    map_version.widen(1);
    assert!(map.holds(0, &map_version));
    map.give(2..3, 0);
    assert!(map.holds(0, &map_version), "another change, and the site is where it was");
    map.give(1..2, 1);
    assert!(!map.holds(0, &map_version) && map.holds(1, &map_version));
    let mut wide = map.map_version();
    [3, 0].into_iter().for_each(|site| wide.widen(site));
    assert!(map.holds(0, &wide), "the version says that nothing has changed");
    map.give(0..1, 1);
    assert!(!map.holds(0, &wide) && !map.holds(1, &wide), "between the two lies one that is the other's");
    assert_eq!(map.version(), 3);
}
