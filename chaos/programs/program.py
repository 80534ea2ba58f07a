"""What is known of a program of docs/examples besides its code: its input, and what it must make of that.

The expectation is computed from the input alone, in pandas where there is anything to compute: no module here
imports a program, or Spark. What an API outside has answered is compared with what that API has given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tpc.chaos.checkers.compare import Check
from tpc.chaos.user.target import Row, Rows
from tpc.errors import ConfigurationError

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@dataclass(frozen=True)
class Program:
    """The program `docs/examples/<name>.py`, which offers `pipeline()`; servers are found by TPC_KAFKA and its like.

    `servers` are those that it needs, `epochs` those that its input gives at least, of which the first `quiet` ones
    have no rows for a sink. `feed` makes topics and tables and writes the input; `expected` gives, by sink name, the
    rows that must be there in the end. `checks`, for what rows alone do not show, is called in the end; it and `feed`
    are given the program's directory. `arrive` is called before each life, with its number and the directory: it adds
    to the input what is to come while the program runs, all of it before the sixth, the last one after five kills; or
    it looks at what a kill has left. `checked` are the sinks that `checks` compares, so that `expected` need not. A
    program without Spark (`tpc.service`) has `events_per_epoch`, at which its epochs are cut; others tell Spark.
    """

    name: str
    servers: Sequence[str]
    epochs: int
    feed: Callable[[Path], None]
    expected: Callable[[], dict[str, list[Row]]]
    checks: Callable[[Path], list[Check]] = lambda _place: []
    checked: Sequence[str] = ()
    quiet: int = 0
    events_per_epoch: int | None = None
    arrive: Callable[[int, Path], None] = lambda _life, _place: None
    readers: Mapping[str, Callable[[], Rows]] = field(default_factory=dict)

    @property
    def is_service(self) -> bool:
        """Whether it runs without Spark."""
        return self.events_per_epoch is not None


def check_examples(programs: Iterable[Program]) -> None:
    """Raises `ConfigurationError` where the programs are not (in an installed package), or others would be run."""
    if not EXAMPLES.is_dir():
        raise ConfigurationError(
            f"the programs are not here: there is no directory {EXAMPLES}",
            remedy="run the command in a checkout of the project, which has docs/examples.",
        )
    for program in programs:
        own, here = EXAMPLES / f"{program.name}.py", Path.cwd() / f"{program.name}.py"
        if here.exists() and not here.samefile(own):
            raise ConfigurationError(
                f"{here} would be run in the place of {own}: Python looks in the current directory first",
                remedy="run the command in another directory; to try your own copy, see `tpc chaos run`.",
            )
