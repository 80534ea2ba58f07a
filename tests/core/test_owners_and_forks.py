"""Owner entries of another log, and what a fork finds of its ancestor in a sink: each refuses, nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import JOB, begun, branch
from tpc.ancestors import Ancestor
from tpc.consistency import check_fork_identities, check_fork_sink, check_owners
from tpc.errors import ConfigurationError, FencedError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.sink import Marker, Owner

FORK, ANCESTOR = PipelineId("fork"), Ancestor(JOB, 4, {"a": "id-a", "b": "id-b"})
KNOWN = Owner(1, "n1", 0.0)
HISTORY = replace(begun(), owners={1: "n1"})


@pytest.mark.parametrize("entry", [None, KNOWN], ids=["none", "of this log"])
def test_owner_entries_of_this_log_and_none_are_no_objection(entry: Owner | None) -> None:
    check_owners(HISTORY, {"a": entry, "b": KNOWN})


@pytest.mark.parametrize("entry", [Owner(1, "another", 0.0), Owner(9, "n1", 0.0)], ids=["nonce", "generation"])
def test_an_owner_entry_that_this_log_has_not_put_is_told_with_its_sink(entry: Owner) -> None:
    with pytest.raises((HistoryMismatchError, FencedError)) as caught:
        check_owners(HISTORY, {"a": KNOWN, "b": entry})
    assert caught.value.sink == "b"


def test_a_fork_into_targets_of_its_own_is_no_objection() -> None:
    check_fork_identities(FORK, ANCESTOR, {"a": "id-of-its-own"})
    check_fork_sink(FORK, ANCESTOR, "a", None, None)


def test_a_fork_into_a_target_of_its_ancestor_is_refused_by_whatever_shows_it() -> None:
    with pytest.raises(ConfigurationError, match=r"is the target \(id-b\) of its sink 'b'"):
        check_fork_identities(FORK, ANCESTOR, {"a": "id-of-its-own", "c": "id-b"})
    with pytest.raises(ConfigurationError, match="reports epoch 4 of it as committed"):
        check_fork_sink(FORK, ANCESTOR, "a", Marker(4, branch("a", 4).committable.handle), None)
    with pytest.raises(ConfigurationError, match="was last fenced by its generation 7"):
        check_fork_sink(FORK, ANCESTOR, "a", None, Owner(7, "n", 0.0))
