"""Which sinks a start asks for their targets, and how it refuses one that is gone."""

from __future__ import annotations

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.errors import ConfigurationError
from tpc.history import Action, History, Resolution
from tpc.missing_targets import check_not_missing, holds_epochs
from tpc.records import RecordKind

PENDING = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
FINISHED = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))


def test_a_target_was_made_once_epochs_are_decided_for_it() -> None:
    assert all(holds_epochs(history, "b") for history in (PENDING, FINISHED, begun(intent(manifest(0)))))
    decision = Resolution(0, "b", Action.ACCEPT_LOSS, "gone", "anna").to_json()
    given_up = begun(intent(manifest(0)), (RecordKind.RESOLUTION, decision))
    assert holds_epochs(given_up, "b")
    assert not holds_epochs(begun(), "b")
    assert not holds_epochs(History(), "b")


def test_a_target_that_is_gone_is_told_with_the_epoch_that_waits_for_it() -> None:
    check_not_missing(PENDING, {"a": None, "b": None})
    with pytest.raises(ConfigurationError, match=r"^/data/b is not there, but the log says") as refused:
        check_not_missing(PENDING, {"a": None, "b": "/data/b is not there"})
    assert (refused.value.sink, refused.value.epoch) == ("b", 1)
    assert "finish the epoch with the old ones first (`tpc recover`)" in refused.value.remedy
    with pytest.raises(ConfigurationError) as refused:
        check_not_missing(FINISHED, {"b": "/data/b is not there"})
    assert refused.value.epoch is None
    assert "tpc resolve" not in refused.value.remedy
