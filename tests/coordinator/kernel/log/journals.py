"""Journals as the tests of this folder need them: opened, with complete epochs, and pruned by another term."""

from __future__ import annotations

from tests.core.builders import complete, generation_body, intent, manifest
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.records import RecordKind


def opened(log: Log) -> Journal:
    journal = Journal(log)
    journal.open()
    return journal


def filled(log: Log, epochs: int) -> Journal:
    """A journal of one generation with so many complete epochs."""
    journal = opened(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    for epoch in range(epochs):
        journal.append(*intent(manifest(epoch)))
        journal.append(*complete(epoch))
    return journal


def renewed(journal: Journal, generation: int, keep_epochs: int) -> None:
    """A generation record as the engine puts it, and the pruning after it."""
    history = journal.history
    carried = history.carried([], keep_epochs)
    journal.append(RecordKind.GENERATION, generation_body(generation, last_complete=history.last_complete, **carried))
    journal.prune()
