"""Who watches a log reads a bounded part of it, however long it is, and learns the same as who reads all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tests.support.memory_pipeline import started
from tpc.coordinator.kernel.log import tail
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT, Journal
from tpc.coordinator.kernel.log.tail import Window
from tpc.errors import ConfigurationError, CorruptionError, LogGoneError, TransientError
from tpc.records import RecordKind

EPOCHS = 10


class CountedLog(MemoryLog):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.listings = 0

    def read(self, slot: int) -> bytes:
        self.reads += 1
        return super().read(slot)

    def slots(self) -> list[int]:
        self.listings += 1
        return super().slots()


def long_log(epochs: int, *, term_every: int) -> CountedLog:
    """A log of a test's own."""
    log = CountedLog()
    log.content = dict(long_content(epochs, term_every))
    return log


@cache
def long_content(epochs: int, term_every: int) -> Mapping[int, bytes]:
    """What is in it: many tests ask for the same thousands of records, which take longer than they do."""
    log, generation = MemoryLog(), 0
    journal = Journal(log)
    for epoch in range(epochs):
        if epoch % term_every == 0:
            generation += 1
            last = epoch - 1 if epoch else None
            journal.append(RecordKind.GENERATION, generation_body(generation, last_complete=last))
        journal.append(*intent(manifest(epoch, generation=generation)))
        journal.append(*complete(epoch, generation))
    return log.content


def opened(log: MemoryLog) -> Window:
    window = tail.newest(log, EPOCHS)
    assert window is not None
    return window


def told(window: Window) -> tuple[Any, ...]:
    history = window.history
    return (history.pipeline, history.generation, history.last_intent, history.last_complete, history.last_slot)


@pytest.mark.parametrize("term_every", [7, 5000])
def test_the_newest_records_tell_what_the_whole_log_tells(term_every: int) -> None:
    log = long_log(500, term_every=term_every)
    whole = Journal(log).open()
    window = opened(log)
    assert told(window) == (whole.pipeline, whole.generation, 499, 499, whole.last_slot)
    newest = sorted(window.history.manifests)[-EPOCHS:]
    assert newest == list(range(490, 500))
    assert all(window.history.manifests[epoch] == whole.manifests[epoch] for epoch in newest)


@pytest.mark.parametrize("term_every", [200, 5000])
def test_the_first_look_at_a_long_log_is_bounded(term_every: int) -> None:
    log = long_log(1500, term_every=term_every)
    opened(log)
    assert log.reads <= 600


@pytest.mark.slow
def test_every_other_look_reads_what_is_new_and_lists_nothing() -> None:
    log = long_log(1500, term_every=5000)
    window, journal = opened(log), Journal(log)
    journal.open()
    journal.append(*intent(manifest(1500)))
    journal.append(*complete(1500))
    log.reads = log.listings = 0
    window = tail.followed(log, window, EPOCHS)
    assert window.history.last_complete == 1500
    assert (log.listings, log.reads <= 6) == (0, True)


def test_a_window_that_follows_for_long_does_not_grow() -> None:
    log = long_log(50, term_every=5000)
    window, journal = opened(log), Journal(log)
    journal.open()
    for epoch in range(50, 1000):
        journal.append(*intent(manifest(epoch)))
        journal.append(*complete(epoch))
        window = tail.followed(log, window, EPOCHS)
    assert window.history.last_complete == 999
    assert len(window.records) <= 600


def test_an_epoch_is_found_by_halving_with_all_that_is_said_of_it() -> None:
    log = long_log(1500, term_every=200)
    window = opened(log)
    log.reads = 0
    about = tail.about_epoch(log, window, 321)
    assert about is not None
    assert [(r.kind.value, r.body.get("epoch")) for r in about.records] == [
        ("intent", 321),
        ("complete", 321),
        ("intent", 322),
        ("complete", 322),
    ]
    assert log.reads < 50


@pytest.mark.parametrize("epoch", [0, 199, 200, 1499])
def test_each_epoch_is_found_at_the_edges_of_terms_too(epoch: int) -> None:
    log = long_log(1500, term_every=200)
    about = tail.about_epoch(log, opened(log), epoch)
    assert about is not None
    assert epoch in about.history.manifests


def test_an_epoch_that_is_pruned_or_not_decided_is_not_found() -> None:
    log = long_log(500, term_every=100)
    window = opened(log)
    log.delete(range(1, 150))
    assert tail.about_epoch(log, window, 20) is None
    assert tail.about_epoch(log, window, 500) is None
    assert tail.about_epoch(log, window, 300) is not None


def test_a_page_of_older_epochs_ends_before_the_one_it_is_asked_for() -> None:
    log = long_log(300, term_every=100)
    page = tail.before_epoch(log, opened(log), 120, EPOCHS)
    assert page is not None
    assert [epoch for epoch in sorted(page.history.manifests) if epoch < 120][-EPOCHS:] == list(range(110, 120))


def test_a_pruned_log_is_followed_from_where_it_begins() -> None:
    pipeline = started(keep_epochs=5, renew_after_epochs=5)
    pipeline.run(*range(40))
    assert pipeline.log.slots()[0] > 1
    window = opened(pipeline.log)
    assert window.history.last_complete == 39


def test_a_log_that_was_emptied_or_replaced_is_not_followed() -> None:
    log = long_log(20, term_every=100)
    window = opened(log)
    with pytest.raises(LogGoneError):
        tail.followed(MemoryLog(), window, EPOCHS)
    other = long_log(25, term_every=10)
    with pytest.raises(LogGoneError):
        tail.followed(other, window, EPOCHS)


def test_damage_at_the_end_is_told_and_other_damage_is_an_error() -> None:
    log = long_log(20, term_every=100)
    last = log.slots()[-1]
    log.content[last] = b"torn"
    assert [damaged.slot for damaged in opened(log).history.damaged] == [last]
    log.content[last - 5] = b"torn"
    with pytest.raises(CorruptionError, match="the log is damaged"):
        opened(log)


# A log that is not whole, or goes while it is looked at -------------------------------------------------------------


def test_a_log_into_which_an_import_has_not_ended_is_not_shown() -> None:
    log = long_log(3, term_every=100)
    log.content[MARK_SLOT] = IMPORT_MARK
    with pytest.raises(ConfigurationError, match="half a log: an import into it has not ended"):
        opened(log)


def test_nothing_is_shown_of_a_log_that_holds_nothing() -> None:
    assert tail.newest(MemoryLog(), EPOCHS) is None


class Pruned(CountedLog):
    """Lists once more, so often as it is told to, what is pruned already."""

    stale = 0

    def slots(self) -> list[int]:
        listed = super().slots()
        if self.stale:
            self.stale -= 1
            return [*listed, listed[-1] + 1]
        return listed


@pytest.mark.parametrize(("stale", "is_shown"), [(2, True), (3, False)])
def test_a_slot_that_is_pruned_between_the_listing_and_the_look_is_looked_for_again(stale: int, is_shown: bool) -> None:
    log = Pruned()
    log.content = dict(long_content(3, 100))
    log.stale = stale
    if is_shown:
        assert opened(log).last_slot == 7
    else:
        with pytest.raises(TransientError, match="lacks slots that it lists or needs"):
            opened(log)


def test_a_window_in_which_damage_was_seen_is_read_anew_and_an_emptied_log_is_gone() -> None:
    log = long_log(3, term_every=100)
    log.content[7] = b"torn"
    window = opened(log)
    journal = Journal(log)
    history = journal.open()
    carried = history.carried([], keep_epochs=9)
    pending = None if history.pending is None else history.pending.to_json()
    body = generation_body(2, last_complete=history.last_complete, pending=pending, **carried)
    journal.append(RecordKind.GENERATION, body)
    followed = tail.followed(log, window, EPOCHS)
    assert (followed.last_slot, followed.damaged, followed.history.generation) == (8, (), 2)
    voided = tail.about_epoch(log, followed, 2)
    assert voided is not None
    assert [record.slot for record in voided.records] == [6, 8]  # slot 7 is damaged and voided
    log.content[9] = b"torn, too"
    log.slots = lambda: []  # type: ignore[method-assign]
    with pytest.raises(LogGoneError):
        tail.followed(log, followed, EPOCHS)


def test_a_look_back_ends_at_the_floor_and_passes_over_what_is_voided() -> None:
    log = MemoryLog()
    journal = Journal(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    for epoch in range(3):
        journal.append(*intent(manifest(epoch)))
        journal.append(*complete(epoch))
    journal.append(RecordKind.GENERATION, generation_body(2, last_complete=2, floor=8))
    log.content[3] = b"left over and damaged"  # below the floor
    assert [record.slot for record in opened(log).records] == [8]


def test_records_that_were_put_after_other_bytes_are_damage() -> None:
    log = long_log(4, term_every=100)
    other = MemoryLog()
    other.content = dict(long_content(4, 3))
    log.content[5] = other.content[5]
    with pytest.raises(CorruptionError, match=r"damaged at slot 5 .*: the record after it was put after other bytes"):
        opened(log)
