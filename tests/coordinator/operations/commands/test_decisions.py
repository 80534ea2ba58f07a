"""A decision that drops rows: only with a reason, of what a sink has refused or by an explicit word, and once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.operations import actions
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.errors import ConfigurationError, ParkedError
from tpc.history import Action, Resolution
from tpc.records import RecordKind

DECISION = ("--epoch", "1", "--sink", "a", "--reason", "the table is gone")
WORD = "--although-not-refused"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint whose epoch 1 is decided and not complete: 6 rows in two branches of `a`, 3 in one of `b`."""
    journal = Journal(LocalLog(tmp_path / "checkpoint" / LOG_FOLDER))
    journal.append(RecordKind.GENERATION, generation_body(1))
    for kind, body in (intent(manifest(0)), complete(0), intent(manifest(1, {"a": 2, "b": 1}))):
        journal.append(kind, body)
    return tmp_path / "checkpoint"


def decide(checkpoint: Path, *words: str, decision: tuple[str, ...] = DECISION) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["resolve", str(checkpoint), *decision, *words])
    assert isinstance(done.exception, (ConfigurationError, SystemExit, type(None)))
    error = done.exception if isinstance(done.exception, ConfigurationError) else ""
    return done.exit_code, f"{done.output}{error}"


def refused_by(checkpoint: Path, sink: str, epoch: int = 1) -> None:
    ParkedNote(checkpoint / "tpc").keep(ParkedError("the unique index refuses key 7", epoch=epoch, sink=sink))


def recorded(checkpoint: Path) -> list[str]:
    resolutions = Journal(LocalLog(checkpoint / LOG_FOLDER)).open().resolutions
    return [f"{one.sink} {one.action.value}" for one in resolutions]


def test_a_loss_that_no_sink_is_on_record_as_refusing_wants_a_word(checkpoint: Path) -> None:
    code, told = decide(checkpoint, "--accept-loss")
    assert code == 1
    assert "no sink is on record as refusing epoch 1" in told
    assert "a start commits what a has of it, 6 rows in 2 branches, and this decision would drop them" in told
    assert WORD in told
    assert recorded(checkpoint) == []
    code, told = decide(checkpoint, "--accept-loss", WORD)
    assert code == 0
    assert "LOST in sink a: the 6 rows of epoch 1 in 2 branches" in told
    assert recorded(checkpoint) == ["a accept-loss"]


@pytest.mark.parametrize(("sink", "epoch"), [("b", 1), ("a", 0)], ids=["another sink", "another epoch"])
def test_a_refusal_of_something_else_is_none(checkpoint: Path, sink: str, epoch: int) -> None:
    refused_by(checkpoint, sink, epoch)
    code, told = decide(checkpoint, "--accept-loss")
    assert code == 1
    assert "is on record as refusing epoch 1" in told
    assert recorded(checkpoint) == []


def test_a_loss_of_what_the_sink_has_refused_needs_no_more_words(checkpoint: Path) -> None:
    refused_by(checkpoint, "a")
    code, told = decide(checkpoint, "--accept-loss", "--json")
    assert code == 0
    assert json.loads(told)["rows"] == 6
    assert recorded(checkpoint) == ["a accept-loss"]


def test_what_is_put_there_by_hand_is_no_loss(checkpoint: Path) -> None:
    code, told = decide(checkpoint, "--mark-committed")
    assert (code, "LOST" in told) == (0, False)
    assert "UNDONE in sink a: what is prepared of the 6 rows of epoch 1 in" in told


def test_the_word_is_that_of_a_loss(checkpoint: Path) -> None:
    assert decide(checkpoint, "--mark-committed", WORD)[0] == 2
    assert recorded(checkpoint) == []


@pytest.mark.slow
@pytest.mark.parametrize("note", ["", "{", "null", "[]", '{"epoch": 1}', '{"epoch": "1", "sink": 3}', "\x00\xff"])
def test_a_garbled_note_on_a_refusal_is_none(checkpoint: Path, note: str) -> None:
    (checkpoint / "tpc" / "parked.json").write_bytes(note.encode("latin-1"))
    for command in (["status"], ["log", "check"], ["watch", "--once"]):
        done = CliRunner().invoke(app, [*command, str(checkpoint)])
        assert done.exit_code == 0, done.exception
        assert "is parked" not in done.output
    assert decide(checkpoint, "--accept-loss")[0] == 1


@pytest.mark.parametrize("first", ["--accept-loss", "--mark-committed"])
def test_a_second_decision_does_not_contradict_the_first(checkpoint: Path, first: str) -> None:
    refused_by(checkpoint, "a")
    second = {"--accept-loss": "--mark-committed", "--mark-committed": "--accept-loss"}[first]
    assert decide(checkpoint, first)[0] == 0
    for words in ((second,), (second, WORD) if second == "--accept-loss" else (second,)):
        code, told = decide(checkpoint, *words)
        assert code == 1
        assert f"a decision about epoch 1 in sink 'a' is on record already: {first[2:]}" in told
        assert "the table is gone" in told
    assert recorded(checkpoint) == [f"a {first[2:]}"]
    refused_by(checkpoint, "b")
    other = ("--epoch", "1", "--sink", "b", "--reason", "x")
    assert decide(checkpoint, second, decision=other)[0] == 0, "another sink's is another decision"


@pytest.mark.parametrize("reason", ["", " ", "\n\t", "\udcff"], ids=["empty", "space", "newline", "no text"])
def test_every_decision_wants_a_reason(checkpoint: Path, reason: str) -> None:
    place = LocalLog(checkpoint / LOG_FOLDER), LocalFiles(checkpoint)
    before = place[0].slots()
    with pytest.raises(ConfigurationError, match="reason"):
        actions.resolve(*place, Resolution(1, "a", Action.MARK_COMMITTED, reason, "anna"))
    with pytest.raises(ConfigurationError, match="reason"):
        actions.remove_lost_sink(*place, "b", reason)
    for words in (
        ["resolve", str(checkpoint), "--epoch", "1", "--sink", "a", "--mark-committed", "--reason", reason],
        ["resolve", str(checkpoint), "--epoch", "1", "--accept-state", "--reason", reason],
        ["accept-schema", str(checkpoint), "--sink", "a", "--reason", reason],
    ):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, ConfigurationError), words
        assert "reason" in str(done.exception)
    assert place[0].slots() == before
