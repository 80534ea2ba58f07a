"""The first pipeline of the reference as a program: a column of timestamps from the rate source, into Parquet files."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compat.environment import ROOT

SECONDS = "query.awaitTermination(10)"
ROWS = "while sum(epoch['rows'] for epoch in query.history()) < 20 and not query.awaitTermination(1):\n    pass"
"""In the place of ten seconds: on a busy machine the first epoch takes longer."""


def first_pipeline(place: Path) -> Path:
    """The program, with its files in `place`. Its last line is the number of rows that it has read back."""
    text = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
    found = re.search(r"^## A first pipeline\n.*?^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    program = place / "first_pipeline.py"
    text = found[1]
    for shown, run in ((SECONDS, ROWS), ("/tmp/ticks", str(place / "ticks"))):
        assert shown in text
        text = text.replace(shown, run)
    program.write_text(text)
    return program
