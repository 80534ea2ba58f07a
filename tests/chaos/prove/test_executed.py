"""Which statements must have run, so that a check says something about a mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.executed import is_executed, statements_of
from tpc.chaos.prove.mutant import Mutant

LOG = '''\
LIMIT = 7
TWICE = 2 * LIMIT
UNUSED = 3


def put(slot):
    """Says."""
    # a remark
    if slot > LIMIT:
        return TWICE
    try:
        slot += 1
    except ValueError:
        slot = 0
    call(
        slot,
        1,
    )
    match slot:
        case 1:
            slot = 2
    return slot


@cached
class Log:
    size: int = 3

    def put(self):
        return self.size

    def none(self):
        return put(1)
'''
OTHER = """\
from tpc.log import LIMIT


def look(log):
    if log.size:
        return 1
    return LIMIT
"""
UNRELATED = """\
LIMIT = 8


def look():
    return LIMIT
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    for name, text in ("tpc/log.py", LOG), ("sinks/other.py", OTHER), ("sinks/unrelated.py", UNRELATED):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Sources(tmp_path)


@pytest.mark.parametrize(
    ("mutant", "statements"),
    [
        (edited("put", "slot += 1", "slot += 2"), {"slot += 1"}),
        (edited("put", "if slot > LIMIT:\n    return TWICE", "if slot > 9:\n    return TWICE"), {"if slot > LIMIT:"}),
        (edited("put", "if slot > LIMIT:\n    return TWICE", "if slot > LIMIT:\n    return 0"), {"return TWICE"}),
        (edited("put", "if slot > LIMIT:\n    return TWICE", ""), {"if slot > LIMIT:", "return TWICE"}),
        (edited("put", "except ValueError:", "except KeyError:"), {"try:"}),
        (edited("put", "slot,", "0,"), {"call("}),
        (edited("put", "case 1:", "case 2:"), {"match slot:"}),
        (edited("put", "return slot", "slot += 1\nreturn slot"), {"return slot"}),
        (edited("Log.put", "def put(self):", "def put(self, x=1):"), {"return self.size"}),
        (edited("Log", "@cached", "@kept"), {"return self.size", "return put(1)"}),
        (edited("Log.size", "size: int = 3", "size: int = 4"), {"return self.size", "if log.size:"}),
        (edited("LIMIT", "LIMIT = 7", "LIMIT = 6"), {"if slot > LIMIT:", "return TWICE", "return LIMIT"}),
        (edited("UNUSED", "UNUSED = 3", "UNUSED = 4"), set()),
    ],
    ids=lambda value: None if isinstance(value, Mutant) else "",
)
def test_the_statements_that_are_changed_or_use_what_is(sources: Sources, mutant: Mutant, statements: set[str]) -> None:
    found = statements_of(mutant, sources)
    told = {sources.text(file).splitlines()[line - 1].strip() for file, lines in found.items() for line in lines}
    assert told == statements
    assert "sinks/unrelated.py" not in found


def test_a_remark_is_part_of_its_function(sources: Sources) -> None:
    found = statements_of(edited("put", "# a remark", "slot = 1"), sources)["tpc/log.py"]
    assert found == {7, 9, 10, 11, 12, 14, 15, 19, 21, 22}


def test_one_of_the_statements_is_enough() -> None:
    assert is_executed({"a": {1, 2}, "b": {3}}, {"b": [3]})
    assert not is_executed({"a": {1, 2}, "b": {3}}, {"a": [3], "c": [1]})
    assert not is_executed({}, {"a": [1]})
