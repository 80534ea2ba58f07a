"""Finds what a mutant changes: the one definition that has its old text, wherever the module lies, and its lines there.

A definition is a function, a class or an assigned name, under its qualified name; what is inside of a function belongs
to the function. The old text is whole lines, without the indentation of the module, and occurs once. Of two definitions
with one name the old text says which is meant; where both have it, `file` in the table does.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tpc.chaos.prove.mutant import Edit, Mutant, MutantError

ROOMS = ("tpc", "sinks", "coordinator")
_NOT_IN = ("tpc/testing/",)
"""A mutant of the checks would prove nothing about them."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Place:
    """Where an edit applies: lines of a file, which count from 1."""

    file: str
    """Below the checkout."""
    first: int
    last: int
    new: tuple[str, ...]
    """What is there instead, indented as the file is."""


class Sources:
    """The modules that mutants may change, as they are in a checkout."""

    def __init__(self, checkout: Path) -> None:
        self._texts = {file: (checkout / file).read_text(encoding="utf-8") for file in _files(checkout)}
        self._trees: dict[str, ast.Module] = {}
        self._definitions: dict[str, dict[str, list[tuple[int, int]]]] = {}

    @property
    def files(self) -> list[str]:
        """The modules, as paths below the checkout."""
        return sorted(self._texts)

    def text(self, file: str) -> str:
        """The text of a module."""
        return self._texts[file]

    def tree(self, file: str) -> ast.Module:
        """The module as a tree."""
        if file not in self._trees:
            self._trees[file] = ast.parse(self._texts[file])
        return self._trees[file]

    def definitions(self, file: str) -> dict[str, list[tuple[int, int]]]:
        """The lines of each definition of the module, by qualified name."""
        if file not in self._definitions:
            self._definitions[file] = definitions(self.tree(file))
        return self._definitions[file]

    def with_word(self, word: str) -> list[str]:
        """The modules in which a word occurs."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return [file for file in self.files if pattern.search(self._texts[file])]

    def places(self, mutant: Mutant) -> list[Place]:
        """Where each edit of the mutant applies. Raises `MutantError` when that is not one place each."""
        if not mutant.edits:
            raise MutantError("it changes nothing")
        return [self._place(edit) for edit in mutant.edits]

    def files_of(self, mutant: Mutant) -> list[str]:
        """The files that the mutant changes, as paths below the checkout. Raises `MutantError`."""
        return list(dict.fromkeys(place.file for place in self.places(mutant)))

    def changed(self, mutant: Mutant) -> dict[str, str]:
        """The files that the mutant changes, with their changed text. Raises `MutantError`."""
        places = sorted(self.places(mutant), key=lambda place: (place.file, place.first), reverse=True)
        texts: dict[str, str] = {}
        first_changed: dict[str, int] = {}
        for place in places:
            if place.last >= first_changed.get(place.file, place.last + 1):
                raise MutantError(f"two edits change line {place.last} of {place.file}")
            first_changed[place.file] = place.first
            lines = texts.get(place.file, self.text(place.file)).splitlines(keepends=True)
            lines[place.first - 1 : place.last] = [f"{line}\n" for line in place.new]
            texts[place.file] = "".join(lines)
        for file, text in texts.items():
            if text == self.text(file):
                raise MutantError("it changes nothing")
            try:
                compile(text, file, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise MutantError(f"{file} is no Python any more: {error}") from error
        return texts

    def _place(self, edit: Edit) -> Place:
        if not any(line.strip() for line in edit.old):
            raise MutantError(f"an edit in {edit.definition} has no old text")
        found = list(self._occurrences(edit))
        if len(found) == 1:
            return found[0]
        if found:
            raise MutantError(f"the old text is {len(found)} times in {edit.definition}: {_told(found)}")
        if named := ", ".join(file for file, _, _ in self._defined(edit)):
            raise MutantError(f"{edit.definition} of {named} does not have the old text: {edit.old[0].strip()}")
        raise MutantError(f"there is no definition {edit.definition}" + (f" in {edit.file}" if edit.file else ""))

    def _occurrences(self, edit: Edit) -> Iterator[Place]:
        margin = _margin(edit.old)
        for file, first, last in self._defined(edit):
            lines = self.text(file).splitlines()
            for start in range(first, last - len(edit.old) + 2):
                window = lines[start - 1 : start - 1 + len(edit.old)]
                if [*_moved(window, -_margin(window))] == [*_moved(edit.old, -margin)]:
                    new = _moved(edit.new, _margin(window) - margin)
                    yield Place(file, start, start + len(edit.old) - 1, tuple(new))

    def _defined(self, edit: Edit) -> Iterator[tuple[str, int, int]]:
        """The definitions with that name: the file, the first line and the last."""
        if edit.file:
            files = [file for file in self.files if f"/{file}".endswith(f"/{edit.file}")]
        else:
            files = self.with_word(edit.definition.rpartition(".")[2])
        for file in files:
            for first, last in self.definitions(file).get(edit.definition, ()):
                yield file, first, last


def _files(checkout: Path) -> Iterator[str]:
    for room in ROOMS:
        for folder, _, files in os.walk(checkout / room):  # which goes into no link
            names = ((Path(folder) / file).relative_to(checkout).as_posix() for file in files if file.endswith(".py"))
            yield from (name for name in names if not name.startswith(_NOT_IN))


def definitions(tree: ast.Module) -> dict[str, list[tuple[int, int]]]:
    """The lines of each definition of a module, decorators included, by qualified name; a name may be defined twice."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, node in _defined_in(tree.body, ""):
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        found.setdefault(name, []).append((first, node.end_lineno or node.lineno))
    return found


def _defined_in(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from _defined_in(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((f"{prefix}{name.id}", node) for name in targets if isinstance(name, ast.Name))
        elif isinstance(node, ast.If | ast.Try):
            for inner in (node.body, node.orelse):
                yield from _defined_in(inner, prefix)


def _margin(lines: list[str] | tuple[str, ...]) -> int:
    """By how many blanks all of these lines are indented at least."""
    return min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)


def _moved(lines: list[str] | tuple[str, ...], by: int) -> Iterator[str]:
    """The lines with so many blanks more, or fewer, at their beginnings; of an empty line none."""
    for line in lines:
        if not line.strip():
            yield ""
        else:
            yield " " * by + line if by >= 0 else line[-by:]


def _told(places: list[Place]) -> str:
    return ", ".join(f"{place.file}:{place.first}" for place in places)
