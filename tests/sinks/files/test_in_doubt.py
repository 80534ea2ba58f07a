"""Which files of a long history a sweep finds in doubt, and what it costs to look."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.sinks.files import committer as in_doubt
from tpc.sinks.files.committer import FileCommitter
from tpc.sinks.files.layout import Layout, handle_of
from tpc.sinks.files.manifest import void_bytes
from tpc.sinks.files.sink import FileSink

JOB = PipelineId("job")
NEWEST = 1000


def branch(
    epoch: int, partition: int = 0, *, pipeline: PipelineId = JOB, generation: int = 1, sink: str = "a"
) -> Handle:
    """One of this sink's branches, unless it is said to be another's."""
    return Handle(pipeline, generation, sink, epoch, partition, 0)


def committer(root: Path, **settings: Any) -> FileCommitter:
    made = FileSink(root, name="a", **settings).committer(JOB)
    assert isinstance(made, FileCommitter)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of a sink whose newest manifest is of epoch 1000."""
    publish(tmp_path, branch(NEWEST))
    return tmp_path


def publish(root: Path, newest: Handle) -> None:
    """Put the newest manifest of a sink and incarnation; it names no file."""
    path = Layout(root).manifest(newest.pipeline, newest.sink, newest.epoch)
    path.parent.mkdir(parents=True)
    path.write_bytes(void_bytes(newest))


def put(directory: Path, *names: object) -> None:
    """Files without content, of Parquet's extension."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / f"{name}.parquet").touch()


def found(root: Path) -> set[str]:
    return {doubt.resource for doubt in committer(root).in_doubt()}


def test_of_a_long_history_two_names_are_parsed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, *(branch(epoch, partition) for epoch in range(NEWEST) for partition in range(2)))
    put(root, branch(NEWEST + 1))
    parsed: list[str] = []

    def noted(name: str) -> Handle | None:
        parsed.append(name)
        return handle_of(name)

    monkeypatch.setattr(in_doubt, "handle_of", noted)
    assert found(root) == {str(branch(NEWEST + 1))}
    assert len(parsed) <= 2  # the first, by which the manifest is found, and the one in doubt


@pytest.fixture(params=["as the file system lists", "sorted", "reversed"])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories are listed in any order: what stands first is parsed, what comes later may be passed over."""
    if request.param != "as the file system lists":
        names = in_doubt.Listing.names

        def ordered(self: in_doubt.Listing, directory: Path, prefix: str) -> list[str]:
            return sorted(names(self, directory, prefix), reverse=request.param == "reversed")

        monkeypatch.setattr(in_doubt.Listing, "names", ordered)


@pytest.mark.usefixtures("order")
def test_nothing_in_doubt_is_passed_over_among_published_files(root: Path) -> None:
    put(root, *(branch(epoch) for epoch in range(NEWEST - 20, NEWEST)))
    staged = [branch(3, 1), branch(NEWEST, 1), branch(NEWEST + 1, 1)]
    put(Layout(root).staging, *staged)
    renamed = [branch(NEWEST), branch(NEWEST, generation=2), branch(NEWEST + 1), branch(10 * NEWEST, generation=9)]
    without_manifest = [branch(3, sink="b"), branch(3, pipeline=PipelineId("job", 2)), branch(-1, sink="b")]
    put(root, branch(-1), *renamed, *without_manifest, branch(NEWEST + 1, pipeline=PipelineId("other")))
    assert found(root) == {str(handle) for handle in (*staged, *renamed, *without_manifest)}


@pytest.mark.usefixtures("order")
def test_every_sink_and_incarnation_has_a_newest_manifest_of_its_own(root: Path) -> None:
    behind, other = PipelineId("job", 2), PipelineId("other")
    publish(root, branch(5, pipeline=behind))
    publish(root, branch(5, pipeline=other))
    put(root, *(branch(epoch, pipeline=pipeline) for pipeline in (JOB, behind, other) for epoch in range(8)))
    assert found(root) == {str(branch(epoch, pipeline=behind)) for epoch in (5, 6, 7)}
    everybody = {doubt.resource for doubt, _ in committer(root).all_in_doubt()}
    assert everybody == {str(branch(epoch, pipeline=pipeline)) for pipeline in (behind, other) for epoch in (5, 6, 7)}


@pytest.mark.usefixtures("order")
def test_a_late_file_of_an_epoch_below_the_newest_manifest_is_left_alone(root: Path) -> None:
    put(root, branch(NEWEST - 1), branch(NEWEST - 1, generation=7), branch(0))
    assert found(root) == set()


@pytest.mark.usefixtures("order")
def test_names_that_no_branch_has_are_left_out(root: Path) -> None:
    put(root, branch(1), "tpc~job~1~1~a~1001~0", "tpc~job~1~1~a~01001~0~0", "tpc~job~1~1~a~x~0~0")
    put(root, "tpc~job~x~1~a~1001~0~0", "tpc~job~1~1~a~1001~0~0~0")
    (root / f"{branch(NEWEST + 1)}.orc").touch()
    assert found(root) == set()


class SlowListing:
    """A directory of two names, of which the second comes late."""

    def __init__(self, entries: Any, goes_on: threading.Event) -> None:
        self.entries, self.goes_on = entries, goes_on

    def __enter__(self) -> Iterator[os.DirEntry[str]]:
        return self.one_by_one()

    def one_by_one(self) -> Iterator[os.DirEntry[str]]:
        yield next(self.entries)
        self.goes_on.wait(30)

    def __exit__(self, *_: object) -> None:
        self.entries.close()


def test_a_listing_that_takes_too_long_says_how_far_it_came_and_what_to_do(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, branch(1))
    asking, goes_on = committer(root, timeout_s=0.2), threading.Event()
    monkeypatch.setattr(os, "scandir", lambda path, real=os.scandir: SlowListing(real(path), goes_on))
    with pytest.raises(TransientError, match=r"took longer than 0\.2 s: 1 names were listed") as caught:
        asking.in_doubt()
    goes_on.set()
    assert "longer timeout_s" in caught.value.remedy
    assert caught.value.sink == "a"


def test_a_time_out_of_the_file_system_itself_is_told_in_its_words(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, branch(1))

    def timed_out(name: str) -> Handle | None:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out", name)

    monkeypatch.setattr(in_doubt, "handle_of", timed_out)
    with pytest.raises(TransientError, match=r"listing in .* failed: Connection timed out"):
        committer(root).in_doubt()
