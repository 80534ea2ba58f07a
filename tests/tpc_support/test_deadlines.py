"""Deadlines and patience: asked again for a bounded time, then told."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from tpc.errors import TransientError
from tpc.support.deadlines import Deadline, patiently, until, within


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
