from __future__ import annotations

import pickle

import pytest

from tpc import errors
from tpc.errors import DataError, ParkedError, TpcError
from tpc.records import DamagedRecordError


def all_errors() -> list[type[TpcError]]:
    found: list[type[TpcError]] = [TpcError, DamagedRecordError]
    for kind in found:
        found += [sub for sub in kind.__subclasses__() if sub not in found and sub.__module__ == errors.__name__]
    return found


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_it_says(kind: type[TpcError]) -> None:
    error = kind("it broke", pipeline="p#1", epoch=7, sink="s", safe="all", remedy="fix it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_a_data_error_carries_its_column_and_key_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(DataError("NULL", column="id", key="UA-1", sink="pg")))
    assert (copy.column, copy.key, copy.sink) == ("id", "UA-1", "pg")


def test_an_error_says_what_happened_where_what_is_safe_and_what_to_do() -> None:
    text = str(ParkedError("a unique index refuses it", pipeline="p#1", epoch=7, sink="mongo", safe="it stays"))
    for part in ("a unique index refuses it", "pipeline p#1", "epoch 7", "sink mongo", "Safe:", "To do:"):
        assert part in text


def test_what_the_raiser_did_not_know_is_filled_in_and_what_he_knew_is_kept() -> None:
    error = DataError("x", sink="inner").located(pipeline="p#1", epoch=0, sink="outer")
    assert (error.pipeline, error.epoch, error.sink) == ("p#1", 0, "inner")
