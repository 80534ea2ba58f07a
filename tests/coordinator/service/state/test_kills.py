"""A process is killed by SIGKILL at each step of an epoch, another one recovers, and the state is what it must be.

The kit kills inside a prepare and inside a commit, before each of their acts; here whole epochs are gone through.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc.chaos.faults import cut_disk
from tpc.coordinator.service.state import State, compaction, upkeep
from tpc.handles import Handle
from tpc.sink import Committable
from tpc.support.durable_files import put_if_absent

STEPS = ("begun", "cut", "prepared", "decided", "committed", "complete")
EPOCHS = 6
KILLED = (0, 3)
"""In the first epoch, which makes everything, and in a later one."""


def work(state: State, epoch: int) -> None:
    """Writes, changes in place, and takes away."""
    state[epoch] = [epoch]
    state["sum"] = state.get("sum", 0) + epoch
    if epoch - 1 in state:
        state[epoch - 1].append("changed in place")
    state.pop(epoch - 2, None)


def expected(end: int) -> dict[Any, Any]:
    """What a dict holds after so many epochs."""
    plain: dict[Any, Any] = {}
    for epoch in range(end):
        plain[epoch] = [epoch]
        plain["sum"] = plain.get("sum", 0) + epoch
        if epoch - 1 in plain:
            plain[epoch - 1].append("changed in place")
        plain.pop(epoch - 2, None)
    return plain


@pytest.fixture(autouse=True)
def compacted_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs together, so that it goes on while some of these are run."""
    monkeypatch.setattr(upkeep, "LEFT", compaction.Backlog(deltas=1, rows=100))


class Service:
    """A runtime in a few lines: its log is a file per decision, put if absent."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.directory = directory
        self.epochs = Epochs(directory, kind)
        self.term = len(list(directory.glob("term-*"))) + 1
        put_if_absent(directory / f"term-{self.term}", b"")

    def recover(self) -> int:
        """Finish what is decided, sweep what is not, read the state; the next epoch."""
        decided = sorted(self.directory.glob("intent-*"))
        named = [Committable.from_json(json.loads(path.read_text())) for path in decided]
        for branch in named[-1:]:
            [outcome] = self.epochs.commit(branch)
            assert outcome.settled, outcome
            self.epochs.complete(branch.handle.epoch)
        doubts = self.epochs.committer.in_doubt()
        assert not {doubt.resource for doubt in doubts} & {branch.resource for branch in named}
        self.epochs.committer.abort(doubts)
        self.epochs.state.restore()
        return len(decided)

    def run(self, first: int, kill: tuple[int, str] | None = None) -> None:
        """Epochs from `first` to the last."""

        def step(epoch: int, name: str) -> None:
            if (epoch, name) == kill:
                os.kill(os.getpid(), signal.SIGKILL)

        for epoch in range(first, EPOCHS):
            self.epochs.state.begin(epoch)
            work(self.epochs.state, epoch)
            step(epoch, "begun")
            self.epochs.state.changes()
            step(epoch, "cut")
            branch = self.prepare(epoch)
            step(epoch, "prepared")
            put_if_absent(self.directory / f"intent-{epoch}", json.dumps(branch.to_json()).encode())
            step(epoch, "decided")
            self.epochs.commit(branch)
            step(epoch, "committed")
            self.epochs.complete(epoch)
            step(epoch, "complete")

    def prepare(self, epoch: int) -> Committable:
        changes = self.epochs.state.changes()
        handle = Handle(PIPELINE, self.term, self.epochs.sink.name, epoch, -1, 0)
        writer = self.epochs.sink.writer(handle, changes.schema, self.epochs.committer.hint())
        writer.write(changes)
        branch = writer.prepare()
        assert branch is not None
        return branch


def killed(directory: Path, kind: Kind, epoch: int, step: str) -> None:
    """A process that is killed there."""
    child = os.fork()
    if child == 0:
        try:
            service = Service(directory, kind)
            service.run(service.recover(), (epoch, step))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_process_is_followed_by_one_whose_state_is_that_of_a_dict(
    tmp_path: Path, kind: Kind, step: str
) -> None:
    for epoch in KILLED:
        killed(tmp_path, kind, epoch, step)
    service = Service(tmp_path, kind)
    first = service.recover()
    assert first == max(KILLED) + (step in ("decided", "committed", "complete"))
    assert service.epochs.stored() == expected(first)
    service.run(first)
    assert service.epochs.stored() == expected(EPOCHS)
    assert service.epochs.committer.in_doubt() == []


@pytest.mark.parametrize("step", ["prepared", "committed"])
def test_what_was_prepared_or_committed_survives_a_power_cut(tmp_path: Path, step: str) -> None:
    if reason := cut_disk.why_not():
        pytest.skip(reason)
    with cut_disk.mounted(tmp_path / "disk") as disk:
        service = Service(disk.path, dict)
        service.epochs.run(0, lambda state: work(state, 0))
        service.epochs.state.begin(1)
        work(service.epochs.state, 1)
        branch = service.prepare(1)
        if step == "committed":
            assert service.epochs.commit(branch)[0].settled
        disk.cut()
        service.epochs.close()
        disk.revive()
        after = Service(disk.path, dict)
        in_doubt = [doubt.resource for doubt in after.epochs.committer.in_doubt()]
        assert in_doubt == ([] if step == "committed" else [branch.resource])
        assert after.epochs.commit(branch)[0].settled
        assert after.epochs.stored() == expected(2)
        after.epochs.close()
