"""`tpc demo --cluster`: the demo on executors of a standalone cluster, killed in a task and between two commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.clusters.spark import events
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tpc.__main__ import app
from tpc.chaos.checkers.compare import Check
from tpc.chaos.demo import demo
from tpc.chaos.demo.directory import VERDICT_FILE
from tpc.chaos.kills.plan import Step
from tpc.chaos.running.run_directory import PIPELINE_LOG
from tpc.chaos.servers.jars import jar_set
from tpc.chaos.servers.spark_standalone import StandaloneCluster
from tpc.chaos.servers.stack import VARIABLES
from tpc.support.java import find_java

SUITE = "The demo, standalone cluster"
ROWS = 20_000
KILLS = 2
SEED = 38
"""Of its two kills one is asked for by a task and one falls between two sinks' commits."""
PLANNED = [Step.DURING_PASS.value, Step.BETWEEN_COMMITS.value]

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.clusters, pytest.mark.timeout(1500)]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where every session of the demo writes down what its executors do; the demo itself asks for no such log."""
    logs = tmp_path / "sessions"
    logs.mkdir()

    class TellingCluster(StandaloneCluster):
        @property
        def settings(self) -> Mapping[str, str]:
            return {**super().settings, **events.SETTINGS, "spark.eventLog.dir": str(logs)}

    monkeypatch.setattr(demo, "StandaloneCluster", TellingCluster)
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    return logs


def test_the_demo_on_a_cluster_is_exactly_once_and_its_executors_did_the_work(
    tmp_path: Path, sessions: Path, evidence: Evidence
) -> None:
    try:
        find_java()
        jar_set("spark-kafka")
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no demo: {error}")
    place = tmp_path / "demo"
    asked = ["--cluster", "--kills", KILLS, "--seed", SEED, "--rows", ROWS, "--dir", place]
    said = CliRunner().invoke(app, ["demo", *map(str, asked)])
    told = f"{said.output}\n{ends(place / PIPELINE_LOG)}"
    assert (said.exit_code, "exactly once" in said.output) == (0, True), told

    verdict = json.loads((place / VERDICT_FILE).read_text())
    of_sessions = events.of_sessions(sessions)
    lives, masters = [*map(events.tasks_by_executor, of_sessions)], [*map(events.master, of_sessions)]
    evidence.fault = {**between_commits(verdict), "restarts": len(lives) - 1, "tasks_by_executor": lives}
    assert all(master.startswith("spark://") for master in masters), masters
    assert [set(tasks) for tasks in lives] == [{"0", "1"}] * (KILLS + 1), lives
    assert [kill["planned"] for kill in verdict["kills"]] == PLANNED
    evidence.judge(*map(check_of, verdict["checks"]))


def between_commits(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The second kill, and the proof that its epoch was prepared and not complete."""
    [_, kill] = verdict["kills"]
    [struck] = [seen for seen in verdict["run"]["seen"] if seen["killed_at"] == kill["at"]]
    return {
        "step": "sink.committed",
        "epoch": kill["epoch"],
        "processes": kill["processes"],
        "between_prepare_and_complete": struck["prepared_at"] <= kill["at"] and struck["completed_at"] is None,
    }


def check_of(told: Mapping[str, Any]) -> Check:
    return Check(told["check"], told["passed"], told["detail"], tuple(told["differences"]), told["numbers"])


def ends(log: Path) -> str:
    return log.read_text(errors="replace")[-5000:] if log.exists() else "the pipeline was not started"
