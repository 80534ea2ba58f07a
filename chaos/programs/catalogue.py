"""Which programs there are; and which are today's."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from tpc.chaos.programs import (
    claim_check,
    classified_tickets,
    commands_to_events,
    moving_average,
    payments,
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
        running_tally.PROGRAM,
        commands_to_events.PROGRAM,
        state_topic.PROGRAM,
        claim_check.PROGRAM,
        payments.PROGRAM,
        classified_tickets.PROGRAM,
        unpaid_orders.PROGRAM,
        sessions.PROGRAM,
        shipments.PROGRAM,
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


LONG = {sessions.PROGRAM.name}
"""Of these a life alone may take minutes, on a busy machine more than a life is given: `make programs` runs them."""


PROGRAMS_A_DAY = 2


def of_the_day(day: date) -> list[Program]:
    """Each day others, in turn, `PROGRAMS_A_DAY` different ones; those that take long are left out."""
    quick = [program for name, program in PROGRAMS.items() if name not in LONG]
    first = PROGRAMS_A_DAY * day.toordinal()
    return [quick[number % len(quick)] for number in range(first, first + PROGRAMS_A_DAY)]
