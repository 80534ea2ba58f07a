from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tpc import failpoints

SEEN: list[tuple[str, dict[str, Any]]] = []


def note(step: str, where: Mapping[str, Any]) -> None:
    SEEN.append((step, dict(where)))


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    SEEN.clear()
    yield
    failpoints.install({})


def test_a_step_without_an_action_does_nothing() -> None:
    failpoints.hit("epoch.decided", epoch=3)
    failpoints.install({"epoch.prepared": note})
    failpoints.hit("epoch.decided", epoch=3)
    assert SEEN == []


def test_an_action_is_told_the_step_and_where_it_is() -> None:
    failpoints.install({"sink.commit": note})
    failpoints.hit("sink.commit", sink="a", epoch=3)
    assert SEEN == [("sink.commit", {"sink": "a", "epoch": 3})]


def test_what_an_action_raises_reaches_whoever_hits_the_step() -> None:
    def die(step: str, where: Mapping[str, Any]) -> None:
        raise ZeroDivisionError

    failpoints.install({"epoch.decided": die})
    with pytest.raises(ZeroDivisionError):
        failpoints.hit("epoch.decided", epoch=3)


def test_installing_replaces_the_whole_table() -> None:
    failpoints.install({"epoch.decided": note})
    failpoints.install({"epoch.prepared": note})
    assert set(failpoints.installed()) == {"epoch.prepared"}


def test_a_step_that_does_not_exist_is_refused_and_the_table_stays() -> None:
    failpoints.install({"epoch.decided": note})
    with pytest.raises(KeyError, match=r"epoch\.decide"):
        failpoints.install({"epoch.decide": note})
    assert set(failpoints.installed()) == {"epoch.decided"}


def test_the_table_is_carried_to_another_process_by_value() -> None:
    failpoints.install({"pass.write": note})
    carried = pickle.loads(pickle.dumps(failpoints.installed()))
    failpoints.install({})
    assert carried == {"pass.write": note}


def test_the_table_that_is_carried_is_a_copy() -> None:
    failpoints.install({"pass.write": note})
    failpoints.installed().clear()
    assert set(failpoints.installed()) == {"pass.write"}
