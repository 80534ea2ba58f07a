"""No error that a service can raise advises what only a query of Spark has.

The sinks and the core serve both runtimes. Their texts are read from the source, so that a new one is read too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("tpc", "sinks", "coordinator/service", "coordinator/kernel")
FOREIGN = re.compile(
    r"pyspark|foreachbatch|\bexecutors?\b|to_avro|to_json|timestamp_(ntz|ltz)|readstream|withcolumn|spark\.|--conf|"
    r"maxoffsetspertrigger|cast\(|(cast|alias).*select=",
    re.IGNORECASE,
)
ONLY_OF_SPARK = {
    "sinks/postgres/check.py": "run fewer tasks at a time",
    "sinks/kafka/check.py": "run fewer tasks at a time",
    "coordinator/kernel/feeding/gather.py": "or take smaller epochs",
    "tpc/machine.py": "--conf spark.default.parallelism",
}
"""Said only where several tasks write, or where a parallelism is on record: a service has one task and records none."""


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, with the constant parts of those that are formatted."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:  # noqa: SIM102  one reads worse
            # What begins with a line break is SQL, or a list of names.
            if " " in node.value.strip() and not node.value.startswith("\n"):
                yield node.lineno, node.value


def modules() -> list[str]:
    found = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    others = {"chaos", "coordinator", "sinks", "testing"}  # the first three are links below tpc
    return sorted(str(path) for path in found if not others & set(path.parts[1:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("module", modules())
def test_texts_of_what_serves_both_runtimes_name_nothing_of_spark_s(module: str) -> None:
    met = [f"{line}: {text}" for line, text in sentences(ROOT / module) if FOREIGN.search(text)]
    allowed = ONLY_OF_SPARK.get(module)
    assert [text for text in met if allowed is None or allowed not in text] == []


def test_what_is_allowed_is_still_said() -> None:
    for module, text in ONLY_OF_SPARK.items():
        assert any(text in said for _, said in sentences(ROOT / module)), module
