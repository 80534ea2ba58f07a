"""What must hold in every explored world, by name. A broken one is a `Violation`."""

from __future__ import annotations

INVARIANTS = {
    "intent-first": "a branch becomes visible only when the log names it",
    "exactly-once": "no sink shows two branches of one epoch, and no epoch before the one it follows",
    "durable": "a branch that the log names is never aborted",
    "atomic": "all branches of an epoch end alike, in the log's order",
    "ends-swept": "what was prepared and not decided is aborted in the end",
    "live": "from every state everything can be finished when no more faults happen",
    "fenced": "a coordinator that lost its slot puts nothing more into the log",
    "beyond": "the store of a state has applied no epoch that is not decided",
    "content": "the store of a state holds what the decided epochs up to the applied one make together, each once",
    "position": "the store of a state is at the last decided epoch, or at the one before while that is being committed",
    "undo": "the content before an epoch can be read until the epoch is complete",
    "memory": "an epoch runs on what the decided epochs before it make together",
    "rebuilt": "a lost state is made again as the log says, or not at all; always, if its changelog has lost nothing",
    "cut": "each epoch of a service begins where the one before it has ended, so that every event is in exactly one",
    "source": "a service reads on only in what its decided epochs have read, not in another one of the same name",
    "replay": "an epoch that is run again makes the rows that were decided, as long as its sources have the events",
    "clock": "an epoch has the time on record that it has read, never one before the last; nothing else reads a clock",
    "due": "an epoch without events is cut when something is due, and not otherwise",
    "legal": "the machine is never given an event that it has no row for, and no start is refused for nothing",
}


class Violation(Exception):  # noqa: N818  it is no error of the program that raises it
    """An invariant does not hold. `name` is one of `INVARIANTS`."""

    def __init__(self, name: str, what: str) -> None:
        assert name in INVARIANTS
        super().__init__(f"{name}: {what}")
        self.name = name
        self.what = what
