"""What a pipeline reads, as it is on record: of each source its kind, its place, and the write that it feeds.

A record keeps the order of the sources, since a runtime may find positions by the numbers of the sources. Plain data,
no sources; `source_changes` decides what may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tpc.errors import ConfigurationError
from tpc.json import JSONObject
from tpc.urls import without_user
from tpc.user_code import storable


@dataclass(frozen=True)
class SourceRecord:
    """One source. `identity` and `parsing` hold options by name (`tpc.source_options`), values of unknown ones hashed.

    `ids` are what its system gives: of a topic the topic's id, by its name. `reader` numbers the readers of a query:
    two reads of one DataFrame share a reader, and its position.
    """

    kind: str
    place: str
    identity: Mapping[str, str] = field(default_factory=dict)
    parsing: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    reader: int = 0

    def __post_init__(self) -> None:
        # No password of a URL may get into a record, and a new password does not make it another place.
        object.__setattr__(self, "place", storable(without_user(self.place)))

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in sorted(self.identity.items()))
        return f"{self.kind} {self.place}".rstrip() + options

    def is_like(self, other: SourceRecord) -> bool:
        """Whether both are the same place of the same system, read in the same way, so that positions are the same."""
        return (self.kind, self.place, dict(self.identity)) == (other.kind, other.place, dict(other.identity))

    def with_ids(self, found: Mapping[str, str]) -> SourceRecord:
        """The same record with ids that it did not have. An id on record stays."""
        return replace(self, ids={**found, **self.ids}) if found else self

    def to_json(self) -> JSONObject:
        """The form that is in a record."""
        return {
            "kind": self.kind,
            "place": self.place,
            "identity": dict(self.identity),
            "parsing": dict(self.parsing),
            "ids": dict(self.ids),
            "reader": self.reader,
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> SourceRecord:
        """The inverse of `to_json`."""
        return cls(value["kind"], value["place"], value["identity"], value["parsing"], value["ids"], value["reader"])


@dataclass(frozen=True)
class InputRecord:
    """What one `pipeline.write(...)` reads, and the sinks that it feeds; for a service one source, by its name."""

    name: str
    """The user's name for the write, empty if there is none; for a service the name of the source."""
    sinks: tuple[str, ...]
    sources: tuple[SourceRecord, ...]

    def __str__(self) -> str:
        return f"write {self.name!r}" if self.name else f"the write to {', '.join(self.sinks) or 'no sink'}"

    def is_like(self, other: InputRecord) -> bool:
        """Whether both read the same sources, in the same order."""
        return len(self.sources) == len(other.sources) and all(
            one.is_like(another) for one, another in zip(self.sources, other.sources, strict=True)
        )

    def to_json(self) -> JSONObject:
        """The form that is in a record."""
        sources = [source.to_json() for source in self.sources]
        return {"name": self.name, "sinks": list(self.sinks), "sources": sources}

    @classmethod
    def from_json(cls, value: JSONObject) -> InputRecord:
        """The inverse of `to_json`."""
        sources = tuple(SourceRecord.from_json(source) for source in value["sources"])
        return cls(value["name"], tuple(value["sinks"]), sources)


Inputs: TypeAlias = "tuple[InputRecord, ...]"
"""All that a pipeline reads, in the order of the plan."""
Ids: TypeAlias = "Mapping[int, Mapping[str, str]]"
"""By the number of a source among all of `Inputs`, its ids."""


def inputs_to_json(inputs: Inputs | None) -> list[JSONObject] | None:
    """The form that is in a record; None if nothing is on record."""
    return None if inputs is None else [each.to_json() for each in inputs]


def inputs_from_json(value: Iterable[Any] | None) -> Inputs | None:
    """The inverse."""
    return None if value is None else tuple(InputRecord.from_json(each) for each in value)


def sources_of(inputs: Sequence[InputRecord]) -> list[SourceRecord]:
    """The sources of all inputs, in the order in which they are numbered."""
    return [source for each in inputs for source in each.sources]


def with_ids(inputs: Inputs, ids: Ids) -> Inputs:
    """`inputs` with ids that their sources did not have."""
    changed, number = [], 0
    for each in inputs:
        sources = [source.with_ids(ids.get(number + n, {})) for n, source in enumerate(each.sources)]
        changed.append(replace(each, sources=tuple(sources)))
        number += len(sources)
    return tuple(changed)


def continuing(inputs: Inputs, topics: Mapping[str, str]) -> Inputs:
    """`inputs` with the new ids of `topics`, by name. Raises `ConfigurationError` for a topic without a recorded id."""
    known = {name for source in sources_of(inputs) for name in source.ids}
    if unknown := sorted(topics.keys() - known):
        raise ConfigurationError(
            f"no id of a topic {unknown[0]!r} is on record", remedy=f"name one of {', '.join(sorted(known)) or 'none'}."
        )

    def of(source: SourceRecord) -> SourceRecord:
        return replace(source, ids={name: topics.get(name, known) for name, known in source.ids.items()})

    return tuple(replace(each, sources=tuple(map(of, each.sources))) for each in inputs)
