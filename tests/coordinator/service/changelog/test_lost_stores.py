"""A state whose store is lost: refused without a changelog, and with one not made again over what others have done."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.coordinator.service.changelog.program import Counted
from tests.coordinator.service.program import Die, die
from tests.coordinator.service.test_states import Sums
from tests.support.kafka_topics import KafkaTopics
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.service.state import lost_stores
from tpc.errors import FencedError, StateLostError, TpcError


def test_a_lost_state_without_a_changelog_is_refused_and_nothing_is_put_in_its_place(tmp_path: Path) -> None:
    sums, state = Sums(tmp_path, numbers=100), tmp_path / "service" / "state"
    sums.run()
    state.rename(tmp_path / "kept")
    sums.values += range(100, 150)
    for _ in range(2):
        with pytest.raises(TpcError, match="by the log epoch 1 is the last that changed it") as refused:
            sums.run()
        assert isinstance(refused.value, StateLostError)
        assert f"put {state / 'sums.db'} back" in (refused.value.remedy or "")
        assert "tpc remove" not in str(refused.value)
        assert "The rows that sink sums had of the epochs named here are gone there, not safe" in refused.value.safe
    assert not state.exists()
    (tmp_path / "kept").rename(state)
    sums.run()
    assert sums.written() == sums.expected()


def test_a_state_that_is_lost_in_a_decided_epoch_is_refused(tmp_path: Path) -> None:
    sums, state = Sums(tmp_path, numbers=50), tmp_path / "service" / "state"
    with pytest.raises(Die):
        sums.run(actions={"epoch.decided": die})
    state.rename(tmp_path / "kept")
    with pytest.raises(StateLostError, match="by the log epoch 0 is the last that changed it"):
        sums.run()
    (tmp_path / "kept").rename(state)
    sums.run()
    assert sums.written() == sums.expected()


def test_a_store_that_holds_nothing_yet_may_be_made_anew(tmp_path: Path) -> None:
    sums = Sums(tmp_path, numbers=50)
    with pytest.raises(Die):
        sums.run(actions={"recovery.swept": die})
    shutil.rmtree(tmp_path / "service" / "state")
    sums.run()
    assert sums.written() == sums.expected()


@pytest.mark.stack
def test_who_stood_still_as_it_made_a_state_again_changes_nothing_of_what_another_has_done(
    kafka: KafkaTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(tmp_path, kafka.bootstrap, kafka.topic(cleanup_policy="compact"), numbers=100)
    counted.run()
    history = Journal(counted.log).open()
    counted.values += range(100, 200)
    counted.run()
    stored = counted.stored()
    [(_, logged)] = counted.service()._states.changelogs
    monkeypatch.setattr(lost_stores, "_is_lost", lambda *_: True)  # as it was when the one that stood still has looked
    with pytest.raises(FencedError, match=r"the store of state 'kept' has met generation 2"):
        lost_stores.rebuild_lost(history, logged)
    assert counted.stored() == stored
    counted.check()
