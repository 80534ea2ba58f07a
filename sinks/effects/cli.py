"""The command `tpc effects`: shows the effects in an outbox, and records a person's decision on those that are left."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpc.errors import ConfigurationError
from tpc.support.terminal import print_json, print_line

if TYPE_CHECKING:
    from tpc.sinks.effects.database import Database


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(effects)


def effects(
    outbox: Annotated[Path, typer.Argument(help="the outbox: the `path` of an EffectSink")],
    *,
    again: Annotated[str | None, typer.Option(metavar="KEY", help="call this dead or unknown effect again")] = None,
    done: Annotated[str | None, typer.Option(metavar="KEY", help="this dead or unknown effect has been done")] = None,
    reason: Annotated[str, typer.Option(help="who says so and why; kept as its answer")] = "",
    limit: Annotated[int, typer.Option(min=1, help="how many of those left for a person are shown")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="for a program to read")] = False,
) -> None:
    """The state of effects: how many are waiting, done or dead, and each that is left for a person.

    Changes nothing; with --again or --done a person decides about one of those, and that is noted in the outbox. A
    running pipeline calls it within seconds.
    """
    from tpc.sinks.effects.calls import settle
    from tpc.sinks.effects.effect import Fate

    database = _opened(outbox)
    for key, fate in ((again, Fate.WAITING), (done, Fate.DONE)):
        if key is None:
            continue
        if not reason.strip():
            raise ConfigurationError("a person's decision needs --reason", remedy="say who decides and why.")
        if not settle(database, key, fate, reason):
            raise ConfigurationError(
                f"no effect {key!r} is dead or unknown", remedy="give the whole key, as `tpc effects` shows it."
            )
        print_line(json.dumps({"key": key, "state": fate.value}) if as_json else f"{key}: {fate.value}")
    if again is None and done is None:
        _show(database, limit, as_json=as_json)


def _opened(outbox: Path) -> Database:
    from tpc.sinks.effects.database import Database

    database = Database(outbox, 10.0)
    if not database.path.exists():
        raise ConfigurationError(f"there is no outbox in {outbox}", remedy="give the `path` of an EffectSink.")
    return database


def _show(database: Database, limit: int, *, as_json: bool) -> None:
    from tpc.sinks.effects.calls import counts, listed
    from tpc.sinks.effects.effect import LEFT

    found, left = counts(database), listed(database, LEFT, limit)
    if as_json:
        numbers = [{"sink": sink, "state": fate.value, "effects": number} for (sink, fate), number in found.items()]
        told = [{**asdict(one), "fate": one.fate.value, "row": json.loads(one.row)} for one in left]
        print_json({"counts": numbers, "left": told})
        return
    for (sink, fate), number in found.items():
        print_line(f"{sink}  {fate.value:13}  {number}")
    for one in left:
        print_line(f"{one.fate.value:13}  epoch {one.epoch}  {one.key}  {one.row}  {one.answer}")
