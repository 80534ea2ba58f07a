"""What a stopped query keeps in its state stores, read by a Spark session of its own in a process of its own.

`python -m tpc.chaos.checkers.state_store CHECKPOINT COMMITS OPERATOR STORE COLUMN...` prints the columns of a store's
values, one JSON object a line. Spark 4.0's reader of state (`spark.read.format("statestore")`) opens a join's stores
only in checkpoint format v1: "... 1.changelog does not exist" is what it says of v2, whose file names carry a unique
id. The formats differ in names and in how a snapshot lists its files; `commits/N` says which ids were committed:
`as_format_v1` makes a view of the checkpoint in v1, out of hard links, and changes nothing in the checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpc.errors import LocalStackError

READ_TIMEOUT_S = 120.0

JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
"""The stores of a stream-stream join, in the order in which `commits/N` lists their ids."""


def read_state(
    checkpoint: Path, operator: int, store: str, columns: Sequence[str], *, commits: Path | None = None
) -> list[dict[str, Any]]:
    """The values of a store after the last committed epoch. Raises `LocalStackError` with what Spark said.

    The state is rebuilt from its newest snapshot, or from the first version on where there is none. Spark removes all
    but its newest hundred `commits/N`: `commits` is a folder with copies of those that are gone.
    """
    module, kept = "tpc.chaos.checkers.state_store", checkpoint / "commits" if commits is None else commits
    command = [sys.executable, "-m", module, str(checkpoint), str(kept), str(operator), store, *columns]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=READ_TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise LocalStackError(f"the state store was not read within {READ_TIMEOUT_S:g} s") from error
    except subprocess.CalledProcessError as error:
        last_lines = "\n".join(error.stderr.splitlines()[-8:])
        raise LocalStackError(f"the state store of {checkpoint} could not be read: {last_lines}") from error
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def join_operator(checkpoint: Path) -> int:
    """The number of the query's stream-stream join. Raises `LocalStackError` unless there is exactly one."""
    operators = [path.parts[-3] for path in (checkpoint / "state").glob(f"*/0/{JOIN_STORES[0]}")]
    if len(operators) != 1:
        raise LocalStackError(f"the checkpoint {checkpoint} has {len(operators)} stream-stream joins, expected one")
    return int(operators[0])


def as_format_v1(checkpoint: Path, kept: Path, operator: int, view: Path) -> None:
    """Make `view` a checkpoint in format v1 with the state of one operator. Raises `LocalStackError` where files
    are missing (older than what Spark keeps, or never written).
    """
    commits = _commits(kept, checkpoint / "commits")
    shutil.copytree(checkpoint / "offsets", view / "offsets")
    shutil.copy(checkpoint / "metadata", view / "metadata")
    (view / "commits").mkdir()
    for batch, commit in commits.items():
        body = {"nextBatchWatermarkMs": commit["nextBatchWatermarkMs"]}
        (view / "commits" / str(batch)).write_text(f"v1\n{json.dumps(body)}")
    source, target = checkpoint / "state" / str(operator), view / "state" / str(operator)
    shutil.copytree(source / "_metadata", target / "_metadata")
    stores: dict[Path, dict[int, str]] = {}
    for batch, commit in commits.items():
        for partition, ids in enumerate(commit["stateUniqueIds"][str(operator)]):
            names = JOIN_STORES if len(ids) == len(JOIN_STORES) else ("",)
            for name, unique_id in zip(names, ids, strict=True):
                stores.setdefault(Path(str(partition)) / name, {})[batch + 1] = unique_id
    for store, versions in stores.items():
        _link_store(source / store, target / store, versions)


def _link_store(source: Path, target: Path, versions: Mapping[int, str]) -> None:
    """The newest committed snapshot and every change after it; without a snapshot all changes from the first."""
    snapshot = max((v for v, unique_id in versions.items() if (source / f"{v}_{unique_id}.zip").exists()), default=0)
    target.mkdir(parents=True)
    for folder in ("_metadata", "SSTs"):  # a snapshot is a list of the files in SSTs
        if (source / folder).exists():
            shutil.copytree(source / folder, target / folder, copy_function=os.link)
    if snapshot:
        _copy_snapshot(source / f"{snapshot}_{versions[snapshot]}.zip", target / f"{snapshot}.zip")
    for version in range(snapshot + 1, max(versions) + 1):
        changelog = source / f"{version}_{versions.get(version, '?')}.changelog"
        if not changelog.exists():
            raise LocalStackError(f"{changelog} is missing: the state cannot be rebuilt from version {snapshot} on")
        os.link(changelog, target / f"{version}.changelog")


def _copy_snapshot(source: Path, target: Path) -> None:
    """With its list of files in the form of v1, which knows no column families (a join's stores have none)."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            if name == "metadata":
                listed = json.loads(data.split(b"\n", 1)[1])
                body = {key: listed[key] for key in ("sstFiles", "logFiles", "numKeys") if key in listed}
                data = b"v1\n" + json.dumps(body).encode()
            after.writestr(name, data)


def _commits(kept: Path, present: Path) -> Mapping[int, dict[str, Any]]:
    """Spark's commit records by batch, as far back as there are any; each is a version line and a line of JSON."""
    commits = {}
    for path in [*kept.iterdir(), *present.iterdir()]:
        if path.name.isdigit():  # checksum files lie beside them
            commits[int(path.name)] = json.loads(path.read_text().split("\n", 1)[1])
    return dict(sorted(commits.items()))


def main(arguments: Sequence[str]) -> None:
    """Print the values of a store."""
    checkpoint, kept, operator, store, *columns = arguments
    with tempfile.TemporaryDirectory(dir=checkpoint, prefix=".state-view-") as place:
        from tpc.chaos.servers.spark_session import spark_session

        view = Path(place) / "checkpoint"
        view.mkdir()
        as_format_v1(Path(checkpoint), Path(kept), int(operator), view)
        session = spark_session(
            "state reader",
            directory=Path(place) / "spark",
            extra={
                "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it lives for seconds
            },
        )
        try:
            reader = session.read.format("statestore").option("operatorId", operator).option("storeName", store)
            rows = reader.load(str(view)).select([f"value.{column}" for column in columns]).toJSON().collect()
        finally:
            session.stop()
    sys.stdout.write("".join(f"{row}\n" for row in rows))


if __name__ == "__main__":
    main(sys.argv[1:])
