"""Records of a run of the matrix and of a soak as they look in life, for the tests of the reports."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.kills.plan import Step
from tpc.failpoints import STEPS

BEGAN_AT = 1_795_275_300.0
SINKS = ("kafka", "rows", "files", "tallies", "airports", "offsets")
RECORDS = ("intent", "complete", "generation")
TRIED: dict[str, dict[str, int]] = {
    "pass": {"kill": 6, "kill driver": 2, "error": 4, "hang": 2, "zombie": 2},
    "sink": {"kill": 6, "error": 6, "hang": 3, "reply lost": 4, "zombie": 3},
    "log": {"kill": 3, "error": 1, "hang": 1},
    "epoch": {"kill": 1, "exit": 1, "hang": 1, "zombie": 1},
    "recovery": {"kill": 1, "error": 1, "zombie": 1},
    "state": {},
}
"""How many sinks (or records of the log) each fault is tried with, at the steps of each part of the protocol."""
NOT_HERE = "the same code as for the sinks tried here"
NO_SENSE = {
    ("pass", "exit"): "as a kill: nothing of ours runs when a process exits like this",
    ("pass", "reply lost"): "nobody has been asked anything at this step, so that no answer can be lost",
    ("sink", "exit"): "as a kill: nothing of ours runs when a process exits like this",
    ("sink", "kill driver"): "the step is the driver's own: this is a kill",
    ("log", "kill driver"): "the step is the driver's own: this is a kill",
    ("log", "reply lost"): "the local log is a directory: a call returns or the process is gone",
    ("epoch", "kill driver"): "the step is the driver's own: this is a kill",
    ("recovery", "exit"): "as a kill: nothing of ours runs when a process exits like this",
}
CHECKS = (
    ("rows in every sink equal the input", "48,000 rows, each exactly once"),
    ("last epoch is the same everywhere", "5 places show epoch 17"),
    ("a concurrent reader saw whole branches only", "1,204 reads, none of an aborted row"),
    ("rows of a key are in order", "1,500 keys"),
    ("nothing left behind", "nothing in kafka, postgres, mongo, files, log"),
    ("recovery is bounded", "within 30 s"),
)
LOG = """26-11-21 16:31:07 INFO tpc.recovery: generation 4 claimed, slot 57
26-11-21 16:31:07 WARN tpc.recovery: epoch 17 is decided and not complete: committing 9 branches
26-11-21 16:31:08 WARN tpc.sinks.kafka.sink: EndTxn of tpc.matrix/1/3/kafka/17/2/0: <timeout> & retry in 0.2 s
26-11-21 16:31:08 INFO tpc.recovery: swept, 3 branches of generation 3 aborted"""

Json = dict[str, Any]


def fault_name(fault: Json) -> str:
    return "/".join(part for part in (fault["step"], fault["fault"], fault["sink"]) if part)


class _Maker:
    """Makes cases, each with its own numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.at = BEGAN_AT

    def case(self, suite: str, name: str, fault: Json, second: Json | None = None) -> Json:
        recovery_s = round(self.random.lognormvariate(0.6, 0.45) + (1.5 if second else 0), 3)
        seconds = round(recovery_s + self.random.uniform(2, 5), 3)
        self.at += seconds
        epoch = self.random.randint(3, 40)
        fired = [self._fired(f, epoch, self.at - seconds + 1.2 + i) for i, f in enumerate((fault, second)) if f]
        return {
            "name": name,
            "suite": suite,
            **fault,
            "second": second,
            "processes": "own processes" if suite in ("processes", "disk") else "shared session",
            "seed": self.seed,
            "epoch": epoch,
            "fired": fired,
            "outcome": "passed",
            "reason": "",
            "recovery_s": recovery_s,
            "seconds": seconds,
            "checks": [Check(check, True, detail).to_json() for check, detail in CHECKS],
            "timeline": [
                {"s": 0.0, "what": "driver started on JVM 1"},
                {"s": 0.61, "what": f"epoch {epoch - 1} complete"},
                *({"s": 1.2 + i, "what": f"{f['fault']} fired at {f['step']}"} for i, f in enumerate(fired)),
                {"s": round(seconds - recovery_s, 2), "what": "second driver started, takeover"},
                {"s": seconds, "what": f"epoch {epoch + 1} complete; checkers began"},
            ],
            "log": LOG,
        }

    def _fired(self, fault: Json, epoch: int, at: float) -> Json:
        partition = self.random.randint(0, 3) if fault["step"].startswith("pass.") else None
        pid, prepared = self.random.randint(2000, 32000), self.random.randint(1, 9)
        return {**fault, "epoch": epoch, "partition": partition, "pid": pid, "at": at, "prepared": prepared}


def _matrix(make: _Maker) -> Iterator[Json]:
    for step in STEPS:
        part = step.partition(".")[0]
        for kind, many in TRIED[part].items():
            for index in range(many):
                fault = {"step": step, "fault": kind, "sink": SINKS[index] if part in ("pass", "sink") else None}
                name = fault_name(fault)
                yield make.case("matrix", f"{name}/{RECORDS[index]}" if part == "log" else name, fault)


def _blanks() -> Iterator[Json]:
    for step in STEPS:
        part = step.partition(".")[0]
        for (of, kind), reason in NO_SENSE.items():
            if of == part:
                for sink in SINKS if part in ("pass", "sink") else (None,):
                    yield {"step": step, "fault": kind, "sink": sink, "reason": reason}
        if part in ("pass", "sink"):
            for kind, many in TRIED[part].items():
                for sink in SINKS[many:]:
                    yield {"step": step, "fault": kind, "sink": sink, "reason": NOT_HERE}


def _pairs(make: _Maker) -> Iterator[Json]:
    firsts: list[tuple[str, str, str | None]] = [
        ("pass.prepared", "kill", "rows"),
        ("epoch.prepared", "kill", None),
        ("log.stored", "error", None),
    ]
    firsts += [
        ("epoch.decided", "kill", None),
        ("sink.commit", "reply lost", "kafka"),
        ("sink.committed", "kill", "airports"),
    ]
    seconds: list[tuple[str, str, str | None]] = [
        (f"recovery.{s}", "kill", None) for s in ("claim", "claimed", "owned", "sweep", "swept", "reconcile")
    ]
    seconds += [
        ("sink.commit", "error", "kafka"),
        ("sink.commit", "error", "files"),
        ("sink.committed", "kill", "tallies"),
    ]
    seconds += [("log.put", "zombie", None)]
    for first in firsts:
        for second in seconds:
            one, two = (dict(zip(("step", "fault", "sink"), f, strict=True)) for f in (first, second))
            yield make.case("pairs", f"{fault_name(one)}+{fault_name(two)}", one, two)


def _others(make: _Maker) -> Iterator[Json]:
    kinds = {
        "processes": "driver killed, python worker killed, executor killed, broker killed, postgres killed, "
        "driver stopped",
        "disk": "log directory full, log directory read-only, EIO on fsync, power cut: offsets removed, "
        "power cut: offsets truncated, power cut: commits removed, power cut: state removed",
        "load": "speculation, failing tasks, 1000000 rows, 200 partitions, 500 tiny epochs, slow sink, "
        "one key, no rows",
    }
    for suite, faults in kinds.items():
        for kind in faults.split(", "):
            yield make.case(suite, f"{suite}/{kind}", {"step": "epoch.prepared", "fault": kind, "sink": None})


def _fail(case: Json, check: str, detail: str, *differences: str) -> None:
    bad = Check(check, False, detail, differences).to_json()
    case["checks"] = [bad if one["check"] == check else one for one in case["checks"]]
    case.update(outcome="failed", reason=f"{check}: {detail}")


def sample_record(seed: int = 1) -> Json:
    """A run with three failures and two skipped cases. Its log lines hold characters that HTML must escape."""
    make = _Maker(seed)
    cases = [*_matrix(make), *_pairs(make), *_others(make)]
    by_name = {case["name"]: case for case in cases}
    differences = [f"('LGA', {n}): 1 too many" for n in range(4711, 4714)]
    _fail(by_name["sink.commit/reply lost/rows"], CHECKS[0][0], "3 rows are missing, 3 are too many", *differences)
    _fail(by_name["recovery.sweep/zombie"], CHECKS[4][0], "2 things are left behind", "kafka: tpc.m/1/3/kafka/17/2/0")
    unfired = by_name["log.put/hang/intent"]
    unfired.update(outcome="failed", reason="the fault did not fire within 60 s", fired=[], recovery_s=None, checks=[])
    unfired["timeline"] = [*unfired["timeline"][:2], {"s": 61.2, "what": "gave up waiting for the fault"}]
    for name, reason in (
        ("disk/log directory full", "no file system of its own can be mounted here"),
        ("processes/executor killed", "needs a standalone master with two workers"),
    ):
        by_name[name].update(
            outcome="skipped", reason=reason, fired=[], recovery_s=None, checks=[], timeline=[], log=""
        )
    settings = {"seed": seed, "suites": "matrix, pairs, processes, disk, load", "partitions": 4, "spark": "4.0.1"}
    seconds = make.at - BEGAN_AT
    return {"settings": settings, "began_at": BEGAN_AT, "seconds": seconds, "cases": cases, "blanks": [*_blanks()]}


def sample_soak(minutes: int = 60, seed: int = 7) -> Json:
    """A soak whose kills came at steps and, one in five, at a random moment; the last one saw no recovery."""
    random = Random(seed)
    kills: list[Json] = []
    at, steps = BEGAN_AT + 40, [step.value for step in Step]
    while at < BEGAN_AT + minutes * 60:
        step = random.choice(steps) if random.random() < 0.8 else None
        recovery_s = round(random.lognormvariate(1.5, 0.25), 3)
        done = random.choice((1, 1, 1, 2, 2, 3))
        kills.append(
            {
                "number": len(kills) + 1,
                "step": step,
                "epoch": 2 * len(kills) + done,
                "at": at,
                "epochs_since_restart": done,
                "recovery_s": recovery_s,
            }
        )
        at += recovery_s + random.uniform(2, 8)
    kills[-1]["recovery_s"] = None
    return {
        "suite": "soak",
        "steps": [step.value for step in Step],
        "seed": seed,
        "minutes": minutes,
        "began_at": BEGAN_AT,
        "seconds": minutes * 60 + 95.0,
        "lives": len(kills) + 1,
        "epochs": 2 * len(kills) + 20,
        "rows": 362_891,
        "kills": kills,
        "checks": [Check(check, True, detail).to_json() for check, detail in CHECKS],
    }
