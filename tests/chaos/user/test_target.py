"""What a user's module must have is found, and what is missing is told with the line that fixes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpc.chaos.user.target import check_name, load_target, make_job
from tpc.errors import ConfigurationError

numbers = itertools.count()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, importable only while the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path


def module(here: Path, text: str) -> str:
    """A module of this text; its name, which no other test has."""
    name = f"target_{next(numbers)}"
    (here / f"{name}.py").write_text(text)
    return name


def test_expected_feed_and_readers_are_found_beside_the_pipeline(here: Path) -> None:
    name = module(
        here,
        "fed = []\n"
        "def pipeline(): ...\n"
        "def feed(number): fed.append(number)\n"
        'def expected(): return {"a": ({"id": n} for n in fed)}\n'
        'readers = {"a": lambda: []}\n',
    )
    target = load_target(f"{name}:pipeline")
    target.add_input(1)
    target.add_input(2)
    assert target.expected_rows() == {"a": [{"id": 1}, {"id": 2}]}
    assert list(target.readers) == ["a"]


def test_a_target_without_expected_is_refused_with_the_function_to_write(here: Path) -> None:
    name = module(here, "def pipeline(): ...\n")
    with pytest.raises(ConfigurationError) as refused:
        load_target(f"{name}:pipeline")
    assert f"{name}:expected" in refused.value.what
    assert "def expected():" in refused.value.remedy and "--expect" in refused.value.remedy


def test_another_function_may_say_what_is_expected(here: Path) -> None:
    name = module(here, "def pipeline(): ...\n")
    other = module(here, 'def rows(): return {"a": [{"id": 1}]}\n')
    assert load_target(f"{name}:pipeline", f"{other}:rows").expected_rows() == {"a": [{"id": 1}]}


@pytest.mark.parametrize("said", ["[1, 2]", '{"a": [1, 2]}', '{"a": None}', '{"a": 7}', '{"a": {}}'])
def test_what_is_expected_must_be_rows_by_sink(said: str, here: Path) -> None:
    name = module(here, f"def pipeline(): ...\ndef expected(): return {said}\n")
    with pytest.raises(ConfigurationError, match="expected") as refused:
        load_target(f"{name}:pipeline").expected_rows()
    assert "return lists of dicts by sink name" in refused.value.remedy


def test_an_error_while_the_expected_rows_are_made_is_told_as_the_user_s(here: Path) -> None:
    name = module(here, 'def pipeline(): ...\ndef expected(): return {"a": (1 // n for n in [0])}\n')
    with pytest.raises(ConfigurationError, match=r"expected\(\) raised ZeroDivisionError"):
        load_target(f"{name}:pipeline").expected_rows()


def test_an_error_of_the_user_s_feed_names_the_round(here: Path) -> None:
    name = module(here, "def pipeline(): ...\ndef expected(): ...\ndef feed(number): raise OSError('no broker')\n")
    with pytest.raises(ConfigurationError, match=r"feed\(3\) raised OSError: no broker"):
        load_target(f"{name}:pipeline").add_input(3)


@pytest.mark.parametrize("name", ["my_job", "my_job:", ":pipeline", "no_such_module:pipeline"])
def test_a_name_that_leads_nowhere_is_refused_before_anything_is_started(name: str, here: Path) -> None:
    with pytest.raises(ConfigurationError, match="module") as refused:
        check_name(name)
    assert "my_job:pipeline" in refused.value.remedy


def test_a_function_that_returns_something_else_is_refused(here: Path) -> None:
    name = module(here, "def pipeline(): return 'started'\n")
    with pytest.raises(ConfigurationError, match="is a str, neither a pipeline nor a service") as refused:
        make_job(f"{name}:pipeline")
    assert "tpc.pipeline(...) or tpc.service(...)" in refused.value.remedy


def test_a_module_that_cannot_be_imported_says_why(here: Path) -> None:
    name = module(here, "import no_such_thing\n")
    with pytest.raises(ConfigurationError, match="no_such_thing"):
        load_target(f"{name}:pipeline")
