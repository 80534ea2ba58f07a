"""What the code as it is makes of each check (the control), and which statements the check executes.

Both come from one run, which is kept in `build/`: it is repeated when anything of the code, of its tests or of the
installed packages is another. A control that does not hold is never kept.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from tpc.chaos.prove.checks import CHECKS, Check
from tpc.chaos.prove.copies import CHECKOUT, fingerprint, probed
from tpc.chaos.prove.executed import Lines, is_executed
from tpc.chaos.prove.outcome import BROKEN, HELD, VIOLATED, Found, found

KEPT = CHECKOUT / "build" / "prove-controls"

_ATTEMPTS = 2
"""A control that crashes is tried again: librdkafka was seen to end a process by SIGSEGV. One that fails is not."""


class Controls:
    """Every check is run on the code as it is once, when it is first needed. Any thread may ask."""

    def __init__(self, kept: Path = KEPT) -> None:
        self._kept = kept
        self._found: dict[str, Found] = {}
        self._locks = {check.name: threading.Lock() for check in CHECKS}

    def of(self, check: Check) -> Found:
        """What the check finds in the code as it is; with `executed` and `seconds`."""
        with self._locks[check.name]:
            if check.name not in self._found:
                self._found[check.name] = self._read(check) or self._run(check)
            return self._found[check.name]

    def executes(self, check: Check, statements: Lines) -> bool | None:
        """Whether the check executes one of these; None if it does not run here, or not to its end."""
        control = self.of(check)
        return is_executed(statements, control["executed"]) if control["outcome"] in (HELD, VIOLATED) else None

    def fastest_first(self, among: Sequence[Check] = CHECKS) -> Iterator[Check]:
        """These checks, by their deadlines, and those of one deadline by how long their controls have taken.

        The controls of those with longer deadlines are not run before somebody asks for one of them.
        """
        for _, group in groupby(sorted(among, key=_deadline_s), key=_deadline_s):
            yield from sorted(group, key=lambda check: float(self.of(check)["seconds"]))

    def to_json(self) -> list[dict[str, Any]]:
        """One record per check, with how many statements it has executed."""
        return [
            {"check": name, **result, "executed": sum(map(len, result["executed"].values()))}
            for name, result in sorted(self._found.items())
        ]

    def _run(self, check: Check) -> Found:
        result: Found = {}
        for _ in range(_ATTEMPTS):
            started = time.monotonic()
            with probed() as (copy, probes):
                result = run_in(copy, check, "--every-seed")
                result["executed"] = probes.executed()
            result["seconds"] = round(time.monotonic() - started, 1)
            if result["outcome"] != BROKEN:
                break
        if result["outcome"] == HELD:
            self._kept.mkdir(parents=True, exist_ok=True)
            self._path(check).write_text(json.dumps({"of": fingerprint(), **result}), encoding="utf-8")
        return result

    def _read(self, check: Check) -> Found | None:
        try:
            kept: Found = json.loads(self._path(check).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):  # a proof that was killed may leave a part of one
            return None
        return kept if kept.pop("of", "") == fingerprint() else None

    def _path(self, check: Check) -> Path:
        return self._kept / f"{check.name.replace(' ', '-')}.json"


def _deadline_s(check: Check) -> float:
    return check.deadline_s


def run_in(copy: Path, check: Check, *options: str) -> Found:
    """Run a check on a copy of the code, in a process of its own, with these options of the worker."""
    report = copy.parent / f"{check.name.replace(' ', '-')}.json"
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0", "TMPDIR": str(copy.parent)}
    command = [
        sys.executable,
        "-m",
        "tpc.chaos.prove.worker",
        check.name,
        str(report),
        *options,
        "--parent",
        str(os.getpid()),
    ]
    output = report.with_suffix(".txt")
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            process.wait(check.deadline_s)
        except subprocess.TimeoutExpired:
            return found(BROKEN, "", f"not done after {check.deadline_s:g} s") | {"is_hung": True}
        finally:
            _end_group(process)
    if not report.exists():
        said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        return found(BROKEN, "", f"{said}\nthe process ended with {process.returncode}")
    result: Found = json.loads(report.read_text(encoding="utf-8"))
    return result


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """What the check has started ends with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
