"""Sloppy sinks and kits are rejected too, so that every test of the kit rejects some sink."""

from __future__ import annotations

import re

import pytest

from tests.testing import (
    broken_kits,
    test_broken_commits,
    test_broken_data,
    test_broken_deaths,
    test_broken_handles,
    test_broken_markers,
    test_broken_owners,
    test_broken_prepares,
    test_broken_sizes,
)
from tests.testing.rejections import Reports, rejected_by, run_kits
from tests.testing.sloppy_sinks import SLOPPY
from tpc.testing import SinkConformance
from tpc.testing.broken import BROKEN
from tpc.testing.directory_sink import DirectorySink
from tpc.testing.effort import Effort

pytestmark = pytest.mark.slow

OTHERS = sorted(
    name for name in vars(broken_kits) if name.startswith("Test") and name[4:] not in {each.__name__ for each in BROKEN}
)
"""Kits whose hooks or limits are wrong."""


ON_A_SERVER = {name for name in dir(SinkConformance) if re.match(r"test_.*(reply|frozen)", name)}
"""`tests/docs/broken_valkey_sinks.py` has the sinks that these reject: a directory does not freeze or lose replies."""


@pytest.fixture(scope="module")
def reports() -> Reports:
    """The kits of others whole, and of every sloppy sink the tests that are there for it."""
    sloppy = [f"sloppy_kits.py::Test{each.__name__}::{test}" for each in SLOPPY for test in SLOPPY[each]]
    return {**run_kits([f"broken_kits.py::{name}" for name in OTHERS]), **run_kits(sloppy, Effort.THOROUGH)}


def test_every_broken_sink_is_tried_in_one_file() -> None:
    classes = (
        test_broken_prepares.TestBrokenPrepares,
        test_broken_commits.TestBrokenCommits,
        test_broken_markers.TestBrokenMarkers,
        test_broken_data.TestBrokenData,
        test_broken_deaths.TestBrokenByDeaths,
        test_broken_handles.TestBrokenHandles,
        test_broken_owners.TestBrokenOwners,
        test_broken_sizes.TestBrokenSizes,
    )
    tried = [broken.__name__ for each in classes for broken in each.sinks]
    assert sorted(tried) == sorted(broken.__name__ for broken in BROKEN)


@pytest.mark.parametrize("sloppy", SLOPPY, ids=lambda sloppy: sloppy.__name__)
def test_a_sloppy_sink_is_rejected_by_the_tests_that_are_there_for_it(
    reports: Reports, sloppy: type[DirectorySink]
) -> None:
    assert set(rejected_by(reports[sloppy.__name__])) == set(SLOPPY[sloppy])


def test_every_test_of_the_kit_rejects_some_sink(reports: Reports) -> None:
    # That the broken sinks are rejected by these is tested in their own files.
    rejecting = {test for each in BROKEN.values() for test in (each.test, *each.also)}
    rejecting |= {test for report in reports.values() for test in rejected_by(report)}
    assert {name for name in dir(SinkConformance) if name.startswith("test_")} - rejecting == ON_A_SERVER


def test_a_key_that_follows_the_last_commit_is_rejected(reports: Reports) -> None:
    assert set(rejected_by(reports["KeyedByCommit"])) == {"test_a_key_keeps_what_the_newest_epoch_made_of_it"}


def test_a_limit_without_a_reason_is_rejected(reports: Reports) -> None:
    assert "OWNER_NOT_FENCED" in rejected_by(reports["LimitWithoutReason"])["test_every_limit_has_a_reason"]


def test_a_limit_without_need_is_rejected(reports: Reports) -> None:
    rejected = rejected_by(reports["LimitWithoutNeed"])
    assert set(rejected) == {"test_branches_of_all_pipelines_are_listed_with_their_owners"}


def test_hooks_that_are_neither_written_nor_declared_fail_their_tests(reports: Reports) -> None:
    rejected = rejected_by(reports["HooksWithoutReason"])
    assert "cannot_cut" in rejected["test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it"]
    assert "takes_every_row" in rejected["test_a_refused_row_is_a_data_error_and_leaves_nothing"]
    assert "has_no_secrets" in rejected["test_no_secret_is_in_errors_or_logs"]
    assert "test_every_hook_is_provided_or_declared" in rejected


def test_declared_hooks_skip_their_tests_with_the_reason(reports: Reports) -> None:
    report = reports["HooksDeclared"]
    assert rejected_by(report) == {}
    reasons = {message for outcome, message in report.values() if outcome == "skipped"}
    for reason in ("cannot_cut: a reason for no outage", "takes_every_row: a reason for no bad row"):
        assert any(reason in told for told in reasons)
    assert any("has_no_secrets: a reason for no secret" in told for told in reasons)


def test_hooks_that_did_nothing_are_told_apart_from_a_wrong_sink(reports: Reports) -> None:
    rejected = rejected_by(reports["IdleHooks"])
    idle = {
        "outage": "test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it",
        "restore_backup": "test_a_branch_that_a_restored_backup_does_not_hold_is_not_lost",
        "foreign_write": "test_writes_of_others_hide_no_marker",
        "power_cut": "test_what_was_answered_survives_a_power_cut",
    }
    assert {hook: f"The hook `{hook}`" in rejected[test] for hook, test in idle.items()} == dict.fromkeys(idle, True)
