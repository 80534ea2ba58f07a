"""What a carrier outlives: its coordinator's next term, answers and pauses that cannot be, what it does not expect."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from tenacity import RetryCallState

from tests.sinks.effects.outbox import DEADLINE_S, PIPELINE, SCHEMA, Outbox, becomes
from tpc.errors import TransientError
from tpc.sink import CheckContext, Owner
from tpc.sinks import Effect, EffectUnavailableError
from tpc.sinks.effects import carrier
from tpc.sinks.effects import committer as committer_module
from tpc.sinks.effects.calls import Calls, listed
from tpc.sinks.effects.committer import EffectCommitter
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import EffectRetry, EffectsOverdueError, Fate

DONE = Fate.DONE


def busy_once(effect: Effect) -> str:
    """A service that is busy at each first call."""
    if effect.key not in BUSY:
        BUSY.add(effect.key)
        raise EffectUnavailableError("busy")
    return "paid"


BUSY: set[str] = set()


@pytest.fixture(autouse=True)
def nobody_is_busy_yet() -> None:
    BUSY.clear()


def next_term(driver: EffectCommitter) -> None:
    before = driver.owner()
    assert before is not None
    assert driver.take_ownership(Owner(before.generation + 1, "next", 0.0), before)
    driver.completed(0)


def has_begun(driver: EffectCommitter) -> bool:
    """Whether its carrier's first term is in the outbox."""
    return driver._carrier is not None and driver._carrier._has_begun


def test_a_term_that_is_renewed_while_an_outcome_is_noted_does_not_fence_its_own_carrier(tmp_path: Path) -> None:
    noting, renewed = threading.Event(), threading.Event()

    class Slow(Calls):
        def not_done(self, *of: Any, **more: Any) -> None:
            """The database is busy until the next term is in it, if that can be."""
            noting.set()
            renewed.wait(0.5)
            super().not_done(*of, **more)

    outbox = Outbox(tmp_path / "outbox", busy_once, concurrency=1)
    driver = outbox.life()
    driver._calls = Slow(driver._database, driver.key)
    outbox.committed(driver, 0, [(0, "a1", 1), (1, "a2", 2)])
    driver.completed(0)
    assert noting.wait(DEADLINE_S)
    next_term(driver)
    renewed.set()
    assert outbox.comes_to({"0": DONE, "1": DONE})
    driver.close()


def test_a_term_whose_renewal_is_answered_with_an_error_does_not_fence_its_own_carrier(tmp_path: Path) -> None:
    """It may stand in the database, or not: two in a row, of which the carrier has heard nothing."""
    unheard = 2

    class Unheard(Calls):
        def renew(self, *of: Any) -> None:
            nonlocal unheard
            super().renew(*of)
            unheard -= 1
            if unheard >= 0:
                raise TransientError("the answer to COMMIT is lost")

    outbox = Outbox(tmp_path / "outbox", busy_once)
    driver = outbox.life()
    driver._calls = Unheard(driver._database, driver.key)
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(-1)
    assert becomes(lambda: has_begun(driver))
    for _ in range(2):
        with pytest.raises(TransientError, match="COMMIT"):
            next_term(driver)
    assert driver._carrier is not None
    driver._carrier.carry_to(0)
    assert outbox.comes_to({"0": DONE})
    outbox.committed(driver, 1, [(1, "a2", 2)])
    driver.completed(1)
    assert outbox.comes_to({"0": DONE, "1": DONE})
    driver.close()


class Unspeakable:
    """An answer that has no words."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(("answer", "kept"), [("paid \ud83d", "paid ?"), (Unspeakable(), "")])
def test_an_answer_that_is_no_text_is_an_answer(tmp_path: Path, answer: object, kept: str) -> None:
    made: list[str] = []

    def call(effect: Effect) -> object:
        made.append(effect.key)
        return answer

    outbox = Outbox(tmp_path / "outbox", call, concurrency=1)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1), (1, "a2", 2)])
    driver.completed(0)
    assert outbox.comes_to({"0": DONE, "1": DONE})
    driver.close()
    assert made == ["shop#1/pay/0", "shop#1/pay/1"]
    assert {one.answer for one in listed(Database(outbox.path, 10.0), [DONE], 10)} == {kept}


def fails(state: RetryCallState) -> float:
    """A pause that is none."""
    raise ZeroDivisionError


@pytest.mark.parametrize("pause", [fails, lambda state: float("nan"), lambda state: "soon"])
def test_a_pause_that_is_none_is_the_one_that_doubles(tmp_path: Path, pause: Any) -> None:
    outbox = Outbox(tmp_path / "outbox", busy_once, concurrency=1, retry=EffectRetry(pause=pause))
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1), (1, "a2", 2)])
    driver.completed(0)
    assert outbox.comes_to({"0": DONE, "1": DONE})
    driver.close()


def test_what_a_carrier_does_not_expect_is_told_and_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "LOOK_AGAIN_S", 0.05)  # else the test is one long wait

    class Strange(Calls):
        asked = 0

        def claim(self, *of: Any) -> Any:
            self.asked += 1
            if self.asked == 1:
                raise KeyError("nobody thought of this")
            return super().claim(*of)

    outbox = Outbox(tmp_path / "outbox", lambda effect: "paid", concurrency=1)
    driver = outbox.life()
    driver._calls = Strange(driver._database, driver.key)
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    assert outbox.comes_to({"0": DONE})
    driver.close()
    assert "nobody thought of this" in caplog.text


@pytest.mark.slow
def test_of_an_exception_that_is_not_the_call_s_own_word_only_the_type_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def call(effect: Effect) -> None:
        raise ConnectionResetError("https://bank.example/pay?token=hunter2")

    caplog.set_level(logging.DEBUG)
    outbox = Outbox(tmp_path / "outbox", call, wait=True, wait_timeout_s=0.5)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1)])
    driver.completed(0)
    with pytest.raises(EffectsOverdueError, match="shop#1/pay/0") as caught:
        driver.hint()
    driver.close()
    kept = listed(Database(outbox.path, 10.0), tuple(Fate), 10)[0].answer
    assert "ConnectionResetError" in caplog.text and kept == "ConnectionResetError"
    assert "hunter2" not in caplog.text + str(caught.value)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the outbox was warned of; others in this process may log at any time."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == committer_module.logger.name and "remote file system" in record.msg
    ]


def test_an_outbox_on_a_network_file_system_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(tmp_path / "outbox", busy_once)
    context = CheckContext(PIPELINE, SCHEMA, 2)
    outbox.sink.committer(PIPELINE).check(context)
    assert warned(caplog) == []
    monkeypatch.setattr(committer_module, "file_system", lambda path: "nfs4")
    outbox.sink.committer(PIPELINE).check(context)
    (warning,) = warned(caplog)
    assert "nfs4" in warning and "locks" in warning
