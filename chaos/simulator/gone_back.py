"""A system as it stands after a backup was restored or a replica promoted, for as long as a wrong start is tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tpc.chaos.simulator.systems import System
from tpc.history import History


@contextmanager
def moved(system: System, epochs: int) -> Iterator[None]:
    """It shows another epoch as its newest: its own is put back, or the log's."""
    markers = system.markers
    shown = {marker: replace(handle, epoch=handle.epoch + epochs) for marker, handle in markers.items()}
    system.markers = {marker: handle for marker, handle in shown.items() if handle.epoch >= 0}
    try:
        yield
    finally:
        system.markers = markers


@contextmanager
def commit_lost(system: System, history: History) -> Iterator[None]:
    """One branch of its newest complete epoch is prepared again, and it shows that epoch still.

    It had lost the epoch's commits, and an operator has made all but one of them by hand.
    """
    before = system.visible, system.prepared
    system.visible, system.prepared = dict(system.visible), dict(system.prepared)
    epoch = history.last_epoch_of(system.name)
    manifest = None if epoch is None else history.manifests.get(epoch)
    branches = () if manifest is None else [str(c.handle) for c in manifest.committables(system.name)]
    for lost in sorted(system.visible.keys() & set(branches))[:1]:
        handle, rows = system.visible.pop(lost)
        system.prepared[lost] = (handle, rows, system.world.now_s)
    try:
        yield
    finally:
        system.visible, system.prepared = before
