"""The kit of sources: it takes those that keep the contract, and rejects each broken one by the test meant for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.testing.broken_sources import BROKEN, Broken
from tests.testing.line_source import LineReader, LineSource, LineSystem
from tpc.source import Source
from tpc.sources import IterableSource, LinesSource
from tpc.testing import SourceConformance

PASSWORD = "s3cr3t-of-the-lines"


class LineKit(SourceConformance):
    timeout_s = 2.0
    secrets = (PASSWORD,)
    source_class: ClassVar[type[LineSource]] = LineSource
    reader_class: ClassVar[type[LineReader]] = LineReader

    @pytest.fixture(autouse=True)
    def system(self, tmp_path: Path) -> None:
        self.lines = LineSystem(tmp_path / "lines")

    def make_source(self) -> Source:
        return self.source_class(self.lines.directory, PASSWORD, self.reader_class)

    def feed(self, numbers: Sequence[int]) -> None:
        self.lines.feed(numbers)

    def number(self, event: Any) -> int:
        return int(event["n"])

    def lose(self) -> None:
        self.lines.lose()

    def recreate(self) -> None:
        self.lines.create()

    def outage(self) -> AbstractContextManager[object]:
        return self.lines.outage()

    def begin(self, numbers: Sequence[int]) -> Callable[[], None]:
        return self.lines.begin(numbers)

    def spoil(self) -> None:
        self.lines.spoil()


class TestPartitionedLines(LineKit):
    pass


@pytest.mark.slow
class TestLinesSource(SourceConformance):
    timeout_s = 2.0
    has_no_secrets = "a file has no password"
    cannot_cut = "a local file is always there"
    has_one_writer = "one program appends to the file"

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "numbers"
        self.path.touch()

    def make_source(self) -> Source:
        return LinesSource(self.path, name="numbers", decode=json.loads)

    def feed(self, numbers: Sequence[int]) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps({"n": number}) + "\n" for number in numbers)

    def number(self, event: Any) -> int:
        return int(event["n"])

    def lose(self) -> None:
        self.path.write_bytes(b"")

    def recreate(self) -> None:
        self.path.unlink()
        self.path.touch()

    def spoil(self) -> None:
        with self.path.open("a") as file:
            file.write("{\n")


VALUES: list[int] = []


class Values:
    """A function that another process can import; there it has what this one had when it was sent."""

    def __init__(self) -> None:
        self.values = tuple(VALUES)

    def __call__(self) -> Sequence[int]:
        return VALUES or self.values


@pytest.mark.slow
class TestIterableSource(SourceConformance):
    timeout_s = 2.0
    has_no_secrets = "Python values have no password"
    cannot_cut = "Python values are always there"
    has_one_writer = "Python values are made by one function"
    cannot_lose = "Python values are those that the program has"
    cannot_recreate = "Python values have no name in a system"
    has_no_decode = "Python values are events as they are"

    @pytest.fixture(autouse=True)
    def values(self) -> Iterator[None]:
        yield
        VALUES.clear()

    def make_source(self) -> Source:
        return IterableSource(Values(), name="numbers")

    def feed(self, numbers: Sequence[int]) -> None:
        VALUES.extend(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.defect.__name__)
def test_a_broken_source_is_rejected_by_the_test_that_is_meant_for_it(broken: Broken, tmp_path: Path) -> None:
    which = "reader_class" if issubclass(broken.defect, LineReader) else "source_class"
    kit = type("Kit", (LineKit,), {which: broken.defect, "timeout_s": 0.5})()
    test = getattr(kit, broken.test)
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    runs = [{marks[0].args[0]: value} for value in marks[0].args[1]] if marks else [{}]
    said = ""
    for number, arguments in enumerate(runs):
        kit.lines = LineSystem(tmp_path / f"{number}")
        try:
            test(**arguments)
        except pytest.skip.Exception as skipped:  # it would skip this test too, and reject nothing
            pytest.fail(f"the test meant for it is skipped: {skipped}")
        except pytest.fail.Exception as failed:
            said = str(failed)
            break
    assert broken.says in said
    assert "To do: " in said


def test_a_kit_that_replaces_a_test_is_refused() -> None:
    with pytest.raises(TypeError, match="write hooks instead"):
        type("Sloppy", (SourceConformance,), {"test_no_secret_is_shown": lambda self: None})


def test_a_hook_that_is_left_out_without_a_reason_is_refused(tmp_path: Path) -> None:
    class Silent(LineKit):
        lose = SourceConformance.lose

    kit = Silent()
    kit.lines = LineSystem(tmp_path)
    with pytest.raises(pytest.fail.Exception, match="no lose, and no reason"):
        kit.test_a_position_that_the_system_has_lost_is_refused()
