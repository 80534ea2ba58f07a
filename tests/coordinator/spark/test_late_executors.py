"""An executor that joins a running pipeline and lacks what sinks need is named, and nothing of its epoch is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.coordinator.spark.late_executor import MENDED, MODULE, READY, TOLD, VARIABLE
from tests.support.processes import eventually
from tpc.chaos.servers.spark_standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
DRIVER = "tests.coordinator.spark.late_executor"
TIMEOUT_S = 240.0
SINK = "from tests.support.folder_sink import FolderSink\n\n\nclass EarlySink(FolderSink):\n    pass\n"

Told = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("late")
    (folder / "early").mkdir()
    (folder / "early" / f"{MODULE}.py").write_text(SINK)
    early = {VARIABLE: "here", "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder / "early")))}
    late = {"PYTHONPATH": str(ROOT)}
    try:
        cluster = StandaloneCluster(folder / "cluster", ("127.0.0.1",), environment=early)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Spark cluster: {error}")
    settings = {
        **cluster.settings,
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.task.maxFailures": "1",  # else Spark may try the task again where all is there
    }
    command = [sys.executable, "-m", DRIVER, str(folder), json.dumps(settings)]
    log = folder / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(command, cwd=folder, env={**os.environ, **early}, stdout=output, stderr=output)
        try:
            _until(folder / READY, driver, log)
            number = cluster.add_worker(late)
            _until(folder / f"{TOLD}.ended", driver, log)
            cluster.kill_worker(number)
            (folder / MENDED).touch()
            assert driver.wait(TIMEOUT_S) == 0, log.read_text()[-5000:]
        finally:
            driver.kill()
            driver.wait()
            cluster.close()
    answers: Told = json.loads((folder / TOLD).read_text())
    return answers


def _until(path: Path, driver: subprocess.Popen[bytes], log: Path) -> None:
    eventually(lambda: path.exists() or driver.poll() is not None, f"{path.name} is there", timeout_s=TIMEOUT_S)
    assert driver.poll() is None, log.read_text()[-5000:]


def test_what_it_lacks_is_told_as_at_a_start_with_the_executor_and_the_epoch(told: Told) -> None:
    end = told["needy"]
    assert end["error"] == "ConfigurationError"
    assert "work-1" in end["what"]
    assert f"{MODULE} cannot be imported, needed by needy: ModuleNotFoundError" in end["what"]
    assert f"needed by needy: environment variable {VARIABLE} is not set" in end["what"]
    assert "spark.executorEnv." in end["remedy"]
    assert end["epoch"] > max(end["seen"])


def test_a_sink_that_cannot_be_loaded_there_is_told_with_the_executor(told: Told) -> None:
    end = told["early"]
    assert end["error"] == "ConfigurationError"
    assert "executor 1 on 127.0.0.1 cannot run the epoch's tasks: ModuleNotFoundError" in end["what"]
    assert MODULE in end["what"]


def test_nothing_of_its_epoch_is_seen_and_all_goes_on_without_it(told: Told) -> None:
    for end in told.values():
        assert end["ids"] == list(range(len(end["ids"])))
        assert end["ids"]
