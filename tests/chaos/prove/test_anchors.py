"""A mutant is found by the definition and the text that it changes, wherever both have moved to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.anchors import Sources, definitions
from tpc.chaos.prove.mutant import Edit, Mutant, MutantError, read_mutants, read_table

LOG = '''
"""A module."""

SLOTS = (
    1,
    2,
)


class Log:
    """A log."""

    LIMIT = 7

    @property
    def limit(self):
        if self.LIMIT > 3:
            return self.LIMIT

        return 3

    def put(self, slot):
        def inner():
            return slot

        return inner()


def put(slot):
    return slot
'''


def checkout(place: Path, **files: str) -> Sources:
    """A checkout with these modules; two underscores are a slash."""
    for name, text in files.items():
        path = place / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Sources(place)


def test_functions_classes_and_constants_are_found_by_their_qualified_names() -> None:
    found = definitions(ast.parse(LOG))
    assert list(found) == ["SLOTS", "Log", "Log.LIMIT", "Log.limit", "Log.put", "put"]
    assert found["SLOTS"] == [(4, 7)]
    assert found["Log.limit"] == [(15, 20)]  # with its decorator
    assert found["Log.put"] == [(22, 26)]  # with what is inside


def test_what_an_overload_or_a_branch_defines_again_has_its_name_twice() -> None:
    assert definitions(ast.parse("if a:\n    x = 1\nelse:\n    x = 2\n"))["x"] == [(2, 2), (4, 4)]


def test_the_lines_in_a_table_need_no_indentation_of_the_module(tmp_path: Path) -> None:
    sources = checkout(tmp_path, tpc__log=LOG)

    def changed(definition: str, old: str, new: str) -> str:
        return sources.changed(edited(definition, old, new))["tpc/log.py"]

    assert changed("SLOTS", "1,", "3,") == LOG.replace("    1,", "    3,")
    assert changed("Log.LIMIT", "LIMIT = 7", "LIMIT = 8") == LOG.replace("LIMIT = 7", "LIMIT = 8")
    branch = "        if self.LIMIT > 3:\n            return self.LIMIT\n\n"
    assert changed("Log.limit", "if self.LIMIT > 3:\n    return self.LIMIT\n\n", "") == LOG.replace(branch, "")
    assert changed("Log.limit", "return 3", "# a\n\nreturn 4") == LOG.replace("return 3", f"# a\n\n{' ' * 8}return 4")
    deep = f"{' ' * 12}if slot:\n{' ' * 14}return 0"
    assert changed("Log.put", "return slot", "if slot:\n  return 0") == LOG.replace(f"{' ' * 12}return slot", deep)
    assert changed("put", "return slot", "return 0") == LOG.replace("\n    return slot", "\n    return 0")


def test_new_lines_may_be_indented_less_than_the_old_ones(tmp_path: Path) -> None:
    sources = checkout(tmp_path, tpc__log=LOG)
    mutant = edited("Log.limit", "    return self.LIMIT\n\nreturn 3", "    pass\nreturn 4")
    assert "> 3:\n            pass\n        return 4\n" in sources.changed(mutant)["tpc/log.py"]
    mutant = edited("Log.limit", "    return self.LIMIT", "    pass\nself.x()")
    assert "> 3:\n            pass\n        self.x()\n" in sources.changed(mutant)["tpc/log.py"]


def test_a_function_takes_its_mutants_along_when_it_or_its_module_moves(tmp_path: Path) -> None:
    mutant = edited("put", "return slot", "return 0")
    before = checkout(tmp_path / "a", tpc__log=LOG)
    after = checkout(tmp_path / "b", coordinator__logs__local=f"X = 1\n\n{LOG}")
    assert before.changed(mutant)["tpc/log.py"] in after.changed(mutant)["coordinator/logs/local.py"]


def test_of_two_definitions_with_one_name_that_with_the_old_text_is_meant(tmp_path: Path) -> None:
    sources = checkout(tmp_path, tpc__a="def put():\n    return 1\n", sinks__a="def put():\n    return 2\n")
    assert sources.files_of(edited("put", "return 2", "return 3")) == ["sinks/a.py"]


def test_where_both_have_it_the_file_says_which(tmp_path: Path) -> None:
    sources = checkout(tmp_path, tpc__a=LOG, sinks__a=LOG, sinks__extra_a=LOG)
    with pytest.raises(MutantError, match=r"3 times in put: sinks/a\.py:30, sinks/extra_a\.py:30, tpc/a\.py:30"):
        sources.places(edited("put", "return slot", "return 0"))
    assert sources.files_of(edited("put", "return slot", "return 0", file="sinks/a.py")) == ["sinks/a.py"]


@pytest.mark.parametrize(
    ("mutant", "why"),
    [
        (edited("nowhere", "return slot", "return 0"), "there is no definition nowhere"),
        (edited("Log.put", "return 7", "return 0"), "Log.put of tpc/log.py does not have the old text: return 7"),
        (edited("Log", "return", "return 0"), "does not have the old text"),  # whole lines
        (edited("put", "return slot", "return slot"), "it changes nothing"),
        (edited("put", "", "return slot"), "has no old text"),
        (edited("put", "return slot", "return slot)"), "tpc/log.py is no Python any more"),
        (Mutant("x", ()), "it changes nothing"),
        (
            Mutant("x", (Edit("put", ("return slot",), ("return 0",)), Edit("put", ("return slot",), ("return 1",)))),
            "two edits change line 30",
        ),
    ],
    ids=["definition", "text", "part of a line", "same", "empty", "syntax", "no edit", "twice"],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, mutant: Mutant, why: str) -> None:
    with pytest.raises(MutantError, match=re.escape(why)):
        checkout(tmp_path, tpc__log=LOG).changed(mutant)


def test_text_that_is_twice_in_a_definition_is_refused(tmp_path: Path) -> None:
    sources = checkout(tmp_path, tpc__a="def put(x):\n    if x:\n        x += 1\n    x += 1\n")
    with pytest.raises(MutantError, match=r"2 times in put: tpc/a\.py:3, tpc/a\.py:4"):
        sources.places(edited("put", "x += 1", "x += 2"))


def test_several_edits_of_one_module_change_the_lines_that_they_name(tmp_path: Path) -> None:
    edits = (
        Edit("SLOTS", ("1,", "2,"), ("9,",)),
        Edit("Log.LIMIT", ("LIMIT = 7",), ("LIMIT = 8",)),
        Edit("put", ("return slot",), ("slot += 1", "return slot")),
    )
    text = checkout(tmp_path, tpc__log=LOG).changed(Mutant("x", edits))["tpc/log.py"]
    assert "SLOTS = (\n    9,\n)" in text
    assert "    LIMIT = 8\n" in text
    assert text.endswith("def put(slot):\n    slot += 1\n    return slot\n")


@pytest.mark.parametrize("folder", ["tpc__testing", "chaos", "tests"])
def test_checks_have_no_mutants(tmp_path: Path, folder: str) -> None:
    sources = checkout(tmp_path, **{f"{folder}__a": LOG})
    with pytest.raises(MutantError, match="no definition put"):
        sources.places(edited("put", "return slot", "return 0"))


TABLE = """
[[mutant]]
name = "01-x"
rule = 1
defect = "It is wrong."
caught_by = "files kit (test_a_b)"

[[mutant.edit]]
in = "Log.put"
old = '''
if "a\\n":
    return 1
'''
new = 'return 2'

[[mutant.edit]]
in = "put"
file = "local.py"
old = 'x()'
new = ""
"""


def test_a_table_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TABLE)
    (mutant,) = read_table(tmp_path / "a.toml")
    assert (mutant.name, mutant.rule, mutant.defect) == ("01-x", 1, "It is wrong.")
    assert str(mutant.expected) == "files kit (test_a_b)"
    assert mutant.edits == (
        Edit("Log.put", ('if "a\\n":', "    return 1"), ("return 2",)),
        Edit("put", ("x()",), (), "local.py"),
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("rule = 1", "role = 1", "a.toml: unknown key 'role'"),
        ('in = "put"', 'function = "put"', "a.toml: unknown key 'function'"),
        ('in = "put"', "", "a.toml: an entry has no 'in'"),
        ("rule = 1", "rule =", "a.toml: Invalid value"),
    ],
)
def test_a_table_with_a_slip_is_refused(tmp_path: Path, old: str, new: str, why: str) -> None:
    (tmp_path / "a.toml").write_text(TABLE.replace(old, new))
    with pytest.raises(MutantError, match=why):
        read_table(tmp_path / "a.toml")


def test_two_mutants_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TABLE)
    (tmp_path / "b.toml").write_text(TABLE)
    with pytest.raises(MutantError, match="more than one mutant has the name 01-x"):
        read_mutants(tmp_path)
