"""`make compat`: the built wheel in every combination, and the table of what was seen in docs/reference/versions.md."""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.compat.combinations import COMBINATIONS, Combination, connector, python_of, stand_in_client
from tests.compat.environment import ROOT, Environment, build_wheel
from tests.compat.first_pipeline import first_pipeline
from tests.compat.four_systems import run_killed_and_again
from tests.compat.table import write_table
from tpc.chaos.servers.jars import fetch
from tpc.chaos.servers.server import UserServer
from tpc.chaos.servers.stack import Stack

RECORDS = ROOT / "build" / "compat"
VERSIONS = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in %r}))"
SHOWN = ("pyspark", "pyarrow", "numpy", "pandas", "confluent-kafka", "kafka-python", "psycopg", "pymongo")


def tried(combination: Combination, wheel: Path, stack: Stack, place: Path) -> dict[str, Any]:
    """What came of one combination. Nothing that fails ends the others."""
    record: dict[str, Any] = {"python": combination.python, "lowest": combination.lowest, "source": "files"}
    record["day"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    python = python_of(combination.python)
    if python is None:
        return {**record, "outcome": "no such Python on the machine"}
    try:
        environment = Environment(place / "environment", python)
        environment.install(wheel, *combination.requirements())
        asked = place / "versions.py"
        asked.write_text(VERSIONS % (SHOWN,))
        record["versions"] = json.loads(environment.run(asked))
        assert int(environment.run(first_pipeline(place))) > 0
        record["outcome"] = "first pipeline"
        if not isinstance(stack.mongo, UserServer):
            environment.install(stand_in_client())
            record["stand_in_client"] = json.loads(environment.run(asked))["pymongo"]
        jars = []
        if combination.connector is not None:
            jars = fetch(f"spark-kafka-{combination.connector}", connector(combination.connector))
            record["source"] = f"Kafka, connector {combination.connector}"
        run_killed_and_again(environment, stack, place, jars)
        record["outcome"] = "pass"
    except Exception as error:  # noqa: BLE001  told in the table and on the terminal
        traceback.print_exc()
        record["outcome"] = f"after {record.get('outcome', 'the installation')}: {type(error).__name__}"
    return record


def main() -> None:
    """Try those that are asked for; the others keep their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="combinations whose name contains this")
    wanted = [one for one in COMBINATIONS if parser.parse_args().only in one.name]
    RECORDS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tpc-compat-") as temporary, Stack(Path(temporary, "stack")) as stack:
        wheel = build_wheel(Path(temporary))
        for number, combination in enumerate(wanted):
            place = Path(temporary, str(number))
            place.mkdir()
            record = tried(combination, wheel, stack, place)
            print(combination.name, record["outcome"], flush=True)  # noqa: T201  a program
            (RECORDS / f"{combination.name}.json").write_text(json.dumps(record, indent=1))
    files = [RECORDS / f"{one.name}.json" for one in COMBINATIONS]
    write_table([json.loads(file.read_text()) for file in files if file.exists()])


if __name__ == "__main__":
    main()
