"""Load and awkward schedules: tasks that fail or run twice, a million rows in one epoch, many tasks, many epochs."""

from __future__ import annotations

from tpc.chaos.matrix.cases.repeated_tasks import repeated_task_cases
from tpc.chaos.matrix.cases.sizes import size_cases
from tpc.chaos.matrix.cases.special import SpecialCase


def cases() -> list[SpecialCase]:
    """All cases of the suite."""
    return [*repeated_task_cases(), *size_cases()]
