"""Executors of a real cluster are asked for what the sinks' writers need, before the first epoch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.coordinator.spark.asked_executors import OF_EACH_PROCESS, ONLY_HERE
from tpc.chaos.servers.spark_standalone import StandaloneCluster
from tpc.coordinator.spark import executors
from tpc.coordinator.spark.executor_needs import needs_of, unseen
from tpc.errors import TransientError
from tpc.handles import PipelineId
from tpc.settings import env
from tpc.sinks import KafkaSink

ROOT = Path(__file__).parents[3]
DRIVER = "tests.coordinator.spark.asked_executors"
TIMEOUT_S = 240

Told = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("executors")
    try:
        cluster = StandaloneCluster(folder / "cluster")
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Spark cluster: {error}")
    try:
        driver = subprocess.run(
            [sys.executable, "-m", DRIVER, str(folder), json.dumps(dict(cluster.settings))],
            cwd=folder,  # where the directory of each process lies
            env={**os.environ, "PYTHONPATH": str(ROOT), ONLY_HERE: "127.0.0.1:9"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        cluster.close()
    assert driver.returncode == 0, driver.stderr[-3000:]
    answers: Told = json.loads((folder / "told.json").read_text())
    return answers


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_is_said_and_nothing_left_where_all_is_there(told: Told) -> None:
    assert told["all is there"]["error"] is None
    assert [name for name in told["left"]["files"] if "executors" in name] == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_directory_that_is_another_one_there_is_named_with_every_executor(told: Told) -> None:
    refusal = told["no shared directory"]
    assert refusal["error"] == "ConfigurationError"
    assert f"the directory {OF_EACH_PROCESS} is not the driver's, needed by archive" in refusal["what"]
    assert places(refusal) == {"work-0", "work-1"}


@pytest.mark.spark
@pytest.mark.slow
def test_a_variable_that_only_the_driver_has_is_named_without_its_value(told: Told) -> None:
    refusal = told["no variable"]
    assert f"needed by topic: environment variable {ONLY_HERE} is not set" in refusal["what"]
    assert places(refusal) == {"work-0", "work-1"}
    assert "spark.executorEnv." in refusal["remedy"]
    assert "127.0.0.1:9" not in refusal["what"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_package_that_is_missing_is_named_with_the_sink_that_needs_it(told: Told) -> None:
    what = told["no package"]["what"]
    assert "no_such_package_of_anybody cannot be imported, needed by needy: ModuleNotFoundError" in what


@pytest.mark.spark
@pytest.mark.slow
def test_an_interpreter_that_is_not_there_is_refused_in_the_same_place(told: Told) -> None:
    refusal = told["no python"]
    assert refusal["error"] == "ConfigurationError"
    assert "/nowhere/python" in refusal["what"]
    assert "PYSPARK_PYTHON" in refusal["remedy"]


@pytest.mark.spark
@pytest.mark.slow
def test_executors_on_one_machine_share_its_address(told: Told) -> None:
    assert told["tasks"] == {"at once": 2, "on a machine": 2}


def places(refusal: dict[str, Any]) -> set[str]:
    """The workers' directories that are named."""
    return set(re.findall(r"work-\d", refusal["what"]))


def test_what_the_driver_does_not_see_of_an_executors_answer_is_named(tmp_path: Path) -> None:
    answer = {"host": "a", "directory": "/work", "wrote": "a-1", "directories": {"/data": ""}}
    [line] = unseen(answer, {"/data": tmp_path})
    assert line == "on a (in /work) what is written to /data is not there for the driver"
    (tmp_path / "a-1").touch()
    assert list(unseen(answer, {"/data": tmp_path})) == []


def test_settings_and_packages_are_found_in_the_sinks_themselves() -> None:
    sink = KafkaSink("t", servers="a:1", client={"sasl.password": env("PASSWORD")}, name="topic")
    needs = needs_of({"topic": sink})
    assert needs.modules["confluent_kafka"] == needs.modules["kafka"] == ["topic"]
    assert needs.settings["env('PASSWORD')"][1] == ["topic"]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose cluster gives nobody a core."""

    def nobody(*_: Any) -> None:
        raise TransientError("the executors have not all answered within 120 s")

    monkeypatch.setattr(executors, "_run", nobody)
    monkeypatch.setattr(executors, "registered_executors", lambda _: 2)
    monkeypatch.setattr(executors, "wait_for_executors", lambda _: None)
    session = MagicMock()
    session.sparkContext._jsc.sc().isLocal.return_value = False
    return session


def test_a_start_goes_on_where_the_cluster_is_full(silent: Any, caplog: pytest.LogCaptureFixture) -> None:
    executors.ask_executors(silent, {}, PipelineId("job"), False)
    assert "they have not been asked for what the sinks need" in caplog.text


def test_a_check_that_nobody_has_answered_says_so(silent: Any) -> None:
    with pytest.raises(TransientError, match="have not all answered"):
        executors.ask_executors(silent, {}, PipelineId("job"), True)


@pytest.fixture
def half_busy(silent: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session one of whose two executors always has another task."""
    nothing: dict[str, str] = {}
    lists = dict.fromkeys(("modules", "settings", "directories", "versions"), nothing)
    answer = {"executor": "a", "host": "a", "directory": "/work", **lists}
    monkeypatch.setattr(executors, "_run", lambda *_: [answer])
    return silent


def test_a_check_that_a_busy_executor_has_not_answered_says_so(half_busy: Any) -> None:
    with pytest.raises(TransientError, match="1 executors were busy"):
        executors.ask_executors(half_busy, {}, PipelineId("job"), True)


def test_a_start_passes_over_a_busy_executor_and_says_so(half_busy: Any, caplog: pytest.LogCaptureFixture) -> None:
    executors.ask_executors(half_busy, {}, PipelineId("job"), False)
    assert "1 executors were busy" in caplog.text


def test_the_function_that_gets_tokens_is_asked_for_and_is_of_no_package() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": "my_tokens.azure:get"}
    needs = needs_of({"topic": KafkaSink("t", servers="a:1", client=login, name="topic")})
    assert needs.modules["my_tokens.azure"] == ["topic"]
    assert "" not in needs.packages
