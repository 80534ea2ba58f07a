"""Pages of the matrix's report, for the tests of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chaos.reports.html_pages import Page
from tpc.chaos.reports.matrix import write_matrix_report

Json = dict[str, Any]


def html(tmp_path: Path, record: Json) -> str:
    return write_matrix_report(tmp_path / "report.html", record).read_text(encoding="utf-8")


def page_of(tmp_path: Path, record: Json) -> Page:
    return Page(html(tmp_path, record))


def of_suite(record: Json, suite: str) -> list[Json]:
    return [case for case in record["cases"] if case["suite"] == suite]


def only(record: Json, *cases: Json) -> Json:
    """The record with nothing but these cases and no blanks."""
    return {name: value for name, value in record.items() if name != "blanks"} | {"cases": list(cases)}
