"""Another process for the kit of kept objects: it reads bytes, runs epochs, says what they came to; may be killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpc.testing.transactional import TransactionalConformance

KILL_STEPS = ("begun", "changed", "cut")
DEADLINE_S = 120.0
_CODE = "from tpc.testing.transactional_process import serve; serve()"


@dataclass(frozen=True)
class Lived:
    """A life: it begins with `stored`, or as the program makes the object, and runs the epochs of these `numbers`.

    At the step `kill_at` of the first of them it is killed.
    """

    stored: bytes | None
    numbers: Sequence[int]
    kill_at: str | None = None


def live(kit: type[TransactionalConformance], lived: Lived, environment: Mapping[str, str]) -> list[bytes]:
    """What each epoch came to, in a process of its own, as far as it came."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        input=pickle.dumps((kit, lived)),
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != (0 if lived.kill_at is None else -signal.SIGKILL):
        raise AssertionError(f"another process ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return [bytes.fromhex(line) for line in done.stdout.decode().split()]


def serve() -> None:
    """The whole life of the other process."""
    kit, lived = pickle.loads(sys.stdin.buffer.read())
    answers = os.dup(1)
    os.dup2(2, 1)  # what the object prints is no answer

    def step(name: str) -> None:
        if lived.kill_at == name:
            os.kill(os.getpid(), signal.SIGKILL)

    under_test = kit()
    made = under_test.make()
    made.restore(lived.stored)
    for number in lived.numbers:
        made.begin()
        step("begun")
        other = under_test.change(made.value, number)
        if other is not None:
            made.value = other
        step("changed")
        os.write(answers, f"{made.cut().hex()}\n".encode())
        step("cut")
