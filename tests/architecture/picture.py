"""The parts of `docs/ARCHITECTURE.md` that follow from the source: the pictures of imports and of the phases.

A part stands between `<!-- drawn: WHAT -->` and `<!-- end -->`; `python -m tests.architecture` (`make architecture`)
writes all of them again, and a test compares. WHAT is `layers`, `phases` or `inside PACKAGE`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.architecture.imports import Tree, is_within, read_tree
from tests.architecture.phases import state_diagram

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "ARCHITECTURE.md"
PART = re.compile(r"(<!-- drawn: ([\w. ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
CORE = "core"


def refreshed(text: str, tree: Tree) -> str:
    """The document with every drawn part drawn again."""
    return PART.sub(lambda part: f"{part[1]}\n{drawn(part[2], tree)}\n\n{part[3]}", text)


def drawn(what: str, tree: Tree) -> str:
    """One part. Raises `ValueError` when there is no such part."""
    match what.split():
        case ["layers"]:
            return _mermaid(flowchart(arrows(tree, "tpc", lumped=CORE)))
        case ["phases"]:
            return _mermaid(state_diagram())
        case ["inside", package]:
            return _mermaid(flowchart(arrows(tree, package)))
    raise ValueError(f"nothing is drawn as {what!r}")


def arrows(tree: Tree, package: str, *, lumped: str | None = None) -> set[tuple[str, str]]:
    """Who imports whom among the members of `package`, by their last names; imports for types only are left out.

    With `lumped` the modules that are no packages are one node of that name. An arrow that follows from others (a to c,
    where a leads to b and b to c) is left out.
    """
    found = set()
    for at in tree.imports:
        if not at.for_types:
            here, there = (_node(tree, module, package, lumped) for module in (at.importer, at.imported))
            if here and there and here != there:
                found.add((here, there))
    return reduced(found)


def _node(tree: Tree, module: str, package: str, lumped: str | None) -> str | None:
    if not is_within(module, package) or module in (package, f"{package}.__main__"):
        return None
    member = module.removeprefix(f"{package}.").split(".")[0]
    return member if lumped is None or f"{package}.{member}" in tree.packages() else lumped


def reduced(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """As few of the edges as lead to the same places: the transitive reduction."""
    kept = set(edges)
    for edge in sorted(kept):
        if edge[1] in _reached(edge[0], kept - {edge}):
            kept.remove(edge)
    return kept


def _reached(start: str, edges: Collection[tuple[str, str]]) -> set[str]:
    reached, ahead = set[str](), [start]
    while ahead:
        here = ahead.pop()
        following = {there for begin, there in edges if begin == here} - reached
        reached |= following
        ahead.extend(following)
    return reached


def flowchart(edges: Collection[tuple[str, str]]) -> str:
    """Mermaid text of a picture in which arrows point from who imports to what is imported."""
    return "\n".join(["flowchart TD", *(f"    {here} --> {there}" for here, there in sorted(edges))])


def _mermaid(text: str) -> str:
    return f"```mermaid\n{text}\n```"


def write() -> bool:
    """Bring the document up to the source; whether anything has changed."""
    before = DOCUMENT.read_text()
    after = refreshed(before, read_tree(ROOT))
    DOCUMENT.write_text(after)
    return after != before
