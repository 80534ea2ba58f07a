"""The pipelines that faults are tried on, each with those who watch it and judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.chaos.matrix.judging import Judge, Readers
from tpc.chaos.matrix.pipeline import SERVICE, SPARK, PipelineUnderTest
from tpc.chaos.matrix.service_judging import ServiceJudge, ServiceReaders
from tpc.chaos.matrix.service_pipeline import ServicePipeline
from tpc.chaos.matrix.spark_pipeline import SparkPipeline


@dataclass(frozen=True)
class Kind:
    """One kind of pipeline."""

    pipeline: type[PipelineUnderTest]
    readers: type[Readers]
    judge: type[Judge]
    processes: str
    """What its drivers run in, for the record."""


KINDS: Mapping[str, Kind] = {
    SPARK: Kind(SparkPipeline, Readers, Judge, "shared session"),
    SERVICE: Kind(ServicePipeline, ServiceReaders, ServiceJudge, "a plain process"),
}
