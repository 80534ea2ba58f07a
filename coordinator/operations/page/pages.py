"""The pages: what each shows of the facts, and its HTML. Escapes all text; knows no requests.

A page holds no script and no style of its own, so that the browser can be told to run none but ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tpc.consistency import knows_owner, naming_of
from tpc.coordinator.kernel.epochs import epoch_row
from tpc.coordinator.kernel.log import tail
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.tail import Window
from tpc.coordinator.kernel.planned_actions import planned_action
from tpc.coordinator.operations.monitoring.epoch_report import report_of
from tpc.coordinator.operations.page import charts, formatting, log_summary
from tpc.coordinator.operations.page.log_summary import terms_of
from tpc.coordinator.operations.page.log_watcher import EPOCHS, Watched
from tpc.coordinator.operations.page.sink_answers import Said
from tpc.describing import escaped
from tpc.errors import ConfigurationError
from tpc.history import History
from tpc.sink import InDoubt

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "tpc.coordinator.operations.page"


def pipelines_page(watched: Sequence[Watched], now: float) -> str:
    """The list of all pipelines."""
    return _rendered("pipelines.html.j2", {"now": now, "pipelines": [log_summary.summary(one, now) for one in watched]})


def pipeline_page(one: Watched, now: float) -> str:
    """One pipeline as its log tells it now, with its newest epochs."""
    look = one.look
    view: dict[str, Any] = {"now": now, "pipeline": log_summary.summary(one, now), "parked": log_summary.parked(one)}
    if look.window is None:
        return _rendered("pipeline.html.j2", {**view, "history": None})
    history = look.window.history
    rows, terms = log_summary.newest_rows(history, look.parked), terms_of(look.window.records)
    view |= {
        "history": history,
        "event_time": log_summary.event_time(history),
        "timers": log_summary.timers(history),
        "sinks": log_summary.sinks(history, look.parked),
        "terms": terms[:EPOCHS],
        "resolutions": history.resolutions[-EPOCHS:],
        "pictures": [
            ("Rows per second", charts.rate_columns(log_summary.rates(rows))),
            ("Time of an epoch, by phase", charts.time_columns(rows)),
            ("Recovery: a start until its first complete epoch", charts.recovery_columns(terms)),
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
    view = {"now": now, "pipeline": log_summary.summary(one, now), "before": before, **_epochs(rows)}
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
    view = {"now": now, "pipeline": log_summary.summary(one, now), "epoch": report}
    view |= of_epoch(one, report)
    parked = log_summary.parked(one)
    view["parked"] = parked if parked is not None and parked["epoch"] == epoch else None
    view["phases"] = [(name, seconds, charts.colour(name)) for name, seconds in charts.in_order(report["seconds"])]
    view["bar"] = charts.phase_bar(report["seconds"], sum(report["seconds"].values()))
    view["bar_words"] = charts.phases_in_words(report["seconds"])
    return _rendered("epoch.html.j2", view)


def sinks_page(one: Watched, now: float) -> str:
    """What the systems of a pipeline's sinks say now, beside what its log says."""
    view = {"now": now, "pipeline": log_summary.summary(one, now), **of_pipeline(one, now)}
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
                    f"{name} {formatting.counted(part['rows'])} ({formatting.sized(part['size_bytes'])})"
                    for name, part in row["sinks"].items()
                ),
                "bar": charts.phase_bar(row["seconds"], longest_s),
                "bar_words": charts.phases_in_words(row["seconds"]),
            }
            for row in reversed(rows)
        ],
        "legend": [(name, charts.colour(name)) for name, _ in charts.in_order(dict.fromkeys(names, 0.0))],
        "older": rows[0]["epoch"] if rows and rows[0]["epoch"] > 0 else None,
    }


def _rendered(template: str, view: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(**view)


def _shown(value: Any) -> Any:
    """Text of others; what is HTML already is ours."""
    return escaped(value) if type(value) is str else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(PACKAGE, package_path="templates"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "took": formatting.took,
        "ago": formatting.ago,
        "moment": formatting.moment,
        "machine": formatting.machine_time,
        "counted": formatting.counted,
        "sized": formatting.sized,
    }
    return environment


# What systems have said (`sink_answers`), beside what the log says: of the branches of an epoch, and of every sink.

NOT_ASKED = (
    "The systems were not asked: only a log was named, and it holds no way to reach them. Name the job "
    "(module:function), or open the page in the driver (tpc.Serve(page=...))."
)


def branch_in_words(said: Mapping[str, Said], branch: Mapping[str, Any], epoch: int, *, is_complete: bool) -> str:
    """What its system says of a branch of `epoch` now. Absence alone is no proof of anything, and is told as absence.

    Kafka's listing tells no epoch, and its resources are used again once their epoch is complete: of such a branch one
    that is listed then is a later one's.
    """
    sink = said.get(branch["sink"])
    if sink is None:
        return "not asked: the job has no such sink now"
    if sink.why_not is not None:
        return f"not known: {sink.why_not}"
    for doubt, _ in sink.in_doubt:
        if doubt.resource == branch["resource"] and (doubt.epoch == epoch or (doubt.epoch is None and not is_complete)):
            return "prepared: in doubt"
    if sink.shown is not None and sink.shown >= epoch:
        return f"not in doubt; it shows epoch {sink.shown}"
    return f"not in doubt, and it shows {'no epoch' if sink.shown is None else f'epoch {sink.shown}'}"


def of_epoch(one: Watched, report: Mapping[str, Any]) -> dict[str, Any]:
    """For the page of an epoch: whom was asked when, and each branch's words, in the order of the report."""
    if one.sinks is None:
        return {"not_asked": NOT_ASKED, "said": [], "branch_says": []}
    said = one.sinks.say()
    by_sink, is_complete = {each.sink: each for each in said}, report["status"] == "complete"
    branches = [
        branch_in_words(by_sink, branch, report["epoch"], is_complete=is_complete) for branch in report["branches"]
    ]
    return {"not_asked": None, "said": [each for each in said if each.sink in report["sinks"]], "branch_says": branches}


def of_pipeline(one: Watched, now: float) -> dict[str, Any]:
    """For the page of the sinks: of each what it shows and who owns it, and all branches in doubt."""
    history = None if one.look.window is None else one.look.window.history
    if one.sinks is None or history is None:
        return {"not_asked": NOT_ASKED if one.sinks is None else "The log could not be read yet.", "sinks": []}
    return {"not_asked": None, "sinks": [_sink(said, history, now) for said in one.sinks.say()]}


def _sink(said: Said, history: History, now: float) -> dict[str, Any]:
    return {
        "name": said.sink,
        "kind": said.kind,
        "asked_at": said.asked_at,
        "why_not": said.why_not,
        "shown": said.shown,
        "by_log": history.last_epoch_of(said.sink),
        "owner": _owner(said, history),
        "owned_since": None if said.owner is None else said.owner.since,
        "oldest_s": max((now - since for _, since in said.in_doubt), default=None),
        "in_doubt": [
            {
                "resource": doubt.resource,
                "generation": doubt.generation,
                "epoch": doubt.epoch,
                "since": since,
                "fate": _fate(history, doubt, said.asked_at),
            }
            for doubt, since in said.in_doubt
        ],
    }


def _fate(history: History, doubt: InDoubt, asked_at: float) -> str:
    """The log may be read later than a system was asked: a branch of an epoch that is complete since is not lost."""
    naming = naming_of(history, doubt)
    if naming is not None and history.completed.get(naming.epoch, {}).get("completed_at", asked_at) > asked_at:
        return f"commit: epoch {naming.epoch} is complete since this system was asked"
    return planned_action(history, doubt)


def _owner(said: Said, history: History) -> str:
    if said.owner is None:
        return "nobody"
    known = "" if knows_owner(history, said.sink, said.owner) else ", of a log that is not this one, or not read so far"
    return f"generation {said.owner.generation}{known}"
