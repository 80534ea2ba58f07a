"""What a user provides to have a pipeline tried: one module with a few names, found and checked here.

- the function that builds the unstarted pipeline or service, named as `module:function`;
- `expected()`: per sink name the rows that must be there in the end, as dicts; only the columns given are compared;
- `feed(round)`, if there is one: adds input before a round;
- `readers`, if there is one: per sink name a function that returns its rows, for sinks that are not this library's.

`expected`, `feed` and the readers are called in the process that gives the verdict, so that they may share variables
of their module; the pipeline is built in processes of its own, which are killed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from tpc.coordinator.service.service import Service
    from tpc.coordinator.spark.pipeline import Pipeline

Row = Mapping[str, Any]
Rows = Iterable[Row]

_EXAMPLE = 'def expected(): return {"kafka-orders.valid": [{"id": "1", "cents": 250}]}'


@dataclass(frozen=True)
class Target:
    """The user's functions; `name` is the `module:function` of the pipeline."""

    name: str
    expected: Callable[[], Any]
    feed: Callable[[int], object] | None = None
    readers: Mapping[str, Callable[[], Rows]] = field(default_factory=dict)

    def add_input(self, number: int) -> None:
        """Let the user's `feed` add input before round `number`. Raises `ConfigurationError` when it raises."""
        if self.feed is not None:
            _called(f"feed({number})", lambda: self.feed(number) if self.feed is not None else None)

    def expected_rows(self) -> dict[str, list[Row]]:
        """What `expected()` says now. Raises `ConfigurationError` when that is not rows per sink name."""
        said = _called("expected()", self.expected)
        if not isinstance(said, Mapping):
            raise _not_rows(f"expected() returns a {type(said).__name__}")
        by_sink: dict[str, list[Row]] = {}
        for sink, rows in said.items():
            if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
                raise _not_rows(f"expected() has a {type(rows).__name__} for {sink!r}")
            by_sink[str(sink)] = _called("expected()", partial(list, rows))
            if not all(isinstance(row, Mapping) for row in by_sink[str(sink)]):
                raise _not_rows(f"expected() has rows for {sink!r} that are no dicts")
        return by_sink


def _not_rows(what: str) -> ConfigurationError:
    return ConfigurationError(what, remedy=f"return lists of dicts by sink name, e.g. `{_EXAMPLE}`.")


def _called(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"your {what} raised {type(error).__name__}: {error}") from error


def check_name(name: str) -> str:
    """The module of a `module:function` that can be found. Raises `ConfigurationError`; imports nothing of it."""
    module, _, function = name.partition(":")
    if not (module and function):
        raise ConfigurationError(f"{name!r} names no function", remedy="name module:function, e.g. my_job:pipeline.")
    _import_from_here()
    try:
        known = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        known = False
    if not known:
        raise ConfigurationError(
            f"there is no module {module!r} on the path or in {Path.cwd()}",
            remedy="run the command in the module's directory; name module:function, e.g. my_job:pipeline.",
        )
    return module


def load_target(name: str, expect: str | None = None) -> Target:
    """The functions around the pipeline `name`; `expect` names another function for the expected rows.

    Imports the module and calls nothing. Raises `ConfigurationError` for what is missing.
    """
    pipeline = _function(name)
    module = sys.modules[check_name(name)]
    expected = _function(expect) if expect else getattr(module, "expected", None)
    if not callable(pipeline) or not callable(expected):
        missing = name if not callable(pipeline) else f"{module.__name__}:expected"
        raise ConfigurationError(
            f"{missing} is no function: without expected rows there is nothing to compare",
            remedy=f"add to {module.__name__} `{_EXAMPLE}`, or name another function with --expect module:function.",
        )
    feed, readers = getattr(module, "feed", None), getattr(module, "readers", {})
    if not isinstance(readers, Mapping) or not all(callable(reader) for reader in readers.values()):
        raise ConfigurationError(
            f"{module.__name__}.readers is no dict of functions",
            remedy='write readers = {"sink name": function_returning_rows}.',
        )
    return Target(name, expected, feed if callable(feed) else None, dict(readers))


def make_job(name: str) -> Pipeline | Service:
    """Call the user's function. Raises `ConfigurationError` when it returns neither a pipeline nor a service."""
    from tpc.coordinator.service.service import Service
    from tpc.coordinator.spark.pipeline import Pipeline

    function = _function(name)
    made = function() if callable(function) else function
    if not isinstance(made, Pipeline | Service):
        raise ConfigurationError(
            f"{name} is a {type(made).__name__}, neither a pipeline nor a service",
            remedy="return what tpc.pipeline(...) or tpc.service(...) made, unstarted.",
        )
    return made


def _function(name: str) -> Any:
    module, function = check_name(name), name.partition(":")[2]
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        raise ConfigurationError(
            f"module {module!r} cannot be imported: {type(error).__name__}: {error}", remedy="fix the import."
        ) from error
    if not hasattr(loaded, function):
        raise ConfigurationError(
            f"module {module!r} has no {function!r}", remedy="name module:function, e.g. my_job:pipeline."
        )
    return getattr(loaded, function)


def _import_from_here() -> None:
    """The current directory is importable, as it is for `python -m`."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
