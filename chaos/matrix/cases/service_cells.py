"""Which faults are tried at which steps of a service, and why not the others: one table, data only.

How it is read is in `tables`. One process does everything, in the order of `LETTERS`: what a step of one branch
finds prepared are the branches before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.chaos.faults.fault import REPLY_LOST
from tpc.chaos.matrix.cases.cells import MISSING, NO_ROWS, NO_SERVER, UNCOUNTED
from tpc.chaos.matrix.cases.tables import Cell, CellTable
from tpc.chaos.matrix.service_pipeline import CALLS, STATES

LETTERS: Mapping[str, str] = {
    "f": "files",
    "k": "kafka",
    "r": "rows",
    "t": "tallies",
    "a": "airports",
    "c": "calls",
    "s": "totals",
    "d": "recent",
    "b": "ledger",
    "l": "totals-changelog",
    "e": "recent-changelog",
    "m": "ledger-changelog",
    "o": "offsets",
}
KEYED = ("tallies", "airports")
"""Sinks whose rows are reduced by key before their branch is opened: others are prepared by then."""

TABLE = """
pass.open           | ktcol         | -one | -exit | rsl         | -hang | -none  | k-z
pass.write          | rab           | -one | -exit | kdl         | -hang | -none  | d-z
pass.prepare        | ktcoblm       | -one | s-e   | racdbl      | -hang | -none  | kol-z
pass.flushed        | krtaSdobLem   | -one | -exit | fksobl      | kl    | krtaol | sdobl-z
pass.prepared       | fkrtacsdblemo | -one | -exit | krasbl      | s     | -after | kcRsobl
epoch.planned       | *             | -one | -exit | *           | -hang | -none  | *
epoch.collected     | *             | -one | -exit | *           | -hang | -none  | *
epoch.prepared      | #             | -one | *     | *           | *     | -none  | *
epoch.decided       | *             | -one | -exit | *           | *     | -none  | #
sink.commit         | fkrtaCSdbLemo | -one | -exit | fkrtcsdblem | ksl   | krtAol | fkracsdbl
sink.committed      | fkrtacsdblemo | -one | -exit | kcrsdbl     | d     | -after | kcrsbl
state.applied       | SdB           | -one | -exit | sdb         | s     | -none  | Sdb
state.pruned        | sdb           | -one | -exit | sDb         | d     | -none  | sdb
epoch.committed     | *             | -one | -exit | *           | -hang | -none  | *
epoch.completed     | *             | -one | -exit | *           | -hang | -none  | *
state.compacted     | sdb           | -one | -exit | sdb         | -hang | -none  | sdb
log.put             | icg           | -one | -exit | i           | -log  | -none  | icg
log.write           | -log          | -one | -exit | i           | -log  | -none  | -log
log.fsync           | icg           | -one | -exit | icg         | -log  | -none  | i
log.link            | -log          | -one | -exit | i           | -log  | -none  | -log
log.linked          | icg           | -one | -exit | ic          | -log  | -none  | i
log.stored          | icg           | -one | -exit | -lost       | -log  | ic     | i
recovery.claim      | *             | -one | -exit | *           | -hang | -none  | *
recovery.claimed    | *             | -one | -exit | *           | -hang | -none  | *
recovery.owned      | *             | -one | -exit | *           | -hang | -none  | *
recovery.sweep      | *             | -one | -exit | *           | *     | -none  | *
recovery.swept      | *             | -one | -exit | *           | -hang | -none  | *
recovery.reconcile  | *             | -one | -exit | *           | -hang | -none  | *
recovery.reconciled | *             | -one | -exit | *           | -hang | -none  | *
"""

REASONS: Mapping[str, str] = {
    "one": "there is one process, and no task beside it: this is `kill`",
    "exit": "as `kill`: nothing of ours runs when a process exits like this; tried where the table says",
    "e": "as `kill`; tried for one participant",
    "hang": "as on a slow machine; tried where something is prepared, decided, or held open",
    "none": "nobody has been asked anything at this step, so that no answer can be lost",
    "after": "the answer is in at this step; it is lost at the step before",
    "lost": "an error here is a lost answer: see there",
    "log": "the log and its code are those of a query of Spark: tried there",
    "z": "stopped here it holds locks that are no branch's yet, or it is as at another step of this column",
}
OTHER_CHANGELOGS = ("recent-changelog", "ledger-changelog")
AS_OF_TOTALS = "as for the changelog of the totals"
NO_STATE = "the sink is no state: it has no such step"


def _reason(step: str, fault: str, sink: str, key: str, tried: set[str]) -> str:
    if step.startswith("state.") and sink not in STATES:
        return NO_STATE
    if step == "pass.write" and sink == "offsets":
        return NO_ROWS
    if fault == REPLY_LOST and sink in ("files", CALLS, *STATES) and not key:
        return NO_SERVER
    if sink in OTHER_CHANGELOGS and not key:
        return AS_OF_TOTALS
    return REASONS[key] if key else MISSING


SERVICE_TABLE = CellTable(TABLE, LETTERS, REASONS, _reason)


def counts(cell: Cell) -> bool:
    """Whether a branch of the epoch is prepared at the step, of whichever participant."""
    if cell.step in UNCOUNTED or cell.record == "complete":
        return False
    if cell.step in ("pass.open", "pass.write"):
        return cell.sink in (*KEYED, "offsets")
    return not (cell.step in ("pass.prepare", "pass.flushed") and cell.sink == "files")
