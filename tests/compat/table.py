"""The table of docs/reference/versions.md, written from what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.compat.environment import ROOT

PAGE = ROOT / "docs" / "reference" / "versions.md"
BEGIN, END = "<!-- written by make compat -->", "<!-- end -->"
HEAD = "| Python | PySpark | the others | rows come from | seen | day |\n|---|---|---|---|---|---|"
PASS = "first pipeline; four systems, killed and right"


def write_table(records: Sequence[dict[str, Any]]) -> None:
    """In the place of the one that stands there."""
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    rows = "\n".join(_row(record) for record in records)
    PAGE.write_text(f"{text[:begin]}\n\n{HEAD}\n{rows}\n\n{text[end:]}")


def _row(record: dict[str, Any]) -> str:
    versions = record.get("versions", {})
    others = "the lowest declared" if record["lowest"] else "the newest"
    client = record.get("stand_in_client", versions.get("pymongo"))
    told = ", ".join(
        f"{name} {version}" + (f" ({client} in the four systems)" if name == "pymongo" and client != version else "")
        for name, version in versions.items()
        if name != "pyspark"
    )
    cells = (
        record["python"],
        versions.get("pyspark", "none"),
        f"{others}: {told}",
        record["source"],
        PASS if record["outcome"] == "pass" else record["outcome"],
        record["day"],
    )
    return f"| {' | '.join(cells)} |"
