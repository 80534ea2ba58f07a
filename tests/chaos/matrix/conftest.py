"""Test benches for all tests of the matrix: the servers of the run, with two warm sessions and without any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.matrix.bench import MatrixBench, started_bench
from tpc.chaos.servers.stack import Stack


@pytest.fixture(scope="session")
def bench(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    try:
        with started_bench(tmp_path_factory.mktemp("matrix"), stack) as made:
            yield made
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Spark sessions: {error}")


@pytest.fixture(scope="session")
def plain_bench(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixBench]:
    """For services: no JVM is started."""
    with started_bench(tmp_path_factory.mktemp("matrix-of-services"), stack, sessions=0) as made:
        yield made
