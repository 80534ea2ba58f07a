from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tpc import failpoints
from tpc.handles import Handle, PipelineId

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


def test_a_step_of_a_branch_is_told_its_epoch_sink_and_partition() -> None:
    failpoints.install({"pass.open": note})
    failpoints.hit_branch("pass.open", Handle(PipelineId("p"), 2, "a", 3, 1, 7))
    assert SEEN == [("pass.open", {"epoch": 3, "sink": "a", "partition": 1})]


def test_the_code_comes_to_exactly_the_steps_that_are_listed() -> None:
    """A step without a `hit` would be a fault that never fires; a `hit` without a step one that nobody can place."""
    code = Path(failpoints.__file__).parent
    files = [path for folder in ("coordinator", "sinks") for path in (code / folder).rglob("*.py")]
    assert set().union(*map(steps_in, files)) == set(failpoints.STEPS)


def steps_in(path: Path) -> set[str]:
    """The first arguments of all calls of `failpoints.hit` and `failpoints.hit_branch` in a file."""
    return {
        str(call.args[0].value)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("hit", "hit_branch")
        and isinstance(call.args[0], ast.Constant)
    }


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
