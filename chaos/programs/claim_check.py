"""The documents of `docs/examples/claim_check.py`, their digests, and a consumer that follows the references meanwhile.

The consumer is the example's own, a process beside the killed ones: it fetches every body when it sees the reference.
After each kill the directory is looked at, for bodies whose epoch is not decided: the next life must sweep them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, nothing_left
from tpc.chaos.checkers.files_content import epoch_files, unpublished, unpublished_files
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.programs.feeding import make_topics, rows_of
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.chaos.running.owned_processes import OwnedProcess, tail
from tpc.chaos.user.directory import VARIABLE
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.errors import CorruptionError
from tpc.handles import Handle

DOCUMENTS = 120
LARGE = tuple(range(7, DOCUMENTS, 10))
"""Of 10 MB, one in every epoch, so that every kill meets one; the others have up to 200 kB."""
LARGE_BYTES = 10_000_000
ORPHANS = "orphans"
FOLLOWER_S = 120.0
"""How long the consumer may take after the program has come to its end."""


def documents() -> Iterator[tuple[str, bytes]]:
    """Name and content."""
    rng = random.Random(24)
    for number in range(DOCUMENTS):
        size_bytes = LARGE_BYTES if number in LARGE else rng.randrange(200_000)
        yield f"d{number}.bin", rng.randbytes(size_bytes)


def feed(place: Path) -> None:
    """The topic, the inbox, and the consumer."""
    make_topics("documents")
    inbox = place / "inbox"
    inbox.mkdir()
    for name, content in documents():
        (inbox / name).write_bytes(content)
    _follower(place)


@cache
def _follower(place: Path) -> OwnedProcess:
    """The one of this run; it ends with this process at the latest."""
    command = [sys.executable, str(EXAMPLES / "claim_check.py"), "follow", str(DOCUMENTS)]
    environment = {VARIABLE: str(place), "PYTHONUNBUFFERED": "1"}
    return OwnedProcess(command, log_path=place / "follower.log", directory=place, environment=environment)


def expected() -> dict[str, Any]:
    """The references; the bodies are compared by their digests."""
    sent = pd.DataFrame(
        [(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in documents()],
        columns=["id", "length", "sha256"],
    )
    return {"kafka-documents": rows_of(sent.assign(key=sent["id"]), ["key", "id", "length", "sha256"])}


def bodies(place: Path) -> dict[tuple[int, str], list[str]]:
    """By epoch and document the digests of its published bodies."""
    from pyarrow import parquet

    found: dict[tuple[int, str], list[str]] = {}
    for epoch, paths in epoch_files(place / "bodies").items():
        for row in (row for path in paths for row in parquet.read_table(path).to_pylist()):
            found.setdefault((epoch, row["id"]), []).append(hashlib.sha256(row["content"]).hexdigest())
    return found


def referenced() -> dict[tuple[int, str], list[str]]:
    """By epoch and document the digests of its references."""
    found: dict[tuple[int, str], list[str]] = {}
    for record in read_topic(os.environ["TPC_KAFKA"], "documents"):
        row = json.loads(record.value or b"")
        found.setdefault((int(record.headers["epoch"]), row["id"]), []).append(row["sha256"])
    return found


def one_to_one(place: Path) -> list[Check]:
    """Each reference has its body in its epoch, and each body its reference."""
    points_at, there = referenced(), bodies(place)
    dangling = [f"epoch {epoch}, {name}" for (epoch, name), of in points_at.items() if there.get((epoch, name)) != of]
    orphans = [f"epoch {epoch}, {name}" for (epoch, name), of in there.items() if points_at.get((epoch, name)) != of]
    return [
        nothing_left("no reference points at nothing", {"topic documents": dangling}),
        nothing_left(
            "no body is without a reference",
            {"published": orphans, "in the directory": unpublished(place / "bodies")},
        ),
    ]


def look_for_orphans(_life: int, place: Path) -> None:
    """Note the bodies that lie there whole and whose epoch nobody has decided: a kill has left them."""
    from pyarrow import ArrowInvalid, parquet

    if not (place / "checkpoint").exists():
        return
    decided = Journal(log_of(place / "checkpoint")).open().last_intent
    for path in unpublished_files(place / "bodies"):
        try:
            epoch, names = Handle.parse(path.name.rpartition(".")[0]).epoch, parquet.read_table(path)["id"].to_pylist()
        except (ArrowInvalid, CorruptionError):
            continue  # it was being written
        if names and (decided is None or epoch > decided):
            with (place / ORPHANS).open("a") as noted:
                noted.writelines(f"epoch {epoch}, {name}\n" for name in names)


def orphaned(place: Path) -> Check:
    """Without an orphan there was nothing to sweep, and none in the end proves nothing."""
    noted = place / ORPHANS
    orphans = noted.read_text().splitlines() if noted.exists() else []
    return Check("kills have left bodies without a reference", bool(orphans), f"{len(orphans)} bodies, swept since")


def checks(place: Path) -> list[Check]:
    """Bodies and references belong together, in the end and when the consumer saw them; after a kill they did not."""
    return [*one_to_one(place), orphaned(place), _followed(_follower(place))]


def _followed(follower: OwnedProcess) -> Check:
    """The consumer has found a body to every reference, with its digest."""
    name = "a consumer found every body when it saw the reference"
    ended = follower.wait(FOLLOWER_S)
    follower.kill()
    lines = [json.loads(line) for line in follower.log_path.read_text().splitlines() if line.startswith("{")]
    if not ended or follower.exit_code != 0 or {line["id"] for line in lines} != {one for one, _ in documents()}:
        return Check(name, False, f"{len(lines)} of {DOCUMENTS} bodies: {tail(follower.log_path, 5)}")
    waited = sorted(line["waited_s"] for line in lines)
    late = sum(one >= 1.0 for one in waited)
    return Check(name, True, f"{len(lines)} bodies; {late} waited for a restart, at most {waited[-1]:.1f} s")


PROGRAM = Program(
    "claim_check",
    servers=("kafka",),
    epochs=DOCUMENTS // 10 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("bodies",),
    arrive=look_for_orphans,
)
