"""A pipeline without systems or Spark under orders: epochs up to `input`, done ones in `done`, terms in `term`.

`python -m tests.chaos.runner.toy_life ORDERS DIRECTORY`. It obeys its faults as `tpc.chaos.user.life_program` does. It
ends fenced when another term has begun, with 1 while a file `broken` is there, with 0 after one epoch while
`leaves early` is, and never while `stuck` is. While `deposes` is there, who takes over kills the one before it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tpc import failpoints
from tpc.chaos.runner.orders import read_orders
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED
from tpc.support.stopped_lock_holder import told_of


def number(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def main(orders_file: Path, place: Path) -> int:
    orders = read_orders(orders_file)
    orders.obey()
    if (place / "broken").exists():
        return 1
    while (place / "stuck").exists():
        time.sleep(0.05)
    if orders.takeover and (place / "deposes").exists():
        predecessor = number(place / "leader")
        sys.stdout.write(f"{told_of(predecessor)} a file locked\n")
        sys.stdout.flush()
        os.kill(predecessor, signal.SIGKILL)
        time.sleep(0.5)  # longer than the supervisor's pause: it must not begin another life meanwhile
    (place / "leader").write_text(str(os.getpid()))
    term = number(place / "term") + 1
    (place / "term").write_text(str(term))
    failpoints.hit("recovery.claimed", generation=term)
    for epoch in range(number(place / "done"), number(place / "input")):
        failpoints.hit("epoch.planned", epoch=epoch)
        failpoints.hit("epoch.committed", epoch=epoch)
        if number(place / "term") != term:
            return EXIT_FENCED
        (place / "done").write_text(str(epoch + 1))
        failpoints.hit("epoch.completed", epoch=epoch)
        if (place / "leaves early").exists():
            return 0
    orders.note_end()
    if orders.account is not None:
        leave_account(place, Path(orders.account))
    return 0


def leave_account(place: Path, path: Path) -> None:
    """Of one sink, `mine`, at the epoch of the log."""
    from tests.support.folder_sink import FolderSink
    from tpc.chaos.checkers.compare import Check
    from tpc.chaos.user.account import Account

    sinks = (FolderSink("mine", place / "folder"),)
    Account(sinks, Check("the last epoch", True, ""), {"mine": ()}, number(place / "done")).save(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
