"""The archive of Spark's classes: it is made whole, found by a session, and one that cannot be made is no error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import line, python
from tpc.chaos.servers import class_archive as archives
from tpc.chaos.servers.class_archive import archive_options, class_archive, make_class_archive

SESSION = """
from tpc.chaos.servers.spark_session import java_options, spark_session
from tpc.chaos.servers.class_archive import archive_options
told = f"{java_options(PLACE)} {archive_options()} -Xlog:class+load:file=LOADED"
session = spark_session("x", directory=PLACE, extra={"spark.driver.extraJavaOptions": told})
print(session.range(3).count(), flush=True)
session.stop()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine that has no archive."""
    monkeypatch.setattr(archives, "cache_directory", lambda: tmp_path / "cache")
    archives._place.cache_clear()
    yield tmp_path / "cache"
    archives._place.cache_clear()


def test_without_an_archive_a_session_is_told_nothing(cache: Path) -> None:
    assert archive_options() == ""
    class_archive().parent.mkdir(parents=True)
    class_archive().touch()
    assert str(class_archive()) in archive_options()


def test_one_that_cannot_be_made_is_no_error_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert not make_class_archive()
    assert [path.suffix for path in class_archive().parent.iterdir()] in ([".lock"], [])


@pytest.mark.slow
@pytest.mark.spark  # starts two sessions
@pytest.mark.timeout(900)
def test_a_session_maps_the_classes_of_the_archive(tmp_path: Path) -> None:
    assert make_class_archive()
    loaded = tmp_path / "loaded"
    code = SESSION.replace("LOADED", str(loaded)).replace("PLACE", f"__import__('pathlib').Path({str(tmp_path)!r})")
    with python(code) as process:
        assert line(process) == "3"
        assert process.wait(120) == 0
    [how] = [one for one in loaded.read_text().splitlines() if " org.apache.spark.SparkContext source: " in one]
    assert how.endswith("shared objects file (top)")
