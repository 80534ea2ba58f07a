"""The page about the proof shows the mutants that there are, as their tables say."""

from __future__ import annotations

import re

from tpc.chaos.prove.copies import CHECKOUT, MUTANTS
from tpc.chaos.prove.mutant import read_mutants, table_of

PAGE = CHECKOUT / "docs" / "explanation" / "proof.md"


def test_the_table_of_mutants_is_that_of_the_repository() -> None:
    rows = re.findall(r"^\| `\d\d-.*\|$", PAGE.read_text(), re.MULTILINE)
    assert rows == table_of(read_mutants(MUTANTS))


def test_the_entry_that_the_page_shows_is_one_of_a_table() -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert any(shown in table.read_text() for table in MUTANTS.glob("*.toml"))


def test_the_page_names_as_many_mutants_as_there_are() -> None:
    count, page = len(read_mutants(MUTANTS)), PAGE.read_text()
    assert f"{count} of {count} mutants caught" in page or f"There are {count} mutants now" in page
