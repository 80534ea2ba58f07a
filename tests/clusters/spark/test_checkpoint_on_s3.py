"""A standalone cluster whose executors write their state to S3: the driver dies, and another one goes on from there.

Driver and executors are JVMs of their own, and share the store and the mount of the file sink.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import obstore
import obstore.store
import pytest

from tests.clusters.moving import EPOCH, RUN_TIMEOUT_S, Place
from tests.clusters.places import s3_place
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.s3_server import BUCKET, S3Server
from tpc.chaos.servers.spark_standalone import TWO_HOSTS, StandaloneCluster

SUITE = "Spark, standalone cluster"

pytestmark = [pytest.mark.clusters, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    try:
        made = StandaloneCluster(tmp_path_factory.mktemp("s3-cluster") / "cluster", TWO_HOSTS)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no cluster: {error}")
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path, s3: S3Server, cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = s3_place(tmp_path, s3, monkeypatch)
    made.settings = {**made.settings, **on(cluster, made.settings)}
    return made


def on(cluster: StandaloneCluster, settings: Mapping[str, str]) -> dict[str, str]:
    """What a session there has beside `settings`: the executors write to the store themselves."""
    return {**cluster.settings, "spark.executor.extraClassPath": settings["spark.driver.extraClassPath"]}


def written_below(url: str) -> list[str]:
    """The objects there, by the names that this process finds."""
    bucket = obstore.store.from_url(f"s3://{BUCKET}")
    return [entry["path"] for page in obstore.list(bucket, url.removeprefix(f"s3a://{BUCKET}/")) for entry in page]


@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_a_driver_that_was_killed_is_gone_on_from_with_the_state_that_executors_have_written(
    place: Place, cluster: StandaloneCluster, evidence: Evidence, step: str
) -> None:
    driver = place.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGSTOP")
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == f"epoch.{step}\n", place.complaints()
        executors = {executor.pid for executor in cluster.executors()}
        assert len(executors) == len(TWO_HOSTS), "each worker has an executor, so that none of the work is the driver's"
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait(RUN_TIMEOUT_S)
    place.struck(evidence, step, "the driver is killed; executors have written the state to S3")
    assert any(name.endswith(".changelog") for name in written_below(f"{place.url}/state"))
    place.runs_to_its_end()
    place.judge(evidence)
