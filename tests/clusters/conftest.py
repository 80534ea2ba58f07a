"""What the cases need, and which of them `make test` leaves to `make clusters`: all but those marked `core`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.clusters import ALL
from tests.clusters.pipeline import ClusterPipeline
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.s3_server import S3Server
from tpc.chaos.servers.kafka_cluster import KafkaCluster
from tpc.chaos.servers.postgres_pair import PostgresPair
from tpc.handles import MAX_NAME_LENGTH
from tpc.sink import Sink

EVIDENCE = pytest.StashKey[Evidence]()
SET_UP_BEFORE = pytest.StashKey[int]()
"""How often a case has been set up before, in vain."""
StartPair = Callable[..., PostgresPair]


class Start:
    """Starts pipelines for one setting-up of a case, each on sinks that it is told to make.

    A case that is set up again finds on shared servers what it left there: nothing has its name now.
    """

    def __init__(self, directory: Path, again: int) -> None:
        self._directory = directory
        self._suffix = f"-again-{again}" if again else ""
        self._made: list[ClusterPipeline] = []

    def named(self, name: str) -> str:
        """What a pipeline, a topic or a table is called in this setting-up; a name that it gave stays as it is."""
        return name if name.endswith(self._suffix) else name[: MAX_NAME_LENGTH - len(self._suffix)] + self._suffix

    def __call__(
        self, name: str, *sinks: Callable[[], Sink], kind: type[ClusterPipeline] = ClusterPipeline
    ) -> ClusterPipeline:
        """A pipeline of this name."""

        def make() -> Sequence[Sink]:
            return [one() for one in sinks]

        pipeline = kind(self.named(name), self._directory / "checkpoint", make)
        self._made.append(pipeline)
        return pipeline

    def close(self) -> None:
        """End every pipeline that was started."""
        for pipeline in self._made:
            pipeline.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what only `make clusters` runs out, unless it runs."""
    if ALL in os.environ:
        return
    left_out = [item for item in items if item.get_closest_marker("clusters")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Evidence:
    """What the case writes down; a plugin of `make clusters` takes it from the test."""
    made = request.node.stash[EVIDENCE] = Evidence()
    return made


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A server that speaks S3, in this process."""
    with S3Server().running() as server:
        yield server


@pytest.fixture(scope="session")
def _brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(tmp_path_factory.mktemp("brokers"))
    try:
        cluster.start()
        yield cluster
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no brokers: {error}")
    finally:
        cluster.kill()


@pytest.fixture
def brokers(_brokers: KafkaCluster) -> KafkaCluster:
    """Three brokers, all in step, whatever the case before has done to them."""
    _brokers.start()
    return _brokers


@pytest.fixture
def start_pair(tmp_path: Path) -> Iterator[StartPair]:
    """Starts a primary and its replica, with a table `t`."""
    made: list[PostgresPair] = []

    def start(*, synchronous: bool) -> PostgresPair:
        pair = PostgresPair(tmp_path / "servers", synchronous=synchronous)
        made.append(pair)
        try:
            pair.start()
        except CANNOT_BE_HAD as error:
            pytest.skip(f"no PostgreSQL: {error}")
        pair.primary.ask(
            "CREATE TABLE t (id bigint, words text); ALTER TABLE t OWNER TO tpc; GRANT CREATE ON SCHEMA public TO tpc"
        )
        return pair

    yield start
    for pair in made:
        pair.kill()


@pytest.fixture
def start_pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """A pipeline of this test's own, on sinks that it is told to make."""
    start = Start(tmp_path, request.node.stash.get(SET_UP_BEFORE, 0))
    yield start
    start.close()
