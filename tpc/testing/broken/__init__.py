"""Deliberately broken sinks: the reference with one defect each, and the tests of the kit that reject it.

They are the kit's own test: a kit that lets one of them pass is broken itself. Each is also a mistake that somebody has
made in a system of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.testing.broken import (
    aborts,
    checks,
    commits,
    data,
    deaths,
    disks,
    faults,
    handles,
    listings,
    markers,
    owners,
    prepares,
    processes,
    sizes,
    validators,
)
from tpc.testing.directory_sink import DirectorySink


@dataclass(frozen=True)
class Rejection:
    """The test that is there to reject a sink, and the others that its defect cannot help failing."""

    test: str
    also: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    """Others in which it depends on who comes first."""


COMMITS_AGAIN = (
    "test_another_process_commits",
    "test_epochs_follow_each_other_as_numbers",
    "test_what_is_released_is_older_as_a_number",
    "test_coordinators_that_commit_at_one_moment_double_nothing",
    "test_a_decided_epoch_committed_again_after_a_later_one_doubles_nothing",
    "test_the_leftover_of_a_lost_attempt_is_aborted_without_the_winner",
    "test_a_released_epoch_committed_again_doubles_nothing",
    "test_a_sink_whose_name_looks_alike_is_another",
    "test_what_is_released_is_of_one_sink_of_one_pipeline",
    "test_a_commit_sent_again_after_an_outage_doubles_nothing",
    "test_a_committer_sees_what_another_has_done",
    "test_an_abort_of_a_committed_branch_takes_nothing_away",
    "test_the_first_epoch_is_known_after_many_others",
    "test_writes_of_others_hide_no_marker",
    "test_what_was_answered_survives_a_power_cut",
    "test_a_commit_that_dies_at_any_act_is_finished_by_the_next",
)
EVERY_TYPE = "test_every_value_of_every_type_arrives_or_is_refused"
ANY_COLUMNS = "test_rows_of_any_columns_arrive_or_are_refused"
UNSYNCED = "test_what_a_process_writes_by_itself_is_synced_before_it_answers"
COMMIT_DIES = "test_a_commit_that_dies_at_any_act_is_finished_by_the_next"
LARGE_COMMIT_DIES = "test_a_commit_of_a_large_branch_that_dies_at_any_act_is_finished_by_the_next"
OVERTAKEN = "test_a_give_up_that_a_commit_overtakes_at_any_act_tells_the_truth"
AT_ONE_MOMENT = (
    OVERTAKEN,
    "test_a_commit_and_a_give_up_at_one_moment_agree",
    "test_coordinators_that_commit_at_one_moment_double_nothing",
)
COMMITS_IN_AN_OUTAGE = (
    "test_a_commit_by_a_coordinator_that_starts_in_an_outage_is_unknown",
    "test_a_commit_sent_again_after_an_outage_doubles_nothing",
)

BROKEN: Mapping[type[DirectorySink], Rejection] = {
    prepares.VisibleAtPrepare: Rejection(
        "test_a_prepared_branch_is_invisible",
        (
            "test_a_prepared_branch_survives_the_death_of_its_writer",
            "test_two_branches_of_an_epoch_commit_in_two_calls",
            "test_a_commit_leaves_the_branch_of_a_later_epoch_prepared",
            "test_an_abort_of_one_branch_leaves_the_other_prepared",
            "test_a_late_abort_takes_nothing_of_the_attempt_that_came_after",
            "test_check_may_be_repeated",
            "test_what_was_answered_survives_a_power_cut",
        ),
    ),
    prepares.PreparedInMemory: Rejection(
        "test_a_prepared_branch_survives_the_death_of_its_writer",
        (
            UNSYNCED,
            "test_a_prepared_branch_of_a_dead_writer_is_listed_and_can_be_aborted",
            "test_another_process_commits",
            "test_another_process_aborts",
            "test_in_doubt_is_the_same_in_another_process",
            "test_a_given_up_branch_that_is_prepared_is_undone",
            "test_a_branch_that_a_restored_backup_does_not_hold_is_not_lost",
            "test_a_committer_sees_what_another_has_done",
            "test_what_was_answered_survives_a_power_cut",
            "test_a_given_up_branch_that_is_prepared_is_undone",
            "test_a_late_commit_brings_nothing_back_that_was_given_up",
            OVERTAKEN,
            "test_instants_are_the_same_whatever_zone_the_writer_s_machine_is_in",
        ),
        perhaps=("test_a_commit_and_a_give_up_at_one_moment_agree",),
    ),
    prepares.PreparesWhatIsLeft: Rejection("test_a_branch_of_which_a_part_was_swept_is_committed_whole_or_not_at_all"),
    prepares.NeedsTheWritersMemory: Rejection(
        "test_another_process_commits",
        (
            UNSYNCED,
            "test_a_prepared_branch_survives_the_death_of_its_writer",
            "test_a_committer_sees_what_another_has_done",
            "test_a_commit_that_dies_at_any_act_is_finished_by_the_next",
            "test_instants_are_the_same_whatever_zone_the_writer_s_machine_is_in",
        ),
    ),
    prepares.SecretInCommittable: Rejection("test_no_secret_is_in_what_is_stored_or_answered"),
    prepares.EmptyBranchPrepared: Rejection("test_a_branch_without_rows_prepares_nothing", (ANY_COLUMNS,)),
    commits.DoublesRows: Rejection("test_a_second_commit_doubles_nothing", COMMITS_AGAIN, perhaps=(OVERTAKEN,)),
    commits.AbsenceIsCommitted: Rejection(
        "test_a_branch_that_was_aborted_is_never_said_to_be_committed",
        (
            "test_a_pipeline_whose_name_looks_alike_is_another",
            "test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is",
            "test_a_lost_branch_is_lost_or_declared_unknown",
            "test_a_lost_branch_beside_a_committed_one_is_lost_whenever_it_is_asked",
            "test_outcomes_come_in_the_order_given",
            "test_a_branch_that_a_restored_backup_does_not_hold_is_not_lost",
            OVERTAKEN,
            "test_a_late_commit_brings_nothing_back_that_was_given_up",
            "test_an_abort_of_a_branch_leaves_one_whose_numbers_look_alike",
        ),
    ),
    commits.AbsenceIsLost: Rejection(
        "test_a_second_commit_doubles_nothing",
        (
            *COMMITS_AGAIN,
            "test_a_commit_takes_a_branch_out_of_doubt",
            "test_committed_rows_that_a_consumer_removed_do_not_come_again",
            "test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again",
        ),
        perhaps=(OVERTAKEN,),
    ),
    markers.EpochZeroIsNone: Rejection(
        "test_the_marker_names_epoch_and_handle_of_the_newest_commit",
        (
            "test_a_released_epoch_committed_again_doubles_nothing",
            "test_names_that_only_look_like_ours_are_left_alone",
            "test_writes_of_others_hide_no_marker",
            "test_a_commit_that_dies_at_any_act_is_finished_by_the_next",
            "test_a_given_up_branch_that_is_committed_stays",
            "test_after_a_given_up_epoch_the_marker_stays_and_the_next_commits",
            "test_given_up_branches_get_each_an_answer_of_its_own",
            "test_the_last_look_sees_that_the_system_went_back",
            "test_the_last_look_tells_an_epoch_that_another_committer_has_committed",
            "test_the_last_look_tells_the_newest_epoch_with_branches_and_without",
            "test_what_is_told_to_be_complete_changes_nothing_that_is_there",
            "test_epochs_follow_each_other_as_numbers",
        ),
        perhaps=("test_a_commit_and_a_give_up_at_one_moment_agree",),
    ),
    markers.LostWithoutALook: Rejection(
        "test_a_branch_that_a_restored_backup_does_not_hold_is_not_lost",
        (
            "test_a_branch_whose_bookkeeping_is_gone_is_not_lost_beside_a_later_one",
            "test_a_first_epoch_whose_bookkeeping_is_gone_is_not_lost",
        ),
    ),
    markers.LostOnlyOnce: Rejection("test_a_lost_branch_beside_a_committed_one_is_lost_whenever_it_is_asked"),
    markers.LooksAtTheLastFew: Rejection(
        "test_the_first_epoch_is_known_after_many_others",
        ("test_epochs_follow_each_other_as_numbers",),
    ),
    markers.TidiesWhatIsComplete: Rejection(
        "test_what_is_told_to_be_complete_changes_nothing_that_is_there",
        ("test_what_is_released_is_of_one_sink_of_one_pipeline",),
    ),
    markers.RemembersWhatItSaw: Rejection(
        "test_a_committer_sees_what_another_has_done",
        (
            "test_the_last_look_sees_that_the_system_went_back",
            "test_the_last_look_tells_an_epoch_that_another_committer_has_committed",
        ),
    ),
    markers.ReleasesForEverybody: Rejection("test_what_is_released_is_of_one_sink_of_one_pipeline"),
    data.ColumnsByPosition: Rejection("test_columns_are_found_by_their_names"),
    data.NullIsEmpty: Rejection(
        "test_null_and_empty_text_are_two_things", ("test_a_row_of_nulls_arrives", EVERY_TYPE), perhaps=(ANY_COLUMNS,)
    ),
    data.DropsEqualRows: Rejection("test_equal_rows_are_all_there"),
    data.CollapsesNeighbours: Rejection("test_equal_rows_are_all_there"),
    data.CastsUnsafely: Rejection("test_a_value_that_does_not_fit_is_refused_or_arrives", (ANY_COLUMNS,)),
    data.NumbersAsTexts: Rejection(
        "test_every_digit_of_a_number_arrives_or_is_refused", (EVERY_TYPE,), perhaps=(ANY_COLUMNS,)
    ),
    data.RoundsInstants: Rejection(
        EVERY_TYPE,
        ("test_instants_are_the_same_whatever_zone_the_writer_s_machine_is_in",),
        perhaps=(ANY_COLUMNS,),
    ),
    data.InstantsByTheMachinesZone: Rejection("test_instants_are_the_same_whatever_zone_the_writer_s_machine_is_in"),
    data.ReversesRows: Rejection("test_rows_of_a_branch_come_in_the_order_in_which_they_were_written"),
    data.LowersNames: Rejection(ANY_COLUMNS),
    data.SlicesFromTheStart: Rejection("test_a_slice_of_a_batch_is_only_its_rows"),
    validators.RefusesWhatIsTaken: Rejection(
        "test_a_validator_takes_what_the_writer_takes_and_leaves_nothing", perhaps=(ANY_COLUMNS, EVERY_TYPE)
    ),
    validators.ValidatesByWriting: Rejection(
        "test_a_validator_takes_what_the_writer_takes_and_leaves_nothing",
        ("test_a_row_that_a_validator_has_refused_changes_nothing_for_others",),
        perhaps=(ANY_COLUMNS, EVERY_TYPE),
    ),
    validators.RemembersRefusals: Rejection("test_a_row_that_a_validator_has_refused_changes_nothing_for_others"),
    disks.PreparesWithoutSync: Rejection("test_what_was_answered_survives_a_power_cut", (UNSYNCED,)),
    disks.CommitsWithoutSync: Rejection("test_what_was_answered_survives_a_power_cut", (UNSYNCED,)),
    deaths.MarkerAfterRows: Rejection(COMMIT_DIES, (LARGE_COMMIT_DIES,), perhaps=AT_ONE_MOMENT),
    deaths.MarkerBeforeRows: Rejection(COMMIT_DIES, (LARGE_COMMIT_DIES,), perhaps=AT_ONE_MOMENT),
    deaths.MovesThenMarks: Rejection(COMMIT_DIES, (LARGE_COMMIT_DIES,), perhaps=AT_ONE_MOMENT),
    deaths.MarksThenMoves: Rejection(COMMIT_DIES, (LARGE_COMMIT_DIES,), perhaps=AT_ONE_MOMENT),
    deaths.LooksThenShows: Rejection(
        "test_coordinators_that_commit_at_one_moment_double_nothing",
        perhaps=(OVERTAKEN, "test_a_commit_and_a_give_up_at_one_moment_agree"),
    ),
    deaths.AbortsOutOfSight: Rejection("test_an_abort_that_dies_at_any_act_is_finished_by_the_next"),
    deaths.PreparesOutOfSight: Rejection("test_a_task_that_dies_at_any_act_leaves_nothing_beyond_a_sweep"),
    deaths.LooksThenUndoes: Rejection(
        OVERTAKEN,
        perhaps=("test_a_commit_and_a_give_up_at_one_moment_agree",),
    ),
    commits.OutcomesByEpoch: Rejection("test_outcomes_come_in_the_order_given"),
    commits.AppearsPiecemeal: Rejection("test_a_branch_of_any_size_is_visible_whole_or_not_at_all"),
    commits.MarkerGoesBack: Rejection(
        "test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again",
        (
            "test_what_is_released_is_of_one_sink_of_one_pipeline",
            "test_the_marker_is_of_the_highest_generation_in_the_newest_epoch",
            "test_epochs_follow_each_other_as_numbers",
        ),
    ),
    commits.LastLookFromMemory: Rejection(
        "test_the_last_look_tells_an_epoch_that_another_committer_has_committed",
        ("test_the_last_look_sees_that_the_system_went_back",),
    ),
    aborts.AbortsByEpoch: Rejection(
        "test_the_leftover_of_a_lost_attempt_is_aborted_without_the_winner",
        (
            "test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is",
            "test_given_up_branches_get_each_an_answer_of_its_own",
            "test_an_abort_of_a_committed_branch_takes_nothing_away",
            "test_given_up_branches_get_each_an_answer_of_its_own",
        ),
    ),
    aborts.AbortsPublished: Rejection("test_an_abort_of_a_committed_branch_takes_nothing_away"),
    aborts.AbortRaisesWhenGone: Rejection(
        "test_an_abort_after_an_abort_does_nothing",
        (
            "test_a_late_abort_takes_nothing_of_the_attempt_that_came_after",
            "test_an_abort_of_what_never_was_does_nothing",
            "test_an_abort_that_dies_at_any_act_is_finished_by_the_next",
        ),
    ),
    aborts.AbortsBySlot: Rejection("test_a_late_abort_takes_nothing_of_the_attempt_that_came_after"),
    listings.PrefixWithoutDelimiter: Rejection("test_a_pipeline_whose_name_looks_alike_is_another"),
    listings.TargetIsAPattern: Rejection("test_a_target_of_any_name_is_written_to_or_refused"),
    listings.TakesStrangeNames: Rejection("test_names_that_only_look_like_ours_are_left_alone"),
    listings.StumblesOverStrangeNames: Rejection("test_names_that_only_look_like_ours_are_left_alone"),
    listings.ForgetsOldGenerations: Rejection(
        "test_in_doubt_lists_every_prepared_branch",
        (
            "test_a_branch_prepared_after_a_sweep_is_in_doubt",
            "test_an_abort_of_a_branch_leaves_one_whose_numbers_look_alike",
        ),
    ),
    listings.SweepsUnmarked: Rejection("test_a_sweep_without_the_bookkeeping_takes_nothing_committed"),
    listings.MarkerOfAnyIncarnation: Rejection(
        "test_incarnations_1_and_11_are_different", ("test_what_is_released_is_of_one_sink_of_one_pipeline",)
    ),
    owners.OwnerOverwritten: Rejection(
        "test_an_owner_is_not_replaced_by_whoever_does_not_know_it",
        (
            "test_an_owner_that_is_not_there_is_not_replaced",
            "test_of_two_coordinators_that_saw_the_same_owner_one_is_refused",
            "test_a_committer_that_was_the_owner_sees_its_successor",
            "test_of_many_coordinators_at_one_moment_one_takes_ownership",
            "test_an_owner_that_differs_in_one_field_is_not_replaced",
            "test_an_older_generation_with_a_later_clock_replaces_nothing",
        ),
    ),
    owners.OwnerRemembered: Rejection("test_a_committer_that_was_the_owner_sees_its_successor"),
    owners.OwnerComparedThenSet: Rejection("test_of_many_coordinators_at_one_moment_one_takes_ownership"),
    owners.OwnerByGeneration: Rejection("test_an_owner_that_differs_in_one_field_is_not_replaced"),
    owners.OwnerByNonce: Rejection("test_an_owner_that_differs_in_one_field_is_not_replaced"),
    owners.OwnerByClock: Rejection("test_an_older_generation_with_a_later_clock_replaces_nothing"),
    handles.EpochsAsTexts: Rejection(
        "test_epochs_follow_each_other_as_numbers", ("test_what_is_released_is_older_as_a_number",)
    ),
    handles.EpochsOf32Bits: Rejection("test_epochs_follow_each_other_as_numbers"),
    handles.AbortsByPrefix: Rejection("test_an_abort_of_a_branch_leaves_one_whose_numbers_look_alike"),
    handles.FoldsNames: Rejection("test_a_pipeline_whose_name_looks_alike_is_another"),
    handles.FoldsSinks: Rejection("test_a_sink_whose_name_looks_alike_is_another"),
    handles.FoldsHandles: Rejection(
        "test_a_sink_whose_name_looks_alike_is_another", ("test_a_pipeline_whose_name_looks_alike_is_another",)
    ),
    handles.CutsNames: Rejection("test_a_pipeline_whose_name_looks_alike_is_another"),
    handles.CutsOwners: Rejection("test_each_pipeline_and_incarnation_has_an_owner_of_its_own"),
    handles.MarkerSinceLater: Rejection("test_a_marker_of_the_generation_that_the_log_begins_with_is_shown"),
    sizes.MovesInPieces: Rejection(
        LARGE_COMMIT_DIES,
        perhaps=("test_rows_of_a_branch_come_in_the_order_in_which_they_were_written",),
    ),
    sizes.KeepsTheLastMarkers: Rejection("test_every_branch_of_a_wide_epoch_is_known_when_it_is_committed_again"),
    sizes.ListsTheFirstPage: Rejection("test_in_doubt_is_complete_among_many_branches"),
    sizes.LooksAtTheFirstNames: Rejection("test_in_doubt_is_complete_in_a_crowd"),
    processes.FirstSystemForAll: Rejection("test_two_systems_in_one_process_are_two"),
    processes.OneTargetForAll: Rejection("test_two_targets_in_one_process_are_two"),
    processes.LeavesFilesOpen: Rejection(
        "test_branches_that_were_aborted_hold_nothing", ("test_branches_that_failed_hold_nothing",)
    ),
    processes.LeavesThreads: Rejection("test_committers_that_were_closed_hold_nothing"),
    processes.IdentityOfTheStart: Rejection(
        "test_identity_is_the_same_after_an_outage",
        ("test_identity_is_the_same_after_a_power_cut", "test_two_systems_in_one_process_are_two"),
    ),
    processes.IdentityNotSynced: Rejection("test_identity_is_the_same_after_a_power_cut"),
    checks.LooksThenMakes: Rejection("test_sinks_checked_at_one_moment_on_a_fresh_target_are_all_taken"),
    checks.RenewsWhatIsStaged: Rejection("test_a_check_of_other_columns_leaves_what_is_prepared"),
    checks.TakesUniqueKeys: Rejection("test_a_key_that_comes_twice_is_refused_before_the_decision"),
    faults.CommitRaises: Rejection(
        "test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it", (*COMMITS_IN_AN_OUTAGE,)
    ),
    faults.CommitHangs: Rejection(
        "test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it", (*COMMITS_IN_AN_OUTAGE,)
    ),
    faults.OutageLooksEmpty: Rejection("test_a_question_in_an_outage_is_a_transient_error"),
    faults.UnpicklableError: Rejection("test_a_writer_in_an_outage_fails_and_leaves_nothing_beyond_a_sweep"),
}
