"""The judgement of a whole run: what must hold between the source, the log and the systems when everything is over.

Each check names its invariant. What can be judged at every step is judged there (`ledger.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tpc.chaos.simulator.driver import Place
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.passes import goes_to
from tpc.chaos.simulator.spark_query import next_state
from tpc.chaos.simulator.systems import System
from tpc.chaos.simulator.world import Invariant
from tpc.history import Action

Finding = tuple[Invariant, str]


def judge(place: Place, ledger: Ledger) -> list[Finding]:
    """What is wrong after a run that has been finished; empty when everything holds."""
    return [
        *_decided_and_complete(place, ledger),
        *_log(place, ledger),
        *_state(place, ledger),
        *(f for system in place.systems.values() for f in _owner(system, ledger)),
        *(f for number, system in enumerate(place.systems.values()) for f in _rows(place, system, number, ledger)),
        *(f for system in place.systems.values() for f in _leftovers(system)),
    ]


def judge_so_far(place: Place, ledger: Ledger) -> list[Finding]:
    """What is wrong although a run is not over: rows that are there twice, branches committed without a decision."""
    return [finding for system in place.systems.values() for finding in _doubled(system, ledger)]


def _decided_and_complete(place: Place, ledger: Ledger) -> Iterator[Finding]:
    """The source is read to its end, and every epoch is complete in every sink."""
    last = len(ledger.decisions) - 1
    end = _end(ledger.decisions[last].manifest.epoch_input.end[0]) if last >= 0 else 0
    if end != place.spark.rows:
        yield Invariant.LIVE, f"the source has {place.spark.rows} rows, the last decided epoch ends at {end}"
    for epoch, decision in sorted(ledger.decisions.items()):
        if epoch not in ledger.complete:
            yield Invariant.LIVE, f"epoch {epoch} is decided and not complete"
        for sink, branch in decision.manifest.branches():
            handle = str(branch.committable.handle)
            if handle not in ledger.committed and (epoch, sink) not in ledger.resolved:
                yield Invariant.ATOMIC, f"epoch {epoch} is decided, {handle} is not committed"
    commits = place.spark.newest("commits")
    if last >= 0 and commits != last:
        yield Invariant.LIVE, f"Spark's newest commit is {commits}, the last decided epoch {last}"


def _rows(place: Place, system: System, number: int, ledger: Ledger) -> Iterator[Finding]:
    """Every row of the source that belongs in the sink is there once, in the epoch that has read it."""
    expected = {row for row in range(place.spark.rows) if goes_to(row, number)}
    shown = Counter(row for row, _ in system.rows())
    given_up = {row for row in expected if (_epoch_of(row, ledger), system.name) in ledger.resolved}
    missing = sorted(expected - shown.keys() - given_up)
    if missing:
        yield Invariant.EXACTLY_ONCE, f"{system.name} misses rows {missing}"
    strange = sorted(shown.keys() - expected)
    if strange:
        yield Invariant.EXACTLY_ONCE, f"{system.name} shows rows {strange}, which are not its own"
    for row, epoch in system.rows():
        if _epoch_of(row, ledger) != epoch:
            yield Invariant.EXACTLY_ONCE, f"{system.name} shows row {row} in epoch {epoch}"
    yield from _doubled(system, ledger)


def _doubled(system: System, ledger: Ledger) -> Iterator[Finding]:
    shown = Counter(row for row, _ in system.rows())
    twice = sorted(row for row, times in shown.items() if times > 1)
    if twice:
        yield Invariant.EXACTLY_ONCE, f"{system.name} shows rows {twice} more than once"
    for name in system.visible:
        if name not in ledger.committed:
            yield Invariant.INTENT_FIRST, f"{system.name} shows {name}, which nobody has decided"


def _epoch_of(row: int, ledger: Ledger) -> int | None:
    """The decided epoch that has read a row of the source."""
    return next((e for e, d in ledger.decisions.items() if row < _end(d.manifest.epoch_input.end[0])), None)


def _end(offsets: str) -> int:
    return int(offsets.split(":")[1].rstrip("}"))


def _state(place: Place, ledger: Ledger) -> Iterator[Finding]:
    """The state is that of all decided epochs, each once; after an operator has accepted another state, any."""
    if not place.spark.stateful or any(action == Action.ACCEPT_STATE.value for action in ledger.resolved.values()):
        return
    state, last = 0, len(ledger.decisions)
    for _, decision in sorted(ledger.decisions.items()):
        state = next_state(state, _end(decision.manifest.epoch_input.end[0]))
    if place.spark.states.get(last) != state:
        yield Invariant.STATE, f"version {last} of the state is {place.spark.states.get(last)}, not {state}"


def _owner(system: System, ledger: Ledger) -> Iterator[Finding]:
    generation = None if system.owner is None else system.owner.generation
    if generation != ledger.highest_generation:
        yield Invariant.OWNED, f"{system.name} knows generation {generation}, the last is {ledger.highest_generation}"


def _leftovers(system: System) -> Iterator[Finding]:
    if system.prepared:
        yield Invariant.NO_LEFTOVERS, f"{system.name} still holds {sorted(system.prepared)} prepared"


def _log(place: Place, ledger: Ledger) -> Iterator[Finding]:
    """The log holds whole epochs, no more than it was told to, and says what was decided."""
    settings = place.settings
    most = settings.keep_epochs + 2 * (settings.renew_after_epochs + 2)
    held = [slot for slot in place.log.content if ledger.bodies.get(slot, ("", {}))[0] == "intent"]
    if len(held) > most:
        yield Invariant.LOG_BOUNDED, f"the log holds {len(held)} epochs, at most {most} are asked for"
