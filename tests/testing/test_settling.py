"""A system that comes back from an outage is asked again for a while, and at no other time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpc.errors import ConfigurationError, TpcError, TransientError
from tpc.testing.bench import Settling

LONG_S = 60.0


def failing(times: int, error: type[TpcError] = TransientError) -> Callable[[], str]:
    """A call that fails so often, and answers then."""
    left = iter(range(times))

    def call() -> str:
        if next(left, None) is not None:
            raise error("no answer")
        return "an answer"

    return call


def test_what_fails_and_passes_is_done_again_after_an_outage() -> None:
    settling = Settling(LONG_S)
    settling.begin()
    assert settling.patiently(failing(3)) == "an answer"


def test_an_unknown_answer_is_asked_again_after_an_outage() -> None:
    settling = Settling(LONG_S)
    settling.begin()
    answers = iter(["unknown", "unknown", "done"])
    assert settling.patiently(lambda: next(answers), lambda answer: answer == "unknown") == "done"


def test_the_first_error_counts_where_no_outage_was() -> None:
    with pytest.raises(TransientError):
        Settling(LONG_S).patiently(failing(1))


def test_the_first_error_counts_after_an_outage_of_a_system_that_does_not_settle() -> None:
    settling = Settling(0.0)
    settling.begin()
    with pytest.raises(TransientError):
        settling.patiently(failing(1))
    assert settling.patiently(lambda: "unknown", lambda _: True) == "unknown"


def test_the_last_error_counts_when_the_time_is_over() -> None:
    settling = Settling(0.1)
    settling.begin()
    with pytest.raises(TransientError):
        settling.patiently(failing(1_000_000))


def test_an_error_that_does_not_pass_counts_at_once() -> None:
    settling = Settling(LONG_S)
    settling.begin()
    with pytest.raises(ConfigurationError):
        settling.patiently(failing(1, ConfigurationError))
