"""Mutants made for a test from the code as it is."""

from __future__ import annotations

from tpc.chaos.prove.mutant import Catch, Edit, Mutant


def edited(definition: str, old: str, new: str, *, file: str = "", expected: Catch | None = None) -> Mutant:
    """A mutant that has `new` instead of the lines `old` of a definition."""
    edit = Edit(definition, tuple(old.splitlines()), tuple(new.splitlines()), file)
    return Mutant("made-for-a-test", (edit,), expected=expected)
