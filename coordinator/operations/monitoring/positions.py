"""Where a pipeline stands, for programs that are no part of it: the sources' positions at the end of an epoch.

Reads the log alone: starts no Spark, asks no sink, changes nothing. What commands print of epochs is in `epochs`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tpc.coordinator.kernel.feeding.source_offsets import kafka_source
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import undamaged
from tpc.coordinator.operations.commands.targets import log_named
from tpc.data_status import annotate_errors, data_status_for_reader
from tpc.errors import ConfigurationError, NoEpochError
from tpc.history import History
from tpc.manifest import Manifest

SourceEnd = Mapping[str, Mapping[int, int]] | str | None
"""Where a source stands: of Kafka topic -> partition -> next offset to read; of another its end offset as Spark writes
it, a JSON text; None where it has no offset yet."""

_NO_OFFSET = "-"


@dataclass(frozen=True)
class Positions:
    """Where the sources of `pipeline` ("name#incarnation") stand at the end of `epoch`, in their order in the query."""

    pipeline: str
    epoch: int
    generation: int
    """The term that decided the epoch."""
    completed_at: float | None
    """Seconds since 1970; None while the epoch is decided and not complete."""
    pending: int | None
    """The epoch that is decided and not complete, if there is one."""
    offsets: tuple[SourceEnd, ...]

    @property
    def kafka(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> next offset to read, of all Kafka sources together.

        Of two sources that read one partition it is the lower: what one of them has not read is not skipped.
        """
        merged: dict[str, dict[int, int]] = {}
        for source in self.offsets:
            if isinstance(source, Mapping):
                for topic, partitions in source.items():
                    known = merged.setdefault(topic, {})
                    known |= {p: min(offset, known.get(p, offset)) for p, offset in partitions.items()}
        return merged


def positions(log: Log | str | os.PathLike[str], *, decided: bool = False) -> Positions:
    """Where a pipeline stands: the end offsets of its last complete epoch, or with `decided` of its last decided one.

    `log` is a `Log`, or what the commands take: a checkpoint directory, the directory or URL of a log
    (`tpc.coordinator.kernel.log.places`), or a `module:function`, which loads the job and with it Spark.

    Raises `NoEpochError` while there is no such epoch, `ConfigurationError` where no log is or for one that was moved
    away, `CorruptionError` for a damaged log, also when only its last record is, and `TransientError` when the place
    does not answer.
    """
    with annotate_errors(data_status_for_reader):
        place = log if isinstance(log, Log) else log_named(os.fspath(log))[0]
        history = undamaged(Journal(place))
        if history.pipeline is None:
            raise ConfigurationError(f"no intent log in {place.describe()}", remedy="give the log of a pipeline.")
        manifest = _manifest(history, decided=decided)
    pending = history.pending
    return Positions(
        pipeline=str(history.pipeline),
        epoch=manifest.epoch,
        generation=manifest.generation,
        completed_at=history.completed.get(manifest.epoch, {}).get("completed_at"),
        pending=None if pending is None else pending.epoch,
        offsets=tuple(_source_end(text) for text in manifest.epoch_input.end),
    )


def _manifest(history: History, *, decided: bool) -> Manifest:
    epoch = history.last_intent if decided else history.last_complete
    if epoch is None:
        raise _no_epoch(history)
    if epoch not in history.manifests:
        raise ConfigurationError(
            f"the log no longer holds epoch {epoch}, its last one: it was pruned",
            epoch=epoch,
            remedy="ask again when the pipeline has completed another epoch.",
        )
    return history.manifests[epoch]


def _no_epoch(history: History) -> NoEpochError:
    what = "no epoch is decided yet"
    remedy = "ask again later. Nothing of the sources was processed: it begins where the pipeline begins."
    if history.pending is not None:
        what = "no epoch is complete yet, and one is decided"
        remedy = "ask again later, or let `tpc recover` finish it first."
    return NoEpochError(what, pipeline=str(history.pipeline), epoch=history.last_intent, remedy=remedy)


def _source_end(text: str) -> SourceEnd:
    if text == _NO_OFFSET:
        return None
    kafka = kafka_source(text)
    return text if kafka is None else kafka
