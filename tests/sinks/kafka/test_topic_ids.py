"""What brokers' answers about a topic come to, where no cluster gives them on demand."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.topic_ids import _agreed

FIRST, SECOND = UUID(int=1), UUID(int=2)
UNKNOWN_TOPIC, NOT_ALLOWED = 3, 29


def told(topic_id: UUID | None, error_code: int = 0) -> SimpleNamespace:
    """One broker's answer."""
    return SimpleNamespace(name="t", topic_id=topic_id, error_code=error_code)


def test_brokers_that_agree_tell_one_id() -> None:
    assert _agreed([told(FIRST), told(FIRST)]) == {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}


def test_brokers_that_do_not_agree_are_asked_again() -> None:
    with pytest.raises(TransientError, match="brokers disagree on the id of topic 't'"):
        _agreed([told(FIRST), told(SECOND)])


@pytest.mark.parametrize("no_id", [None, UUID(int=0)])
def test_a_broker_that_is_too_old_for_ids_tells_none(no_id: UUID | None) -> None:
    assert _agreed([told(no_id)]) == {}
    assert _agreed([told(no_id), told(FIRST)]) == {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}


def test_a_broker_that_has_not_heard_of_the_topic_is_asked_again() -> None:
    with pytest.raises(TransientError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        _agreed([told(FIRST), told(None, UNKNOWN_TOPIC)])


def test_a_user_who_may_not_see_it_is_told_so() -> None:
    with pytest.raises(ConfigurationError, match="may not see topic 't'"):
        _agreed([told(None, NOT_ALLOWED)])
