"""What must hold when a user's pipeline has gone through its faults.

The rows come from the systems themselves (`sink_rows`), what is expected from the user; what log and markers say was
taken by the pipeline's last life (`account`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tpc.chaos.checkers.compare import SHOWN, Check, multisets_equal, nothing_left
from tpc.chaos.runner.attempts import Attempt, Life
from tpc.chaos.user.account import Account
from tpc.chaos.user.sink_rows import columns_of, comparable, read_rows, unreadable
from tpc.chaos.user.target import Row, Target
from tpc.errors import ConfigurationError
from tpc.sink import Sink
from tpc.sinks import KafkaOffsetsSink


@dataclass(frozen=True)
class NotCompared:
    """A sink whose rows were not looked at, and why."""

    sink: str
    reason: str


def check_expectation(target: Target, account: Account, expected: Mapping[str, Sequence[Row]]) -> None:
    """Is what the user expects about this pipeline, and can it be compared?

    Raises `ConfigurationError`, for an unknown name with those that there are.
    """
    names = [sink.name for sink in account.sinks if not isinstance(sink, KafkaOffsetsSink)]
    unknown = sorted((expected.keys() | target.readers.keys()) - set(names))
    if unknown:
        raise ConfigurationError(
            f"expected() or readers speaks of {unknown[0]!r}, and the pipeline has no such sink",
            remedy=f"its sinks are {', '.join(names)}.",
        )
    for rows in expected.values():
        comparable(rows, columns_of(rows))
    if not_compared := not_compared_sinks(target, account, expected):
        compared = set(names) - {one.sink for one in not_compared}
        if not compared:
            raise ConfigurationError(
                "no sink would be compared: " + "; ".join(f"{one.sink}: {one.reason}" for one in not_compared),
                remedy="let expected() return rows for at least one of them.",
            )


def not_compared_sinks(target: Target, account: Account, expected: Mapping[str, object]) -> list[NotCompared]:
    """The sinks that hold rows and cannot be compared, each with the reason."""
    not_compared = []
    for sink in account.sinks:
        if isinstance(sink, KafkaOffsetsSink):
            continue  # it holds no rows; its marker is compared with the log
        why_not = None if sink.name in target.readers else unreadable(sink)
        if sink.name not in expected:
            not_compared.append(NotCompared(sink.name, "expected() does not say what it holds"))
        elif why_not is not None:
            not_compared.append(NotCompared(sink.name, f"{why_not}; a reader is missing"))
    return not_compared


def check_sinks(
    target: Target, account: Account, expected: Mapping[str, Sequence[Row]], hide: Callable[[str], str]
) -> list[Check]:
    """One check per compared sink: its rows are those expected, each as often. `hide` takes secrets out of a text."""
    skipped = {one.sink for one in not_compared_sinks(target, account, expected)}
    compared = [sink for sink in account.sinks if sink.name in expected and sink.name not in skipped]
    return [_check_sink(target, sink, expected[sink.name], hide) for sink in compared]


def _check_sink(target: Target, sink: Sink, expected: Sequence[Row], hide: Callable[[str], str]) -> Check:
    name = f"{sink.name} holds the expected rows"
    columns = columns_of(expected)
    reader = target.readers.get(sink.name)
    try:
        shown = [dict(row) for row in (reader() if reader is not None else read_rows(sink, columns))]
    except Exception as error:  # noqa: BLE001  the user's reader or any driver: whatever it is, it is told
        return Check(name, False, hide(f"its rows cannot be read: {type(error).__name__}: {error}"))
    try:
        return multisets_equal(name, comparable(expected, columns), comparable(shown, columns))
    except ConfigurationError as error:
        return Check(name, False, hide(error.what))


def check_something_expected(expected: Mapping[str, Sequence[Row]]) -> Check:
    """Where no row is expected anywhere, sinks that got nothing look right."""
    rows = sum(len(of_sink) for of_sink in expected.values())
    said = (
        f"{rows} rows in {len(expected)} sinks" if rows else "no row in any sink: equal to a pipeline that does nothing"
    )
    return Check("there is something to compare", rows > 0, said)


def check_account(account: Account) -> list[Check]:
    """Log and markers agree, and nothing is prepared or unfinished."""
    return [account.same_epoch, nothing_left("nothing is left behind", account.left)]


def check_end(
    target: Target,
    account: Account,
    expected: Mapping[str, Sequence[Row]],
    hide: Callable[[str], str],
    *,
    own: Callable[[], list[Check]] = lambda: [],
) -> list[Check]:
    """What must hold of the end state; `own` gives what is checked of this pipeline alone."""
    sinks = check_sinks(target, account, expected, hide)
    return [check_something_expected(expected), *sinks, *own(), *check_account(account)]


def check_run(codes: Sequence[int], lives: Sequence[Life], attempts: Sequence[Attempt]) -> list[Check]:
    """The lives ended as the faults say, and every round came to its end."""
    tried = [attempt for attempt in attempts if attempt.fired is not None]
    wrong = tuple(f"fault {attempt.number}, {attempt.planned}: {attempt.wrong}" for attempt in tried if attempt.wrong)
    ends = [life for life in lives if life.ended_by_itself and not life.tried_again]
    by_itself = tuple(f"life {life.number}: {_how_it_ended(life)}" for life in ends)
    again = sum(life.tried_again for life in lives)
    retried = f", lives that a transient error ended: {again}" if again else ""
    return [
        Check(
            "after every fault the pipeline went on by itself",
            not wrong,
            f"{len(wrong)} of {len(tried)} faults did not end well"
            if wrong
            else f"{len(tried)} faults, {len(lives)} lives",
            wrong[:SHOWN],
        ),
        Check(
            "nothing but the faults ended it",
            not by_itself,
            f"{len(by_itself)} lives ended otherwise" if by_itself else f"{len(codes)} rounds{retried}",
            by_itself[:SHOWN],
        ),
    ]


def _how_it_ended(life: Life) -> str:
    early = " before the end of its input" if life.left_early else ""
    return life.given_up or f"exit code {life.code}{early}"
