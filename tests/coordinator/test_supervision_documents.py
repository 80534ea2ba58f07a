"""What the documents say of restarts and health is what the code does: strategies, codes, paths, units to copy."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer
import yaml  # type: ignore[import-untyped]  # it ships none

import tpc
from tpc.__main__ import app
from tpc.coordinator.operations.monitoring.health import LIVENESS, READINESS
from tpc.coordinator.operations.supervision.exit_codes import FINAL
from tpc.coordinator.operations.supervision.restarts import ExponentialDelay, FailureRate, FixedDelay

ROOT = Path(__file__).parents[2]
HOW_TO = (ROOT / "docs" / "how-to" / "run-under-a-supervisor.md").read_text()
METRICS = (ROOT / "docs" / "reference" / "metrics.md").read_text()
REFERENCE = (ROOT / "docs" / "reference" / "pipeline.md").read_text()


@pytest.mark.parametrize("strategy", [FixedDelay, ExponentialDelay, FailureRate], ids=lambda one: one.__name__)
def test_the_table_names_every_field_of_a_strategy_with_its_default(
    strategy: type[FixedDelay | ExponentialDelay | FailureRate],
) -> None:
    [row] = re.findall(rf"^\| `{strategy.__name__}`.*\|.*\| (.+) \|$", HOW_TO, re.MULTILINE)
    told = {name: ast.literal_eval(value) for name, value in re.findall(r"`(\w+)=([^`]+)`", row)}
    assert told == {field.name: field.default for field in fields(strategy) if field.repr}


def test_the_table_of_exit_codes_has_every_final_one_with_its_word_and_1() -> None:
    section = REFERENCE.partition("## Exit codes")[2].partition("\n## ")[0]
    told = {int(code): word for code, word in re.findall(r"^\| (\d+) \| ([\w ]+)", section, re.MULTILINE)}
    assert set(told) == {*FINAL, 1}
    for code in FINAL.keys() - {0}:
        assert FINAL[code].startswith(f"{told[code]}:")


def test_the_table_of_paths_and_the_words_are_those_of_the_answers() -> None:
    section = METRICS.partition("## Health")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(/\w+)` \|", section, re.MULTILINE)) == {LIVENESS, READINESS}
    of_code = re.findall(r'_body\(seen, "(\w+)"', (ROOT / "coordinator/operations/monitoring/health.py").read_text())
    assert set(of_code) <= set(re.findall(r'"(\w+)"', section))
    assert of_code


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    return str(found)


def check_call(words: list[str]) -> dict[str, str | None]:
    """The options of a call of `tpc`, each with its value, after the command and their names were found to exist."""
    program, command, job, *rest = words
    assert Path(program).name == "tpc"
    known = {option: p for p in typer.main.get_command(app).commands[command].params for option in p.opts}  # type: ignore[attr-defined]
    assert re.fullmatch(r"\w+:\w+", job)
    given: dict[str, str | None] = {}
    while rest:
        option, has_value, value = rest.pop(0).partition("=")
        given[option] = value if has_value else rest.pop(0)
    assert set(given) <= set(known)
    return given


def test_the_unit_runs_a_command_that_there_is_and_does_not_restart_after_a_final_code() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    unit.read_string(block("ini"))
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert unit["Unit"]["Description"]
    assert unit["Install"]["WantedBy"]
    service = unit["Service"]
    assert {"User", "WorkingDirectory", "EnvironmentFile", "TimeoutStopSec"} <= set(service)
    assert service["Restart"] == "on-failure"
    assert set(map(int, service["RestartPreventExitStatus"].split())) == FINAL.keys() - {0}
    assert service["KillMode"] == "mixed"
    assert "--trigger" in check_call(shlex.split(service["ExecStart"]))
    assert service["ExecStart"].startswith("/"), "systemd wants an absolute path"


def test_the_deployment_s_probes_ask_the_paths_of_the_code_at_the_port_that_the_command_opens() -> None:
    deployment = yaml.safe_load(block("yaml"))
    spec = deployment["spec"]
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    [container] = spec["template"]["spec"]["containers"]
    given = check_call([*container["command"], *container["args"]])
    [port] = container["ports"]
    assert given["--health-port"] == str(port["containerPort"])
    assert given["--health-host"] == "0.0.0.0", "the kubelet asks at the pod's address"
    assert given["--attempts"] == "0"
    for probe, path in (("startupProbe", LIVENESS), ("livenessProbe", LIVENESS), ("readinessProbe", READINESS)):
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}, probe
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}


def test_by_default_an_epoch_may_take_as_long_as_the_deployment_says() -> None:
    assert f"--silent-after-s={tpc.Serve().silent_after_s:g}" in block("yaml")


def test_the_exit_codes_that_are_not_restarted_are_named_as_they_are() -> None:
    named = set(map(int, re.findall(r"\b(8[0-9])\b", HOW_TO)))
    assert named == FINAL.keys() - {0}
