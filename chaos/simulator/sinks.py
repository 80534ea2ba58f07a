"""Simulated sinks: the contract of `tpc.sink` on systems that fail, answer late, and answer wrongly in allowed ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.sink_commits import commit, short
from tpc.chaos.simulator.systems import System
from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    GivenUp,
    InDoubt,
    Limit,
    Marker,
    Outcome,
    Owner,
    Sink,
    Verdict,
    Writer,
)

if TYPE_CHECKING:
    import pyarrow

    from tpc.chaos.simulator.processes import Process


class SimulatedSink(Sink):
    """One sink as one process sees it. `generation` says which term that process leads."""

    def __init__(self, system: System, process: Process | None, generation: Callable[[], int | None]) -> None:
        super().__init__(system.name)
        traits = system.traits
        self.system = system
        self.process = process
        self.generation = generation
        self.kind = traits.kind
        self.commits_first = traits.commits_first
        limits = {
            Limit.MARKERS_EXPIRE: traits.markers_expire,
            Limit.OWNER_NOT_FENCED: not traits.owner_fenced,
            Limit.LOSS_IS_UNKNOWN: not traits.tells_loss,
        }
        self.limits = {limit: "simulated" for limit, applies in limits.items() if applies}

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """Not used: the tasks of a simulated pass have rows, not Arrow batches (`passes.py`)."""
        raise NotImplementedError

    def committer(self, pipeline: PipelineId) -> Committer:
        """The driver's half."""
        return SimulatedCommitter(self)


class SimulatedCommitter(Committer):
    """Commits, aborts and lists branches; every call may go wrong."""

    def __init__(self, sink: SimulatedSink) -> None:
        self.sink = sink
        self.system = sink.system
        self.world = sink.system.world

    def check(self, context: CheckContext) -> None:
        """It can always take part."""

    def identity(self) -> str:
        """One system a sink."""
        return f"simulated:{self.sink.name}"

    # Faults of any call ----------------------------------------------------------------------------------------

    def _ask(self, place: str) -> None:
        """A call goes out. Raises `TransientError` when it is not answered."""
        world, system = self.world, self.system
        world.call(place)
        if world.strikes(Fault.SINK_DOWN, self.sink.name):
            system.down_until_s = world.now_s + world.random.choice((5.0, 60.0, 1200.0))
        if system.down_until_s > world.now_s:
            world.sinks_well_since_s = system.down_until_s
            self._hang(1.0)
            raise TransientError(f"{self.sink.name} is down")
        if world.strikes(Fault.SINK_ERROR, f"{self.sink.name}, {place}"):
            world.sinks_well_since_s = world.now_s
            raise TransientError(f"{self.sink.name}: connection reset")

    def _hang(self, seconds: float) -> None:
        if self.sink.process is not None:
            self.sink.process.sleep(seconds)

    # An epoch --------------------------------------------------------------------------------------------------

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Branches that can expire must be there and young."""
        self._ask("sink.verify")
        limit_s = self.system.traits.expires_after_s
        if limit_s is not None:
            self._require_alive(committables, limit_s)
        return self._newest()

    def _require_alive(self, committables: Sequence[Committable], limit_s: float) -> None:
        self.system.expire()
        for committable in committables:
            found = self.system.prepared.get(committable.resource)
            if found is None or self.world.now_s - found[2] > limit_s / 2:
                raise TransientError(f"{committable.resource} is gone or too old")
            self.system.ledger.seen_alive.add(str(committable.handle))

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """One answer a branch."""
        names = [str(committable.handle) for committable in committables]
        try:
            self._ask("sink.commit")
            outcomes = commit(self.system, names, self._hang)
        except TransientError as error:
            outcomes = [Outcome(Verdict.UNKNOWN, error.what)] * len(names)
        verdicts = ", ".join(sorted({outcome.verdict.value for outcome in outcomes}))
        self.world.tell(f"{self.sink.name}: commit of {short(names)}: {verdicts}")
        self.world.call("sink.commit", after=True)
        return outcomes

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Older markers are pruned."""
        self._ask("sink.released")
        if committables:
            self.system.forget_markers(epoch)
            self.system.lose_books()

    # What nobody decided ---------------------------------------------------------------------------------------

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo branches; the answer may be lost, the effect late."""
        world, system, what = self.world, self.system, self.sink.name
        names = [branch.resource for branch in branches]
        generation = self.sink.generation()
        self._ask("sink.abort")
        world.tell(f"{what}: abort of {short(names)}")
        if world.strikes(Fault.ABORT_LATE, what):
            world.later(f"{what}: an abort of {short(names)}", lambda: system.abort(names, generation))
            world.sinks_well_since_s = world.now_s
            raise TransientError("no answer to an abort")
        if world.strikes(Fault.ABORT_DUPLICATED, what):
            world.later(f"{what}: again an abort of {short(names)}", lambda: system.abort(names, generation))
        for name in names:
            system.abort([name], generation)
            world.call("sink.abort", after=True)
        if world.strikes(Fault.ABORT_REPLY_LOST, what):
            world.sinks_well_since_s = world.now_s
            raise TransientError("the answer to an abort is lost")

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """End branches; what is committed stays. The answer may be lost."""
        world, system, what = self.world, self.system, self.sink.name
        names = [committable.resource for committable in committables]
        self._ask("sink.give_up")
        world.tell(f"{what}: gives up {short(names)}")
        ends = []
        for name in names:
            ends.append(system.give_up(name, self.sink.generation()))
            world.call("sink.give_up", after=True)
        if world.strikes(Fault.ABORT_REPLY_LOST, what):
            world.sinks_well_since_s = world.now_s
            raise TransientError("the answer to what was given up is lost")
        return ends

    def in_doubt(self) -> list[InDoubt]:
        """Everything prepared."""
        self._ask("sink.in_doubt")
        self.system.expire()
        traits = self.system.traits
        handles = [handle for handle, _, _ in self.system.prepared.values()] + self.system.unbooked()
        return [
            InDoubt(
                resource=str(handle),
                pipeline=handle.pipeline,
                generation=handle.generation,
                sink=handle.sink,
                epoch=handle.epoch if traits.tells_epoch else None,
                only_copy=traits.lists_only_copies,
            )
            for handle in handles
        ]

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest epoch it shows."""
        self._ask("sink.marker")
        return self._newest()

    def _newest(self) -> Marker | None:
        process = self.sink.process
        if process is not None:
            process.evidence.looked_at_sink(gone_back=self.system.before is not None)
        if self.system.traits.markers_expire and self.world.strikes(Fault.MARKERS_EXPIRED, self.sink.name):
            self.system.forget_oldest()
        return self.system.newest()

    # The owner -------------------------------------------------------------------------------------------------

    def owner(self) -> Owner | None:
        """The owner entry."""
        self._ask("sink.owner")
        return self.system.owner

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Compare and set, or only set where the system cannot."""
        self._ask("sink.owner")
        system = self.system
        if system.traits.owner_fenced and system.owner not in (before, owner):
            return False
        system.own(owner)
        if self.world.strikes(Fault.OWNER_REPLY_LOST, self.sink.name):
            raise TransientError("the answer to an owner entry is lost")
        self.world.call("sink.owner", after=True)
        return True
