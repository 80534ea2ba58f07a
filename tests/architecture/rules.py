"""Rules about a tree of modules: each function gives the violations, one line each, and nothing when the rule holds."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

from tests.architecture.imports import Import, Tree, is_within


def told(tree: Tree, found: Import) -> str:
    """An import as a line that an editor can open."""
    place = os.path.relpath(tree.modules[found.importer].resolve())
    return f"{place}:{found.line} imports {found.imported}"


def room_of(module: str, rooms: Collection[str]) -> str | None:
    """The innermost of `rooms` (packages or modules) that `module` stands in."""
    return max((room for room in rooms if is_within(module, room)), key=len, default=None)


def wrong_rooms(tree: Tree, may_import: Mapping[str, Collection[str]]) -> list[str]:
    """Imports from one room into another that its row does not name. A room may always import itself."""
    wrong = []
    for found in tree.imports:
        here, there = room_of(found.importer, may_import), room_of(found.imported, may_import)
        if here and there and here != there and there not in may_import[here]:
            wrong.append(told(tree, found))
    return wrong


def wrong_tiers(tree: Tree, package: str, tiers: Sequence[Collection[str]]) -> list[str]:
    """Imports inside `package` from a lower tier into a higher one. Tiers name what is in it, the highest first.

    `*` names what no other tier does; without it a member without a tier is a violation too.
    """
    members = {_member(module, package) for module in tree.within(package) - {package}}
    wrong = [f"{package}.{name} is in no tier" for name in sorted(members) if _tier(name, tiers) is None]
    for found in tree.imports:
        if package in (found.importer, found.imported):
            continue
        if is_within(found.importer, package) and is_within(found.imported, package):
            here, there = (_tier(_member(module, package), tiers) for module in (found.importer, found.imported))
            if here is not None and there is not None and there < here:
                wrong.append(told(tree, found))
    return wrong


def _member(module: str, package: str) -> str:
    return module.removeprefix(f"{package}.").split(".")[0]


def _tier(member: str, tiers: Sequence[Collection[str]]) -> int | None:
    named = next((number for number, tier in enumerate(tiers) if member in tier), None)
    return named if named is not None else next((number for number, tier in enumerate(tiers) if "*" in tier), None)


def wrong_importers(tree: Tree, package: str, importers: Collection[str]) -> list[str]:
    """Imports of `package` from elsewhere than itself and `importers`."""
    return [
        told(tree, found)
        for found in tree.imports
        if is_within(found.imported, package)
        and not any(is_within(found.importer, allowed) for allowed in (package, *importers))
    ]


def foreign(tree: Tree) -> Iterator[tuple[str, Import]]:
    """What is neither the tree's own nor of the standard library: its top name, and where it is imported."""
    own = {name.split(".")[0] for name in tree.modules}
    for found in tree.imports:
        top = found.imported.split(".")[0]
        if top not in own and top not in sys.stdlib_module_names:
            yield top, found


def wrong_places(tree: Tree, needed_by: Mapping[str, Collection[str]]) -> list[str]:
    """Imports of other people's packages where no row of `needed_by` has them; also of those that have no row."""
    return [
        told(tree, found)
        for top, found in foreign(tree)
        if not any(is_within(found.importer, place) for place in needed_by.get(top, ()))
    ]


def circles(tree: Tree) -> list[str]:
    """Modules that import each other, directly or through others, each circle on a line.

    What only a type checker imports makes no circle: nothing waits for it. The edges
    """
    graph: dict[str, set[str]] = {name: set() for name in tree.modules}
    for found in tree.imports:
        edge = (found.importer, found.imported)
        if found.imported in graph and not found.for_types and edge[0] != edge[1]:
            graph[found.importer].add(found.imported)
    return [" <-> ".join(sorted(circle)) for circle in _strongly_connected(graph) if len(circle) > 1]


def too_long(tree: Tree, lines_max: int) -> dict[str, int]:
    """Modules with more lines than that, and how many they have."""
    lines = {name: len(path.read_text().splitlines()) for name, path in tree.modules.items()}
    return {name: count for name, count in lines.items() if count > lines_max}


def _strongly_connected(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Tarjan's algorithm, as published in 1972."""
    number, lowest = {}, {}
    path: list[str] = []
    components = []
    counter = itertools.count()

    def visit(node: str) -> None:
        number[node] = lowest[node] = next(counter)
        path.append(node)
        for following in sorted(graph[node]):
            if following not in number:
                visit(following)
                lowest[node] = min(lowest[node], lowest[following])
            elif following in path:
                lowest[node] = min(lowest[node], number[following])
        if lowest[node] == number[node]:
            start = path.index(node)
            components.append(path[start:])
            del path[start:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return components
