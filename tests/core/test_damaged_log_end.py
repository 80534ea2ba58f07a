"""The damaged end of a log: what stops a start, and what proves that the damaged record may be voided."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from tests.core.builders import begun, branch, complete, intent, manifest
from tpc.damaged_log_end import check_damage, check_void_is_proven
from tpc.errors import HistoryMismatchError
from tpc.history import DamagedSlot, History
from tpc.sink import Marker, Owner

PENDING = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
FINISHED = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))
NO_OWNERS: dict[str, Owner | None] = {"a": None, "b": None}
OWNED: dict[str, Owner | None] = {"a": Owner(1, "n1", 0.0), "b": Owner(1, "n1", 0.0)}


def sinks(**newest: int | None) -> dict[str, Marker | None]:
    """What sinks say that report these epochs as their newest."""
    return {name: None if epoch is None else shown(name, epoch) for name, epoch in newest.items()}


def shown(sink: str, epoch: int, *, generation: int = 1) -> Marker:
    return Marker(epoch, branch(sink, epoch, generation=generation).committable.handle)


def damaged(history: History) -> History:
    return replace(history, damaged=(DamagedSlot(history.last_slot + 1, "d1", "no whole record"),))


def voids(
    history: History,
    markers: Mapping[str, Marker | None],
    owners: Mapping[str, Owner | None],
    fenced: Collection[str] = (),
) -> None:
    """What a start asks before it voids the damaged end."""
    check_damage(history, markers, owners, "/x/6")
    check_void_is_proven(history, markers, owners, fenced, "/x/6")


# What sinks show ---------------------------------------------------------------------------------------------------


def test_an_earlier_epoch_as_the_newest_of_every_sink_proves_that_the_record_may_be_voided() -> None:
    voids(damaged(FINISHED), sinks(a=1, b=1), NO_OWNERS)
    voids(damaged(PENDING), sinks(a=1, b=0), NO_OWNERS)


def test_damage_stops_the_start_when_a_sink_shows_an_epoch_it_may_have_decided() -> None:
    said = r"damaged \(/x/6: no whole record\), and the sink reports epoch 2"
    with pytest.raises(HistoryMismatchError, match=said) as caught:
        voids(damaged(FINISHED), sinks(a=2, b=1), NO_OWNERS)
    assert (caught.value.sink, caught.value.epoch) == ("a", 2)


def test_damage_stops_the_start_when_a_sink_shows_a_repair_it_may_have_decided() -> None:
    with pytest.raises(HistoryMismatchError, match="the sink reports epoch 1 as committed, which it may have decided"):
        voids(damaged(PENDING), {"a": shown("a", 1), "b": shown("b", 1, generation=2)}, NO_OWNERS)


def test_damage_stops_the_start_if_a_sink_has_a_generation_that_may_have_begun_there() -> None:
    owners = {"a": Owner(1, "n1", 0.0), "b": Owner(2, "n5", 0.0)}
    with pytest.raises(HistoryMismatchError, match="the sink was owned by generation 2, which it may have begun"):
        voids(damaged(FINISHED), sinks(a=1, b=1), owners)


def test_a_log_without_damage_asks_nothing_of_the_sinks() -> None:
    voids(FINISHED, sinks(a=9, b=None), NO_OWNERS)


# What they do not show ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("history", [PENDING, FINISHED], ids=["pending", "finished"])
def test_a_sink_that_shows_no_epoch_proves_it_by_the_owner_entry_of_the_last_generation(history: History) -> None:
    voids(damaged(history), sinks(a=0, b=None), OWNED)


@pytest.mark.parametrize("history", [PENDING, FINISHED], ids=["pending", "finished"])
def test_a_sink_that_shows_neither_an_epoch_nor_its_owner_stops_the_start_for_an_operator(history: History) -> None:
    with pytest.raises(HistoryMismatchError, match="nothing in the sink proves") as caught:
        voids(damaged(history), sinks(a=0, b=None), {**OWNED, "b": None})
    assert (caught.value.sink, caught.value.epoch) == ("b", history.last_intent + 1)  # type: ignore[operator]
    assert "tpc recover MODULE:PIPELINE --void-damaged-end --reason TEXT" in caught.value.remedy


def test_the_owner_entry_of_an_earlier_generation_is_a_proof_only_where_it_is_compared_and_set() -> None:
    """Elsewhere a late write of a fenced coordinator may be younger than a marker that is forgotten."""
    history = replace(damaged(PENDING), generation=2, owners={1: "n1", 2: "n2"})
    owners = {"a": Owner(2, "n2", 0.0), "b": Owner(1, "n1", 0.0)}
    with pytest.raises(HistoryMismatchError, match="and was not last fenced by generation 2"):
        voids(history, sinks(a=0, b=None), owners, fenced={"a"})
    voids(history, sinks(a=0, b=None), owners, fenced={"b"})
    with pytest.raises(HistoryMismatchError, match="nothing in the sink proves"):
        voids(history, sinks(a=None, b=None), {"a": None, "b": owners["b"]}, fenced={"b"})


def test_a_sink_that_the_last_generation_did_not_have_has_nothing_to_prove() -> None:
    voids(damaged(FINISHED), sinks(a=1, b=1, new=None), {**OWNED, "new": None})


def test_before_a_first_generation_nothing_can_have_been_decided() -> None:
    voids(damaged(History()), sinks(a=None, b=None), NO_OWNERS)
