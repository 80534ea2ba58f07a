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
        average_over_time.LOOP,
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
"""Of Spark's."""
SERVICES_A_DAY = 2


def of_the_day(day: date) -> list[Program]:
    """Each day others of Spark's, in turn, `PROGRAMS_A_DAY` different ones; those that take long with less input."""
    drawn = _in_turn([name for name, each in PROGRAMS.items() if not each.is_service], PROGRAMS_A_DAY, day)
    return [SHORTER.get(name, PROGRAMS[name]) for name in drawn]


def services_of_the_day(day: date) -> list[Program]:
    """The same of those without Spark, `SERVICES_A_DAY`."""
    services = [name for name, each in PROGRAMS.items() if each.is_service]
    return [PROGRAMS[name] for name in _in_turn(services, SERVICES_A_DAY, day)]


def _in_turn(names: list[str], a_day: int, day: date) -> list[str]:
    first = a_day * day.toordinal()
    return [names[number % len(names)] for number in range(first, first + a_day)]
