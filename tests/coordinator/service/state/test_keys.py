"""Keys of one type that are equal are one key; what an earlier version has stored by its spelling is found."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc.coordinator.service.state import State
from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.codec import decode, encode_key
from tpc.coordinator.service.state.state import canonical

ZONES = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439))
INSTANTS = st.one_of(
    st.datetimes(timezones=ZONES),
    st.datetimes(datetime(1, 1, 1), datetime(1, 1, 3), timezones=ZONES),
    st.datetimes(datetime(9999, 12, 29), timezones=ZONES),
)
SCALARS = {
    float: st.one_of(st.sampled_from([0.0, -0.0, 1.0, float("inf")]), st.floats(allow_nan=False)),
    Decimal: st.one_of(
        st.decimals(allow_nan=False),
        st.builds(lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-50, 50), st.integers(-4, 4)),
    ),
    datetime: st.one_of(INSTANTS, st.datetimes()),
    int: st.integers(),
    bool: st.booleans(),
    str: st.text(),
    bytes: st.binary(),
    date: st.dates(),
    timedelta: st.timedeltas(),
}


def of(kind: type) -> st.SearchStrategy[Any]:
    """A value of this type, or a tuple or frozenset of such, or these within each other."""
    scalar = SCALARS[kind]
    pair = st.tuples(scalar, scalar)
    return st.one_of(scalar, st.tuples(scalar), pair, st.frozensets(scalar, max_size=3), st.tuples(st.just("k"), pair))


def shape(value: Any) -> Any:
    """Its types, all the way down."""
    if isinstance(value, tuple):
        return tuple(map(shape, value))
    return (frozenset, frozenset(map(shape, value))) if isinstance(value, frozenset) else type(value)


def respelled(value: Any, data: st.DataObject) -> Any:
    """An equal value of the same types, spelled in another way where there is one."""
    if isinstance(value, tuple | frozenset):
        return type(value)([respelled(each, data) for each in value])
    if isinstance(value, float) and value == 0:
        return -value
    if isinstance(value, Decimal) and value.is_finite():
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        more = data.draw(st.integers(0, 3))
        return Decimal((sign, (*digits, *[0] * more), exponent - more))
    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(data.draw(ZONES))
        except OverflowError:
            return value
    return value


@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_keys_of_one_type_are_one_where_python_holds_them_for_equal(kind: type, data: st.DataObject) -> None:
    one = data.draw(of(kind))
    other = data.draw(st.one_of(of(kind), st.just(respelled(one, data))))
    if shape(one) == shape(other):
        assert (encode_key(canonical(one)) == encode_key(canonical(other))) == (one == other)
    read = decode(encode_key(canonical(one)))
    assert read == one
    assert shape(read) == shape(one)
    assert canonical(read) is read or encode_key(canonical(read)) == encode_key(read)


@pytest.mark.parametrize("make", [lambda value: value, lambda value: (value,), lambda value: ("k", (value,))])
def test_types_are_different_keys(make: Any) -> None:
    keys = [make(value) for value in (1, 1.0, True, Decimal(1), "1", b"1")]
    assert len({encode_key(canonical(key)) for key in keys}) == len(keys)


def test_a_decimal_keeps_its_precision() -> None:
    with localcontext() as context:
        context.prec = 3
        assert encode_key(canonical(Decimal("1.23456789"))) != encode_key(canonical(Decimal("1.23456780")))


@given(first=INSTANTS, zone=ZONES)
@example(first=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), zone=timezone(timedelta(hours=9)))
def test_an_instant_at_the_end_of_time_is_one_key(first: datetime, zone: timezone) -> None:
    moved = (zone.utcoffset(None) or timedelta(0)) - (first.utcoffset() or timedelta(0))
    try:
        other = (first.replace(tzinfo=None) + moved).replace(tzinfo=zone)
    except OverflowError:
        return
    assert first == other
    assert encode_key(canonical(first)) == encode_key(canonical(other))


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_a_state_has_one_entry_for_all_spellings(kind: Kind, tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, kind)
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
    pairs: list[tuple[Any, Any]] = [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1.00")),
        (noon, noon.astimezone(timezone(timedelta(hours=5)))),
        (("k", Decimal("0.0")), ("k", Decimal("-0"))),
    ]

    def first(state: State) -> None:
        for one, other in pairs:
            state[one] = 1
            state[other] += 1

    def second(state: State) -> None:
        assert len(state) == len(pairs)
        for one, other in pairs:
            assert state.pop(other) == 2
            assert one not in state
            state[other] = 3
            assert state.get_all([one]) == {one: 3}

    epochs.run(0, first)
    epochs.state.restore()
    epochs.run(1, second)
    assert epochs.stored() == {canonical(one): 3 for one, _ in pairs}


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_what_an_earlier_version_has_stored_is_found_by_its_spelling(kind: Kind, tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, kind)

    def as_before(state: State) -> None:
        for key, value in ((Decimal("1.00"), "old"), (Decimal("2.0"), "gone")):
            state._touched[encode_key(key)] = _touched(value)

    def work(state: State) -> None:
        assert state[Decimal("1.00")] == "old"
        assert Decimal("1.0") not in state
        state[Decimal("1.0")] = "new"
        state[Decimal("1.00")] += "er"
        assert len(state) == 3
        assert sorted(state.values()) == ["gone", "new", "older"]
        del state[Decimal("2.0")]
        state[Decimal("2.0")] = "again"
        assert state[Decimal("2.000")] == "again"

    epochs.run(0, as_before)
    epochs.state.restore()
    epochs.run(1, work)
    entries = {entry.key: decode(entry.value or b"") for entry in _entries(epochs)}
    assert entries == {
        encode_key(Decimal("1.00")): "older",
        encode_key(Decimal(1)): "new",
        encode_key(Decimal(2)): "again",
    }


def _touched(value: str) -> Any:
    from tpc.coordinator.service.state.touched_entries import Touched

    return Touched(value, True)


def _entries(epochs: Epochs) -> list[Change]:
    other = epochs.sink.state(PIPELINE)
    other.restore()
    return list(other._contents.entries())
