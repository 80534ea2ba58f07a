"""What the cut of an epoch is read as, and which logs are refused instead of being guessed at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.service.epoch_input import (
    FORMAT,
    SourceCut,
    cuts_of,
    epoch_input_of,
    last_cuts,
    times_to_live_of,
    watermark_of,
)
from tpc.errors import HistoryMismatchError
from tpc.json import canonical, parse
from tpc.manifest import Manifest
from tpc.time_to_live import TimeToLive
from tpc.watermark import NO_EPOCH_TIME

CUTS = [SourceCut("orders", "1", "5"), SourceCut("old", "7", "7", is_retired=True)]
TIMES = {"seen": TimeToLive(5_000, None)}


def decided(epoch: int = 3) -> Manifest:
    made = epoch_input_of(CUTS, NO_EPOCH_TIME, stateful=True, lives=TIMES)
    return replace(manifest(epoch), epoch_input=made)


def test_a_cut_is_read_as_it_was_noted() -> None:
    made = decided()
    assert cuts_of(made) == CUTS
    assert times_to_live_of(made) == TIMES
    assert watermark_of(made) is None


def test_a_log_without_an_epoch_says_of_no_source_where_it_stands() -> None:
    assert last_cuts(begun()) == (None, [])


def test_a_log_whose_last_epoch_says_where_each_source_stands() -> None:
    made = decided(0)
    assert last_cuts(begun(intent(made), complete(0))) == (made, CUTS)


def test_a_log_that_no_longer_holds_its_last_epoch_is_refused() -> None:
    history = begun(intent(decided(0)), complete(0))
    assert isinstance(history.manifests, dict)
    history.manifests.clear()
    with pytest.raises(HistoryMismatchError, match="no longer holds epoch 0, its last one"):
        last_cuts(history)


def test_the_log_of_a_query_is_refused_with_its_epoch() -> None:
    made = decided()
    of_a_query = replace(made, epoch_input=replace(made.epoch_input, offsets_file="v1\n{}"))
    for read in (cuts_of, times_to_live_of, watermark_of):
        with pytest.raises(HistoryMismatchError, match="that of a query, not of a service") as caught:
            read(of_a_query)
        assert caught.value.epoch == 3


def test_a_cut_in_another_format_is_refused_with_both_formats() -> None:
    made = decided()
    told = canonical({**parse(made.epoch_input.offsets_file.encode()), "loop": FORMAT + 1}).decode()
    later = replace(made, epoch_input=replace(made.epoch_input, offsets_file=told))
    with pytest.raises(HistoryMismatchError, match=f"in format {FORMAT + 1}, and this is format {FORMAT}"):
        cuts_of(later)
