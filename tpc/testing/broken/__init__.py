"""Deliberately broken sinks: the reference with one defect each, and the tests of the kit that reject it.

They are the kit's own test: a kit that lets one of them pass is broken itself. Each is also a mistake that somebody has
made in a system of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.testing.broken import aborts, checks, commits, faults, listings, owners, prepares
from tpc.testing.directory_sink import DirectorySink


@dataclass(frozen=True)
class Rejection:
    """The test that is there to reject a sink, and the others that its defect cannot help failing."""

    test: str
    also: tuple[str, ...] = ()


COMMITS_AGAIN = (
    "test_another_process_commits",
    "test_coordinators_that_commit_at_one_moment_double_nothing",
    "test_a_decided_epoch_committed_again_after_a_later_one_doubles_nothing",
    "test_the_leftover_of_a_lost_attempt_is_aborted_without_the_winner",
    "test_a_released_epoch_committed_again_doubles_nothing",
    "test_a_commit_sent_again_after_an_outage_doubles_nothing",
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
            "test_check_may_be_repeated",
        ),
    ),
    prepares.PreparedInMemory: Rejection(
        "test_a_prepared_branch_survives_the_death_of_its_writer",
        (
            "test_a_prepared_branch_of_a_dead_writer_is_listed_and_can_be_aborted",
            "test_another_process_commits",
            "test_another_process_aborts",
            "test_in_doubt_is_the_same_in_another_process",
        ),
    ),
    prepares.NeedsTheWritersMemory: Rejection(
        "test_another_process_commits", ("test_a_prepared_branch_survives_the_death_of_its_writer",)
    ),
    prepares.SecretInCommittable: Rejection("test_no_secret_is_in_what_is_stored_or_answered"),
    prepares.EmptyBranchPrepared: Rejection("test_a_branch_without_rows_prepares_nothing"),
    commits.DoublesRows: Rejection("test_a_second_commit_doubles_nothing", (*COMMITS_AGAIN,)),
    commits.AbsenceIsCommitted: Rejection(
        "test_a_branch_that_was_aborted_is_never_said_to_be_committed",
        (
            "test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is",
            "test_a_lost_branch_is_lost_or_declared_unknown",
            "test_outcomes_come_in_the_order_given",
        ),
    ),
    commits.AbsenceIsLost: Rejection(
        "test_a_second_commit_doubles_nothing",
        (
            *COMMITS_AGAIN,
            "test_a_commit_takes_a_branch_out_of_doubt",
            "test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again",
        ),
    ),
    commits.OutcomesByEpoch: Rejection("test_outcomes_come_in_the_order_given"),
    commits.AppearsPiecemeal: Rejection("test_readers_see_a_branch_whole_or_not_at_all"),
    commits.MarkerGoesBack: Rejection(
        "test_the_marker_does_not_go_back_when_an_old_epoch_is_committed_again",
        ("test_the_marker_is_of_the_highest_generation_in_the_newest_epoch",),
    ),
    aborts.AbortsByEpoch: Rejection(
        "test_the_leftover_of_a_lost_attempt_is_aborted_without_the_winner",
        ("test_a_branch_that_lost_is_never_said_to_be_committed_though_its_epoch_is",),
    ),
    aborts.AbortRaisesWhenGone: Rejection(
        "test_an_abort_after_an_abort_does_nothing", ("test_an_abort_of_what_never_was_does_nothing",)
    ),
    listings.PrefixWithoutDelimiter: Rejection("test_a_pipeline_whose_name_looks_alike_is_another"),
    listings.ForgetsOldGenerations: Rejection(
        "test_in_doubt_lists_every_prepared_branch", ("test_a_branch_prepared_after_a_sweep_is_in_doubt",)
    ),
    listings.MarkerOfAnyIncarnation: Rejection("test_incarnations_1_and_11_are_different"),
    owners.OwnerOverwritten: Rejection(
        "test_an_owner_is_not_replaced_by_whoever_does_not_know_it",
        (
            "test_an_owner_that_is_not_there_is_not_replaced",
            "test_of_two_coordinators_that_saw_the_same_owner_one_is_refused",
            "test_of_many_coordinators_at_one_moment_one_takes_ownership",
        ),
    ),
    owners.OwnerComparedThenSet: Rejection("test_of_many_coordinators_at_one_moment_one_takes_ownership"),
    checks.LooksThenMakes: Rejection("test_sinks_checked_at_one_moment_on_a_fresh_target_are_all_taken"),
    faults.CommitRaises: Rejection(
        "test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it", (*COMMITS_IN_AN_OUTAGE,)
    ),
    faults.CommitHangs: Rejection(
        "test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it", (*COMMITS_IN_AN_OUTAGE,)
    ),
    faults.OutageLooksEmpty: Rejection("test_a_question_in_an_outage_is_a_transient_error"),
    faults.UnpicklableError: Rejection("test_a_writer_in_an_outage_fails_and_leaves_nothing_beyond_a_sweep"),
}
