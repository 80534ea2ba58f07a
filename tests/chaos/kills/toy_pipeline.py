"""A pipeline without systems: goes through the steps of epochs, and remembers in a file which are complete.

`python -m tests.chaos.kills.toy_pipeline FILE EPOCHS`. It has a child process, as the driver has its JVM. Once, it does
nothing any more before epoch N if there is a file `stuck-N`. While there is a file `slow`, it pauses before each.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from tpc import failpoints

SINKS = ("kafka", "postgres", "mongo")


def commit(sink: str, epoch: int) -> None:
    failpoints.hit("sink.commit", sink=sink, epoch=epoch)
    failpoints.hit("sink.committed", sink=sink, epoch=epoch)


def run_epoch(epoch: int) -> None:
    for partition in range(3):
        failpoints.hit("pass.prepare", epoch=epoch, sink=SINKS[0], partition=partition)
    failpoints.hit("epoch.prepared", epoch=epoch)
    failpoints.hit("epoch.decided", epoch=epoch)
    threads = [threading.Thread(target=commit, args=(sink, epoch)) for sink in SINKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failpoints.hit("epoch.committed", epoch=epoch)


def main(done: Path, epochs: int) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, start_new_session=True)
    (done.parent / f"child-{child.pid}").touch()
    first = len(done.read_text().splitlines()) if done.exists() else 0
    for epoch in range(first, epochs):
        if (stuck := done.parent / f"stuck-{epoch}").exists():
            stuck.unlink()
            time.sleep(600)
        if (done.parent / "slow").exists():
            time.sleep(0.5)
        run_epoch(epoch)
        with done.open("a") as file:
            file.write(f"{epoch}\n")
        failpoints.hit("epoch.completed", epoch=epoch)
    child.kill()
    child.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
