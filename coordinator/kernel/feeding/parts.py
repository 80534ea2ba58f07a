"""What a pass came to, put together from its partitions: each sink's part of the manifest, counts and times.

Writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpc.coordinator.kernel.feeding.branch import DIGEST_MODULUS, BranchReport, in_hexadecimal
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.letter_bound import COUNT
from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.manifest import Branch, Manifest, SinkPart
from tpc.sink import Committable


def manifest_of(
    context: PassContext,
    epoch: int,
    generation: int,
    reports: Sequence[PartitionReport],
    of_driver: Mapping[str, Committable],
    *,
    runtime_counts: Mapping[str, int],
    source_ids: Mapping[int, Mapping[str, str]],
    parallelism: int,
    digest_kind: str,
) -> Manifest:
    """The manifest of an epoch whose branches are all prepared; `of_driver` are those that the driver has written.

    The other values are what the pass says of itself (`EpochPass.counts`, `new_source_ids`, `cut_by`, `digest_kind`):
    the last two are for a replay that must find a branch.
    """
    counts = {
        "rows": sum(report.rows for report in reports),
        "unrouted": sum(report.unrouted for report in reports),
        "partitions": len(reports),
        "parallelism": parallelism,
    }
    if context.letters_sink is not None:
        counts[COUNT] = sum(report.branches[context.letters_sink].rows for report in reports)
    counts.update(runtime_counts)
    parts = parts_of(context, reports, of_driver)
    return Manifest(context.pipeline, generation, epoch, context.barrier, parts, counts, digest_kind, source_ids)


def parts_of(
    context: PassContext, reports: Sequence[PartitionReport], of_driver: Mapping[str, Committable]
) -> dict[str, SinkPart]:
    """Per sink its rows, its digest and its branches."""
    parts = {}
    for name, sink in context.sinks.items():
        entries = [report.branches[name] for report in reports if name in report.branches]
        digest = in_hexadecimal(sum(entry.digest for entry in entries) % DIGEST_MODULUS)
        branches = _branches(entries)
        if name in of_driver:
            branches.append(Branch(of_driver[name], digest))
        parts[name] = SinkPart(
            kind=sink.kind,
            identity=context.identities[name],
            rows=sum(entry.rows for entry in entries),
            digest=digest,
            branches=tuple(branches),
            previous_epoch=context.previous_epochs[name],
            position_before=context.positions.get(name),
        )
    return parts


def _branches(entries: Sequence[BranchReport]) -> list[Branch]:
    return [
        Branch(entry.committable, in_hexadecimal(entry.digest)) for entry in entries if entry.committable is not None
    ]


def slowest(sink: str, reports: Sequence[PartitionReport]) -> dict[str, float]:
    """How long the slowest partition took for a sink, in seconds."""
    entries = [report.branches[sink] for report in reports]
    return {
        "write": round(max((entry.write_seconds for entry in entries), default=0.0), 6),
        "flush": round(max((entry.flush_seconds for entry in entries), default=0.0), 6),
        "prepare": round(max((entry.prepare_seconds for entry in entries), default=0.0), 6),
    }
