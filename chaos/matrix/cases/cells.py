"""Which faults are tried at which steps of a query of Spark, and why not the others: one table, data only.

How it is read is in `tables`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.chaos.faults.fault import REPLY_LOST
from tpc.chaos.matrix.cases.tables import Blank, Cell, CellTable
from tpc.chaos.matrix.pipeline import TASK_SINKS

LETTERS: Mapping[str, str] = {"k": "kafka", "r": "rows", "f": "files", "t": "tallies", "a": "airports", "o": "offsets"}
TABLE = """
pass.open            | krftao | krf-d  | -exit  | krFtao | krft   | -none  | krf-z
pass.write           | krfta  | krf-d  | -exit  | krfta  | kr     | -none  | kr-z
pass.prepare         | KrfTao | krf-d  | krf-e  | kRftao | krfa   | -none  | krF-z
pass.flushed         | KrftaO | krF-d  | -exit  | krftao | krfTao | kRtao  | kRfta-z
pass.prepared        | kRftao | krf-d  | krF-e  | Krftao | krftao | -after | KrftAo
epoch.planned        | *      | -self  | *      | *      | *      | -none  | *
epoch.collected      | #      | -self  | *      | *      | *      | -none  | *
epoch.prepared       | #      | -self  | #      | *      | *      | -none  | #
epoch.decided        | #      | -self  | *      | #      | *      | -none  | #
sink.commit          | Krftao | -self  | -exit  | krftao | krftao | krtAo  | Krftao
sink.committed       | kRftAo | -self  | -exit  | krFtao | krftao | -after | krfTao
state.applied        | -loop  | -loop  | -loop  | -loop  | -loop  | -loop  | -loop
state.pruned         | -loop  | -loop  | -loop  | -loop  | -loop  | -loop  | -loop
state.compacted      | -loop  | -loop  | -loop  | -loop  | -loop  | -loop  | -loop
epoch.committed      | #      | -self  | *      | *      | *      | -none  | *
epoch.completed      | #      | -self  | *      | *      | *      | -none  | *
log.put              | Icg    | -self  | -exit  | icg    | i      | -none  | icg
log.write            | i      | -self  | -exit  | icg    | i      | -none  | i
log.fsync            | icg    | -self  | -exit  | Icg    | i      | -none  | i
log.link             | i      | -self  | -exit  | ig     | i      | -none  | i
log.linked           | iCg    | -self  | -exit  | icg    | i      | -none  | icg
log.stored           | icg    | -self  | -exit  | -lost  | i      | Icg    | icg
recovery.claim       | *      | -self  | *      | *      | *      | -none  | #
recovery.claimed     | #      | -self  | *      | *      | *      | -none  | *
recovery.owned       | #      | -self  | *      | *      | *      | -none  | *
recovery.sweep       | #      | -self  | *      | *      | *      | -none  | *
recovery.swept       | *      | -self  | *      | *      | *      | -none  | *
recovery.reconcile   | *      | -self  | -exit  | *      | *      | -none  | *
recovery.reconciled  | *      | -self  | -exit  | *      | *      | -none  | *
"""

REASONS: Mapping[str, str] = {
    "self": "the step is the driver's own: this is `kill`",
    "d": "the driver itself is at this step: this is `kill`",
    "exit": "as `kill`: nothing of ours runs when a process exits like this; tried where the table says",
    "e": "as `kill` on the driver; tried for the tasks",
    "none": "nobody has been asked anything at this step, so that no answer can be lost",
    "after": "the answer is in at this step; it is lost at the step before",
    "lost": "an error here is a lost answer: see there",
    "loop": "only a service keeps a state of its own: see there",
    "z": "the driver itself stops at this step, as at `epoch.prepared`",
}
MISSING = "the same code as for the sinks tried here; the sink's own part is tried at pass.flushed and pass.prepared"
NO_ROWS = "source offsets have no rows"
NO_SERVER = "no server that could answer: an error after the effect is `error` at the next step"

UNCOUNTED = frozenset(
    {
        "epoch.planned",
        "epoch.committed",
        "epoch.completed",
        "state.compacted",
        "recovery.swept",
        "recovery.reconcile",
        "recovery.reconciled",
    }
)
"""Steps at which no branch is prepared: what is tried there is not among the cases that count."""


def _reason(step: str, fault: str, sink: str, key: str, tried: set[str]) -> str:
    if step == "pass.write" and sink == "offsets":
        return NO_ROWS
    if fault == REPLY_LOST and sink == "files" and not key:
        return NO_SERVER
    if not key or (tried and sink in TASK_SINKS):
        return MISSING
    return REASONS[key]


SPARK_TABLE = CellTable(TABLE, LETTERS, REASONS, _reason)


def cells() -> list[Cell]:
    """Everything that is tried, in the table's order."""
    return SPARK_TABLE.cells()


def blanks() -> list[Blank]:
    """Everything that is not tried."""
    return SPARK_TABLE.blanks()
