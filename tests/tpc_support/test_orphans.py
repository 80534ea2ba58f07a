"""A process in a session of its own ends, with what it has started, when its parent is killed."""

from __future__ import annotations

import pytest

from tests.support.processes import eventually, line, python, runs

WORKER = """
import os, subprocess, sys, time
from tpc.support.process_trees import end_group_with_parent
end_group_with_parent(int(sys.argv[1]))
mine = subprocess.Popen(["sleep", "60"])
apart = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(os.getpid(), mine.pid, apart.pid, flush=True)
time.sleep(60)
"""
ALONE = """
import sys, time
from tpc.support.process_trees import end_group_with_parent
end_group_with_parent(int(sys.argv[1]))
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())], start_new_session=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_worker_ends_with_all_it_has_started_when_its_parent_is_killed() -> None:
    with python(PARENT, WORKER) as parent:
        pids = [int(pid) for pid in line(parent).split()]
        assert all(map(runs, pids))
        parent.kill()
        parent.wait()
        eventually(lambda: not any(map(runs, pids)), "they end")


@pytest.mark.slow
def test_a_worker_whose_parent_is_gone_before_it_asks_ends_too() -> None:
    with python(ALONE, 1 << 22) as worker:  # no process has that number
        eventually(lambda: worker.poll() is not None, "it ends")
