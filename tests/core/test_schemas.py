"""Other columns than at the last start are refused, by name, unless they are accepted on the record."""

from __future__ import annotations

import pickle

import pytest

from tests.core.builders import generation_body, records
from tpc.errors import ConfigurationError, SchemaChangedError
from tpc.fold import fold
from tpc.history import History
from tpc.records import RecordKind
from tpc.schemas import Columns, changes, check_schemas

IDS: Columns = (("id", "bigint"),)
TEXTS: Columns = (("id", "string"),)
RECORDED = {"a": IDS, "b": IDS}


def history_of(*accepted: tuple[str, Columns | None]) -> History:
    """A log on which both sinks have their columns, and these acceptances after that."""
    acceptances = [(RecordKind.ACCEPTANCE, {"sink": sink, "columns": columns}) for sink, columns in accepted]
    return fold(records((RecordKind.GENERATION, generation_body(1, schemas=RECORDED)), *acceptances))


@pytest.mark.parametrize(
    "after",
    [TEXTS, (*IDS, ("note", "string")), (), (("number", "bigint"),)],
    ids=["another type", "one more", "none", "another name"],
)
def test_other_columns_are_refused(after: Columns) -> None:
    with pytest.raises(SchemaChangedError, match=r"'id'|'note'") as raised:
        check_schemas(RECORDED, {"a": IDS, "b": after}, "job#1")
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.sink, error.pipeline) == ("b", "job#1")
    assert error.details == {"before": IDS, "after": after}
    assert isinstance(error, ConfigurationError)
    assert "accept-schema" in error.remedy


def test_the_same_columns_and_those_of_a_new_sink_are_taken() -> None:
    check_schemas(RECORDED, {**RECORDED, "new": TEXTS}, "job#1")
    check_schemas({}, RECORDED, "job#1")


def test_what_has_changed_is_told_column_by_column() -> None:
    before = (("id", "bigint"), ("amount", "int"), ("flag", "boolean"))
    after = (("id", "bigint"), ("amount", "string"), ("note", "string"))
    assert changes(before, after) == "'amount' was int and is string; 'flag' (boolean) is gone; 'note' (string) is new"
    assert changes(before, tuple(reversed(before))) == "their order was id, amount, flag and is flag, amount, id"


def test_the_columns_of_a_term_are_those_that_the_next_one_is_compared_with() -> None:
    history = history_of()
    assert history.schemas == RECORDED
    again = generation_body(2, **history.carried(["a", "b"], keep_epochs=1))
    assert fold(records((RecordKind.GENERATION, again))).schemas == RECORDED


def test_accepted_columns_take_the_place_of_those_on_record_and_no_others() -> None:
    history = history_of(("b", TEXTS))
    check_schemas(history.schemas, {"a": IDS, "b": TEXTS}, "job#1")
    for wrong in ({"b": IDS}, {"a": TEXTS}):
        with pytest.raises(SchemaChangedError):
            check_schemas(history.schemas, wrong, "job#1")


def test_any_columns_may_be_accepted_of_one_sink_and_of_that_one_alone() -> None:
    history = history_of(("b", None))
    check_schemas(history.schemas, {"a": IDS, "b": TEXTS}, "job#1")
    with pytest.raises(SchemaChangedError):
        check_schemas(history.schemas, {"a": TEXTS}, "job#1")
