"""Refusals, waiting, terms and settings of an effects sink; its promises have a module of their own."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pyarrow
import pytest

from tests.sinks.effects.outbox import DEADLINE_S, PIPELINE, SCHEMA, Outbox, becomes
from tpc.errors import ConfigurationError, TransientError
from tpc.handles import PipelineId
from tpc.sink import CheckContext
from tpc.sinks import Effect, EffectRefusedError, EffectSink, EffectUnavailableError
from tpc.sinks.effects import carrier
from tpc.sinks.effects.calls import listed, settle
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import EffectsOverdueError, Fate
from tpc.support.deadlines import until

CONTRADICTORY, DEAD, DONE, REPEATED, UNKNOWN = Fate.CONTRADICTORY, Fate.DEAD, Fate.DONE, Fate.REPEATED, Fate.UNKNOWN


class Calls:
    """A call that does what a test says, and remembers what it was given."""

    def __init__(self) -> None:
        self.made: list[Effect] = []
        self.errors: dict[str, list[Exception]] = {}
        self.hold = threading.Event()
        self.hold.set()

    def __call__(self, effect: Effect) -> str:
        self.made.append(effect)
        assert self.hold.wait(DEADLINE_S)
        if waiting := self.errors.get(effect.key):
            raise waiting.pop(0)
        return f"paid {effect.row['cents']}"


def test_after_so_many_refusals_an_effect_is_dead_and_the_others_go_on(tmp_path: Path) -> None:
    calls = Calls()
    calls.errors["shop#1/pay/0"] = [EffectRefusedError("no such account")] * 9
    outbox = Outbox(tmp_path / "outbox", calls)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1), (1, "a2", 2)])
    driver.completed(0)
    assert outbox.comes_to({"0": DEAD, "1": DONE})
    assert [one.refusals for one in calls.made if one.key.endswith("/0")] == [0, 1, 2]
    dead = listed(Database(outbox.path, 10.0), [DEAD], 10)[0]
    assert (dead.answer, dead.refusals, dead.row) == ("no such account", 3, '{"place":0,"account":"a1","cents":1}')
    driver.close()


def test_a_dead_effect_is_called_again_when_a_person_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "LOOK_AGAIN_S", 0.05)  # else the test is one long wait
    calls = Calls()
    calls.errors["shop#1/pay/0"] = [EffectRefusedError("closed")] * 3
    outbox = Outbox(tmp_path / "outbox", calls)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": DEAD})
    assert settle(Database(outbox.path, 10.0), "shop#1/pay/0", Fate.WAITING, "opened again, says anna") == 1
    assert outbox.comes_to({"0": DONE})
    assert settle(Database(outbox.path, 10.0), "shop#1/pay/0", Fate.WAITING, "what is done stays done") == 0
    driver.close()


def test_one_that_is_unavailable_is_no_refusal(tmp_path: Path) -> None:
    calls = Calls()
    calls.errors["shop#1/pay/0"] = [EffectUnavailableError("busy") for _ in range(5)]
    outbox = Outbox(tmp_path / "outbox", calls, guarantee="at-most-once")
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": DONE})
    assert len(calls.made) == 6
    driver.close()


@pytest.mark.parametrize(("guarantee", "fate", "made"), [("at-least-once", DONE, 2), ("at-most-once", UNKNOWN, 1)])
def test_a_call_whose_answer_is_lost_is_made_again_or_not(
    tmp_path: Path, guarantee: str, fate: Fate, made: int
) -> None:
    calls = Calls()
    calls.errors["shop#1/pay/0"] = [ConnectionResetError("by peer")]
    outbox = Outbox(tmp_path / "outbox", calls, guarantee=guarantee)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": fate})
    assert len(calls.made) == made
    driver.close()


def test_a_call_that_does_not_end_in_time_is_one_whose_answer_is_lost(tmp_path: Path) -> None:
    calls = Calls()
    calls.hold.clear()
    outbox = Outbox(tmp_path / "outbox", calls, guarantee="at-most-once", call_timeout_s=0.1)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": UNKNOWN})
    calls.hold.set()
    driver.close()


def test_of_rows_with_one_key_one_is_called_and_none_is_forgotten(tmp_path: Path) -> None:
    calls = Calls()
    outbox = Outbox(tmp_path / "outbox", calls)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1), (0, "a1", 1)])
    outbox.committed(driver, 1, [(0, "a1", 99)])
    driver.completed(1)
    assert becomes(lambda: outbox.fates() == {"0": CONTRADICTORY})  # the last one listed under that key
    assert becomes(lambda: bool(calls.made))
    driver.close()
    found = listed(Database(outbox.path, 10.0), tuple(Fate), 10)
    assert [one.fate for one in found] == [DONE, REPEATED, CONTRADICTORY]
    assert [one.row["cents"] for one in calls.made] == [1]


def test_a_pipeline_that_waits_begins_no_epoch_before_the_last_effects_are_carried_out(
    tmp_path: Path,
) -> None:
    calls = Calls()
    calls.hold.clear()
    outbox = Outbox(tmp_path / "outbox", calls, wait=True)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    asked: list[object] = []
    asking = threading.Thread(target=lambda: asked.append(driver.hint()))
    asking.start()
    assert not until(lambda: bool(asked), 0.3)
    calls.hold.set()
    assert becomes(lambda: bool(asked))
    asking.join()
    assert outbox.fates() == {"0": DONE}
    driver.close()


def test_one_that_waits_too_long_says_for_what_and_loses_nothing(tmp_path: Path) -> None:
    calls = Calls()
    calls.errors["shop#1/pay/0"] = [EffectUnavailableError("busy") for _ in range(10_000)]
    outbox = Outbox(tmp_path / "outbox", calls, wait=True, wait_timeout_s=0.3)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    with pytest.raises(EffectsOverdueError, match=r"1 effects of epochs up to 0 are not carried out .* shop#1/pay/0"):
        driver.hint()
    driver.close()
    calls.errors.clear()
    second = outbox.life(complete=0)
    assert outbox.comes_to({"0": DONE})
    second.close()


def test_the_end_of_a_pipeline_that_waits_is_the_end_of_its_effects(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", Calls(), wait=True)
    driver = outbox.life()
    outbox.committed(driver, 0, [(place, "a1", 1) for place in range(5)])
    driver.completed(0)
    driver.close()
    assert set(outbox.fates().values()) == {DONE}


def test_a_carrier_that_is_overtaken_calls_nothing_more_and_what_it_has_done_counts(tmp_path: Path) -> None:
    calls = Calls()
    calls.hold.clear()
    outbox = Outbox(tmp_path / "outbox", calls, guarantee="at-most-once", concurrency=1)
    forgotten = outbox.life()
    outbox.committed(forgotten, 0, [(0, "a1", 1), (1, "a2", 2)])
    forgotten.completed(0)
    assert becomes(lambda: bool(calls.made))
    successor = outbox.life(complete=0)
    assert becomes(lambda: outbox.fates()["0"] is UNKNOWN and len(calls.made) == 2)
    calls.hold.set()
    assert outbox.comes_to({"0": DONE, "1": DONE})
    assert sorted(one.key for one in calls.made) == ["shop#1/pay/0", "shop#1/pay/1"]
    outbox.committed(successor, 1, [(2, "a3", 3)])
    forgotten.completed(1)
    assert not until(lambda: len(calls.made) > 2, 0.3)
    forgotten.close()
    successor.close()


def test_the_same_carrier_goes_on_in_its_coordinator_s_next_term(tmp_path: Path) -> None:
    calls = Calls()
    calls.hold.clear()
    outbox = Outbox(tmp_path / "outbox", calls, guarantee="at-most-once")
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert becomes(lambda: bool(calls.made))
    before = driver.owner()
    assert before is not None
    assert driver.take_ownership(type(before)(2, "next", 0.0), before)
    driver.completed(0)
    calls.hold.set()
    assert outbox.comes_to({"0": DONE})
    driver.close()


def test_a_command_that_only_finishes_calls_nobody(tmp_path: Path) -> None:
    calls = Calls()
    outbox = Outbox(tmp_path / "outbox", calls)
    outbox.committed(outbox.life(), 0, [(0, "a1", 1)])
    finishing = outbox.life(complete=0, checked=False)
    assert not until(lambda: bool(calls.made), 0.3)
    finishing.close()


def test_a_call_stays_on_the_driver_and_need_not_be_picklable(tmp_path: Path) -> None:
    sink = EffectSink("pay", tmp_path, call=lambda effect: None, key=["place"], guarantee="at-most-once")
    sent = pickle.loads(pickle.dumps(sink))
    assert sent.call is None and sent.key == ("place",)


def test_the_guarantee_is_said_by_the_user(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="guarantee"):
        EffectSink("pay", tmp_path, call=print, key=["place"])  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="'at-least-once' or 'at-most-once'"):
        EffectSink("pay", tmp_path, call=print, key=["place"], guarantee="exactly-once")


@pytest.mark.parametrize(("key", "why"), [("nothing", "there is no column"), ("amount", "is of type double")])
def test_a_key_that_names_nothing_is_refused_before_the_first_epoch(tmp_path: Path, key: str, why: str) -> None:
    sink = EffectSink("pay", tmp_path, call=print, key=[key], guarantee="at-most-once")
    context = CheckContext(PIPELINE, SCHEMA.append(pyarrow.field("amount", pyarrow.float64())), 2)
    with pytest.raises(ConfigurationError, match=why):
        sink.committer(PIPELINE).check(context)


def test_an_outbox_whose_database_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", Calls())
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    (outbox.path / "_tpc" / "effects.db").unlink()
    with pytest.raises(TransientError, match=r"effects\.db"):
        outbox.sink.committer(PIPELINE).newest_marker()


def test_pipelines_with_one_outbox_do_not_carry_each_other_s_effects(tmp_path: Path) -> None:
    calls = Calls()
    outbox = Outbox(tmp_path / "outbox", calls)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    other = outbox.sink.committer(PipelineId("shop", 11))
    other.check(CheckContext(PipelineId("shop", 11), SCHEMA, 2))
    owner = driver.owner()
    assert owner is not None and other.take_ownership(owner, None)
    other.completed(5)
    assert not until(lambda: bool(calls.made), 0.3)
    other.close()
