"""A state whose disk is full: the error says what to do, and with room the same epoch goes on."""

from __future__ import annotations

import pytest

from tests.coordinator.service.state.epochs import Epochs
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.coordinator.service.state import State
from tpc.errors import TransientError


@pytest.mark.parametrize("disk", ["1m"], indirect=True)  # a store needs more than the smallest one has
def test_a_full_disk_is_told_with_the_way_out_and_nothing_is_lost(disk: SmallDisk) -> None:
    epochs = Epochs(disk.path)
    disk.fill()

    with pytest.raises(TransientError, match="disk is full") as raised:
        epochs.run(0, fifty_keys)

    assert raised.value.remedy.startswith(f"free space on the disk of {epochs.sink.path}, then restart")
    epochs.state.abandon()
    disk.empty()
    epochs.run(0, fifty_keys)
    assert len(epochs.stored()) == 50


def fifty_keys(state: State) -> None:
    for number in range(50):
        state[number] = "x" * 20
