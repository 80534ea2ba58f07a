"""A checkpoint that drivers on several machines share: another machine is another process with nothing else in common.

Its working directory, home, temporary directory and notes are its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import OperationalError

from tests.clusters.moving_driver import FENCED, NAME, ROWS
from tests.clusters.strike import Evidence
from tests.clusters.targets import Target
from tests.support.other_users import as_user
from tests.support.processes import DEADLINE_S, REPOSITORY, line, stands_still
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.files_content import read_parquet, unpublished
from tpc.chaos.checkers.left import unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.errors import LocalServerError
from tpc.sinks import FileSink

EPOCH, LAST = 2, 4
STEPS = ("planned", "collected", "prepared", "decided", "committed", "completed")
"""Of an epoch."""
AFTER_THE_FIRST_PREPARE = ("collected", "prepared", "decided", "committed")
RUN_TIMEOUT_S = 300.0
GROUP = 61000
"""Of those who share the sink's folder, where drivers run as several users."""


class Place:
    """A checkpoint at `url`, and the folder of the file sink, which all machines mount.

    `settings` are those of the sessions that reach it, `environment` that of the drivers. The log lies beside the
    checkpoint, or in the database `log_url`. `targets` are what drivers
    write to besides, each of a class of its own.
    """

    def __init__(
        self,
        root: Path,
        url: str,
        settings: Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
        log_url: str | None = None,
    ) -> None:
        self.root, self.url, self.settings, self.log_url = root, url, settings, log_url
        self.files = root / "files"
        self.targets: Sequence[Target] = ()
        self._environment = environment or {}
        self._machines = 0

    def share(self) -> None:
        """Make the sink's folder one that the group of several users may write in."""
        self.files.mkdir()
        os.chown(self.files, -1, GROUP)
        self.files.chmod(0o2775)

    def machine(self, *, user: int | None = None, umask: int = -1, **more: object) -> subprocess.Popen[str]:
        """A driver on a machine that no other has run on; as `user`, of the group that shares, if one is given."""
        self._machines += 1
        own = self.root / f"machine-{self._machines}"
        (own / "tmp").mkdir(parents=True)
        if user is not None:
            for path in (own, own / "tmp"):
                os.chown(path, user, GROUP)
        given = {"checkpoint": self.url, "files": str(self.files), "settings": self.settings, "last": LAST, **more}
        if self.log_url is not None:
            given["log"] = self.log_url
        for target in self.targets:
            given |= target.told()
        secrets = self.secrets()
        hers = {"HOME": str(own), "TMPDIR": str(own / "tmp"), "TPC_NOTES": str(own / "notes")}
        kept = {"TPC_CACHE": os.environ.get("TPC_CACHE") or str(Path.home() / ".cache" / "tpc")}
        return subprocess.Popen(
            [
                *(() if user is None else as_user(user, GROUP)),
                *(sys.executable, "-m", "tests.clusters.moving_driver", json.dumps(given)),
            ],
            stdout=subprocess.PIPE,
            stderr=(own / "stderr").open("w"),
            text=True,
            cwd=own,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **self._environment, **secrets, **kept, **hers},
            umask=umask,
            start_new_session=True,
        )

    def secrets(self) -> dict[str, str]:
        """What the environment of every process that writes to the targets has."""
        return {name: value for target in self.targets for name, value in target.environment().items()}

    def runs_to_its_end(self, *, user: int | None = None, umask: int = -1) -> None:
        """A driver on a new machine comes to the last epoch."""
        driver = self.machine(user=user, umask=umask)
        driver.communicate(timeout=RUN_TIMEOUT_S)
        assert driver.returncode == 0, self.complaints()

    def loses_its_driver(self, evidence: Evidence, step: str) -> None:
        """A driver is killed at `step`, and another one goes on."""
        driver = self.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGKILL")
        said, _ = driver.communicate(timeout=RUN_TIMEOUT_S)
        assert driver.returncode == -signal.SIGKILL, self.complaints()
        assert f"epoch.{step}" in said.splitlines(), said  # by YARN's settings Spark logs there too
        self.struck(evidence, step, "the driver is killed")
        self.runs_to_its_end()
        self.judge(evidence)

    def forgets_its_driver(self, evidence: Evidence, step: str) -> None:
        """A driver stands still at `step`, is replaced, and wakes up: it ends fenced, and changes nothing."""
        forgotten = self.machine(step=f"epoch.{step}", epoch=EPOCH, signal="SIGSTOP")
        try:
            assert line(forgotten) == f"epoch.{step}"
            stands_still(forgotten)
            os.killpg(forgotten.pid, signal.SIGSTOP)  # its JVM too
            self._is_let_in()
            self.struck(evidence, step, "the driver stands still, is replaced, and wakes up")
            self.runs_to_its_end()
            before = (self.log.slots(), sorted(self.files.rglob("*")))
            os.killpg(forgotten.pid, signal.SIGCONT)
            said, _ = forgotten.communicate(timeout=RUN_TIMEOUT_S)
            assert (forgotten.returncode, said[:7]) == (FENCED, "fenced:")
        finally:
            os.killpg(forgotten.pid, signal.SIGKILL)
            forgotten.wait(DEADLINE_S)
        assert (self.log.slots(), sorted(self.files.rglob("*"))) == before
        self.judge(evidence)

    def _is_let_in(self) -> None:
        """Raises `LocalServerError` where the log is a file that who stands still has locked: set up again, then.

        Within a read too: the journal of SQLite lets others read then, and nobody commit.
        """
        if self.log_url is None or make_url(self.log_url).get_backend_name() != "sqlite":
            return
        engine = create_engine(self.log_url, connect_args={"timeout": 1.0})
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("BEGIN EXCLUSIVE")
        except OperationalError as error:
            raise LocalServerError(f"the driver stands still within a transaction of the log: {error.orig}") from error
        finally:
            engine.dispose()

    def complaints(self) -> str:
        """The end of what the newest driver has said of its troubles."""
        return self.told()[-3000:]

    def told(self) -> str:
        """All that it has said of them. The noise of a session's end comes last."""
        return (self.root / f"machine-{self._machines}" / "stderr").read_text()

    @property
    def log(self) -> Log:
        """Where drivers agree."""
        if self.log_url is not None:
            return SqlLog(self.log_url, pipeline=NAME)
        return log_beside(files_at(self.url, explicit_log=False))

    def struck(self, evidence: Evidence, step: str, how: str) -> None:
        """What the log says while the driver stands at `step`, or is dead there."""
        history = Journal(self.log).open()
        evidence.fault = {
            "step": step,
            "epoch": EPOCH,
            "fault": how,
            "last_intent": history.last_intent,
            "last_complete": history.last_complete,
            "between_prepare_and_complete": step in AFTER_THE_FIRST_PREPARE,
        }
        decided = step in ("decided", "committed", "completed")
        assert history.last_intent == (EPOCH if decided else EPOCH - 1)
        assert history.last_complete == (EPOCH if step == "completed" else EPOCH - 1)

    def judge(self, evidence: Evidence) -> None:
        """Every number once, the last epoch everywhere, nothing left."""
        history = Journal(self.log).open()
        assert history.last_complete is not None and history.pipeline is not None
        sinks = [FileSink(self.files, format="parquet"), *(target.sink() for target in self.targets)]
        expected = [(number,) for number in range(ROWS * (history.last_complete + 1))]
        found = [(number,) for number in read_parquet(self.files)["value"].to_pylist()]
        left = {"files": unpublished(self.files), "the log": unfinished_epochs(history)}
        for target in self.targets:
            left |= target.left()
        evidence.judge(
            multisets_equal("files", expected, found),
            *(multisets_equal(target.name, expected, target.content()) for target in self.targets),
            last_epochs_equal("last epochs", history, newest_epochs(sinks, history.pipeline)),
            nothing_left("left behind", left),
        )
