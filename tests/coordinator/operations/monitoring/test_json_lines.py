"""One line for each turn of an epoch or a start, and what it is as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, acting
from tpc.coordinator.kernel.epoch_lines import FIELDS
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.notices import Turn
from tpc.errors import FencedError, ParkedError
from tpc.sink import Verdict

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the library logs as JSON while a test runs."""
    logger, stream = logging.getLogger("tpc"), io.StringIO()
    level, propagate = logger.level, logger.propagate
    handler = tpc.json_logging(stream=stream)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


def recovered(pipeline: MemoryPipeline) -> MemoryPipeline:
    pipeline.restarted(recover=False).observe = Listeners(pipeline.clock, [])
    pipeline.engine.recover()
    return pipeline


def told(lines: io.StringIO) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in every if line["logger"] == "tpc.epochs"]


def events(lines: io.StringIO) -> list[str]:
    return [line["event"] for line in told(lines)]


def test_a_start_and_each_epoch_have_their_lines_with_all_fields(lines: io.StringIO) -> None:
    pipeline = recovered(MemoryPipeline())
    with acting("epoch.decided", lambda _: pipeline.clock.advance(2.5)):
        pipeline.run(0)
    assert events(lines) == ["recovered", "decided", "complete"]
    complete = told(lines)[-1]
    assert {name: complete[name] for name in FIELDS} == {
        "event": "complete",
        "pipeline": "job",
        "epoch": 0,
        "sink": None,
        "generation": 1,
        "seconds": 2.5,
        "rows": 1,
    }
    assert complete["message"] == "pipeline job: epoch 0 is complete, 1 rows in 2.500 s"
    assert complete["level"] == "INFO"


def test_a_parked_epoch_names_its_sink_in_a_line_of_its_own(lines: io.StringIO) -> None:
    pipeline = recovered(MemoryPipeline())
    pipeline.sinks[1].answers = [Verdict.REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    assert events(lines) == ["recovered", "decided", "parked"]
    assert (told(lines)[-1]["epoch"], told(lines)[-1]["sink"], told(lines)[-1]["level"]) == (0, "b", "ERROR")


def test_a_fenced_coordinator_has_a_line(lines: io.StringIO) -> None:
    pipeline = recovered(MemoryPipeline())
    pipeline.somebody_takes_over()
    with pytest.raises(FencedError):
        pipeline.run(0)
    assert events(lines)[-1] == "fenced"


def test_an_epoch_that_a_start_finishes_has_its_line_before_the_start_s(lines: io.StringIO) -> None:
    pipeline = recovered(MemoryPipeline())
    pipeline.sinks[0].answers = [Verdict.REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    recovered(pipeline)
    assert events(lines)[-2:] == ["complete", "recovered"]


def test_what_the_user_s_code_has_raised_is_named_by_its_class_only(lines: io.StringIO) -> None:
    pipeline = recovered(MemoryPipeline())
    runner = pipeline.runner()

    def fail() -> None:
        raise ValueError("card 4929 1234")

    runner.on_prepared = fail
    with pytest.raises(ValueError, match="card"):
        run_epoch(pipeline.engine, 0, runner)
    assert told(lines)[-1]["message"] == "pipeline job: epoch 0 has failed: ValueError"
    assert "4929" not in lines.getvalue()


def test_other_lines_are_json_too_with_their_traceback_in_one_line(lines: io.StringIO) -> None:
    try:
        raise OSError("no space\nleft")
    except OSError:
        logging.getLogger("tpc.coordinator.spark.query").exception("it stops")
    [line] = lines.getvalue().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("ERROR", "tpc.coordinator.spark.query", "it stops")
    assert "OSError: no space\nleft" in found["exception"]
    assert set(found) == {"time", "level", "logger", "message", "exception"}


def test_a_second_call_replaces_the_first(lines: io.StringIO) -> None:
    second = io.StringIO()
    handler = tpc.json_logging(stream=second)
    logging.getLogger("tpc").info("once")
    logging.getLogger("tpc").removeHandler(handler)
    assert (lines.getvalue(), len(second.getvalue().splitlines())) == ("", 1)


def test_the_reference_names_every_field_and_every_event() -> None:
    section = REFERENCE.read_text().partition("## Log lines")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(FIELDS)
    [of_events] = re.findall(r"^\| `event` \| (.+) \|$", section, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", of_events)) == {turn.value for turn in Turn}
