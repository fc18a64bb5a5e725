//! Every pair of modes, asked of a real table, against matrices written by hand.

use crate::{Table, granted};
use base::TableId;
use locks::{Gap, LockName, Mode, Row};

fn grants_both(name: LockName, held: Mode, asked: Mode) -> bool {
    let table = Table::new(8);
    let (mut a, mut b) = (table.locker(), table.locker());
    assert!(granted(table.acquire(&mut a, name, held)));
    let both = granted(table.acquire(&mut b, name, asked));
    table.release_all(&mut a);
    table.release_all(&mut b);
    assert_eq!(table.requests(), 0);
    both
}

fn yes(row: &str) -> Vec<bool> {
    row.split_whitespace().map(|c| c == "y").collect()
}

#[test]
fn table_modes() {
    use Mode as M;
    let order = [M::IS, M::IX, M::S, M::SIX, M::U, M::X];
    let matrix = [
        "y y y y y .", // IS
        "y y . . . .", // IX
        "y . y . y .", // S
        "y . . . . .", // SIX
        "y . y . . .", // U
        ". . . . . .", // X
    ];
    for (held, row) in order.iter().zip(matrix) {
        for (asked, want) in order.iter().zip(yes(row)) {
            assert_eq!(grants_both(LockName::table(TableId(3)), *held, *asked), want, "{held:?} {asked:?}");
        }
    }
}

#[test]
fn key_modes_are_two_orthogonal_parts() {
    let rows = [Row::None, Row::S, Row::U, Row::X];
    let row_matrix = ["y y y y", "y y y .", "y y . .", "y . . ."];
    let gaps = [Gap::None, Gap::S, Gap::Insert, Gap::X];
    let gap_matrix = ["y y y y", "y y . .", "y . y .", "y . . ."];
    let name = LockName::key(TableId(3), 77);
    for (r, row) in rows.iter().enumerate() {
        for (g, gap) in gaps.iter().enumerate() {
            for (r2, row2) in rows.iter().enumerate() {
                for (g2, gap2) in gaps.iter().enumerate() {
                    let (held, asked) = (Mode::key(*row, *gap), Mode::key(*row2, *gap2));
                    let want = yes(row_matrix[r])[r2] && yes(gap_matrix[g])[g2];
                    if held != Mode::NONE && asked != Mode::NONE {
                        assert_eq!(grants_both(name, held, asked), want, "{held:?} {asked:?}");
                    }
                }
            }
        }
    }
}

fn key_modes() -> Vec<Mode> {
    let rows = [Row::None, Row::S, Row::U, Row::X];
    let gaps = [Gap::None, Gap::S, Gap::Insert, Gap::X];
    rows.iter().flat_map(|&r| gaps.map(|g| Mode::key(r, g))).collect()
}

#[test]
fn a_supremum_conflicts_with_all_that_its_parts_conflict_with() {
    for kind in [Mode::TABLE.to_vec(), key_modes()] {
        for &a in &kind {
            for &b in &kind {
                let both = a.with(b);
                assert_eq!(both, b.with(a));
                assert!(both.covers(a) && both.covers(b) && a.covers(a), "{a:?} {b:?} {both:?}");
                for &other in &kind {
                    assert!(!both.compatible(other) || a.compatible(other) && b.compatible(other));
                    assert_eq!(a.compatible(other), other.compatible(a));
                }
            }
        }
    }
    assert_eq!(Mode::S.with(Mode::IX), Mode::SIX);
    assert_eq!(Mode::U.with(Mode::IX), Mode::SIX);
    assert_eq!(Mode::GAP_S.with(Mode::GAP_INSERT), Mode::GAP_X);
    assert_eq!(Mode::ROW_S.with(Mode::GAP_S), Mode::ROW_AND_GAP_S);
}

#[test]
fn shared_modes_are_those_that_change_nothing() {
    let shared: Vec<_> = key_modes().into_iter().chain(Mode::TABLE).filter(|m| m.is_shared()).collect();
    let key = Mode::key;
    let want = [
        Mode::NONE,
        key(Row::None, Gap::S),
        key(Row::S, Gap::None),
        key(Row::S, Gap::S),
        key(Row::U, Gap::None),
        key(Row::U, Gap::S),
        Mode::IS,
        Mode::S,
        Mode::U,
    ];
    assert_eq!(shared, want);
}
