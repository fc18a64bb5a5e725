//! Each pair of modes, requested from a real table, against matrices written by hand and against
//! the meaning of the modes.

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

/// The acts that a mode allows its holder and denies to others: the definition that the tables in
/// `mode` implement. For each subject (a row, a gap, a whole granule) the acts are `look`, `claim`
/// (look, and be the only holder that may go on to change), `fill` (insert beside others that
/// insert) and `own`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Look,
    Claim,
    Fill,
    Own,
}

fn acts_agree(a: Act, b: Act) -> bool {
    use Act::{Claim, Fill, Look};
    matches!((a, b), (Look, Look | Claim) | (Claim, Look) | (Fill, Fill))
}

fn agree(a: &[Act], b: &[Act]) -> bool {
    a.iter().all(|&a| b.iter().all(|&b| acts_agree(a, b)))
}

fn row_acts(row: Row) -> &'static [Act] {
    match row {
        Row::None => &[],
        Row::S => &[Act::Look],
        Row::U => &[Act::Claim],
        Row::X => &[Act::Own],
    }
}

fn gap_acts(gap: Gap) -> &'static [Act] {
    match gap {
        Gap::None => &[],
        Gap::S => &[Act::Look],
        Gap::Insert => &[Act::Fill],
        Gap::X => &[Act::Own],
    }
}

/// The acts on all rows in the granule, and the acts on some of them. Two holders that act on
/// *some* rows meet again at the rows, so only *all* against *all* and *all* against *some*
/// conflict here.
fn granule_acts(mode: Mode) -> (Vec<Act>, Vec<Act>) {
    match mode {
        Mode::IS => (vec![], vec![Act::Look]),
        Mode::IX => (vec![], vec![Act::Look, Act::Own]),
        Mode::S => (vec![Act::Look], vec![]),
        Mode::U => (vec![Act::Claim], vec![]),
        Mode::SIX => (vec![Act::Look], vec![Act::Look, Act::Own]),
        _ => (vec![Act::Own], vec![]),
    }
}

#[test]
fn compatible_means_that_no_act_of_one_disturbs_one_of_the_other() {
    let rows = [Row::None, Row::S, Row::U, Row::X];
    let gaps = [Gap::None, Gap::S, Gap::Insert, Gap::X];
    let all: Vec<_> = rows.iter().flat_map(|&r| gaps.map(|g| (r, g))).collect();
    for &(r, g) in &all {
        for &(r2, g2) in &all {
            let want = agree(row_acts(r), row_acts(r2)) && agree(gap_acts(g), gap_acts(g2));
            assert_eq!(Mode::key(r, g).compatible(Mode::key(r2, g2)), want, "{r:?} {g:?} with {r2:?} {g2:?}");
        }
    }
    for a in Mode::TABLE {
        for b in Mode::TABLE {
            let ((all_a, some_a), (all_b, some_b)) = (granule_acts(a), granule_acts(b));
            let want = agree(&all_a, &all_b) && agree(&all_a, &some_b) && agree(&some_a, &all_b);
            assert_eq!(a.compatible(b), want, "{a:?} with {b:?}");
        }
    }
}

#[test]
fn a_supremum_is_the_least_mode_that_covers_both() {
    for kind in [Mode::TABLE.to_vec(), key_modes()] {
        for &a in &kind {
            for &b in &kind {
                let least = kind.iter().filter(|m| m.covers(a) && m.covers(b));
                assert!(least.into_iter().all(|m| m.covers(a.with(b))), "{a:?} with {b:?}");
            }
        }
    }
}

/// The holder of a granule need not request the modes that it covers beneath. Each mode that
/// another locker may hold there at the same time, by a lock of its own or by its granule's, is
/// compatible with them.
#[test]
fn what_a_granule_covers_nobody_can_take_away() {
    let beneath: Vec<Mode> =
        key_modes().into_iter().chain(Mode::TABLE).filter(|m| *m != Mode::NONE).collect();
    let one_kind = |a: Mode, b: Mode| Mode::TABLE.contains(&a) == Mode::TABLE.contains(&b);
    let mut covered = 0;
    for granule in Mode::TABLE {
        for &mine in beneath.iter().filter(|m| granule.covers_beneath(**m)) {
            covered += 1;
            let others = Mode::TABLE.into_iter().filter(|other| other.compatible(granule));
            for other in others {
                let may = |m: &&Mode| other.covers(m.above()) || other.covers_beneath(**m);
                for &theirs in beneath.iter().filter(may).filter(|theirs| one_kind(**theirs, mine)) {
                    assert!(
                        mine.compatible(theirs),
                        "{granule:?} covers {mine:?}, {other:?} allows {theirs:?}"
                    );
                }
            }
        }
    }
    assert!(covered > 30);
    assert!(Mode::S.covers_beneath(Mode::ROW_AND_GAP_S) && !Mode::S.covers_beneath(Mode::ROW_U));
    assert!(Mode::SIX.covers_beneath(Mode::ROW_U) && !Mode::SIX.covers_beneath(Mode::ROW_X));
    assert!(Mode::X.covers_beneath(Mode::ROW_AND_GAP_X) && !Mode::IX.covers_beneath(Mode::ROW_S));
}
