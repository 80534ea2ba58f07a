"""Deadlines and patience: asked again for a bounded time, then told."""

from __future__ import annotations

import gc
import itertools
import threading
import time

import pytest

from tpc.errors import TransientError
from tpc.support.deadlines import Deadline, KeptThread, patiently, until, within


def test_a_deadline_has_something_left_until_it_has_passed() -> None:
    assert 0 < Deadline(60).remaining_s <= 60
    assert not Deadline(60).passed
    assert Deadline(0).passed
    assert Deadline(-1).remaining_s == 0


def test_a_deadline_tells_how_long_ago_it_was_set() -> None:
    began = time.monotonic()
    deadline = Deadline(0)
    time.sleep(0.05)
    assert 0.05 <= deadline.elapsed_s <= time.monotonic() - began


def test_what_becomes_true_is_waited_for() -> None:
    answers = iter([False, False, True])
    assert until(lambda: next(answers), 10)


def test_what_never_becomes_true_is_waited_for_no_longer_than_said() -> None:
    began = time.monotonic()
    assert not until(lambda: False, 0.1)
    assert time.monotonic() - began < 5


def test_what_is_true_at_once_is_asked_once() -> None:
    asked = itertools.count(1)
    assert until(lambda: next(asked) == 1, 0)
    assert next(asked) == 2


def test_an_error_of_the_condition_itself_is_raised_and_not_waited_out() -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        until(broken, 60)


def test_a_question_is_repeated_while_its_error_is_transient() -> None:
    errors = [TransientError("busy"), TransientError("busy")]

    def question() -> str:
        if errors:
            raise errors.pop()
        return "yes"

    assert patiently(question, 10) == "yes"


def test_a_question_that_is_never_answered_ends_with_its_last_error() -> None:
    def question() -> str:
        raise TransientError("busy")

    with pytest.raises(TransientError, match="busy"):
        patiently(question, 0.1)


def test_an_error_that_is_not_transient_is_raised_at_once() -> None:
    asked: list[None] = []

    def question() -> str:
        asked.append(None)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        patiently(question, 60)
    assert len(asked) == 1


def test_a_call_that_hangs_is_given_up_by_name() -> None:
    hanging = threading.Event()
    with pytest.raises(TimeoutError, match=r"the mount did not answer within 0\.05 s"):
        within(0.05, hanging.wait, waiting_for="the mount")
    hanging.set()


def test_the_answer_and_the_error_of_a_call_come_back() -> None:
    assert within(10, lambda: 7, waiting_for="it") == 7
    with pytest.raises(KeyError):
        within(10, {}.popitem, waiting_for="it")


def test_a_kept_thread_makes_all_calls_and_hands_on_results_and_errors() -> None:
    kept = KeptThread()
    made_in = {kept.within(10, threading.get_ident, waiting_for="it") for _ in range(10)}
    assert len(made_in) == 1
    assert threading.get_ident() not in made_in
    with pytest.raises(ZeroDivisionError):
        kept.within(10, lambda: 1 // 0, waiting_for="it")
    assert kept.within(10, lambda: None, waiting_for="it") is None


def test_a_kept_thread_that_hangs_is_given_up_and_its_late_answer_is_nobody_elses() -> None:
    kept, answered = KeptThread(), threading.Event()
    for _ in range(2):  # the second waits behind the first
        with pytest.raises(TimeoutError, match=r"the disk did not answer within 0\.1 s"):
            kept.within(0.1, lambda: answered.wait(60), waiting_for="the disk")
    answered.set()
    assert kept.within(10, lambda: "mine", waiting_for="the disk") == "mine"


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_a_kept_thread_ends_when_it_is_closed_or_forgotten(how: str) -> None:
    kept = KeptThread()
    thread = kept.within(10, threading.current_thread, waiting_for="it")
    if how == "closed":
        kept.close()
        with pytest.raises(RuntimeError):
            kept.within(10, lambda: None, waiting_for="it")
    del kept
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
