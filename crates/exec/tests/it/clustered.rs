//! Every script and history once more on clustered tables: the locks have the same names, so the
//! outcomes are the same.

use crate::isolation::KIND;
use crate::{histories, isolation, schema, secondary};
use txn::TableKind;

#[test]
fn the_same_on_clustered_tables() {
    KIND.set(TableKind::Clustered);
    for script in [
        isolation::a_dirty_row_is_neither_read_nor_overwritten as fn(),
        isolation::what_was_read_stays,
        isolation::write_skew_ends_in_a_deadlock,
        isolation::a_missing_key_stays_missing,
        isolation::an_aborted_insert_is_gone_and_a_duplicate_is_told,
        isolation::nothing_appears_in_a_scanned_range_and_everything_may_beside_it,
        isolation::a_scan_to_the_end_locks_what_lies_behind_the_last_key,
        isolation::a_deleted_key_and_its_gap_stay_closed_until_the_end,
        isolation::two_inserts_into_one_gap_do_not_wait_for_each_other,
        isolation::a_whole_scan_and_a_writer_exclude_each_other,
        secondary::no_value_appears_in_or_leaves_a_scanned_range,
        secondary::values_beside_a_scanned_range_may_change,
        secondary::a_scan_waits_for_values_that_are_not_committed,
        secondary::two_changes_of_neighbouring_values_do_not_wait_for_each_other,
        secondary::a_scan_to_the_end_of_an_index_protects_what_lies_behind,
        secondary::a_row_met_through_an_index_is_locked_itself,
        secondary::an_entry_whose_neighbour_changed_waits_for_the_new_ones_reader,
        schema::who_waited_for_a_changed_table_sees_what_became_of_it,
        schema::a_part_goes_back_to_its_savepoint_and_keeps_its_locks,
        histories::committed_transactions_ran_one_by_one_whatever_the_lock_manager_does,
        histories::threads_that_interleave_at_will_ran_one_by_one,
    ] {
        script();
    }
}
