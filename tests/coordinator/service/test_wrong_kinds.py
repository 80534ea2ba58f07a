"""Every public parameter of a service, of its sources and sinks, given a value of a wrong kind: refused by its name.

The parameters are those of the signatures: one that is added is tried too.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tpc
from tpc.errors import ConfigurationError, DataError
from tpc.parameter_types import kinds_checked
from tpc.sinks import (
    EffectSink,
    FileSink,
    KafkaChangelog,
    KafkaOffsetsSink,
    KafkaSink,
    MongoSink,
    PostgresSink,
)
from tpc.sources import IterableSource, KafkaSource, LinesSource

KAFKA: dict[str, Any] = {"servers": "127.0.0.1:1"}


class Public(NamedTuple):
    """What is called with these arguments, one of them replaced by another value."""

    call: Callable[..., Any]
    given: Mapping[str, Any]


def service() -> tpc.Service:
    return tpc.service("tally", directory="/nowhere/tally")


def writing() -> Any:
    return service().write("rows", {"n": int})


def file_sink() -> FileSink:
    return FileSink("/nowhere/out", name="out")


def of_effect(_: Any) -> None:
    pass


def method(make: Callable[[], Any], name: str) -> Callable[..., Any]:
    """A method of an object that is made for each call, with the method's signature."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(make(), name)(*arguments, **named)

    call.__signature__ = inspect.signature(getattr(make(), name))  # type: ignore[attr-defined]
    return call


PUBLIC: Mapping[str, Public] = {
    "service": Public(tpc.service, {"name": "tally", "directory": "/nowhere/tally"}),
    "seconds": Public(tpc.seconds, {"value": 1.0}),
    "EpochTrigger": Public(tpc.EpochTrigger, {}),
    "read": Public(method(service, "read"), {"source": IterableSource([1])}),
    "retire": Public(method(service, "retire"), {"source": "numbers"}),
    "at_cut": Public(method(service, "at_cut"), {"function": print}),
    "write": Public(method(service, "write"), {"name": "rows", "schema": {"n": int}}),
    "to": Public(method(writing, "to"), {"sink": file_sink()}),
    "otherwise": Public(method(writing, "otherwise"), {"sink": file_sink()}),
    "state": Public(method(service, "state"), {"name": "sums"}),
    "keep": Public(method(service, "keep"), {"name": "seen", "made": tpc.make_transactional([])}),
    "dead_letters_to": Public(method(service, "dead_letters_to"), {"sink": file_sink()}),
    "offsets_to": Public(method(service, "offsets_to"), {"sink": KafkaOffsetsSink("group", **KAFKA)}),
    "on_complete": Public(method(service, "on_complete"), {"callback": print}),
    "on_decision_needed": Public(method(service, "on_decision_needed"), {"callback": print}),
    "KafkaSource": Public(KafkaSource, {"topics": ("clicks",), **KAFKA}),
    "LinesSource": Public(LinesSource, {"path": "/nowhere/lines"}),
    "IterableSource": Public(IterableSource, {"values": [1]}),
    "FileSink": Public(FileSink, {"path": "/nowhere/out"}),
    "MongoSink": Public(MongoSink, {"collection": "rows", "uri": "mongodb://127.0.0.1:1"}),
    "MongoSink that merges": Public(
        MongoSink,
        {"collection": "rows", "uri": "mongodb://a", "key": "k", "merge": {"n": "add"}, "order_by": None},
    ),
    "PostgresSink": Public(PostgresSink, {"table": "rows", "dsn": "postgresql://127.0.0.1:1/a"}),
    "PostgresSink that merges": Public(PostgresSink, {"table": "rows", "dsn": "x", "key": "k", "merge": {"n": "add"}}),
    "KafkaSink": Public(KafkaSink, {"topic": "clicks", **KAFKA}),
    "KafkaOffsetsSink": Public(KafkaOffsetsSink, {"group": "group", **KAFKA}),
    "KafkaChangelog": Public(KafkaChangelog, {"topic": "sums", **KAFKA}),
    "EffectSink": Public(
        EffectSink,
        {"name": "pay", "path": "/nowhere/pay", "call": of_effect, "key": ["id"], "guarantee": "at-least-once"},
    ),
}
SECRET = "hunter2"


class Odd:
    """Neither shown, nor compared, nor asked anything."""

    def __repr__(self) -> str:
        raise ValueError("not shown")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not compared")

    __hash__ = None  # type: ignore[assignment]


WRONG: Mapping[str, Any] = {
    "int": 5,
    "negative": -1,
    "zero": 0,
    "float": 1.5,
    "nan": math.nan,
    "infinity": math.inf,
    "bool": True,
    "text": "1 second",
    "no text": "",
    "bytes": SECRET.encode(),
    "None": None,
    "function": lambda *_: None,
    "list": [],
    "numbers": [1, 2],
    "columns": ["no such column"],
    "mapping": {},
    "numbers by text": {"n": 5},
    "texts by number": {5: "n"},
    "object": Odd(),
    "type": int,
}
KINDS: Mapping[str, set[str]] = {
    "str": {"text", "no text"},
    "int": {"int", "negative", "zero"},
    "float": {"int", "negative", "zero", "float", "nan", "infinity"},
    "Seconds": {"int", "negative", "zero", "float", "nan", "infinity"},
    "bool": {"bool"},
    "None": {"None"},
}
"""Which of these values are of a plain kind; what is not may not be taken."""


def parameters() -> Iterator[Any]:
    for name, public in PUBLIC.items():
        for parameter in inspect.signature(public.call).parameters:
            yield pytest.param(name, parameter, id=f"{name}-{parameter}")


def annotated(public: Public, parameter: str) -> set[str] | None:
    """The values that its annotation allows; None where that is no plain type."""
    text = str(inspect.signature(public.call).parameters[parameter].annotation)
    plain = [each.strip() for each in text.split("|")]
    return set().union(*(KINDS[each] for each in plain)) if set(plain) <= set(KINDS) else None


def called(public: Public, parameter: str, value: Any) -> Any:
    given = {**public.given, parameter: value}
    signature = inspect.signature(public.call)
    several = [n for n, each in signature.parameters.items() if each.kind is inspect.Parameter.VAR_POSITIONAL]
    arguments = [each for n in several for each in ((given.pop(n),) if n == parameter else given.pop(n))]
    return public.call(*arguments, **given)


@pytest.mark.parametrize(("name", "parameter"), list(parameters()))
def test_a_value_of_a_wrong_kind_is_refused_by_the_name_of_its_parameter(name: str, parameter: str) -> None:
    public = PUBLIC[name]
    allowed = annotated(public, parameter)
    may_be_secret = "Elsewhere" in str(inspect.signature(public.call).parameters[parameter].annotation)
    for kind, value in WRONG.items():
        try:
            called(public, parameter, value)
        except ConfigurationError as error:
            assert re.search(
                rf"\b{parameter}\b|seconds|name|start position|shard|topic", f"{error.what} {error.remedy}"
            ), kind
            assert SECRET not in str(error) or not may_be_secret, kind
        except Exception as error:  # noqa: BLE001  that is what is looked for
            pytest.fail(f"{name}({parameter}={kind}) raises {type(error).__name__}: {error}")
        else:
            assert allowed is None or kind in allowed, f"{name}({parameter}={kind}) is taken"


@pytest.mark.parametrize(
    "value", [5, None, "1 second", [], {}, 0.5, lambda: None, True, Odd()], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize("parameter", ["every", "until_end", "takeover", "standby"])
def test_so_is_one_of_run_before_anything_is_made(parameter: str, value: Any, tmp_path: Path) -> None:
    allowed = {"every": (5,), "until_end": (True,), "takeover": (True,), "standby": (5, None)}
    if any(value is each for each in allowed[parameter]):
        return
    made = tpc.service("tally", directory=tmp_path / "service")
    with pytest.raises(ConfigurationError, match=rf"{parameter}|silent after"):
        made.run(**{parameter: value})
    assert not (tmp_path / "service").exists()


def test_a_number_among_the_settings_of_a_client_is_told_with_what_it_takes() -> None:
    with pytest.raises(ConfigurationError, match="client=") as raised:
        KafkaSource("clicks", client={"fetch.min.bytes": 5}, **KAFKA)  # type: ignore[dict-item]  # it is refused
    assert "tpc.env(...)" in raised.value.remedy


def test_a_function_whose_parameters_are_checked_is_called_as_it_is() -> None:
    @kinds_checked
    def joined(*texts: str, times: int = 1, of: list[Any] | None = None) -> str:
        """Documented."""
        return "".join(texts) * times

    assert joined("a", "b", times=2) == "abab"
    assert (joined.__doc__, list(inspect.signature(joined).parameters)) == ("Documented.", ["texts", "times", "of"])
    with pytest.raises(TypeError, match="unexpected"):
        joined(wrong=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="texts="):
        joined("a", 5)  # type: ignore[arg-type]


class Unkept:
    """No state keeps it."""


def kept(value: Any, key: Any = "k") -> Callable[[Any], None]:
    return lambda state: state.__setitem__(key, value)


def changed_in_place(state: Any) -> None:
    state.setdefault("k", []).append(Unkept())


@pytest.mark.parametrize("is_first", [True, False], ids=["first event", "later event"])
@pytest.mark.parametrize("kind", [dict, "disk"], ids=["dict", "disk"])
@pytest.mark.parametrize(
    ("write", "key"),
    [
        (kept(Unkept()), "'k'"),
        (kept([{"a": Unkept()}]), "'k'"),
        (kept(1, (7, Unkept())), "(7, "),
        (changed_in_place, "'k'"),
    ],
    ids=["value", "within a value", "key", "in place"],
)
def test_a_value_that_a_state_cannot_keep_is_told_with_its_state_and_key(
    write: Callable[[Any], None], key: str, kind: Any, is_first: bool, tmp_path: Path
) -> None:
    made = tpc.service("tally", directory=tmp_path / "service")
    numbers = made.read(IterableSource(range(3), name="numbers"))
    sums: Any = made.state("sums", kind)

    @made.each(numbers)
    def taken(number: int, out: Any) -> None:
        sums["fine"] = number
        if number == (0 if is_first else 2):
            write(sums)
        out.row("rows", {"n": number})

    made.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
    with pytest.raises(DataError, match="state 'sums', key ") as raised:
        made.run(every=10, until_end=True)
    assert key in raised.value.what
    assert key in str(raised.value.key)
    assert "event" not in raised.value.remedy or raised.value.position is not None


@pytest.mark.parametrize("setting", [tpc.env("TPC_NO_SUCH"), tpc.secret_file("/nowhere/secret")], ids=["env", "file"])
def test_what_to_do_about_a_setting_that_is_not_there_begins_with_the_process_at_hand(setting: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        setting.read()
    assert "Spark" not in raised.value.remedy.partition(" query")[0]
