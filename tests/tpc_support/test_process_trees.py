"""A process and all that it has started, whichever groups they made: found, and ended at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tpc.support.deadlines import until
from tpc.support.process_trees import gone_within, is_alive, kill_group, kill_tree, tree_of

FAMILY = """
import subprocess, sys, time
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleeper)
subprocess.Popen(sleeper, start_new_session=True)
time.sleep(600)
"""

SUICIDE = """
import os, subprocess, sys, time
from tpc.support.process_trees import kill_tree, tree_of
if child := os.fork():
    sleepers = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid for _ in range(3)]
    with open(sys.argv[1], "w") as file:
        print(os.getpid(), child, *sleepers, file=file)
    time.sleep(600)
parent = os.getppid()
while len(tree_of(parent)) < 5:
    time.sleep(0.01)
time.sleep(0.2)
kill_tree(parent)
"""


@pytest.fixture
def family() -> subprocess.Popen[bytes]:
    """A parent, a child in its group, and a child in a group of its own."""
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], start_new_session=True)
    assert until(lambda: len(tree_of(parent.pid)) == 3, 20)
    return parent


def test_a_tree_dies_whole_whatever_groups_its_members_made(family: subprocess.Popen[bytes]) -> None:
    killed = kill_tree(family.pid)
    assert len(killed) == 3
    assert gone_within(killed, 20) == []
    assert family.wait(10) == -signal.SIGKILL


def test_a_dead_process_that_nobody_has_collected_is_not_alive(family: subprocess.Popen[bytes]) -> None:
    parent, *_ = kill_tree(family.pid)
    assert until(lambda: not is_alive(parent), 20)
    family.wait(10)


def test_those_who_outlive_the_time_are_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as sleeper:
        assert [process.pid for process in gone_within(tree_of(sleeper.pid), 0.05)] == [sleeper.pid]
        sleeper.kill()


def test_of_a_process_that_is_gone_there_is_no_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(20)
    assert tree_of(ended.pid) == []
    assert kill_tree(ended.pid) == []


def test_a_member_of_the_tree_ends_itself_after_all_others(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with subprocess.Popen([sys.executable, "-c", SUICIDE, str(pids)], start_new_session=True) as root:
        try:
            assert root.wait(20) == -signal.SIGKILL
            left = [process for pid in pids.read_text().split() for process in tree_of(int(pid))]
            assert gone_within(left, 20) == []
        finally:
            kill_group(root.pid)


def test_the_caller_s_own_group_is_spared() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        assert os.getpgid(child.pid) == os.getpgrp()
        kill_tree(child.pid)
        assert child.wait(20) == -signal.SIGKILL
