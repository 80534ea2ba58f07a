"""What rows each sink of a service gets, told before the first epoch: to the sinks' checks, and for the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.service.routes import ServiceWriting
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.schemas import Columns
from tpc.sink import CheckContext, Sink

if TYPE_CHECKING:
    import pyarrow


def schemas_of(writings: Iterable[ServiceWriting]) -> dict[str, pyarrow.Schema]:
    """By the sink's name. Raises `ConfigurationError` for a sink that would get rows of two kinds."""
    import pyarrow as pa

    schemas: dict[str, pyarrow.Schema] = {}
    for writing in writings:
        for route in writing.routes:
            fields = [writing.schema.field(source).with_name(name) for source, name in route.columns]
            if schemas.setdefault(route.sink.name, pa.schema(fields)) != pa.schema(fields):
                raise ConfigurationError(
                    f"rows {writing.name!r} have other columns than those that the sink gets from elsewhere",
                    sink=route.sink.name,
                    remedy="select the same columns, in the same order and of the same types, in both.",
                )
    return schemas


def columns_of(writings: Iterable[ServiceWriting]) -> dict[str, Columns]:
    """The same as it goes on record."""
    return {
        name: tuple((field.name, str(field.type)) for field in schema) for name, schema in schemas_of(writings).items()
    }


def contexts_of(
    pipeline: PipelineId, writings: Iterable[ServiceWriting], sinks: Sequence[Sink]
) -> dict[str, CheckContext]:
    """What `Committer.check` of each sink is given, by the sink's name: one process has one branch of each."""
    schemas = schemas_of(writings)
    return {
        sink.name: CheckContext(
            pipeline,
            schemas.get(sink.name),
            partitions=1,
            peers=tuple(peer for peer in sinks if peer is not sink),
            tasks_at_once=1,
            tasks_on_a_machine=1,
        )
        for sink in sinks
    }


def changes_of(state: Sink) -> ServiceWriting:
    """The rows of a state are its changes, and all go to its store."""
    import pyarrow as pa

    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("expires_ms", pa.int64())])
    return ServiceWriting(f"state {state.name}", schema).to(state)
