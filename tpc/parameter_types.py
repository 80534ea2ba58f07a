"""Parameters of a value of a wrong kind are refused by their name where they are handed over, not where they are used.

The kind is that of the annotation, so that it is said once. What the annotation does not tell, such as a range or a
word, is checked by whoever takes the value. Of a parameter that may hold a secret no value is shown.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tpc.describing import described
from tpc.errors import ConfigurationError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Kind(NamedTuple):
    """Which values a parameter takes, and what they are called."""

    words: tuple[str, ...]
    takes: Callable[[Any], bool]
    is_secret: bool = False


def kinds_checked(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates a function, or an `__init__`, of the public face, whose module postpones its annotations.

    It raises `ConfigurationError` for the first argument whose kind is not that of its annotation. Values of a type
    that is no plain one (an alias, a type variable) are left to the function.
    """
    signature = inspect.signature(call)
    kinds = {name: _parsed(each.annotation) for name, each in signature.parameters.items()}
    of = call.__qualname__.removesuffix(".__init__").rpartition(".")[2]  # the class that declares it may be internal

    @wraps(call)
    def checked(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            given = signature.bind(*arguments, **named).arguments
        except TypeError:
            return call(*arguments, **named)  # which says what is missing, or too much
        for name, value in given.items():
            is_several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for each in value if is_several else (value,):
                _require(of, name, kinds[name], each)
        return call(*arguments, **named)

    return checked


def _require(of: str, name: str, kind: Kind | None, value: object) -> None:
    if kind is None or _is_taken(kind, value):
        return
    shown = f"a {type(value).__name__}" if kind.is_secret else described(value, 60)
    raise ConfigurationError(
        f"{of}: {name}= does not take {shown}", remedy=f"{name}= takes {' or '.join(dict.fromkeys(kind.words))}."
    )


def _is_taken(kind: Kind, value: object) -> bool:
    try:
        return kind.takes(value)
    except Exception:  # noqa: BLE001  an object of any class: what cannot be looked at is of no kind
        return False


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


_NUMBER = Kind(("a number",), _is(Real))
_PATH = Kind(("a path",), _is(os.PathLike))
_PLAIN: Mapping[str, Kind] = {
    "None": Kind(("None",), lambda value: value is None),
    "str": Kind(("a text",), _is(str)),
    "bytes": Kind(("bytes",), _is(bytes)),
    "bool": Kind(("True or False",), lambda value: isinstance(value, bool)),
    "int": Kind(("a whole number",), _is(Integral)),
    "float": _NUMBER,
    "Seconds": _NUMBER,
    "Path": _PATH,
    "PathLike": _PATH,
    "Callable": Kind(("a function",), callable),
    "OnComplete": Kind(("a function",), callable),
    "OnDecisionNeeded": Kind(("a function",), callable),
}
_CLASSES = {
    "Elsewhere": "tpc.env(...) or tpc.secret_file(...)",
    "Sink": "a sink",
    "Source": "a source",
    "Log": "a log of tpc.coordinator",
    "EngineSettings": "tpc.coordinator.EngineSettings(...)",
    "Changelog": "a changelog, such as KafkaChangelog(...)",
    "Transactional": "what tpc.make_transactional(...) has returned",
    "EffectRetry": "EffectRetry(...)",
}
"""Told by their name, with those that derive from them: they stand in other layers."""


def _parsed(annotation: Any) -> Kind | None:
    """None where it does not tell the kind."""
    return _kind(ast.parse(annotation, mode="eval").body) if isinstance(annotation, str) else None


def _kind(node: ast.expr) -> Kind | None:
    match node:
        case ast.Constant(value=None):
            return _PLAIN["None"]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(_kind(left), _kind(right))
        case ast.Subscript(value=base, slice=within):
            return _generic(_named(base), within.elts if isinstance(within, ast.Tuple) else [within])
        case ast.Name() | ast.Attribute():
            return _of_name(_named(node))
    return None


def _named(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _of_name(name: str) -> Kind | None:
    if name in _CLASSES:
        return Kind((_CLASSES[name],), lambda value: name in _names(value), is_secret=name == "Elsewhere")
    return _PLAIN.get(name)


def _names(value: object) -> set[str]:
    return {each.__name__ for each in type(value).__mro__}


def _either(one: Kind | None, other: Kind | None) -> Kind | None:
    if one is None or other is None:
        return None
    secret = one.is_secret or other.is_secret
    return Kind((*one.words, *other.words), lambda value: one.takes(value) or other.takes(value), secret)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _generic(name: str, within: list[ast.expr]) -> Kind | None:
    if name not in ("Sequence", "Mapping"):
        return _of_name(name)
    parts = [_kind(each) for each in within]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    words = [" or ".join(part.words) for part in known]
    secret = any(part.is_secret for part in known)
    if name == "Sequence":
        items = known[0].takes
        return Kind(
            (f"a list, each of it {words[0]}",),
            lambda value: _is_list(value) and all(map(items, value)),
            secret,
        )
    keys, values = known[0].takes, known[1].takes
    return Kind(
        (f"a mapping from {words[0]} to {words[1]}",),
        lambda value: isinstance(value, Mapping) and all(map(keys, value)) and all(map(values, value.values())),
        secret,
    )
