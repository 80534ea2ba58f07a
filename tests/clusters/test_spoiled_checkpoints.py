"""What a start finds on S3 and HDFS: state of another moment, lost or torn files, a plan that was written over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.clusters.moving import LAST, RUN_TIMEOUT_S, Place
from tests.clusters.moving_driver import ROWS
from tests.clusters.places import hdfs_place, s3_place
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.hdfs_server import NameNode, running_hdfs

SUITE = "Checkpoints that were changed"

pytestmark = [pytest.mark.clusters]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNode]:
    try:
        with running_hdfs(tmp_path_factory.mktemp("hdfs")) as (made, _):
            yield made
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no HDFS: {error}")


@pytest.fixture(params=["s3", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "s3":
        return s3_place(tmp_path, request.getfixturevalue("s3"), monkeypatch)
    return hdfs_place(tmp_path, request.getfixturevalue("names"))


def ends(
    place: Place, code: int, *, last: int = LAST, spoil: Sequence[Sequence[str]] = (), feed: Path | None = None
) -> str:
    """A driver on a new machine ends with the code: what it has said. It does `spoil` before it begins."""
    driver = place.machine(last=last, spoil=spoil, feed=None if feed is None else str(feed))
    driver.communicate(timeout=RUN_TIMEOUT_S)
    assert driver.returncode == code, place.complaints()
    return place.told()


def the_newest_state_is_made_again(place: Place, evidence: Evidence, way: str) -> None:
    ends(place, 0)
    told = ends(place, 0, last=LAST + 2, spoil=[[way, "state/0/0"]])
    assert "cannot be gone on from and is moved aside" in told
    place.judge(evidence)


def test_state_of_another_moment_is_caught_up(place: Place, evidence: Evidence) -> None:
    ends(place, 0, last=1)
    ends(place, 0, spoil=[["copy", "state", "kept"]])
    told = ends(place, 0, last=LAST + 2, spoil=[["remove", "state/"], ["copy", "kept", "state"]])
    assert "catching up" in told
    place.judge(evidence)


def test_the_newest_state_of_a_partition_that_is_lost_is_made_again(place: Place, evidence: Evidence) -> None:
    the_newest_state_is_made_again(place, evidence, "remove_newest")


@pytest.mark.parametrize("place", ["hdfs"], indirect=True)  # an object is there with all its bytes or not at all
def test_the_newest_state_of_a_partition_that_is_torn_is_made_again(place: Place, evidence: Evidence) -> None:
    the_newest_state_is_made_again(place, evidence, "tear_newest")


def test_a_decided_plan_that_was_written_over_is_put_right(place: Place, evidence: Evidence) -> None:
    ends(place, 0)
    told = ends(place, 0, last=LAST + 2, spoil=[["write_over"]])
    assert "is not what was decided: a driver that does not lead any more has written it" in told
    place.judge(evidence)


@pytest.mark.parametrize("lost", ["sources/0/1", "sources/"])
def test_a_lost_list_of_the_files_that_were_read_stops_the_start(
    place: Place, evidence: Evidence, tmp_path: Path, lost: str
) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    for epoch in range(LAST + 1):
        values = pa.table({"value": range(ROWS * epoch, ROWS * (epoch + 1))})
        parquet.write_table(values, feed / f"{epoch}.parquet")
    ends(place, 0, feed=feed)
    published = sorted(place.files.glob("*.parquet"))
    told = ends(place, 1, feed=feed, spoil=[["remove", lost]])
    assert "StateLostError" in told
    assert "names the files that decided epochs have read" in told
    assert sorted(place.files.glob("*.parquet")) == published
    place.judge(evidence)
