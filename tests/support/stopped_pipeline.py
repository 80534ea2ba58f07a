"""The log of a pipeline that has read Kafka topics and was stopped, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.core.builders import complete, generation_body, intent, manifest
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.json import canonical
from tpc.records import RecordKind


def stopped(checkpoint: Path, *ends: Mapping[str, Mapping[str, int]]) -> Journal:
    """A pipeline that has read to `ends`, one after the other, each epoch complete."""
    journal = Journal(LocalLog(checkpoint / LOG_FOLDER))
    journal.append(RecordKind.GENERATION, generation_body(1))
    for epoch, end in enumerate(ends):
        made = manifest(epoch)
        text = canonical(dict(end)).decode()
        journal.append(*intent(replace(made, epoch_input=replace(made.epoch_input, end=(text,)))))
        journal.append(*complete(epoch))
    return journal
