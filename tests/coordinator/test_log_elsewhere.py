"""Commands on logs and checkpoints elsewhere: they answer what they answer of a directory, and need no Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.coordinator.asked_log import QUESTIONS, Answer
from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.processes import REPOSITORY
from tests.support.s3_server import BUCKET, S3Server
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.kernel.resolve_commands import resolve_command
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.errors import CheckpointInUseError
from tpc.history import Action
from tpc.records import RecordKind

REFUSAL = "E11000 duplicate key"
SAID = {
    "status": (0, "epoch 2 is parked: sink a"),
    "history": (0, "2023-11-14T22:13:21Z"),
    "history of offsets": (0, '{"t":{"0":20}}'),
    "show": (0, "epoch 1 of job#1: complete, generation 1"),
    "show of no epoch": (1, "epoch 7"),
    "log check": (0, "every record is whole"),
    "watch": (0, "PARKED: sink a refuses epoch 2 for good"),
    "doctor": (0, "CHECKPOINT/tpc/log is whole"),
    "positions": (0, "{'t': {0: 20}}"),
    "positions decided": (0, "{'t': {0: 30}}"),
    "pages": (0, "job#1"),
    "page": (0, REFUSAL),
    "page of an epoch": (0, "resource-of-"),
    "resolve of another epoch": (1, "epoch 1 does not wait for a decision"),
    "resolve": (0, "recorded: epoch 2 a accept-loss."),
    "status afterwards": (0, "resolved: epoch 2 a accept-loss (gone)"),
}
"""Of some questions the exit code, and words of the answer: else two answers could be wrong alike."""


@dataclass(frozen=True)
class Asked:
    """The answers of both logs, each without the checkpoint's own place, and the spaces that its length makes."""

    here: Mapping[str, Answer]
    elsewhere: Mapping[str, Answer]


def of_parked_pipeline(log: LocalLog) -> None:
    """Two epochs are complete, the third is decided."""
    journal = Journal(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    for epoch in range(3):
        made = manifest(epoch)
        end = (f'{{"t":{{"0":{10 * epoch + 10}}}}}',)
        journal.append(*intent(replace(made, epoch_input=replace(made.epoch_input, end=end))))
        if epoch < 2:
            kind, body = complete(epoch)
            times = {"started_at": 1_699_999_999.0 + epoch, "completed_at": 1_700_000_000.0 + epoch}
            journal.append(kind, {**body, **times, "seconds": {"pass": 0.5}})


def note_refusal(checkpoint: Checkpoint) -> None:
    checkpoint.notes.mkdir(parents=True, exist_ok=True)
    note = {"epoch": 2, "sink": "a", "what": REFUSAL, "at": 1_700_000_002.0}
    (checkpoint.notes / "parked.json").write_text(json.dumps(note))


def asked(checkpoint: str, folder: str, environment: Mapping[str, str]) -> dict[str, Answer]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.coordinator.asked_log", f"{checkpoint}{folder}"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Answer] = json.loads(re.sub(" +", " ", done.stdout.replace(checkpoint, "CHECKPOINT")))
    return told


@pytest.fixture(
    scope="module",
    params=["", pytest.param(f"/{LOG_FOLDER}", marks=pytest.mark.slow)],
    ids=["by its checkpoint", "by its own place"],
)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A log in a directory and one with the same records on S3, asked all questions."""
    root = tmp_path_factory.mktemp("elsewhere")
    url = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    here, environment = root / "checkpoint", {"TPC_NOTES": str(root / "notes")}
    of_parked_pipeline(local := LocalLog(here / LOG_FOLDER))
    with S3Server().running() as s3, pytest.MonkeyPatch.context() as patch:
        environment |= s3.environment()
        for name, value in environment.items():
            patch.setenv(name, value)
        log = log_beside(files_at(url, explicit_log=False))
        for slot in local.slots():
            log.put(slot, local.read(slot), None)
        for place in (str(here), url):
            note_refusal(files_at(place, explicit_log=False))
        yield Asked(asked(str(here), request.param, environment), asked(url, request.param, environment))


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_log_on_s3_is_answered_for_as_one_in_a_directory_without_spark(
    both: Asked, question: str, request: pytest.FixtureRequest
) -> None:
    assert both.elsewhere[question] == both.here[question]
    if question in SAID and "by its checkpoint" in request.node.name:
        code, words = SAID[question]
        found = both.elsewhere[question]
        assert (found[0], words in found[1]) == (code, True), found


def test_a_decision_on_a_checkpoint_in_use_is_refused_by_the_checkpoint_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "notes"))
    of_parked_pipeline(LocalLog(tmp_path / "log"))
    where = ["hdfs://host/orders", "--log", str(tmp_path / "log")]
    decision = [*where, "--epoch", "2", "--sink", "a", "--accept-loss", "--reason", "gone"]
    with CheckpointLock(files_at(where[0], explicit_log=True).notes):
        for command in (["resolve", *decision], ["accept-schema", *where, "--sink", "a", "--reason", "wider"]):
            error = CliRunner().invoke(app, command).exception
            assert isinstance(error, CheckpointInUseError)
            assert "the checkpoint hdfs://host/orders is in use" in str(error)


def test_a_page_names_the_log_of_a_checkpoint_beside_which_none_can_lie(tmp_path: Path) -> None:
    checkpoint = files_at("hdfs://host/orders", explicit_log=True)
    for log, named in ((LocalLog(tmp_path), str(tmp_path)), (SqlLog("sqlite:///x.db", pipeline="orders"), "LOG")):
        assert f" --log {named} " in resolve_command(log, checkpoint, 2, "a", Action.ACCEPT_LOSS)
