"""The groups of markers that stay on a cluster: as many as an epoch needs, however many epochs there were."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

import pytest

from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable
from tpc.sinks.kafka.cluster.transactional_ids import ReleasedIds, TransactionalId, is_released
from tpc.sinks.kafka.driver.committer import PRUNED_AT_MOST, WAITING_AT_MOST, Pruning

JOB = PipelineId("job")
GENERATION = 2


class Groups:
    """Plays the cluster: which groups of markers there are, and how many were deleted at once."""

    def __init__(self, older: int = 0) -> None:
        self.older = [str(TransactionalId(JOB, GENERATION - 1, "out", "gone", slot)) for slot in range(older)]
        self.there = set(self.older)
        self.deleted: list[int] = []
        self.are_away = False

    def of_older_generations(self, _: int) -> list[str]:
        return [name for name in self.older if name in self.there]

    def delete(self, groups: Sequence[str]) -> int:
        if self.are_away:
            raise TransientError("Kafka did not answer (DeleteGroups)")
        self.deleted.append(len(groups))
        self.there -= set(groups)
        return len(groups)


class Epochs:
    """One worker that writes epoch after epoch, and the driver that completes them."""

    def __init__(self, groups: Groups, ids: ReleasedIds) -> None:
        self._groups = groups
        self._ids = ids
        self._pruning = Pruning(groups, ids)  # type: ignore[arg-type]  # played
        self._numbers = itertools.count(1)
        self._slots = itertools.count()
        self._serving: OrderedDict[TransactionalId, int] = OrderedDict()

    def run(self, branches: int) -> set[str]:
        """One epoch with so many winners, under released ids where there are any; the names of their groups."""
        hint = self._ids.hint()
        released = [name for name, epoch in self._serving.items() if is_released(hint, name, epoch)]
        fresh = (TransactionalId(JOB, GENERATION, "out", "worker", slot) for slot in self._slots)
        return self.complete(islice(itertools.chain(released, fresh), branches))

    def complete(self, names: Iterable[TransactionalId], never_again: Iterable[TransactionalId] = ()) -> set[str]:
        """One epoch that these have won, some under ids that are not to be used again."""
        epoch = next(self._numbers)
        winners = [
            Committable(Handle(JOB, GENERATION, "out", epoch, partition, 1), str(name), 1, 1, {})
            for partition, name in enumerate(names)
        ]
        self._serving.update((TransactionalId.parse(winner.resource), epoch) for winner in winners)
        newest = {winner.resource for winner in winners}
        self._groups.there |= newest
        self._pruning.released(winners, {str(name) for name in never_again})
        return newest


@pytest.mark.parametrize("branches", [3, 300, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_groups_of_markers_do_not_become_more_with_the_epochs(branches: int) -> None:
    groups = Groups()
    epochs = Epochs(groups, ReleasedIds())

    most = 0
    for _ in range(30):
        epochs.run(branches)
        most = max(most, len(groups.there))

    assert most <= 2 * branches


def test_the_work_of_an_epoch_is_bounded_by_its_winners() -> None:
    groups = Groups(older=5000)
    epochs = Epochs(groups, ReleasedIds())

    for _ in range(20):
        epochs.run(400)

    assert max(groups.deleted) <= 400 + PRUNED_AT_MOST


def test_markers_of_older_generations_are_deleted_also_with_more_branches_than_the_hint_holds() -> None:
    groups = Groups(older=1000)
    epochs = Epochs(groups, ReleasedIds())

    for _ in range(1000 // PRUNED_AT_MOST + 1):
        epochs.run(400)

    assert groups.of_older_generations(GENERATION) == []


def test_an_epoch_keeps_the_markers_of_all_its_winners() -> None:
    groups = Groups()
    epochs = Epochs(groups, ReleasedIds())

    for _ in range(5):
        assert epochs.run(300) <= groups.there


def test_the_marker_of_an_id_that_wins_again_while_it_waits_to_be_deleted_stays() -> None:
    """A worker may have taken an id back in the very epoch whose winners push it out of the hint."""
    groups = Groups(older=10 * PRUNED_AT_MOST)
    epochs = Epochs(groups, ReleasedIds(limit=1))
    names = [TransactionalId(JOB, GENERATION, "out", "worker", slot) for slot in range(2)]

    for epoch in range(40):
        winner = names[epoch % 2]
        assert epochs.complete([winner]) <= groups.there


def test_the_marker_of_an_id_that_is_not_to_be_used_again_stays_like_those_of_other_winners() -> None:
    """A worker had taken it back before it fell out of the hint, and its group waits to be deleted."""
    groups = Groups(older=2 * (PRUNED_AT_MOST + 1))
    epochs = Epochs(groups, ReleasedIds(limit=1))
    first, second = (TransactionalId(JOB, GENERATION, "out", "worker", slot) for slot in range(2))

    epochs.complete([first])
    epochs.complete([second])

    assert epochs.complete([first], never_again=[first]) <= groups.there


def test_no_hint_names_an_id_that_is_not_to_be_used_again() -> None:
    ids = ReleasedIds()
    epochs = Epochs(Groups(), ids)
    first, second = (TransactionalId(JOB, GENERATION, "out", "worker", slot) for slot in range(2))

    epochs.complete([first, second])
    epochs.complete([first, second], never_again=[first])

    assert ids.hint() == {"worker": {"1": 2}}


def test_groups_whose_coordinator_is_away_are_deleted_when_it_is_back() -> None:
    groups = Groups(older=PRUNED_AT_MOST)
    epochs = Epochs(groups, ReleasedIds())

    groups.are_away = True
    with pytest.raises(TransientError):
        epochs.run(1)
    groups.are_away = False
    epochs.run(1)

    assert groups.of_older_generations(GENERATION) == []


def test_groups_whose_coordinator_is_away_do_not_hold_up_the_others() -> None:
    groups = Groups(older=3 * PRUNED_AT_MOST)
    epochs = Epochs(groups, ReleasedIds())

    groups.are_away = True
    with pytest.raises(TransientError):
        epochs.run(1)
    first = set(groups.older[:PRUNED_AT_MOST])
    groups.are_away = False
    epochs.run(1)

    assert first <= groups.there


def test_of_groups_that_can_never_be_deleted_a_bounded_number_waits() -> None:
    groups = Groups(older=2 * WAITING_AT_MOST)
    epochs = Epochs(groups, ReleasedIds())

    groups.are_away = True
    with pytest.raises(TransientError):
        epochs.run(1)
    groups.are_away = False
    for _ in range(90):  # before the next listing
        epochs.run(WAITING_AT_MOST // 80)

    assert len(groups.of_older_generations(GENERATION)) >= WAITING_AT_MOST - 1
