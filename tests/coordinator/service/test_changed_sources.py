"""A service whose source reads another file, or another kind of system, under the name that it had."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tpc
from tpc.__main__ import app
from tpc.coordinator.kernel import coordinator as coordinators
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.acceptance import accept_sources
from tpc.coordinator.service.service import Service
from tpc.errors import ConfigurationError, SourcesChangedError
from tpc.sinks import FileSink
from tpc.source import Source
from tpc.sources import IterableSource, LinesSource


class Job:
    """A service that reads one source and writes what it reads to files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sink = FileSink(str(root / "out"), name="out", format="json")

    def file(self, name: str, lines: int) -> LinesSource:
        path = self.root / name
        path.write_text("".join(f"{n}\n" for n in range(lines)))
        return LinesSource(path, name="in")

    def service(self, source: Source, *, retired: str = "") -> Service:
        service = tpc.service("job", directory=self.root / "job")
        if retired:
            service.retire(retired)

        @service.each(service.read(source))
        def each(event: object, out: Any) -> None:
            out.row("rows", {"value": int(str(event))})

        service.write("rows", {"value": int}).to(self.sink)
        return service

    def run(self, source: Source, *, retired: str = "") -> None:
        self.service(source, retired=retired).run(until_end=True)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_another_file_under_the_same_name_is_refused_until_it_is_accepted(job: Job) -> None:
    job.run(job.file("a", 2))
    moved = job.service(job.file("b", 3))
    slots = Journal(moved.log).open().last_slot
    with pytest.raises(SourcesChangedError, match=r"source 'in' is lines .*/b, and was lines .*/a") as raised:
        moved.run(until_end=True)
    assert "accept-sources" in raised.value.remedy
    with pytest.raises(SourcesChangedError):
        actions.check(moved)
    assert Journal(moved.log).open().last_slot == slots
    accept_sources(moved, "moved to another disk", {})
    job.run(job.file("b", 3))
    with pytest.raises(ConfigurationError, match="on record already"):
        accept_sources(moved, "again", {})


def test_another_kind_under_the_same_name_is_refused_and_no_record_accepts_it(job: Job) -> None:
    job.run(job.file("a", 2))
    other = job.service(IterableSource([0, 1, 2], name="in"))
    with pytest.raises(SourcesChangedError, match="mean nothing in the other") as raised:
        other.run(until_end=True)
    assert "service.retire('in')" in raised.value.remedy
    with pytest.raises(SourcesChangedError, match="mean nothing in the other"):
        accept_sources(other, "no", {})


def test_a_source_that_is_retired_keeps_its_place_on_record(job: Job) -> None:
    job.run(job.file("a", 2))
    job.run(IterableSource([7], name="other"), retired="in")
    with pytest.raises(SourcesChangedError, match=r"and was lines .*/a"):
        job.run(job.file("b", 3), retired="other")
    job.run(job.file("a", 3), retired="other")


def test_a_log_of_before_takes_the_sources_of_its_next_start_and_says_so(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as before:
        before.setattr(coordinators, "rows_claimed", lambda h, s, i, schemas: {"schemas": schemas})
        job.run(job.file("a", 1))
    with caplog.at_level(logging.WARNING):
        job.run(job.file("a", 2))
    assert "does not say which sources have been read" in caplog.text
    with pytest.raises(SourcesChangedError):
        job.run(job.file("b", 3))


def test_the_command_accepts_what_a_job_reads_now(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(job.file("a", 2))
    program = "import tpc\nfrom tpc.sources import LinesSource\ndef job():\n"
    program += f"    service = tpc.service('job', directory={str(job.root / 'job')!r})\n"
    program += f"    service.read(LinesSource({str(job.root / 'b')!r}, name='in'))\n    return service\n"
    (job.root / "moved_job.py").write_text(program)
    monkeypatch.syspath_prepend(str(job.root))
    told = CliRunner().invoke(app, ["accept-sources", "moved_job:job", "--reason", "moved"])
    assert (told.exit_code, told.output) == (0, f"recorded: it reads lines {job.root / 'b'}.\n")
    job.run(job.file("b", 3))
    wrong = CliRunner().invoke(app, ["accept-sources", "moved_job:job", "--reason", "x", "--continues", "topic"])
    assert wrong.exit_code == 2
