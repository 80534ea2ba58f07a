"""Objects for the kit of kept objects: one that may be kept, and one for each way in which it may not."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any, ClassVar

import tpc
from tpc.testing import TransactionalConformance
from tpc.transactional import Transactional


class Model:
    """A class that knows nothing of this library."""

    def __init__(self) -> None:
        self.weights: dict[str, list[int]] = {}

    def learn(self, number: int) -> None:
        self.weights.setdefault("all", []).append(number)
        self.weights[f"weight {number}"] = [number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.weights == self.weights

    __hash__ = None  # type: ignore[assignment]  # it changes


class ModelKit(TransactionalConformance):
    def make(self) -> Transactional[Any]:
        return tpc.make_transactional(Model())

    def change(self, value: Any, number: int) -> Any:
        value.learn(number)


class ReplacedKit(TransactionalConformance):
    """Of values that cannot be changed in place."""

    def make(self) -> Transactional[Any]:
        dumps, loads = json.dumps, json.loads
        return tpc.make_transactional(0, dumps=lambda one: dumps(one).encode(), loads=lambda data: int(loads(data)))

    def change(self, value: Any, number: int) -> Any:
        return value + number + 1


class Lossy(Model):
    """Forgets a part on its way."""

    def __getstate__(self) -> dict[str, Any]:
        return {"weights": {name: one for name, one in self.weights.items() if name == "all"}}


class Shared(Model):
    """Its copies share what they hold."""

    held: ClassVar[dict[int, dict[str, list[int]]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        Shared.held[id(self.weights)] = self.weights
        return _shared, (id(self.weights),)


def _shared(number: int) -> Shared:
    made = Shared()
    made.weights = Shared.held.get(number, {})
    return made


class Unordered(Model):
    """Its bytes depend on the order of a set."""

    def __getstate__(self) -> dict[str, Any]:
        return {"weights": [*{*self.weights}], "held": sorted(self.weights.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.weights = dict(state["held"])


class OfThisProcess(Model):
    """Its bytes hold the number of the process."""

    def __getstate__(self) -> dict[str, Any]:
        return {"weights": self.weights, "process": os.getpid()}


PLACE = "TPC_TESTS_KEPT_PLACE"
"""The setting that says where `InAFile` writes."""


class InAFile(Model):
    """Its bytes say where the content lies, and making them writes it there."""

    def __getstate__(self) -> dict[str, Any]:
        Path(os.environ[PLACE]).write_bytes(pickle.dumps(self.weights))
        return {"place": os.environ[PLACE]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.weights = pickle.loads(Path(state["place"]).read_bytes())


class _Kit(ModelKit):
    model: ClassVar[type[Model]]

    def make(self) -> Transactional[Any]:
        return tpc.make_transactional(self.model())


class LossyKit(_Kit):
    model = Lossy


class SharedKit(_Kit):
    model = Shared


class UnorderedKit(_Kit):
    model = Unordered


class OfThisProcessKit(_Kit):
    model = OfThisProcess


class InAFileKit(_Kit):
    model = InAFile


class NoChangeKit(ModelKit):
    def change(self, value: Any, number: int) -> Any:
        """Does nothing."""
