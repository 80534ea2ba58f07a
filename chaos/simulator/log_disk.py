"""The simulated log: slots on a disk that may forget, tear and answer late, as a `Log` is allowed to."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.log_losses import LogLosses
from tpc.chaos.simulator.world import World
from tpc.coordinator.kernel.log.contract import Log
from tpc.errors import DecisionUnknownError, PutUnknownError, TransientError


class LogDisk:
    """What the log's disk holds, over all processes. A later sync makes everything before it durable."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger
        self.content: dict[int, bytes] = {}
        self.losses = LogLosses(world, ledger, self.content)
        self.unsynced: set[int] = set()
        self.originals: dict[int, bytes] = {}
        """What a mirror of the log would hold of damaged slots."""
        self.was_changed = False
        """Whether somebody has changed what coordinators may know of it."""
        self.late_terms: set[int] = set()
        """Slots of generation records that landed after their put had been given up, perhaps by a dead process."""

    def land(self, slot: int, data: bytes, *, synced: bool) -> bool:
        """Put if absent; whether `slot` holds `data` now."""
        found = self.content.get(slot)
        if found is None:
            self.losses.goes_on()
            self.content[slot] = data
            self.ledger.on_landed(slot, data)
            self.unsynced.add(slot)
            found = data
        if synced and found == data:
            self.ledger.on_durable(self.unsynced)
            self.unsynced.clear()
        return found == data

    def lose(self, slot: int) -> None:
        """A slot that was never durable is gone."""
        del self.content[slot]
        self.unsynced.discard(slot)
        self.ledger.forget(slot)

    def damage(self, slot: int, *, mirrored: bool) -> None:
        """A slot's bytes are cut or zeroed; a mirror has them if the put was answered."""
        data = self.content[slot]
        if mirrored:
            self.originals.setdefault(slot, data)
        kept = self.world.random.randrange(max(1, len(data)))
        self.content[slot] = bytes(kept) if self.world.random.random() < 0.5 else data[:kept]

    def is_damaged(self, slot: int) -> bool:
        """Whether a record that counts, since none voids it, is not what was put."""
        return slot in self.ledger.bodies and self.content[slot] != self.originals.get(slot, self.content[slot])

    def strike(self, place: str) -> None:
        """Perhaps the log loses something, where no disk has lied or owes anything: there nobody can tell the two."""
        if not self.unsynced and not self.originals and not any(map(self.is_damaged, self.content)):
            self.losses.strike(place)

    @property
    def end(self) -> int:
        """The highest slot."""
        return max(self.content, default=0)

    def restore(self) -> None:
        """An operator copies the damaged slots from a mirror."""
        for slot, data in self.originals.items():
            if slot in self.content:  # also where it is voided by now
                self.content[slot] = data
                self.was_changed = True
        self.originals.clear()

    def power_cut(self) -> None:
        """What was not durable may be gone, from any slot on."""
        world = self.world
        waiting = sorted(self.unsynced)
        if waiting and world.random.random() < 0.5:
            for slot in reversed(waiting[world.random.randrange(len(waiting)) :]):
                world.tell(f"  slot {slot} of the log is lost")
                self.lose(slot)
        self.ledger.on_durable(self.unsynced)
        self.unsynced.clear()
        newest = self.end
        kind = self.ledger.bodies.get(newest, ("", {}))[0]
        if kind and world.strikes(Fault.LOG_DAMAGED, f"slot {newest}, {kind}"):
            self.damage(newest, mirrored=True)


class SimulatedLog(Log):
    """The log as one process sees it."""

    def __init__(self, disk: LogDisk) -> None:
        self.disk = disk
        self.world = disk.world

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """See `Log.put`; every way in which it may end badly is a fault."""
        world, disk, place = self.world, self.disk, f"log.put.{_kind(data)}"
        disk.strike(place)
        world.call(place)
        self._require_before(slot, after)
        if self._strikes(Fault.LOG_FULL, slot, place):
            raise TransientError("the log's disk is full")
        if self._strikes(Fault.LOG_UNKNOWN_LOST, slot, place):
            raise PutUnknownError("no answer to a put")
        if self._strikes(Fault.LOG_UNKNOWN_LATE, slot, place):
            world.later(f"the put of slot {slot}", lambda: self._arrives(slot, data, after))
            raise PutUnknownError("no answer to a put")
        if self._strikes(Fault.LOG_FSYNC_LOST, slot, place):
            raise DecisionUnknownError("fsync failed")
        free = slot not in disk.content
        won = disk.land(slot, data, synced=False)
        if won and free:
            self._power_fails(slot, place)
        if won and self._strikes(Fault.LOG_FSYNC_LANDED, slot, place):
            raise DecisionUnknownError("fsync failed")
        if won:
            disk.land(slot, data, synced=True)
        if self._strikes(Fault.LOG_UNKNOWN_LANDED, slot, place):
            raise PutUnknownError("no answer to a put")
        world.tell(f"log: slot {slot} {self._what(slot)}{'' if won else ' is taken'}")
        if won and free:
            disk.strike(f"{place}.after")
        world.call(place, after=True)
        self._require_before(slot, after)
        return won

    def _require_before(self, slot: int, after: bytes | None) -> None:
        if after is None:
            return
        held = self.disk.content.get(slot - 1)
        if held != after:
            raise self.gone(slot - 1) if held is None else self.another(slot - 1)

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`."""
        self.disk.strike("log.goes_on")
        self.world.call("log.goes_on")
        self._require_known(slot, data)
        return slot + 1 in self.disk.content

    def _require_known(self, slot: int, data: bytes) -> None:
        held = self.disk.content.get(slot)
        if held is None and slot + 1 not in self.disk.content:
            raise self.gone(slot)
        if held not in (None, data):
            raise self.another(slot)

    def _strikes(self, fault: Fault, slot: int, place: str) -> bool:
        return self.world.strikes(fault, f"slot {slot}, {place}", place)

    def _arrives(self, slot: int, data: bytes, after: bytes | None) -> None:
        if after is not None and self.disk.content.get(slot - 1, after) != after:
            return  # it was meant for another log than the one in place
        if not self.disk.losses.away and self.disk.land(slot, data, synced=True) and _kind(data) == "generation":
            self.disk.late_terms.add(slot)

    def _power_fails(self, slot: int, place: str) -> None:
        """The machine dies while the record is on its way to the disk."""
        if self._strikes(Fault.LOG_TORN, slot, place):
            self.disk.damage(slot, mirrored=False)
            self.disk.ledger.on_durable(self.disk.unsynced)
            self.disk.unsynced.clear()
            self.world.cut_power()
        if self._strikes(Fault.LOG_CUT, slot, place):
            self.disk.lose(slot)
            self.world.cut_power()

    def _what(self, slot: int) -> str:
        kind, body = self.disk.ledger.bodies.get(slot, ("stale", {}))
        return f"{kind} {body.get('epoch', body.get('generation', ''))}"

    def slots(self) -> list[int]:
        """See `Log.slots`."""
        self.world.call("log.slots")
        if self.world.acting is not None:
            self.world.acting.evidence.looked_at_log(is_whole=not self.disk.losses.away)
        return sorted(self.disk.content)

    def read(self, slot: int) -> bytes:
        """See `Log.read`."""
        process, damaged = self.world.acting, self.disk.is_damaged(slot)
        if process is not None:  # None: an operator's command
            process.evidence.read_slot(slot, damaged=damaged, end_of_log=self.disk.end)
        if damaged:
            self.world.tell(f"log: slot {slot} is damaged")
        return self.disk.content[slot]

    def delete(self, slots: Sequence[int]) -> None:
        """See `Log.delete`."""
        for slot in sorted(slots):
            self.world.call("log.delete")
            self.disk.content.pop(slot, None)
            self.disk.originals.pop(slot, None)

    def describe(self) -> str:
        """See `Log.describe`."""
        return "simulated log"


def _kind(data: bytes) -> str:
    """The kind of a whole record, without decoding it: its last field of that name."""
    return data[data.rfind(b'"kind":"') + 8 :].split(b'"', 1)[0].decode()
