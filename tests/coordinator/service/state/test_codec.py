from __future__ import annotations

import enum
import math
from collections import OrderedDict, defaultdict
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tpc.coordinator.service.state import codec
from tpc.coordinator.service.state.codec import decode, encode, encode_key
from tpc.coordinator.service.state.state import canonical
from tpc.errors import ConfigurationError, CorruptionError, DataError

HALVES = "\ud83d" + "\ude00x"
OFFSETS = [
    timezone.utc,
    timezone(timedelta(hours=-3)),
    timezone(timedelta(seconds=-1)),
    timezone(timedelta(hours=2), "X"),
]
ATOMS = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(),
    some.floats(allow_nan=False),
    some.text(),
    some.binary(max_size=20),
    some.decimals(allow_nan=False),
    some.uuids(),
    some.dates(),
    some.datetimes(timezones=some.sampled_from(OFFSETS) | some.none()),
    some.datetimes(timezones=some.timezones()),
    some.datetimes().map(lambda value: value.replace(fold=1)),
    some.timedeltas(),
)
KEYS = some.one_of(some.text(), some.integers(), some.binary(max_size=5), some.tuples(some.text(), some.integers()))
VALUES = some.recursive(
    ATOMS,
    lambda inner: some.one_of(
        some.lists(inner, max_size=3),
        some.lists(inner, max_size=3).map(tuple),
        some.dictionaries(KEYS, inner, max_size=3),
        some.dictionaries(some.sampled_from(["$tuple", "$", "a"]), inner, max_size=2),
        some.sets(KEYS, max_size=3),
        some.frozensets(KEYS, max_size=3),
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, datetime):
        names_and_offsets = [(each.tzname(), each.utcoffset(), type(each.tzinfo)) for each in (one, other)]
        return (
            one.replace(tzinfo=None) == other.replace(tzinfo=None)
            and one.fold == other.fold
            and (names_and_offsets[0] == names_and_offsets[1])
        )
    return bool(one == other)


@given(VALUES)
def test_a_value_comes_back_as_it_was_with_its_types(value: Any) -> None:
    assert same(decode(encode(value)), value)


@given(some.dictionaries(KEYS, ATOMS, max_size=4))
def test_equal_dicts_are_one_key_in_whatever_order_they_were_filled(key: dict[Any, Any]) -> None:
    assert encode_key(dict(reversed(list(key.items())))) == encode_key(key)


def test_a_day_later_is_the_same_hour_for_a_datetime_that_was_kept() -> None:
    before = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert (decode(encode(before)) + timedelta(days=1)).isoformat() == "2026-10-25T12:00:00+01:00"


def test_one_instant_is_one_key_in_whatever_zone_and_a_value_keeps_its_zone() -> None:
    berlin = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    assert encode_key(canonical(berlin)) == encode_key(canonical(berlin.astimezone(timezone.utc)))
    assert repr(decode(encode(berlin))) == repr(berlin)


class Odd(tzinfo):
    """As those of other libraries."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None


def test_a_value_in_a_zone_of_another_kind_is_refused_and_a_key_is_its_instant() -> None:
    odd = datetime(2026, 1, 1, tzinfo=Odd())
    with pytest.raises(DataError, match=r"a datetime with a .*Odd: only one with a datetime\.timezone"):
        encode({"at": odd})
    assert decode(encode_key(canonical(odd))) == odd
    encode_key(odd)


def test_a_zone_that_this_machine_does_not_know_is_told_by_its_name() -> None:
    held = codec.VERSION + b'{"$zoned":["2026-01-01T00:00:00","Mars/Olympus",0]}'
    with pytest.raises(ConfigurationError, match="time zone Mars/Olympus, which this machine does not know"):
        decode(held)


PLAIN = some.one_of(some.none(), some.booleans(), some.integers(), some.floats(), some.text())


@given(some.one_of(some.lists(PLAIN, max_size=4).map(tuple), some.dictionaries(some.text(), PLAIN, max_size=4)))
def test_flat_values_are_spelled_as_the_encoder_spells_them(value: Any) -> None:
    assert encode(value) == codec.VERSION + codec._ENCODER.encode(codec._plain(value, is_key=False)).encode("ascii")


def test_what_json_has_no_number_for_comes_back() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode([math.inf, -math.inf])) == [math.inf, -math.inf]
    assert math.copysign(1, decode(encode(-0.0))) == -1


@pytest.mark.parametrize(
    "value",
    [HALVES, [HALVES], (1, HALVES), {"a": HALVES}, {HALVES: 1}, {1: (HALVES,)}, {HALVES}, {"a": [{"b": {HALVES}}]}],
    ids=repr,
)
def test_two_surrogates_side_by_side_are_refused_since_they_would_come_back_as_one_character(value: Any) -> None:
    with pytest.raises(DataError, match="two surrogates side by side"):
        encode(value)


@pytest.mark.parametrize("value", ["😀", ("😀", "\udc00\ud83d"), {"a": "\ud83d"}, {"😀": ["\udc00"]}, "\\ud83d\\ude00"])
def test_a_character_and_halves_that_make_none_come_back(value: Any) -> None:
    assert decode(encode(value)) == value


def test_lone_surrogates_come_back() -> None:
    assert decode(encode("\ud800")) == "\ud800"


def test_numbers_that_are_equal_in_python_are_different_keys() -> None:
    assert len({encode(1), encode(1.0), encode(True)}) == 3


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    "value", [object(), Colour.RED, Text("a"), OrderedDict(a=1), defaultdict(int), {1: [object()]}, bytearray(b"a")]
)
def test_a_value_that_would_come_back_as_something_else_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(DataError, match=r"cannot be kept.*\.(object|Colour|Text|OrderedDict|defaultdict|bytearray)"):
        encode(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(DataError, match="recursion"):
        encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'\x02"a"',
        b"\x01{",
        b'\x01{"a":1',
        b'\x01{"$tuple":[1',
        b'\x01{"$tuple":[1]',
        b'\x01{"$tuple":[1]}}',
        b'\x01{"$tuple":1}',
        b'\x01{"$unknown":1}',
        b'\x01{"$date":"never"}',
    ],
)
def test_bytes_that_are_no_value_are_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode(data)


def test_the_first_version_can_always_be_read() -> None:
    """Written by the first version; never to be recreated."""
    held = b'\x01{"a":[1,2.5,null,{"$tuple":["x",{"$bytes":"AA=="}]}],"b":{"$dict":[[1,{"$set":["p"]}]]},"c":'
    held += b'{"$datetime":"2024-02-29T12:00:00+00:00"},"d":{"$Decimal":"1.50"},"e":{"$date":"2024-02-29"},"f":'
    held += b'{"$timedelta":[1,2,3]},"g":{"$UUID":"12345678-1234-5678-1234-567812345678"},"h":{"$frozenset":[]}}'
    value = {
        "a": [1, 2.5, None, ("x", b"\x00")],
        "b": {1: {"p"}},
        "c": datetime(2024, 2, 29, 12, tzinfo=timezone.utc),
        "d": Decimal("1.50"),
        "e": date(2024, 2, 29),
        "f": timedelta(1, 2, 3),
        "g": UUID("12345678-1234-5678-1234-567812345678"),
        "h": frozenset[int](),
    }
    assert same(decode(held), value)
    assert encode(value) == held
