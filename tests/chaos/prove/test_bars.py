"""What is seen of a part that waits, and of one that is at work."""

from __future__ import annotations

from rich.console import Console

from tpc.chaos.prove.bars import Bar, bars


def test_a_part_is_seen_from_when_its_first_work_is_begun() -> None:
    progress = bars(Console())
    bar = Bar(progress, "seeds", 500)
    (task,) = progress.tasks
    assert (task.visible, task.elapsed) == (False, None)
    bar.begin()
    began = task.start_time
    bar.begin()
    bar.advance(250)
    assert task.visible
    assert task.start_time == began is not None
    assert task.completed == 250
