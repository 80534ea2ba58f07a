"""The page asks the systems of a job's sinks: what they say of an epoch's branches, of owners, of what is in doubt."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator.operations.page.logs import LocalPipeline, Site
from tests.core.builders import JOB
from tests.support.memory_pipeline import MemoryPipeline, acting, started
from tests.support.memory_sink import MemorySink
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.operations.commands import ui_cli
from tpc.coordinator.operations.page import sink_answers
from tpc.coordinator.operations.page.pages import branch_in_words
from tpc.coordinator.operations.page.sink_answers import Said
from tpc.errors import TransientError
from tpc.sink import InDoubt, Owner


class DeadError(Exception):
    """The coordinator is gone."""


@pytest.fixture
def decided() -> MemoryPipeline:
    """Epoch 0 is complete; epoch 1 is decided and nobody has committed it."""
    pipeline = started(MemorySink("a"), MemorySink("b"))
    pipeline.run(0)

    def die(_: object) -> None:
        raise DeadError

    with acting("epoch.decided", die), pytest.raises(DeadError):
        pipeline.run(1)
    return pipeline


def site_over(pipeline: MemoryPipeline) -> Site:
    return Site(lambda: (pipeline.log, None), asks=pipeline.sinks)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_of_each_branch_of_an_epoch_it_is_told_what_its_system_says_now(decided: MemoryPipeline) -> None:
    site = site_over(decided)
    page = site.text("/pipelines/0/epochs/1")
    assert page.count("<td>prepared: in doubt</td>") == 2
    assert "a (memory) was asked just now : it shows epoch 0, 1 in doubt" in words(page)
    assert site.text("/pipelines/0/epochs/0").count("<td>not in doubt; it shows epoch 0</td>") == 2
    decided.restarted()
    site.clock.advance(sink_answers.KEPT_S + 1)
    site.look()
    assert site.text("/pipelines/0/epochs/1").count("<td>not in doubt; it shows epoch 1</td>") == 2


def test_the_sinks_are_told_with_marker_owner_and_branches_in_doubt_with_their_age(decided: MemoryPipeline) -> None:
    late = decided.sinks[0].plant(0, partition=9)
    site = site_over(decided)
    site.text("/pipelines/0/sinks")
    site.clock.advance(30)
    page = words(site.text("/pipelines/0/sinks"))
    assert "a memory just now epoch 0 epoch 1 generation 1" in page
    assert f"{late} a 1 0 30 s ago abort: no intent names it" in page
    assert page.count("commit: the intent names it") == 2
    assert 'href="/pipelines/0/sinks"' in site.text("/pipelines/0")


def test_a_branch_that_is_committed_since_its_system_was_asked_is_not_told_as_lost(decided: MemoryPipeline) -> None:
    site = site_over(decided)
    site.text("/pipelines/0/sinks")
    decided.clock.now_s = site.clock.now_s + 1
    decided.restarted()
    site.look()
    page = words(site.text("/pipelines/0/sinks"))
    assert page.count("commit: epoch 1 is complete since this system was asked") == 2


def test_a_branch_of_a_complete_epoch_that_is_prepared_again_is_told_as_a_lost_commit(decided: MemoryPipeline) -> None:
    resource = next(iter(decided.sinks[0].prepared))
    decided.restarted()
    decided.sinks[0].plant(1, only_copy=True)
    assert resource in decided.sinks[0].prepared
    page = words(site_over(decided).text("/pipelines/0/sinks"))
    assert f"{resource} a 1 1 just now commit by hand: epoch 1 is complete by the log" in page


def test_an_owner_of_another_log_is_told(decided: MemoryPipeline) -> None:
    decided.sinks[0].owner = Owner(7, "somebody's", 0.0)
    page = words(site_over(decided).text("/pipelines/0/sinks"))
    assert "generation 7, of a log that is not this one" in page
    assert page.count("of a log that is not this one") == 1


@pytest.mark.parametrize("path", ["sinks", "epochs/2"])
def test_with_a_log_alone_it_is_said_that_nobody_was_asked_and_why(path: str, tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path).term().epochs(3)
    page = words(Site(lambda: (pipeline.log, LocalCheckpoint(pipeline.checkpoint))).text(f"/pipelines/0/{path}"))
    assert "The systems were not asked: only a log was named" in page
    assert "in doubt;" not in page


@pytest.mark.parametrize("path", ["sinks", "epochs/1"])
def test_a_system_that_is_down_is_shown_as_such_beside_those_that_answer(path: str, decided: MemoryPipeline) -> None:
    def down() -> None:
        raise TransientError("the server refuses the connection")

    decided.sinks[0].on_listed = down
    page = words(site_over(decided).text(f"/pipelines/0/{path}"))
    assert "not known: the server refuses the connection" in page
    assert {"sinks": "commit: the intent names it", "epochs/1": "b (memory) was asked just now"}[path] in page


@pytest.fixture
def hanging(decided: MemoryPipeline, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The first sink's system answers nobody before this is set."""
    answers = threading.Event()
    decided.sinks[0].on_listed = answers.wait  # type: ignore[assignment]  # what it returns is of no account
    monkeypatch.setattr(sink_answers, "ANSWER_TIMEOUT_S", 0.5)
    yield answers
    answers.set()


def test_a_system_that_hangs_delays_one_page_by_the_deadline_and_is_asked_once(
    decided: MemoryPipeline, hanging: threading.Event
) -> None:
    site = site_over(decided)
    assert "not known: no answer within 0.5 s" in site.text("/pipelines/0/sinks")
    began = time.monotonic()
    for _ in range(5):
        site.clock.advance(60)
        assert "not known: no answer within 0.5 s" in site.text("/pipelines/0/sinks")
    assert time.monotonic() - began < 5 * 0.5
    asked = [thread for thread in threading.enumerate() if thread.name == "tpc-ui-ask-a"]
    assert len(asked) == 1
    hanging.set()
    asked[0].join(10)
    assert "no answer" not in site.text("/pipelines/0/sinks")


def test_an_error_that_nobody_has_foreseen_is_named_and_its_text_is_not_shown(decided: MemoryPipeline) -> None:
    def breaks() -> None:
        raise RuntimeError("postgresql://anna:hunter2@host/db")

    decided.sinks[0].on_listed = breaks
    site = site_over(decided)
    for path in ("sinks", "epochs/1"):
        page = site.text(f"/pipelines/0/{path}")
        assert "not known: RuntimeError" in page
        assert "hunter2" not in page


def test_asking_changes_nothing(decided: MemoryPipeline) -> None:
    before = [(list(sink.calls), dict(sink.prepared), sink.owner) for sink in decided.sinks]
    slots = decided.log.slots()
    site = site_over(decided)
    for path in ("sinks", "epochs/1", "epochs/0"):
        site.text(f"/pipelines/0/{path}")
    assert [(sink.calls, sink.prepared, sink.owner) for sink in decided.sinks] == before
    assert decided.log.slots() == slots


def test_many_browsers_ask_a_system_once_in_a_while(decided: MemoryPipeline) -> None:
    asked: list[float] = []
    decided.sinks[0].on_listed = lambda: asked.append(site.clock.now_s)
    site = site_over(decided)
    for _ in range(4):
        site.text("/pipelines/0/sinks")
    assert len(asked) == 1
    site.clock.advance(sink_answers.KEPT_S)
    site.text("/pipelines/0/sinks")
    assert len(asked) == 2


def test_a_resource_that_a_later_epoch_uses_again_does_not_put_a_complete_one_in_doubt() -> None:
    listed = InDoubt("ring-7", JOB, 1, "kafka", None)
    said = {"kafka": Said("kafka", "kafka", 0.0, shown=4, in_doubt=((listed, 0.0),))}
    branch = {"sink": "kafka", "resource": "ring-7"}
    assert branch_in_words(said, branch, 3, is_complete=True) == "not in doubt; it shows epoch 4"
    assert branch_in_words(said, branch, 5, is_complete=False) == "prepared: in doubt"


def test_absence_is_told_as_absence() -> None:
    branch = {"sink": "a", "resource": "r"}
    nothing = {"a": Said("a", "memory", 0.0)}
    assert branch_in_words(nothing, branch, 3, is_complete=False) == "not in doubt, and it shows no epoch"
    earlier = {"a": Said("a", "memory", 0.0, shown=2)}
    assert branch_in_words(earlier, branch, 3, is_complete=False) == "not in doubt, and it shows epoch 2"
    assert branch_in_words({}, branch, 3, is_complete=False) == "not asked: the job has no such sink now"


def test_a_job_is_named_with_its_sinks_and_a_checkpoint_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_job.py").write_text(
        "import tpc\nfrom tpc.sinks import KafkaOffsetsSink\n"
        "def pipeline():\n"
        f"    made = tpc.pipeline('job', checkpoint={str(tmp_path / 'checkpoint')!r})\n"
        "    return made.offsets_to(KafkaOffsetsSink('group', servers='127.0.0.1:1', name='offsets'))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    place, asked = ui_cli._place("named_job:pipeline")
    assert str(place()[1]) == str(tmp_path / "checkpoint")
    assert asked is not None
    assert (asked.pipeline, [sink.name for sink in asked.sinks]) == (JOB, ["offsets"])
    LocalPipeline(tmp_path / "checkpoint").term()
    assert ui_cli._place(str(tmp_path / "checkpoint"))[1] is None
