"""What keeps its promises passes the kit: the whole contract, less of it as declared, and a merge by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.directory_kit import DirectoryKit
from tests.testing.weak_sinks import REASON, ForgetsOldMarkers, KeyedSink, WeakSink
from tpc.sink import Limit
from tpc.testing import SinkConformance, guarantee
from tpc.testing.directory_sink import DirectorySink


class TestDirectorySink(DirectoryKit):
    slow_tests = ("test_a_large_branch_arrives_whole",)


@pytest.mark.slow
class TestWeakSink(DirectoryKit):
    sink_class = WeakSink
    large_branch_rows = 2_000


@pytest.mark.slow
class TestSinkThatForgets(DirectoryKit):
    sink_class = ForgetsOldMarkers
    large_branch_rows = 2_000


@pytest.mark.slow
class TestKeyedSink(DirectoryKit):
    sink_class = KeyedSink
    keyed = "id"
    large_branch_rows = 2_000
    one_act = "an epoch is one file"


def test_a_test_of_the_kit_cannot_be_replaced() -> None:
    skipped = pytest.mark.skip(SinkConformance.test_another_process_commits)
    with pytest.raises(TypeError, match=r"test_another_process_commits.*Sink\.limits"):
        type("TestMySink", (SinkConformance,), {"test_another_process_commits": skipped})


def test_the_guarantee_of_a_sink_without_limits_promises_everything(tmp_path: Path) -> None:
    text = guarantee(DirectorySink("a", tmp_path))
    assert "Readers see all rows of a branch or none." in text
    assert "A coordinator on a copied checkpoint is refused." in text


def test_the_guarantee_gives_the_reason_of_every_limit(tmp_path: Path) -> None:
    class Sketchy(WeakSink):
        limits = {limit: f"because of {limit.value}" for limit in Limit}  # noqa: RUF012  # a sink declares it so

    text = guarantee(Sketchy("a", tmp_path))
    assert [limit for limit in Limit if f"because of {limit.value}." not in text] == []
    assert "Readers see all rows of a branch or none." not in text
    assert REASON not in text
