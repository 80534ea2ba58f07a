"""A copy with probes runs as the code does, and notes each statement that any process of it comes to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tpc.chaos.prove.copies import Probes, instrument

MODULE = '''\
"""A module."""
from __future__ import annotations

import sys

X = 1


def called(x):
    """Says."""
    if x > 1:
        return 2
    elif x == 1:
        y = (
            x
        )
        return y
    try:
        raise ValueError
    except ValueError:
        x += 1
    else:
        return 9
    finally:
        x += 2
    match x:
        case 3:
            return x
        case _:
            return -1


def outer():
    class Inner:
        Z = 3

        def method(self):
            return self.Z

    def within():
        global X
        X = 5
        return Inner().method()

    return within()


def raises():
    raise RuntimeError


async def coroutine():
    return 1


def generator():
    yield 1
    yield 2
'''


@pytest.fixture
def probes(tmp_path: Path) -> Probes:
    (tmp_path / "subject.py").write_text(MODULE)
    return instrument(tmp_path, ["subject.py"])


def executed_by(probes: Probes, code: str) -> tuple[subprocess.CompletedProcess[str], list[int]]:
    """How a process of the copy that runs this ends, and the lines that have been executed so far."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=probes.copy, timeout=60, check=False, capture_output=True, text=True
    )
    return done, probes.executed().get("subject.py", [])


def test_what_runs_while_a_module_is_imported_is_not_noted(probes: Probes) -> None:
    assert executed_by(probes, "import subject")[1] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "printed", "lines"),
    [
        ("called(2)", "2", [11, 12]),
        ("called(1)", "1", [11, 13, 14, 17]),
        ("called(0)", "3", [11, 13, 18, 19, 21, 25, 26, 28]),
        ("outer()", "3", [34, 38, 40, 41, 42, 43, 45]),
        ("next(generator())", "1", [57]),
        ("__import__('asyncio').run(coroutine())", "1", [53]),
    ],
)
def test_each_statement_that_is_executed_is_noted_and_no_other(
    probes: Probes, code: str, printed: str, lines: list[int]
) -> None:
    done, executed = executed_by(probes, f"from subject import *; print({code})")
    assert (done.stdout.strip(), done.stderr) == (printed, "")
    assert [MODULE.splitlines()[line - 1] for line in executed] == [MODULE.splitlines()[line - 1] for line in lines]


def test_errors_name_the_lines_of_the_source(probes: Probes) -> None:
    done, _ = executed_by(probes, "import subject; subject.raises()")
    assert f'subject.py", line {MODULE.splitlines().index("    raise RuntimeError") + 1}, in raises' in done.stderr


def test_what_a_process_came_to_that_was_killed_is_noted(probes: Probes) -> None:
    done, executed = executed_by(probes, "import os, subject; subject.called(2); os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    assert executed == [11, 12]


def test_forks_and_threads_note_what_they_execute(probes: Probes) -> None:
    code = """
import os, threading, subject
if not (pid := os.fork()):
    subject.called(2)
    os._exit(0)
os.waitpid(pid, 0)
thread = threading.Thread(target=subject.raises, daemon=True)
thread.start()
thread.join()
"""
    assert executed_by(probes, code)[1] == [11, 12, MODULE.splitlines().index("    raise RuntimeError") + 1]


@pytest.mark.slow
def test_functions_that_are_pickled_by_value_still_run(probes: Probes) -> None:
    code = """
import subject
from pyspark import cloudpickle
cloudpickle.register_pickle_by_value(subject)
print(cloudpickle.loads(cloudpickle.dumps(subject.called))(2))
"""
    done, executed = executed_by(probes, code)
    assert (done.stdout.strip(), executed) == ("2", [11, 12])


def test_a_copy_of_the_copy_has_notes_of_its_own(probes: Probes, tmp_path: Path) -> None:
    executed_by(probes, "import subject; subject.called(2)")
    assert probes.of(tmp_path).executed() == {}
