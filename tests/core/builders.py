"""Small manifests and histories for tests of the core."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.fold import fold
from tpc.handles import Handle, PipelineId
from tpc.history import History
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.records import Record, RecordKind
from tpc.sink import Committable

JOB = PipelineId("job")


def branch(sink: str, epoch: int, *, generation: int = 1, partition: int = 0, attempt: int = 7) -> Branch:
    handle = Handle(JOB, generation, sink, epoch, partition, attempt)
    return Branch(Committable(handle, f"resource-of-{handle}", rows=3, size_bytes=30), digest="00000000000000ff")


def manifest(
    epoch: int,
    sinks: Mapping[str, int] | None = None,
    *,
    generation: int = 1,
    stateful: bool = False,
    digest_kind: str | None = None,
) -> Manifest:
    """A manifest with so many branches per sink."""
    parts = {
        name: SinkPart(
            kind="test",
            identity=f"id-{name}",
            rows=3 * count,
            digest="0" * 16,
            branches=tuple(branch(name, epoch, generation=generation, partition=p) for p in range(count)),
            previous_epoch=epoch - 1 if epoch else None,
        )
        for name, count in (sinks or {"a": 1, "b": 1}).items()
    }
    epoch_input = EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),), None, stateful)
    return Manifest(JOB, generation, epoch, epoch_input, parts, {"rows": 3}, digest_kind)


def generation_body(generation: int, **more: object) -> dict[str, object]:
    return {
        "pipeline": "job",
        "incarnation": 1,
        "generation": generation,
        "last_complete": None,
        "pending": None,
        "sinks": {"a": "id-a", "b": "id-b"},
        "markers": {},
        "resolutions": [],
        "query_id": "q",
        "floor": 1,
        "owners": {},
        "owning_generation": 0,
        "voids": {},
        "removed": {},
        "schemas": {},
    } | more


def records(*bodies: tuple[RecordKind, Mapping[str, object]], first_slot: int = 1) -> list[Record]:
    return [Record(slot, kind, f"n{slot}", body) for slot, (kind, body) in enumerate(bodies, first_slot)]


def begun(*bodies: tuple[RecordKind, Mapping[str, object]]) -> History:
    """The history of a log that begins with generation 1 and goes on with `bodies`."""
    return fold(records((RecordKind.GENERATION, generation_body(1)), *bodies))


def intent(made: Manifest) -> tuple[RecordKind, Mapping[str, object]]:
    return RecordKind.INTENT, made.to_json()


def complete(epoch: int, generation: int = 1) -> tuple[RecordKind, Mapping[str, object]]:
    return RecordKind.COMPLETE, {"epoch": epoch, "generation": generation, "floor": 1}
