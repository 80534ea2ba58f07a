"""Patches made for a test from the files as they are."""

from __future__ import annotations

import difflib
from pathlib import Path

from tpc.chaos.prove.copies import CHECKOUT
from tpc.chaos.prove.mutant import Mutant, read_mutant


def patch(place: Path, file: str, old: str, new: str, header: str = "") -> Mutant:
    """A patch that puts `new` in the place of `old`, which stands once in `file`."""
    before = (CHECKOUT / file).read_text()
    assert before.count(old) == 1
    after = before.replace(old, new)
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{file}", f"b/{file}")
    path = place / "made-for-a-test.patch"
    path.write_text(header + "".join(lines))
    return read_mutant(path)
