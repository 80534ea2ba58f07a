"""Which programs there are; and which are today's."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from tpc.chaos.programs import (
    average_over_time,
    claim_check,
    classified_tickets,
    commands_to_events,
    matched_payments,
    moving_average,
    pairing,
    payments,
    resume_elsewhere,
    running_tally,
    sessions,
    shipments,
    state_topic,
    unpaid_orders,
)
from tpc.chaos.programs.program import Program
from tpc.errors import ConfigurationError

PROGRAMS = {
    program.name: program
    for program in (
        moving_average.PROGRAM,
        average_over_time.PROGRAM,
        running_tally.PROGRAM,
        commands_to_events.PROGRAM,
        state_topic.PROGRAM,
        claim_check.PROGRAM,
        payments.PROGRAM,
        classified_tickets.PROGRAM,
        unpaid_orders.PROGRAM,
        sessions.PROGRAM,
        shipments.PROGRAM,
        pairing.PROGRAM,
        pairing.LOOP,
        matched_payments.PROGRAM,
        resume_elsewhere.PROGRAM,
    )
}


def chosen(names: Iterable[str]) -> list[Program]:
    """The programs of those names; all of them without a name. Raises `ConfigurationError` for an unknown one."""
    wanted = list(dict.fromkeys(names)) or list(PROGRAMS)
    if unknown := [name for name in wanted if name not in PROGRAMS]:
        raise ConfigurationError(
            f"there is no program {unknown[0]!r}", remedy=f"choose among {', '.join(PROGRAMS)}; without a name: all."
        )
    return [PROGRAMS[name] for name in wanted]


SHORTER = {sessions.SHORT_PROGRAM.name: sessions.SHORT_PROGRAM}
"""Those that take long, with less input: so they have their days too. `make programs` runs them whole."""

PROGRAMS_A_DAY = 1


def of_the_day(day: date) -> list[Program]:
    """Each day others of Spark's, in turn, `PROGRAMS_A_DAY` different ones; those that take long with less input."""
    first = PROGRAMS_A_DAY * day.toordinal()
    names = [name for name, program in PROGRAMS.items() if not program.is_service]
    drawn = [names[number % len(names)] for number in range(first, first + PROGRAMS_A_DAY)]
    return [SHORTER.get(name, PROGRAMS[name]) for name in drawn]
