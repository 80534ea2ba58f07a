"""Which faults a pipeline gets, in which order: drawn from a seed, from the steps that the pipeline was seen to reach.

A plan is data: the same seed, kinds and steps give the same plan. A fault is described in `chaos.faults`; who carries
the plan out, in `chaos.runner`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tpc.chaos.faults import fault as faults
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.runner.attempts import PlannedFault
from tpc.errors import ConfigurationError

KINDS: Mapping[str, str] = {
    "kill": "SIGKILL to the driver, its JVM and its Python workers at a step",
    "worker": "SIGKILL to one Python worker during the pass",
    "error": "an error raised at a step",
    "hang": "a step held for some seconds",
    "exit": "the process that reaches a step ends itself there",
    "zombie": "SIGSTOP of the driver at a step, a second one takes over, then SIGCONT: the first must end fenced",
}

_AS_FAULT: Mapping[str, str] = {
    "kill": faults.KILL_DRIVER,
    "worker": faults.KILL,
    "error": faults.ERROR,
    "hang": faults.HANG,
    "exit": faults.EXIT,
    "zombie": faults.ZOMBIE,
}

ZOMBIE_STEPS = (
    "epoch.planned",
    "epoch.collected",
    "epoch.prepared",
    "epoch.decided",
    "sink.commit",
    "sink.committed",
    "epoch.committed",
)
"""Where a stopped driver still has a record to put, and so must notice that it is fenced. During the pass it would hold
locks of transactions that are not prepared yet: its successor cannot abort those, and waits."""

SHORTEST_HOLD_S, LONGEST_HOLD_S = 1.0, 5.0


@dataclass(frozen=True)
class Place:
    """A place that the pipeline has reached: a step, and as far as the step tells, which sink, task and record."""

    step: str
    sink: str | None = None
    partition: int | None = None
    record: str | None = None
    on_worker: bool = False
    """Whether a Python worker was there, and not the driver, or the one process of a service."""


def parse_kinds(text: str) -> tuple[str, ...]:
    """The kinds that `--faults` names: "all", or some of them with commas between. Raises `ConfigurationError`."""
    if text.strip() == "all":
        return tuple(KINDS)
    chosen = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in chosen if word not in KINDS]
    if unknown or not chosen:
        raise ConfigurationError(
            f"there is no fault {unknown[0]!r}" if unknown else "no fault is named",
            remedy=f"use all, or some of {', '.join(KINDS)}, with commas between.",
        )
    return chosen


def places(hits: Iterable[StepHit]) -> list[Place]:
    """Every place that was reached, once, in an order of its own."""
    hits = list(hits)
    drivers = {(hit.life, hit.pid) for hit in hits if "partition" not in hit.where}
    reached = {
        Place(
            *(hit.step, hit.where.get("sink"), hit.where.get("partition"), hit.where.get("kind")),
            on_worker=hit.where.get("partition", -1) >= 0 and (hit.life, hit.pid) not in drivers,
        )
        for hit in hits
    }
    return sorted(reached, key=lambda place: tuple(map(str, (place.step, place.sink, place.partition, place.record))))


def places_for(kind: str, reached: Sequence[Place]) -> list[Place]:
    """Those at which this kind of fault makes sense."""
    if kind == "worker":
        return [place for place in reached if place.on_worker]
    if kind == "zombie":
        return [place for place in reached if place.step in ZOMBIE_STEPS]
    return list(reached)


def learning_fault(kinds: Sequence[str]) -> PlannedFault:
    """The first fault where no round in peace shows the places: by then every step of an epoch has been seen.

    Of one of `kinds`, if one of them has a place at the end of an epoch; else a kill, which none of them has asked for.
    """
    kind = next((kind for kind in ("kill", "exit", "error", "hang", "zombie") if kind in kinds), "kill")
    step = "epoch.committed" if kind == "zombie" else "epoch.completed"  # see `ZOMBIE_STEPS`
    return PlannedFault(kind, StepFault(step, _AS_FAULT[kind], seconds=SHORTEST_HOLD_S))


def plan(seed: int, kinds: Sequence[str], reached: Sequence[Place]) -> Iterator[PlannedFault]:
    """Faults without end, none where no kind has a place.

    Every kind once in each turn, and every step of a kind before one comes again; where a step was reached in several
    places, one of them is drawn.
    """
    rng = random.Random(seed)
    possible = {kind: suited for kind in kinds if (suited := places_for(kind, reached))}
    decks: dict[str, list[str]] = {kind: [] for kind in possible}
    while possible:
        for kind in rng.sample(list(possible), len(possible)):
            if not decks[kind]:
                steps = sorted({place.step for place in possible[kind]})
                decks[kind] = rng.sample(steps, len(steps))
            step = decks[kind].pop()
            place = rng.choice([place for place in possible[kind] if place.step == step])
            seconds = round(rng.uniform(SHORTEST_HOLD_S, LONGEST_HOLD_S), 1)
            fault = StepFault(
                step, _AS_FAULT[kind], sink=place.sink, partition=place.partition, record=place.record, seconds=seconds
            )
            yield PlannedFault(kind, fault)
