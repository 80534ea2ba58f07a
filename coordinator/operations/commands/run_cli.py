"""The command `tpc run`: a job in a process of its own, started again by a restart strategy.

Here are arguments, signals and words; what is done is in `supervisor`, and what the process does in `job_process`.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpc.errors import ConfigurationError
from tpc.support.terminal import print_line

if TYPE_CHECKING:
    from tpc.coordinator.operations.supervision.restarts import RestartStrategy
    from tpc.coordinator.operations.supervision.supervisor import Stop, SupervisorEvent

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StrategyName(str, Enum):
    """The strategies, as they are named on the command line."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    FAILURE_RATE = "failure-rate"


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(run)


def _of(what: str) -> Any:
    return typer.Option(help=what, show_default=False)


def run(
    job: Annotated[str, typer.Argument(help="module:function that returns the job unstarted, or a Python script")],
    arguments: Annotated[list[str] | None, typer.Argument(help="of a script")] = None,
    *,
    trigger: Annotated[str | None, _of("'1 second', availableNow or once")] = None,
    every_s: Annotated[float | None, _of("of a service: seconds from one cut to the next")] = None,
    every_events: Annotated[int | None, _of("of a service: at most so many events in an epoch")] = None,
    every_bytes: Annotated[int | None, _of("of a service: at most so many bytes of events in an epoch")] = None,
    standby_s: Annotated[float | None, _of("of a service: stand by, and take over from one so long silent")] = None,
    health_port: Annotated[int | None, _of("serve /healthz and /readyz at this port")] = None,
    health_host: Annotated[str | None, _of("the address for it, else 127.0.0.1")] = None,
    silent_after_s: Annotated[float | None, _of("how long an epoch may take before /healthz says 503")] = None,
    metrics_port: Annotated[int | None, _of("serve /metrics at this port")] = None,
    metrics_host: Annotated[str | None, _of("the address for it, else 127.0.0.1")] = None,
    ui_port: Annotated[int | None, _of("serve the page of `tpc ui` at this port")] = None,
    ui_host: Annotated[str | None, _of("the address for it, else 127.0.0.1; another needs TPC_UI_TOKEN")] = None,
    strategy: Annotated[StrategyName, typer.Option(help="when to restart")] = StrategyName.EXPONENTIAL,
    attempts: Annotated[int | None, _of("fixed, exponential: at most so many restarts")] = None,
    delay_s: Annotated[float | None, _of("fixed, failure-rate: seconds before each restart")] = None,
    initial_backoff_s: Annotated[float | None, _of("exponential: the first delay")] = None,
    max_backoff_s: Annotated[float | None, _of("exponential: the longest")] = None,
    backoff_multiplier: Annotated[float | None, _of("exponential: by which each is multiplied")] = None,
    jitter_factor: Annotated[float | None, _of("exponential: the random part of each")] = None,
    reset_backoff_threshold_s: Annotated[float | None, _of("exponential: it begins again after such a run")] = None,
    max_failures_per_interval: Annotated[int | None, _of("failure-rate: gives up at more")] = None,
    interval_s: Annotated[float | None, _of("failure-rate: the interval")] = None,
) -> None:
    """Run a job in a process of its own, and start it again when it fails. Ends with the job's exit code.

    Never started again after 0, 86 (fenced), 87 (parked) and 88 (not loaded). SIGTERM and SIGINT stop the job after
    its current epoch; a second one ends it at once.
    """
    from tpc.coordinator.operations.supervision.supervisor import Stop, supervise

    chosen = _strategy(
        strategy,
        attempts=attempts,
        delay_s=delay_s,
        initial_backoff_s=initial_backoff_s,
        max_backoff_s=max_backoff_s,
        backoff_multiplier=backoff_multiplier,
        jitter_factor=jitter_factor,
        reset_backoff_threshold_s=reset_backoff_threshold_s,
        max_failures_per_interval=max_failures_per_interval,
        interval_s=interval_s,
    )
    options = _given(
        trigger=None if trigger is None else _trigger(trigger),
        every_s=every_s,
        every_events=every_events,
        every_bytes=every_bytes,
        standby_s=standby_s,
    )
    served = _given(
        health_port=health_port,
        health_host=health_host,
        silent_after_s=silent_after_s,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        ui_port=ui_port,
        ui_host=ui_host,
    )
    command = _command(job, arguments or [], options, served)
    stop, received = Stop(), list[int]()
    with _handling(stop, received):
        code = supervise(command, strategy=chosen, on_event=_tell, stop=stop)
    if len(received) > 1:
        code = -received[-1]  # as if the signal had ended this process
    raise typer.Exit(code if code >= 0 else 128 - code)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _trigger(text: str) -> dict[str, Any]:
    return {text: True} if text in ("availableNow", "once") else {"processingTime": text}


def _strategy(name: StrategyName, **options: Any) -> RestartStrategy:
    from tpc.coordinator.operations.supervision.restarts import ExponentialDelay, FailureRate, FixedDelay

    made: dict[StrategyName, type[FixedDelay | ExponentialDelay | FailureRate]] = {
        StrategyName.FIXED: FixedDelay,
        StrategyName.EXPONENTIAL: ExponentialDelay,
        StrategyName.FAILURE_RATE: FailureRate,
    }
    given = _given(**options)
    if name is StrategyName.EXPONENTIAL and "attempts" in given:
        given["attempts_before_reset_backoff"] = given.pop("attempts")
    if foreign := given.keys() - {field.name for field in fields(made[name])}:
        raise typer.BadParameter(f"{_named(sorted(foreign))}: not of --strategy {name.value}")
    try:
        return made[name](**given)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error


def _serve(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Serve` that options say, as JSON; refused here, before a process is started, if they are wrong."""
    from tpc.coordinator.operations.address import Address
    from tpc.coordinator.operations.serve import Serve

    said = {name: value for name, value in given.items() if name == "silent_after_s"}
    for field, option in (("health", "health"), ("metrics", "metrics"), ("page", "ui")):
        port, host = given.get(f"{option}_port"), given.get(f"{option}_host")
        if port is not None:
            said[field] = port if host is None else str(Address(host, port))
        elif host is not None:
            raise typer.BadParameter(f"--{option}-host says where --{option}-port is served: say both")
    try:
        Serve(**said)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    return said


def _command(job: str, arguments: Sequence[str], options: Mapping[str, Any], served: Mapping[str, Any]) -> list[str]:
    from tpc.coordinator.operations.commands.targets import names_job

    if names_job(job):
        if arguments:
            raise typer.BadParameter("only a script takes arguments")
        said = json.dumps({**options, "serve": _serve(served)} if served else options)
        return [sys.executable, "-m", "tpc.coordinator.operations.supervision.job_process", job, said]
    if not Path(job).is_file():
        raise typer.BadParameter(f"{job!r} is neither module:function nor a script")
    if options or served:
        raise typer.BadParameter(f"a script starts its query itself: say {_named([*options, *served])} in its start()")
    return [sys.executable, job, *arguments]


def _named(options: Iterable[str]) -> str:
    return ", ".join("--" + option.replace("_", "-") for option in options)


@contextmanager
def _handling(stop: Stop, received: list[int]) -> Iterator[None]:
    """While this lasts, a signal asks `stop`."""

    def handler(number: int, _: object) -> None:
        received.append(number)
        stop.ask()

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _tell(event: SupervisorEvent) -> None:
    """One line on standard error; the job's own output goes where it goes."""
    lines = {
        "started": f"process {event.process} has begun",
        "ended": f"process {event.process} has ended with {event.code}" + (f"; {event.why}" if event.why else ""),
        "waits": f"restart {event.restarts + 1} in {event.wait_s or 0:.3g} s",
        "stopping": f"process {event.process} stops after its current epoch; a second signal ends it at once",
        "killed": f"process {event.process} is killed",
        "gave up": f"gave up: {event.why}",
    }
    print_line(f"tpc run: {lines[event.kind]}", err=True)
