"""The alerts of the examples, judged by Prometheus itself: its promtool reads them, and each fires on made-up series.

Where promtool or prometheus is not on the machine, these tests are skipped (Debian, Ubuntu: the package `prometheus`).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships none
from prometheus_client import CollectorRegistry

from tests.support.memory_pipeline import MemoryPipeline
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.monitoring.metrics_server import ServedMetrics
from tpc.support.deadlines import patiently

ALERTS = Path(__file__).parents[2] / "docs" / "examples" / "alerts.yml"
RULES = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}
DEADLINE_S = 60.0
LAG = 'tpc_source_waiting_offsets{pipeline="job",source="0",topic="t"}'


@dataclass(frozen=True)
class Case:
    """Series, one value a minute as promtool writes them, and what the alert says of them after some minutes."""

    alert: str
    of: str
    series: dict[str, str]
    minutes: int
    summary: str | None
    """None: it is quiet."""


CASES = [
    Case(
        "TpcPipelineSilent",
        "seven minutes, the last two without a process",
        {'tpc_last_complete_timestamp_seconds{pipeline="job"}': "0x5"},
        7,
        "job has completed no epoch for 7m 0s",
    ),
    Case(
        "TpcPipelineSilent",
        "an epoch a minute",
        {'tpc_last_complete_timestamp_seconds{pipeline="job"}': "0+60x60"},
        60,
        None,
    ),
    Case(
        "TpcPipelineParked",
        "parked, and its process gone",
        {'tpc_parked{pipeline="job"}': "0 1 1 _x20"},
        10,
        "A sink refuses a decided epoch of job for good",
    ),
    Case("TpcPipelineParked", "a parked epoch that was decided", {'tpc_parked{pipeline="job"}': "1 1 0x30"}, 30, None),
    Case(
        "TpcInDoubtTooLong",
        "one of two sinks",
        {
            'tpc_oldest_in_doubt_seconds{pipeline="job"}': "0+60x10",
            'tpc_branches_in_doubt{pipeline="job",sink="a"}': "1x10",
            'tpc_branches_in_doubt{pipeline="job",sink="b"}': "0x10",
        },
        6,
        "Branches of job are in doubt for 6m 0s",
    ),
    Case(
        "TpcInDoubtTooLong",
        "not long yet",
        {
            'tpc_oldest_in_doubt_seconds{pipeline="job"}': "0+60x10",
            'tpc_branches_in_doubt{pipeline="job",sink="a"}': "1x10",
        },
        4,
        None,
    ),
    Case(
        "TpcRecoveringInALoop",
        "a start a minute",
        {'tpc_last_recovery_timestamp_seconds{pipeline="job"}': "100+60x5"},
        5,
        "job was started 5 times within 15 minutes",
    ),
    Case(
        "TpcRecoveringInALoop",
        "three starts",
        {'tpc_last_recovery_timestamp_seconds{pipeline="job"}': "100 160 220 280x20"},
        15,
        None,
    ),
    Case(
        "TpcLagGrowing",
        "600 offsets a minute",
        {LAG: "100+600x40"},
        30,
        "job falls behind its sources by 10 offsets a second",
    ),
    Case("TpcLagGrowing", "much waits and grows less", {LAG: "90000-600x40"}, 30, None),
    Case(
        "TpcLagGrowing",
        "everything is read now and then",
        {LAG: "0 100 200 300 400 0 500 600 700 800 900x30"},
        12,
        None,
    ),
    Case(
        "TpcEpochsSlow",
        "70 seconds in two phases, one a minute",
        {
            'tpc_epoch_phase_seconds_sum{pipeline="job",phase="pass"}': "0+60x60",
            'tpc_epoch_phase_seconds_sum{pipeline="job",phase="commit"}': "0+10x60",
            'tpc_epochs_total{pipeline="job",outcome="complete"}': "0+1x60",
            'tpc_epochs_total{pipeline="job",outcome="failed"}': "0+5x60",
        },
        30,
        "Epochs of job take 1m 10s",
    ),
    Case(
        "TpcEpochsSlow",
        "half a minute",
        {
            'tpc_epoch_phase_seconds_sum{pipeline="job",phase="pass"}': "0+30x60",
            'tpc_epochs_total{pipeline="job",outcome="complete"}': "0+1x60",
        },
        30,
        None,
    ),
]


@pytest.fixture
def promtool() -> str:
    return found("promtool")


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not on this machine: apt-get install prometheus")
    return path


def said_by(*call: str) -> str:
    """What a program that must succeed says."""
    done = subprocess.run(call, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_alerts(promtool: str) -> None:
    assert f"{len(RULES)} rules found" in said_by(promtool, "check", "rules", str(ALERTS))


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_quiet() -> None:
    assert (
        {case.alert for case in CASES if case.summary} == {case.alert for case in CASES if not case.summary} == {*RULES}
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.of}")
def test_an_alert_fires_when_it_is_to_and_then_only(case: Case, promtool: str, tmp_path: Path) -> None:
    rule = RULES[case.alert]
    fired = {
        "exp_labels": {"pipeline": "job", **rule["labels"]},
        "exp_annotations": {"summary": case.summary, "action": rule["annotations"]["action"]},
    }
    expected = {
        "eval_time": f"{case.minutes}m",
        "alertname": case.alert,
        "exp_alerts": [] if case.summary is None else [fired],
    }
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [expected]}
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))
    said_by(promtool, "test", "rules", str(path))


# A server that scrapes -----------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def scraping(target: int, directory: Path) -> Iterator[int]:
    """A Prometheus that scrapes a port of this machine every second and judges the alerts; its own port."""
    program, port = found("prometheus"), free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "tpc", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    call = [
        program,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(call, stdout=output, stderr=output)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def asked(port: int, path: str, **query: str) -> Any:
    """The answer of Prometheus, once it has one."""
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"

    def answered() -> Any:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())["data"]

    return patiently(answered, DEADLINE_S, again_on=OSError)


def value_of(port: int, expression: str) -> float:
    """Of an expression with one result, as soon as it was scraped."""

    def seen() -> float:
        results = asked(port, "query", query=expression)["result"]
        if not results:
            raise LookupError(f"nothing was scraped for {expression}")
        [result] = results
        return float(result["value"][1])

    return patiently(seen, DEADLINE_S, again_on=LookupError)


def test_a_prometheus_scrapes_a_pipeline_and_judges_it_by_the_alerts(tmp_path: Path) -> None:
    found("prometheus")
    pipeline, port = MemoryPipeline(), free_port()
    names, address = [sink.name for sink in pipeline.sinks], Address("127.0.0.1", port)
    served = ServedMetrics("job", names, pipeline.clock, address, CollectorRegistry())
    try:
        pipeline.restarted(recover=False).observe = Listeners(pipeline.clock, [served])
        pipeline.engine.recover()
        pipeline.run(0, 1)
        served.tell_of_sources(SourceLag(1, 100.0, ({"t": 42},)))
        with scraping(port, tmp_path) as prometheus:
            assert value_of(prometheus, 'tpc_last_complete_epoch{pipeline="job"}') == 1
            assert value_of(prometheus, 'sum(tpc_rows_total{pipeline="job"})') == 4
            assert value_of(prometheus, "tpc_source_waiting_offsets") == 42
            assert value_of(prometheus, 'up{job="tpc"}') == 1
            rules = patiently(lambda: judged(prometheus), DEADLINE_S, again_on=LookupError)
    finally:
        served.close()
    assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(RULES, "ok")
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} == {"TpcPipelineSilent"}


def judged(port: int) -> list[dict[str, Any]]:
    """The rules once each was evaluated over what was scraped: the pipeline's clock is in 1970, so it is silent."""
    [group] = asked(port, "rules")["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    if any(rule["health"] == "unknown" for rule in rules) or all(rule["state"] == "inactive" for rule in rules):
        raise LookupError("not judged yet")
    return rules
