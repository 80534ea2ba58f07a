"""What an epoch of very many branches costs the driver beside the systems: its intent, its log, its memory.

Two branches for each partition, with committables as Kafka and PostgreSQL make them; a local log on this disk. What the
systems themselves need for their commits is measured by `branches`.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from tpc.coordinator.kernel.log.local import LocalLog
from tpc.handles import Handle, PipelineId
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.records import Record, RecordKind, decode
from tpc.sink import Committable

Result = TypeVar("Result")

PARTITIONS = (1, 100, 1_000, 10_000)
TIMES = 7
PIPELINE = PipelineId("flights")
KAFKA = {"pid": 2_000_123, "producer_epoch": 41, "end_txn_version": 5, "marker_offset_leader_epoch": 3}
POSTGRES = {"after": 1_234_567, "system": "7412345678901234567"}


def manifest(partitions: int) -> Manifest:
    """Of one epoch: 500 rows in each branch."""
    parts = {}
    for name, kind, data in (("kafka-flights", "kafka", KAFKA), ("postgres-flights", "postgres", POSTGRES)):
        branches = []
        for partition in range(partitions):
            handle = Handle(PIPELINE, 12, name, 1_234_568, partition, 9_876_543_210 + partition)
            committable = Committable(handle, f"{handle}@16442", 500, 120_000, data)
            branches.append(Branch(committable, f"{partition:032x}"))
        parts[name] = SinkPart(kind, f"{kind}:9f1c", 500 * partitions, f"{partitions:032x}", tuple(branches), 1_234_567)
    offsets = str({str(partition): 123_456_789 for partition in range(partitions)})
    return Manifest(
        PIPELINE, 12, 1_234_568, EpochInput(offsets, (offsets,), (offsets,)), parts, {"rows": 500 * partitions}
    )


def measured(act: Callable[[], Result]) -> tuple[float, Result]:
    """The median of several turns in seconds, and the last result."""
    seconds = []
    for _ in range(TIMES):
        began = time.perf_counter()
        result = act()
        seconds.append(time.perf_counter() - began)
    return median(seconds), result


def memory_bytes(act: Callable[[], object]) -> int:
    """How much more is held when it is done, its result included."""
    tracemalloc.start()
    kept = act()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return held


def main() -> None:
    """Print the table's rows."""
    sys.stdout.write("branches, intent bytes, bytes per branch, encode s, put s, read and decode s, memory bytes\n")
    for partitions in PARTITIONS:
        one = manifest(partitions)
        held = memory_bytes(lambda: manifest(partitions))  # noqa: B023  called at once
        encode_s, data = measured(lambda: Record(2, RecordKind.INTENT, "n", one.to_json(), "").encode())  # noqa: B023
        decode_s, _ = measured(lambda: Manifest.from_json(decode(data, 2).body))  # noqa: B023
        sys.stdout.write(
            f"{2 * partitions}, {len(data)}, {len(data) // (2 * partitions)}, {encode_s:.4f}, {_put_s(data):.4f},"
            f" {decode_s:.4f}, {held}\n"
        )


def _put_s(data: bytes) -> float:
    """Into a log that has one record."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        log = LocalLog(Path(place) / "log")
        log.put(1, b"first", None)
        last, seconds = b"first", []
        for slot in range(2, 2 + TIMES):
            began = time.perf_counter()
            log.put(slot, data, last)
            seconds.append(time.perf_counter() - began)
            last = data
        return median(seconds)


if __name__ == "__main__":
    main()
