"""The kit on every broken sink. Not collected by itself: `test_broken_sinks.py` runs it and wants it to fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.testing import weak_sinks
from tests.testing.directory_kit import DirectoryKit
from tpc.sink import Sink
from tpc.testing.broken import BROKEN, data, deaths, owners, sizes
from tpc.testing.broken.faults import CommitHangs
from tpc.testing.hooks import SinkHooks

SMALL = {
    "large_branch_rows": 2_000,
    "death_rows": 2_000,
    "piece_rows": (1_000,),
    "deaths": 1,
    "schemas": 3,
    "race_rounds": 5,
    "resource_rounds": 30,
    "many_branches": 20,
}
"""One death each, where deaths are not what the sink is about; and few rounds of all that is repeated."""


for _broken in BROKEN:
    # Only the sink that hangs must be waited for.
    _settings: dict[str, Any] = {
        "sink_class": _broken,
        **SMALL,
        **({"deadline_s": 1.0} if _broken is CommitHangs else {}),
        **({"schemas": 25} if _broken.__module__ == data.__name__ else {}),
        **({"deaths": 12} if _broken.__module__ == deaths.__name__ else {}),
        **({"race_rounds": 100} if _broken.__module__ == owners.__name__ else {}),
        **({"deaths": 12, "death_rows": 12_000, "many_branches": 300} if _broken.__module__ == sizes.__name__ else {}),
    }
    globals()[f"Test{_broken.__name__}"] = type(f"Test{_broken.__name__}", (DirectoryKit,), _settings)


class TestKeyedByCommit(DirectoryKit):
    sink_class = weak_sinks.KeyedByCommitSink
    keyed = "id"
    large_branch_rows = 2_000


class TestLimitWithoutReason(DirectoryKit):
    sink_class = weak_sinks.LimitWithoutReason
    large_branch_rows = 2_000


class TestLimitWithoutNeed(DirectoryKit):
    sink_class = weak_sinks.LimitWithoutNeed
    large_branch_rows = 2_000


class TestHooksWithoutReason(DirectoryKit):
    large_branch_rows = 2_000
    outage = SinkHooks.outage  # type: ignore[assignment]  # as if it had not been written
    bad_batch = SinkHooks.bad_batch
    secrets = SinkHooks.secrets  # type: ignore[assignment]  # as if it had not been written


class TestHooksDeclared(TestHooksWithoutReason):
    cannot_cut = "a reason for no outage"
    takes_every_row = "a reason for no bad row"
    has_no_secrets = "a reason for no secret"


class TestIdleHooks(DirectoryKit):
    large_branch_rows = 2_000

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        yield

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        yield

    def foreign_write(self, sink: Sink) -> None:
        """Nothing."""

    def power_cut(self, sink: Sink) -> str:
        return ""
