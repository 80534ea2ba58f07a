"""`tpc history` and `tpc show`: what a log tells about its epochs, for people and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.terminal import run_in_terminal
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import ConfigurationError
from tpc.history import Action, Resolution
from tpc.records import RecordKind

RUNNER = CliRunner()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Epoch 0 is complete; epoch 1 is decided, and an operator has given up sink a."""
    journal = Journal(LocalLog(tmp_path / LOG_FOLDER))
    given_up = Resolution(1, "a", Action.ACCEPT_LOSS, "its disk burned", "ann")
    for kind, body in (
        (RecordKind.GENERATION, generation_body(1)),
        intent(manifest(0)),
        complete(0),
        intent(manifest(1, {"a": 2, "b": 0})),
        (RecordKind.RESOLUTION, given_up.to_json()),
    ):
        journal.append(kind, body)
    return tmp_path


def shown(*arguments: object) -> str:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_history_has_a_line_for_each_epoch_oldest_first(checkpoint: Path) -> None:
    heading, *lines = shown("history", checkpoint).splitlines()
    assert heading.split()[:3] == ["epoch", "status", "generation"]
    assert [line.split()[:3] for line in lines] == [["0", "complete", "1"], ["1", "decided", "1"]]


def test_history_can_be_cut_to_the_newest(checkpoint: Path) -> None:
    assert [row["epoch"] for row in json.loads(shown("history", checkpoint, "--last", 1, "--json"))] == [1]


def test_history_tells_where_the_sources_stood(checkpoint: Path) -> None:
    told = json.loads(shown("history", checkpoint, "--json"))
    lines = shown("history", checkpoint, "--offsets").splitlines()[1:]
    assert [line.split(maxsplit=3) for line in lines] == [
        [str(row["epoch"]), row["status"], str(number), end] for row in told for number, end in enumerate(row["end"])
    ]
    assert [line.split()[1] for line in lines] == ["complete", "decided"]


def test_show_tells_records_sinks_branches_and_decisions(checkpoint: Path) -> None:
    text = shown("show", checkpoint, 1)
    assert "epoch 1 of job#1: decided, generation 1" in text
    assert "records: intent in slot 4, resolution in slot 5" in text
    assert "resolved: a accept-loss by ann (its disk burned)" in text
    assert "in 2 branches; before it the sink showed epoch 0" in text
    branches = json.loads(shown("show", checkpoint, 1, "--json"))["branches"]
    assert len(branches) == 2
    assert all(branch["handle"] in text and branch["resource"] in text for branch in branches)


def test_raw_records_are_those_of_the_log_with_their_checksums(checkpoint: Path) -> None:
    records = json.loads(shown("show", checkpoint, 0, "--raw"))
    log = LocalLog(checkpoint / LOG_FOLDER)
    assert records == [json.loads(log.read(slot)) for slot in (2, 3)]
    assert all(record["checksum"] for record in records)


def test_an_epoch_that_is_not_decided_is_told_from_one_that_is_pruned(checkpoint: Path) -> None:
    refused = RUNNER.invoke(app, ["show", str(checkpoint), "2"])
    assert isinstance(refused.exception, ConfigurationError)
    assert refused.exception.what == "epoch 2 is not decided: the last one is 1"


def test_a_wide_history_fits_a_terminal_of_80_columns(checkpoint: Path) -> None:
    output = run_in_terminal([sys.executable, "-m", "tpc", "history", str(checkpoint)], columns=80)
    assert "complete" in output
    assert [line for line in output.splitlines() if len(line) > 80] == []
