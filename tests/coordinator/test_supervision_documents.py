"""What the documents say of restarts is what the code does: strategies with their defaults, exit codes."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tpc.coordinator.health import LIVENESS, READINESS
from tpc.coordinator.restarts import ExponentialDelay, FailureRate, FixedDelay
from tpc.coordinator.supervisor import FINAL

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
    of_code = re.findall(r'_body\(seen, "(\w+)"', (ROOT / "coordinator" / "health.py").read_text())
    assert set(of_code) <= set(re.findall(r'"(\w+)"', section))
    assert of_code
