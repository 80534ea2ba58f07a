"""What is seen of a part that waits, and of one that is at work."""

from __future__ import annotations

import io

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


def test_where_nobody_watches_every_tenth_of_a_part_is_a_line() -> None:
    output = io.StringIO()
    bar = Bar(bars(Console(file=output, force_terminal=False)), "seeds", 1000)
    bar.begin()
    for _ in range(6):
        bar.advance(40)
    lines = output.getvalue().splitlines()
    assert [line.partition(" after")[0] for line in lines] == ["seeds: 120 of 1,000", "seeds: 200 of 1,000"]


def test_on_a_terminal_the_bar_tells_it_alone() -> None:
    output = io.StringIO()
    bar = Bar(bars(Console(file=output, force_terminal=True)), "seeds", 10)
    bar.begin()
    bar.advance(5)
    assert "seeds: 5 of 10" not in output.getvalue()
