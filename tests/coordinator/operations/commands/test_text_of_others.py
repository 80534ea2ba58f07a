"""Text of others on the screen, in the log and on the page: it moves no cursor and makes no line of its own."""

from __future__ import annotations

import ast
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.core.builders import branch, complete, generation_body, intent, manifest
from tpc.__main__ import app
from tpc.coordinator.kernel.epoch_lines import write_line
from tpc.coordinator.kernel.heartbeat import FILE_NAME
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.operations.commands.listing import table
from tpc.coordinator.operations.monitoring.json_lines import JsonFormatter
from tpc.coordinator.operations.page.pages import error_page
from tpc.describing import escaped, is_shown
from tpc.errors import ParkedError, TpcError
from tpc.records import RecordKind

ROOT = Path(__file__).parents[4]
POISON = "x\x1b]0;owned\x07\x9b2J\x7f\u202e\u2066\u2028\u0085\r\n\b\tforged\u00a0"
FORGED = "forged"


def bare(text: str) -> set[str]:
    """The characters of lines that a terminal would act on."""
    return {each for each in text.replace("\n", "") if not is_shown(each)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A pipeline whose records and notes hold such text wherever they hold text that is not checked."""
    checkpoint = tmp_path / "checkpoint"
    journal = Journal(LocalLog(checkpoint / LOG_FOLDER))
    resolution = {"epoch": 0, "sink": POISON, "action": "accept-loss", "reason": POISON, "operator": POISON, "ends": {}}
    removed = {POISON: {"marker": 0, "owners": {}, "after": 0}}
    body = generation_body(1, resolutions=[resolution], removed=removed) | {"sinks": {"a": POISON, "b": "id-b"}}
    journal.append(RecordKind.GENERATION, body)
    for epoch in (0, 1):
        made = manifest(epoch)
        named = replace(branch("a", epoch), committable=replace(branch("a", epoch).committable, resource=POISON))
        made = replace(
            made,
            epoch_input=replace(made.epoch_input, start=(POISON,), end=(POISON,)),
            sinks={**made.sinks, "a": replace(made.sinks["a"], branches=(named,), identity=POISON)},
            counts={"rows": 3, POISON: 1},
        )
        journal.append(*intent(made))
        if epoch == 0:
            journal.append(*complete(0))
    ParkedNote(checkpoint / "tpc").keep(ParkedError(POISON, epoch=1, sink=POISON))
    beat = {"turn": 1, "process": 1, "host": POISON, "boot": "another"}
    (checkpoint / "tpc" / FILE_NAME).write_text(json.dumps(beat))
    return checkpoint


COMMANDS = [
    ["status", "CHECKPOINT"],
    ["status", "CHECKPOINT", "--json"],
    ["history", "CHECKPOINT"],
    ["history", "CHECKPOINT", "--offsets"],
    ["show", "CHECKPOINT", "1"],
    ["show", "CHECKPOINT", "1", "--raw"],
    ["show", "CHECKPOINT", "1", "--json"],
    ["watch", "CHECKPOINT", "--once"],
    ["log", "check", "CHECKPOINT"],
    ["resolve", "CHECKPOINT", "--epoch", "1", "--sink", POISON, "--reason", POISON, "--accept-loss"],
    ["resolve", "CHECKPOINT", "--epoch", "1", "--sink", "a", "--reason", POISON, "--mark-committed"],
    ["accept-schema", "CHECKPOINT", "--sink", POISON, "--reason", POISON],
    ["doctor", "CHECKPOINT"],
    ["in-doubt", POISON],
    ["status", POISON],
    ["savepoints", "list", POISON],
    ["savepoints", "check", POISON],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(word for word in words if word.isprintable()))
def test_no_command_prints_what_a_terminal_acts_on(checkpoint: Path, command: list[str]) -> None:
    done = CliRunner().invoke(app, [str(checkpoint) if word == "CHECKPOINT" else word for word in command])
    told = done.output + ("" if not isinstance(done.exception, TpcError) else str(done.exception))
    assert isinstance(done.exception, (TpcError, SystemExit, type(None))), done.exception
    assert told
    assert not bare(told)
    assert not any(line.lstrip().startswith(FORGED) for line in told.splitlines())


def test_no_cell_of_a_table_holds_it() -> None:
    made = table(("a", "b"), [(POISON, 1)])
    assert not bare(str(next(iter(made.columns[0].cells))))


def test_nothing_of_a_command_is_printed_past_the_one_function() -> None:
    """Every command of a terminal goes through `tpc.support.terminal`, and a table through `listing`."""
    rooms = [*(ROOT / "coordinator" / "operations" / "commands").glob("*.py"), ROOT / "tpc" / "__main__.py"]
    found = []
    for path in [*rooms, ROOT / "sinks" / "effects" / "cli.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("typer.echo", "typer.secho", "click.echo", "print") or name.endswith(
                ("stdout.write", "stderr.write")
            ):
                found.append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    assert not found


@given(st.text(st.characters()))
def test_escaped_text_is_one_line_that_a_terminal_shows_as_it_is(text: str) -> None:
    shown = escaped(text)
    assert not bare(shown)
    assert len(shown.splitlines()) <= 1
    assert escaped(shown) == shown
    shown.encode()


def test_text_that_people_read_stays() -> None:
    text = "Ünïcödé, 日本語\u3000全角, عربى, 👍\u00a0%"
    assert escaped(text) == text


@pytest.mark.parametrize("form", ["plain", "json"])
def test_a_line_of_the_log_is_one_line(form: str) -> None:
    from tpc.coordinator.kernel.notices import Notice, Turn

    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else None)
    logger = logging.getLogger("tpc.epochs")
    logger.addHandler(handler)
    try:
        error = ParkedError(POISON, epoch=1, sink="a")
        notice = Notice(Turn.PARKED, "job#1", epoch=1, sink="a", generation=1, error=error)
        write_line(notice)
        logger.warning("%s", POISON) if form == "json" else None
    finally:
        logger.removeHandler(handler)
    assert not bare(stream.getvalue())
    assert len(stream.getvalue().splitlines()) == (2 if form == "json" else 1)
    if form == "json":
        assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()][1] == POISON


def test_the_page_shows_no_marks_of_direction() -> None:
    shown = error_page(POISON, {"what": POISON, "safe": "", "remedy": POISON}, 0.0)
    assert not {each for each in shown if each in POISON} & set("\x1b\x07\x9b\u202e\u2066\u2028")
    assert "\\u202e" in shown


@pytest.mark.parametrize("made", [lambda: TpcError(POISON, sink=POISON, remedy=POISON)])
def test_an_error_is_one_line(made: Callable[[], TpcError]) -> None:
    assert not bare(f"{made()} {made().what}")
    assert len(f"{made()}".splitlines()) == 1
