"""Jar sets: fetched once, whole or not at all, by one process at a time."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.support.processes import eventually, line, python, runs
from tpc.chaos.servers.jars import JAR_SETS, Coordinates, cache_directory, fetch, jar_set
from tpc.errors import ConfigurationError, JarFetchError

pytestmark = pytest.mark.slow  # processes of their own

SMALL = Coordinates((("org.apache.commons", "commons-pool2", "2.12.0"),), transitive=False)
INCOMPLETE = Coordinates((*SMALL.artifacts, ("org.apache.commons", "commons-lang3", "0.0.0-never")), transitive=False)

FETCH_SMALL = """
from tpc.chaos.servers.jars import Coordinates, fetch
coordinates = Coordinates((("org.apache.commons", "commons-pool2", "2.12.0"),), transitive=False)
lines = []
jars = fetch("small", coordinates, report=lines.append)
print([jar.name for jar in jars], any("fetching" in line for line in lines))
"""
FETCH_AND_TELL = """
from tpc.chaos.servers.jars import jar_set
jar_set("kafka", report=lambda line: print(line, flush=True))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, for this process and those it starts."""
    monkeypatch.setenv("TPC_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def _registry(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the registry cannot be reached: a fetch is what these tests are about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPC_CACHE", str(tmp_path_factory.mktemp("cache")))
        try:
            fetch("small", SMALL, timeout_s=60)
        except CANNOT_BE_HAD as error:
            pytest.skip(f"Maven Central cannot be reached: {error}")


@pytest.mark.usefixtures("_registry")
def test_a_set_is_fetched_once(cache: Path) -> None:
    jars = fetch("small", SMALL)
    assert [jar.name for jar in jars] == ["commons-pool2-2.12.0.jar"]
    assert cache in jars[0].parents
    lines: list[str] = []
    assert fetch("small", SMALL, report=lines.append) == jars
    assert lines == []


@pytest.mark.usefixtures("_registry")
def test_two_processes_at_once_fetch_once(cache: Path) -> None:
    with python(FETCH_SMALL) as first, python(FETCH_SMALL) as second:
        answers = sorted([line(first), line(second)])
    assert answers == ["['commons-pool2-2.12.0.jar'] False", "['commons-pool2-2.12.0.jar'] True"]


def test_a_killed_fetch_leaves_nothing_that_looks_complete(cache: Path) -> None:
    with python(FETCH_AND_TELL) as fetching:
        assert "fetching jars" in line(fetching)
        (partial,) = (cache / "jars").glob("kafka-*.part-*")
        family = [child.pid for child in psutil.Process(fetching.pid).children(recursive=True)]
        fetching.kill()
        eventually(lambda: not any(runs(pid) for pid in family), "Ivy ends with the process that ran it")
    assert partial.is_dir()
    assert not partial.with_name(f"kafka-{JAR_SETS['kafka'].digest()}").exists()


@pytest.mark.usefixtures("_registry")
def test_what_a_killed_fetch_left_is_cleared_by_the_next(cache: Path) -> None:
    left_over = cache / "jars" / f"small-{SMALL.digest()}.part-12345"
    left_over.mkdir(parents=True)
    (left_over / "half.jar").write_bytes(b"half")
    assert [jar.name for jar in fetch("small", SMALL)] == ["commons-pool2-2.12.0.jar"]
    assert not left_over.exists()


def test_a_set_of_which_one_jar_cannot_be_had_is_an_error_with_ivys_own_words(cache: Path) -> None:
    with pytest.raises(JarFetchError) as caught:
        fetch("small", INCOMPLETE)
    assert "commons-lang3;0.0.0-never" in str(caught.value)
    assert "JAVA_TOOL_OPTIONS" in str(caught.value)
    assert str(cache / "ivy" / "small" / "ivy.log") in str(caught.value)
    assert [path.name for path in (cache / "jars").iterdir() if path.is_dir()] == []


def test_a_fetch_that_takes_too_long_is_ended(cache: Path) -> None:
    with pytest.raises(JarFetchError, match="took more than"):
        fetch("kafka", JAR_SETS["kafka"], timeout_s=1)
    assert [path.name for path in (cache / "jars").iterdir() if path.is_dir()] == []


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no jar set 'flink'"):
        jar_set("flink")


def test_a_complete_set_needs_no_network_and_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        jars = jar_set("spark-kafka")
    except CANNOT_BE_HAD as error:
        pytest.skip(f"the jars cannot be had: {error}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jar_set("spark-kafka") == jars
    names = {jar.name.rsplit("-", 1)[0] for jar in jars}
    assert names == {
        "spark-sql-kafka-0-10_2.13",
        "spark-token-provider-kafka-0-10_2.13",
        "kafka-clients",
        "commons-pool2",
    }
    assert cache_directory() in jars[0].parents
