"""What can follow what in the protocol, read from its table of transitions and the functions that the table names.

The table says which event is possible in which phase; where it leads says the function, as `phase=Phase.X`, itself or
through the functions that it calls.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from tpc.events import Failed, Superseded
from tpc.machine import TRANSITIONS
from tpc.states import Phase


def state_diagram() -> str:
    """The phases and the events between them, as Mermaid text.

    That every phase may end in `stopped` when something has failed, or another coordinator leads, is left out.
    """
    names = {phase: phase.value for phase in Phase}
    lines = ["stateDiagram-v2", f"    [*] --> {names[Phase.NEW]}"]
    for (phase, event), transition in TRANSITIONS.items():
        for target in _in_order(_targets(transition)):
            if target is Phase.STOPPED and event in (Failed, Superseded):
                continue
            lines.append(f"    {names[phase]} --> {names[target]}: {event.__name__}")
    return "\n".join([*lines, f"    {names[Phase.STOPPED]} --> [*]"])


def _in_order(phases: set[Phase]) -> list[Phase]:
    return [phase for phase in Phase if phase in phases]


def _targets(transition: Callable[..., Any]) -> set[Phase]:
    """The phases that a transition can lead to."""
    reached: list[FunctionType] = []
    _follow(transition, reached)
    return {phase for function in reached for phase in _phases_set(function)}


def _follow(function: Any, reached: list[FunctionType]) -> None:
    """Adds `function` and all of its own package that it calls by name."""
    if isinstance(function, FunctionType) and function.__module__.startswith("tpc.") and function not in reached:
        reached.append(function)
        for name in function.__code__.co_names:
            _follow(function.__globals__.get(name), reached)


def _phases_set(function: FunctionType) -> Iterator[Phase]:
    if function.__name__ == "<lambda>":  # it only calls another
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.keyword) and node.arg == "phase" and isinstance(node.value, ast.Attribute):
            yield Phase[node.value.attr]
