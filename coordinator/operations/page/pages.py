"""The pages: what each shows of the facts, and its HTML. Escapes all text; knows no requests.

A page holds no script and no style of its own, so that the browser can be told to run none but ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.epochs import epoch_row
from tpc.coordinator.kernel.log import tail
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.tail import Window
from tpc.coordinator.operations.monitoring.epoch_report import report_of
from tpc.coordinator.operations.page import drawings, facts, systems, words
from tpc.coordinator.operations.page.terms import terms_of
from tpc.coordinator.operations.page.watching import EPOCHS, Watched
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "tpc.coordinator.operations.page"


def pipelines_page(watched: Sequence[Watched], now: float) -> str:
    """The list of all pipelines."""
    return _rendered("pipelines.html.j2", {"now": now, "pipelines": [facts.summary(one, now) for one in watched]})


def pipeline_page(one: Watched, now: float) -> str:
    """One pipeline as its log tells it now, with its newest epochs."""
    look = one.look
    view: dict[str, Any] = {"now": now, "pipeline": facts.summary(one, now), "parked": facts.parked(one)}
    if look.window is None:
        return _rendered("pipeline.html.j2", {**view, "history": None})
    history = look.window.history
    rows, terms = facts.newest_rows(history, look.parked), terms_of(look.window.records)
    view |= {
        "history": history,
        "event_time": facts.event_time(history),
        "sinks": facts.sinks(history, look.parked),
        "terms": terms[:EPOCHS],
        "resolutions": history.resolutions[-EPOCHS:],
        "pictures": [
            ("Rows per second", drawings.rate_columns(facts.rates(rows))),
            ("Time of an epoch, by phase", drawings.time_columns(rows)),
            ("Recovery: a start until its first complete epoch", drawings.recovery_columns(terms)),
        ],
        **_epochs(rows),
    }
    return _rendered("pipeline.html.j2", view)


def older_page(one: Watched, before: int, now: float) -> str:
    """The epochs before `before`, a page of them, read from the log now. Raises `TpcError`."""

    def read(log: Log, window: Window) -> Window:
        found = tail.before_epoch(log, window, before, EPOCHS)
        if found is None:
            raise _not_held(before)
        return found

    history = one.ask(read).history
    rows = [epoch_row(history, epoch) for epoch in sorted(history.manifests) if epoch < before][-EPOCHS:]
    view = {"now": now, "pipeline": facts.summary(one, now), "before": before, **_epochs(rows)}
    return _rendered("older.html.j2", view)


def epoch_page(one: Watched, epoch: int, now: float) -> str:
    """One epoch, read from the log now. Raises `TpcError`: for one that it does not hold a `ConfigurationError`."""

    def read(log: Log, window: Window) -> Window:
        found = tail.about_epoch(log, window, epoch)
        if found is None:
            raise _not_held(epoch)
        return found

    window = one.ask(read)
    report = report_of(window.history, window.records, epoch)
    view = {"now": now, "pipeline": facts.summary(one, now), "epoch": report}
    view |= systems.of_epoch(one, report)
    parked = facts.parked(one)
    view["parked"] = parked if parked is not None and parked["epoch"] == epoch else None
    view["phases"] = [(name, seconds, drawings.colour(name)) for name, seconds in drawings.in_order(report["seconds"])]
    view["bar"] = drawings.phase_bar(report["seconds"], sum(report["seconds"].values()))
    view["bar_words"] = drawings.phases_in_words(report["seconds"])
    return _rendered("epoch.html.j2", view)


def sinks_page(one: Watched, now: float) -> str:
    """What the systems of a pipeline's sinks say now, beside what its log says."""
    view = {"now": now, "pipeline": facts.summary(one, now), **systems.of_pipeline(one, now)}
    return _rendered("sinks.html.j2", view)


def error_page(title: str, error: Mapping[str, str], now: float) -> str:
    """What went wrong, what is safe, what to do."""
    return _rendered("error.html.j2", {"now": now, "title": title, "error": error})


def _not_held(epoch: int) -> ConfigurationError:
    return ConfigurationError(
        f"the log does not hold epoch {epoch}: it is not decided yet, or it was pruned",
        epoch=epoch,
        remedy="the list of epochs names those that it holds.",
    )


def _epochs(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table of epochs, newest first, each with its bar."""
    longest_s = max((sum(row["seconds"].values()) for row in rows), default=0.0)
    names = {name for row in rows for name in row["seconds"]}
    return {
        "epochs": [
            {
                **row,
                "total_s": sum(row["seconds"].values()),
                "sinks_words": ", ".join(
                    f"{name} {words.counted(part['rows'])} ({words.sized(part['size_bytes'])})"
                    for name, part in row["sinks"].items()
                ),
                "bar": drawings.phase_bar(row["seconds"], longest_s),
                "bar_words": drawings.phases_in_words(row["seconds"]),
            }
            for row in reversed(rows)
        ],
        "legend": [(name, drawings.colour(name)) for name, _ in drawings.in_order(dict.fromkeys(names, 0.0))],
        "older": rows[0]["epoch"] if rows and rows[0]["epoch"] > 0 else None,
    }


def _rendered(template: str, view: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(**view)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(PACKAGE, package_path="templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "took": words.took,
        "ago": words.ago,
        "moment": words.moment,
        "machine": words.machine_time,
        "counted": words.counted,
        "sized": words.sized,
    }
    return environment
