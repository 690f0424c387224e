//! Whether each case notices a mistake.

use std::fmt::Write as _;

use timely_splits::defect::{self, Defect};

use crate::quiet::quietly;
use crate::{changes, failures, moves, plans, restarts};

macro_rules! cases {
    ($($module:ident: $($case:ident)*;)*) => {
        &[$($((stringify!($case), $module::$case as fn()),)*)*]
    };
}

const CASES: &[(&str, fn())] = cases! {
    changes:
        a_tree_that_grows_is_read_in_full_and_what_was_read_never_pauses
        a_reader_whose_only_tree_is_removed_emits_nothing_and_does_not_hold_the_frontier
        a_split_that_comes_back_after_its_position_was_kept_starts_by_its_rule_and_says_so
        answers_that_come_late_and_in_disorder_leave_the_epochs_monotone
        metadata_that_flaps_a_thousand_times_costs_a_bounded_number_of_plans
        what_a_removed_tree_leaves_askew_is_balanced_by_the_least_number_of_moves
        six_splits_of_two_trees_are_spread_over_four_readers
        what_is_left_on_one_reader_is_spread_and_what_comes_back_moves_nothing;
    failures:
        a_split_that_fails_for_good_is_quarantined_and_nothing_of_it_is_emitted
        a_split_that_fails_for_now_is_read_on_by_the_same_reader_where_it_failed
        a_fetcher_that_crashes_five_times_is_retried_later_and_later_and_then_quarantined
        a_cluster_that_cannot_be_reached_for_long_costs_the_others_nothing
        a_process_that_stands_still_keeps_what_it_has_and_the_frontier_waits;
    moves:
        a_hanging_fetcher_does_not_delay_the_release_and_its_late_batch_is_dropped
        a_late_batch_is_dropped_when_its_split_has_come_back_to_the_same_reader
        a_revocation_that_crosses_the_end_of_a_split_comes_to_one_end
        a_failure_that_comes_after_the_release_ends_nothing
        a_revocation_that_crosses_the_disappearance_of_a_split_comes_to_one_end
        a_split_removed_and_added_again_while_its_release_is_in_flight_has_one_owner
        an_assignment_of_an_older_epoch_is_refused_with_its_position
        an_assignment_that_is_overtaken_by_a_removal_emits_nothing
        a_pause_and_a_move_in_one_tick_end_in_a_pause_in_both_orders
        a_release_that_comes_twice_or_late_is_ignored_and_counted
        a_split_whose_batch_is_held_back_moves_with_what_was_emitted;
    plans:
        a_split_with_nearly_all_bytes_is_isolated_and_told_and_then_all_is_at_rest;
    restarts:
        what_was_assigned_right_before_a_crash_is_read_from_the_durable_binding
        a_start_that_is_in_the_log_is_not_asked_for_again
        a_split_between_owners_is_neither_missing_nor_twice_after_two_crashes
        a_restart_reads_nothing_before_it_knows_the_metadata_in_force
        a_restart_with_another_count_of_workers_balances_over_them
        what_went_while_it_was_down_is_kept_in_silence_and_what_came_starts_by_its_rule
        a_metadata_service_that_fails_again_and_again_changes_nothing
        a_metadata_service_that_has_never_answered_leaves_the_source_waiting
        a_metadata_service_that_fails_after_a_restart_leaves_in_force_what_was
        a_crash_in_the_middle_of_a_move_changes_nothing_that_is_emitted
        a_log_that_is_cut_off_anywhere_is_read_to_its_last_record
        a_log_that_does_not_hold_together_is_refused_with_words
        a_snapshot_that_does_not_hold_together_is_refused_with_words
        a_source_that_is_ended_in_the_middle_of_a_move_tells_all_once
        a_source_ends_while_a_split_moves_and_without_splits_and_goes_on_after_a_restart;
};

#[test]
fn every_case_fails_under_some_seeded_defect() {
    let mut blind = Vec::new();
    let mut report = String::new();
    for (name, case) in CASES {
        let fails = |seeded: &Defect| {
            defect::seed(Some(*seeded));
            let failed = quietly(case).is_err();
            defect::seed(None);
            failed
        };
        let under: Vec<_> = Defect::ALL.into_iter().filter(fails).collect();
        writeln!(report, "{name}: {under:?}").expect("a string takes it");
        if under.is_empty() {
            blind.push(name);
        }
    }
    println!("{report}");
    assert!(blind.is_empty(), "no seeded defect fails {blind:?}");
}
