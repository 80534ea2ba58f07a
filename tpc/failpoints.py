"""Named steps of the protocol at which somebody else may act; they do nothing until an action is installed.

Production code calls `hit(step, ...)` at each step. Fault injection installs actions with `install`; the table
is carried to executors with each task (the steps "pass.*" of `installed()`, so their actions must be picklable), and
nothing here needs an environment variable, a file or an import of the code that injects faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Action = Callable[[str, Mapping[str, Any]], None]

STEPS: Mapping[str, str] = {
    "pass.write": "on an executor, before the first rows of a branch go to their sink",
    "pass.prepare": "on an executor, all rows written, before a branch is prepared",
    "pass.prepared": "on an executor, after a branch was prepared",
    "epoch.prepared": "on the driver, every branch prepared, the intent not yet attempted",
    "log.put": "on the driver, before a record is put into the log",
    "epoch.decided": "on the driver, the intent durable, no commit sent",
    "sink.commit": "on the driver, before the branches of one sink are committed",
    "sink.committed": "on the driver, after the branches of one sink were committed",
    "epoch.committed": "on the driver, every branch committed, the complete record not yet attempted",
    "epoch.completed": "on the driver, the epoch complete, before Spark writes its own commit",
    "recovery.claimed": "on the driver, the generation record durable, nothing committed or swept",
    "recovery.owned": "on the driver, every sink has taken this term for its owner, nothing committed or swept",
    "recovery.swept": "on the driver, everything that no intent names aborted",
}

_actions: dict[str, Action] = {}


def hit(step: str, **where: Any) -> None:
    """Run the action installed for `step`, if any. `where` says which epoch, sink and so on."""
    if _actions and (action := _actions.get(step)) is not None:
        action(step, where)


def install(actions: Mapping[str, Action]) -> None:
    """Make `actions` the whole table of this process. Raises `KeyError` for a step that does not exist."""
    for step in actions:
        STEPS[step]
    _actions.clear()
    _actions.update(actions)


def installed() -> dict[str, Action]:
    """A copy of the table, to be carried to another process."""
    return dict(_actions)
