"""How long the engine waits, how often it looks after the sinks, how much history it keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tpc.durations import WAIT_MAX_S, require_length


@dataclass(frozen=True)
class EngineSettings:
    """Times in seconds. `keep_epochs` is the history kept in the log for people, and for a runtime that lies behind."""

    retry_delay_s: float = 0.05
    retry_delay_max_s: float = 30.0
    finish_timeout_s: float | None = None
    """Give up (without losing anything) when a decided epoch cannot be committed for so long; None: never."""
    stop_timeout_s: float = 20.0
    """Where the runtime commits an epoch in a log of its own: how long a stop goes on trying to commit a decided epoch,
    and again how long it waits for the runtime's commit. Below the 30 s after which Kubernetes kills by default."""
    sweep_interval_s: float = 30.0
    keep_epochs: int = 200
    renew_after_epochs: int = 200
    renew_after_s: float = 6 * 3600.0
    """A new term begins at least so often: `tpc orphans` takes a pipeline for dead that was silent for a day."""
    watch_interval_s: float | None = 2.0
    """How often it is looked during a pass who leads, and whether branches of dead coordinators hold it up."""
    log_timeout_s: float = 300.0
    """How long a put of the log whose answer was lost is repeated before the process gives up."""

    def __post_init__(self) -> None:
        for name in _LENGTHS:
            if (length_s := getattr(self, name)) is not None:
                require_length("the settings of the engine", name, length_s, 0.0, WAIT_MAX_S)


_LENGTHS = tuple(each.name for each in fields(EngineSettings) if each.name.endswith("_s"))
