"""What has really happened, written down beside the coordinators: records landed, branches committed and aborted.

The ledger sees every record when it lands in the log and every branch when its fate changes in a sink, and judges each
step at once. The judgement of a whole run is in `invariants.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tpc.chaos.simulator.world import Invariant, World
from tpc.handles import Handle
from tpc.manifest import Branch, Manifest
from tpc.records import RecordKind


@dataclass
class Decision:
    """An epoch that has an intent: its manifest with repairs, and the slots of the records that name its branches."""

    manifest: Manifest
    slot: int
    named: dict[str, int] = field(default_factory=dict)
    """Handle -> the first slot of a record that names it as to be committed."""

    def current(self) -> set[str]:
        """The handles that are to be committed."""
        return {str(branch.committable.handle) for _, branch in self.manifest.branches()}


class Ledger:
    """Facts about one simulated world. Every `on_...` raises `Halted` through the world when an invariant breaks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.decisions: dict[int, Decision] = {}
        self.complete: set[int] = set()
        self.resolved: dict[tuple[int, str], str] = {}
        self.aborted: set[str] = set()
        self.committed: set[str] = set()
        self.expiring: frozenset[str] = frozenset()
        """Sinks whose prepared branches can expire."""
        self.seen_alive: set[str] = set()
        """Branches that were looked at."""
        self.durable_slots: set[int] = set()
        self.bodies: dict[int, tuple[str, dict[str, Any]]] = {}
        self.highest_slot = 0
        self.highest_generation = 0
        self.went_back: dict[str, int] = {}
        """Sinks that have gone back -> the generation whose pass it happened in."""

    # The log ---------------------------------------------------------------------------------------------------

    def on_landed(self, slot: int, data: bytes) -> None:
        """A record can be read in `slot` now."""
        record = json.loads(data)
        kind, body = record["kind"], record["body"]
        if kind == RecordKind.MOVED.value:
            return  # it ends a log that goes on elsewhere: there the slot is another record's
        if slot <= self.highest_slot:
            return  # stale: it fell into a hole that pruning has left
        self.bodies[slot] = (kind, body)
        self.highest_slot = slot
        generation = body.get("generation", self.highest_generation)
        if generation < self.highest_generation:
            raise self._violated(
                Invariant.FENCED_IS_HARMLESS,
                f"slot {slot}: {kind} of generation {generation} after generation {self.highest_generation}",
            )
        self.highest_generation = generation
        getattr(self, f"_{kind}")(slot, body)

    def _generation(self, slot: int, body: dict[str, Any]) -> None:
        for voided in body["voids"]:
            self._void(int(voided))

    def _void(self, slot: int) -> None:
        """A damaged record is declared never to have been; that must be true for every sink."""
        self.forget(slot, for_good=True)

    def _intent(self, slot: int, body: dict[str, Any]) -> None:
        manifest = Manifest.from_json(body)
        epoch = manifest.epoch
        unseen = [
            str(branch.committable.handle)
            for sink, branch in manifest.branches()
            if sink in self.expiring and str(branch.committable.handle) not in self.seen_alive
        ]
        if unseen:
            raise self._violated(Invariant.LAST_LOOK, f"epoch {epoch} is decided, nobody has looked at {unseen[0]}")
        if back := [name for name, generation in self.went_back.items() if generation == body["generation"]]:
            raise self._violated(Invariant.GOING_BACK, f"epoch {epoch} is decided although {back[0]} has gone back")
        if epoch in self.decisions:
            raise self._violated(Invariant.DURABLE, f"epoch {epoch} is decided again in slot {slot}")
        if epoch != len(self.decisions):
            raise self._violated(Invariant.EXACTLY_ONCE, f"epoch {epoch} is decided after {len(self.decisions) - 1}")
        decision = Decision(manifest, slot)
        self.decisions[epoch] = decision
        self._name(decision, (branch for _, branch in manifest.branches()), slot)

    def _repair(self, slot: int, body: dict[str, Any]) -> None:
        decision = self.decisions[body["epoch"]]
        new = _replacements(body)
        for old in new:
            if old in self.committed:
                raise self._violated(Invariant.EXACTLY_ONCE, f"a repair replaces {old}, which is committed")
        decision.manifest = decision.manifest.repaired(new)
        self._name(decision, new.values(), slot)

    def _name(self, decision: Decision, branches: Iterable[Branch], slot: int) -> None:
        for branch in branches:
            handle = str(branch.committable.handle)
            decision.named.setdefault(handle, slot)
            if handle in self.aborted:
                raise self._violated(Invariant.ATOMIC, f"slot {slot} decides {handle}, which is aborted already")

    def _complete(self, slot: int, body: dict[str, Any]) -> None:
        epoch = body["epoch"]
        decision = self.decisions[epoch]
        for sink, branch in decision.manifest.branches():
            handle = str(branch.committable.handle)
            if handle not in self.committed and (epoch, sink) not in self.resolved:
                raise self._violated(Invariant.ATOMIC, f"epoch {epoch} is complete, but {handle} is not committed")
        self.complete.add(epoch)

    def _resolution(self, slot: int, body: dict[str, Any]) -> None:
        self.resolved[body["epoch"], body["sink"]] = body["action"]

    def on_durable(self, slots: Iterable[int]) -> None:
        """These records will be there after a power cut."""
        self.durable_slots.update(slots)

    def forget(self, slot: int, *, for_good: bool = False) -> None:
        """A record is gone: lost at a power cut before it was durable, or damaged and voided (`for_good`)."""
        if slot not in self.bodies:
            return
        kind, body = self.bodies.pop(slot)
        self.durable_slots.discard(slot)
        self.highest_slot = max(self.bodies, default=0) if not for_good else self.highest_slot
        if kind == "intent":
            self._undecide(body["epoch"], slot)
        elif kind == "repair":
            self._unrepair(body)
        elif kind == "complete":
            self.complete.discard(body["epoch"])
        elif kind == "resolution":
            self.resolved.pop((body["epoch"], body["sink"]), None)
        self.highest_generation = max((b.get("generation", 0) for _, b in self.bodies.values()), default=0)

    def _undecide(self, epoch: int, slot: int) -> None:
        decision = self.decisions[epoch]
        for handle in decision.named:
            if handle in self.committed:
                raise self._violated(Invariant.DURABLE, f"slot {slot} is gone, but {handle} is committed")
        del self.decisions[epoch]

    def _unrepair(self, body: dict[str, Any]) -> None:
        decision = self.decisions[body["epoch"]]
        for old, new in _replacements(body).items():
            if str(new.committable.handle) in self.committed:
                raise self._violated(Invariant.DURABLE, f"the repair of {old} is gone, but it is committed")
            decision.named.pop(str(new.committable.handle), None)
        left = [(kind, each) for _, (kind, each) in sorted(self.bodies.items()) if each.get("epoch") == body["epoch"]]
        manifest = next(Manifest.from_json(each) for kind, each in left if kind == "intent")
        for repair in (each for kind, each in left if kind == "repair"):
            manifest = manifest.repaired(_replacements(repair))
        decision.manifest = manifest

    # The sinks -------------------------------------------------------------------------------------------------

    def on_committed(self, handle: Handle) -> None:
        """The rows of a branch become visible in its sink."""
        name, epoch = str(handle), handle.epoch
        decision = self.decisions.get(epoch)
        slot = None if decision is None else decision.named.get(name)
        if decision is None or slot is None:
            raise self._violated(Invariant.INTENT_FIRST, f"{name} is committed and no record decides it")
        if slot not in self.durable_slots and not self._embedded(epoch, name):
            raise self._violated(Invariant.INTENT_FIRST, f"{name} is committed, its record {slot} is not durable")
        if name not in decision.current() and (epoch, handle.sink) not in self.resolved:
            raise self._violated(Invariant.EXACTLY_ONCE, f"{name} is committed, though a repair has replaced it")
        if epoch and epoch - 1 not in self.complete:
            raise self._violated(Invariant.ATOMIC, f"{name} is committed before epoch {epoch - 1} is complete")
        self.committed.add(name)

    def _embedded(self, epoch: int, handle: str) -> bool:
        """Whether a durable generation record carries the decision along."""
        for slot, (kind, body) in self.bodies.items():
            if kind == "generation" and slot in self.durable_slots and body["pending"] is not None:
                manifest = Manifest.from_json(body["pending"])
                if manifest.epoch == epoch and any(str(b.committable.handle) == handle for _, b in manifest.branches()):
                    return True
        return False

    def on_aborted(self, handle: Handle, by_generation: int | None) -> None:
        """A prepared branch is undone; `by_generation` of the coordinator that asked, None for a task."""
        name = str(handle)
        decision = self.decisions.get(handle.epoch)
        if decision is not None and name in decision.current() and (handle.epoch, handle.sink) not in self.resolved:
            raise self._violated(Invariant.ATOMIC, f"{name} is aborted, though slot {decision.slot} decides it")
        if by_generation is not None and handle.generation > by_generation:
            raise self._violated(Invariant.FENCED_IS_HARMLESS, f"generation {by_generation} has aborted {name}")
        self.aborted.add(name)

    def _violated(self, invariant: Invariant, what: str) -> BaseException:
        return self.world.violated(invariant, what)


def _replacements(repair: dict[str, Any]) -> dict[str, Branch]:
    return {old: Branch.from_json(new) for old, new in repair["replacements"].items()}
