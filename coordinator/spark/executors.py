"""Asks the executors of a cluster, before the first epoch, for what the sinks' writers need there.

One small Spark job: Python, this library and the sinks' packages, the settings that are kept in the environment or in
files of each machine, and that a shared directory is the same one. Executors that come later are asked by their first
task (`passes.worker_needs`). Where driver and tasks are one machine (`local[...]`) nobody is asked.
"""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark import executor_probe
from tpc.coordinator.spark.executor_needs import (
    Answer,
    Needs,
    lacks,
    needs_of,
    question_of,
    refusal,
    tell_other_versions,
    unseen,
    version_here,
)
from tpc.coordinator.spark.parallelism import registered_executors, wait_for_executors
from tpc.errors import ConfigurationError, TransientError
from tpc.handles import PipelineId

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tpc.sink import Sink

logger = logging.getLogger(__name__)

ANSWER_WITHIN_S = 120.0
PAUSES_S = (0.0, 0.5, 2.0)
"""How long each task of a round takes: a task goes to another executor while one is busy."""
_TASKS_EACH = 4
"""How many tasks a round has for each executor: some of them have several cores."""
_FOLDER = "_tpc-executors-"
_SAID_MAX = 600


def ask_executors(
    session: SparkSession, sinks: Mapping[str, Sink], pipeline: PipelineId, is_answer_required: bool
) -> None:
    """Raise `ConfigurationError` naming all that is missing, and where.

    `sinks` are those whose writers run on executors, by name. Where too few answer in time, and an answer is required,
    raises `TransientError`; else a warning says so, and what they lack is met in an epoch.
    """
    context = session.sparkContext
    if context._jsc.sc().isLocal():
        return
    needs = needs_of(sinks)
    with _places(needs.directories) as places:
        answers = _answers(context, needs, places, pipeline, is_answer_required)
        missing = [line for answer in answers.values() for line in lacks(answer, needs, version_here("tpc"))]
        missing += [line for answer in answers.values() for line in unseen(answer, places)]
    if missing:
        raise refusal(missing, str(pipeline))
    tell_other_versions(answers.values())


# The question ------------------------------------------------------------------------------------------------------


@contextmanager
def _places(directories: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Path]]:
    """A folder with the driver's question in each directory, or in what is there of the path to it.

    The directory itself is never made here. What cannot be written is for the sink's own check.
    """
    places: dict[str, Path] = {}
    try:
        for directory in directories:
            there = next(path for path in (Path(directory), *Path(directory).parents) if path.is_dir())
            place = there / f"{_FOLDER}{uuid.uuid4().hex}"
            try:
                place.mkdir()
                (place / executor_probe.QUESTION).write_text(place.name, encoding="utf-8")
            except OSError:
                continue
            places[directory] = place
        yield places
    finally:
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)


def _answers(
    context: SparkContext, needs: Needs, places: Mapping[str, Path], pipeline: PipelineId, is_answer_required: bool
) -> dict[str, Answer]:
    """What each executor says, by executor; asked again, longer, until all that are there have been met."""
    wait_for_executors(context)
    question = {**_sendable(needs), "places": {directory: str(place) for directory, place in places.items()}}
    answers: dict[str, Answer] = {}
    for pause_s in PAUSES_S:
        tasks = max(1, _TASKS_EACH * registered_executors(context))
        try:
            found = _run(context, {**question, "pause_s": pause_s}, tasks, pipeline)
        except TransientError as error:
            if is_answer_required:
                raise
            logger.warning("%s: they have not been asked for what the sinks need", error.what)
            return answers
        answers.update((str(one["executor"]), one) for one in found)
        if len(answers) >= registered_executors(context):
            return answers
    what = f"{registered_executors(context) - len(answers)} executors were busy, and did not say whether they have "
    what += "what the sinks need"
    if is_answer_required:
        raise TransientError(what, pipeline=str(pipeline), remedy="ask again when its other jobs have ended.")
    logger.warning("%s", what)
    return answers


def _sendable(needs: Needs) -> dict[str, Any]:
    """Each setting is pickled by itself: an executor may lack its class. Classes of the user's script go by value."""
    from pyspark import cloudpickle

    question = question_of(needs)
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    settings = {name: dumps(setting) for name, setting in question["settings"].items()}
    return {**question, "settings": settings}


def _run(context: SparkContext, question: Mapping[str, Any], tasks: int, pipeline: PipelineId) -> list[Answer]:
    from py4j.protocol import Py4JJavaError
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException

    answer = executor_probe.answer  # sent by its source; the module would be looked for where it is not

    def ask(numbers: Any) -> Any:
        return [answer(question, number) for number in numbers]

    tag = f"tpc-executors-{uuid.uuid4().hex}"
    timer = threading.Timer(ANSWER_WITHIN_S, context.cancelJobsWithTag, [tag])
    timer.daemon = True
    # It stays registered: another start of this process may be asking too.
    cloudpickle.register_pickle_by_value(executor_probe)  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
    context.addJobTag(tag)
    timer.start()
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(ask).collect()
    except (Py4JJavaError, PySparkException) as error:
        if not timer.is_alive():
            raise TransientError(
                f"the executors have not all answered within {ANSWER_WITHIN_S:g} s",
                pipeline=str(pipeline),
                remedy="see whether the cluster has free cores and memory for this application.",
            ) from error
        raise ConfigurationError(
            f"the executors cannot run Python tasks of this driver: {_said(error)}",
            pipeline=str(pipeline),
            remedy="set PYSPARK_PYTHON in the driver's environment to an interpreter that every machine has, of the"
            " driver's version, with tpc and the sinks' packages.",
        ) from error
    finally:
        timer.cancel()
        context.removeJobTag(tag)


def _said(error: Exception) -> str:
    """The lines that tell what was wrong, without the frames."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if "Error" in line or "Exception" in line or "Lost task" in line]
    return " ".join(dict.fromkeys(told or lines))[:_SAID_MAX]
