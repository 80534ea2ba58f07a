"""Errors of the JVM in the library's words: one line of ours, with Java's pages in its details.

A job that ends without the word of its tasks (a killed `pyspark.daemon`, an executor that is lost) reaches Python as a
raw `Py4JJavaError`. Nobody can act on its class, and its text is ninety lines of Java. A JVM that is killed is a
`Py4JError`, or a refused connection, which names neither Spark nor what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tpc import errors
from tpc.coordinator.spark.executor_needs import REMEDY
from tpc.errors import START_ANEW, ConfigurationError, TpcError, TransientError

_LONGEST = 300
_OURS = re.compile(r"^tpc\.errors\.(\w+): (.+)$", re.MULTILINE)
"""What Python writes last of an error that a data source of ours has raised in a process of Spark's."""
_NO_MODULE = re.compile(r"^ModuleNotFoundError: [^\n]+(?=\s*(?:SQLSTATE: \S+\s*)?\n\s+at )", re.MULTILINE)
_UNPICKLING = re.compile(
    r'pyspark/serializers\.py", line \d+, in loads$'
    r'|Traceback \(most recent call last\):\n\s*File "[^\n]+, in <module>$',
    re.MULTILINE,
)
"""Where the module was looked for by unpickling, and not by a function of the user's. Spark leaves its own first frames
out where others follow: what comes first then is the module that wants the other."""
_NO_PYTHON = re.compile(
    r'\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program "[^"\n]*"[^\n]*error=(?:2|13),[^\n]*'  # ENOENT, EACCES
)
_FROM_JAVA = "Trace:"
"""In a `Py4JError` that the JVM has answered with: a method that it does not have, say."""
_LOST_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((?P<host>\S+) executor (?P<executor>[^)]+)\)")


_OTHER_SCHEMA = re.compile(
    r"\[STATE_STORE_((KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|INVALID_(KEY|VALUE)_SCHEMA_EVOLUTION)\b[^\n]*"
)


@contextmanager
def translated_errors() -> Iterator[None]:
    """An error of the JVM leaves as one of the library, and alone: without Java's as its cause.

    For calls of Spark alone: a connection that is lost in them is the one to the JVM.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PythonException

    try:
        yield
    except ConnectionError as error:
        raise _gone(error.strerror or str(error)) from None
    except (Py4JError, PythonException) as error:
        if (told := in_words(error)) is error:
            raise
        raise told from None


def in_words(error: BaseException) -> BaseException:
    """The library's error for an error of the JVM, or for one of ours that it has carried; any other as it is."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PythonException, StreamingQueryException

    if isinstance(error, StreamingQueryException):
        return _carried(str(error)) or _other_schema(str(error)) or _not_waited_for(str(error)) or error
    if isinstance(error, PythonException):  # it has Java's pages in its text only where a setting says so
        return _not_loaded(getattr(error, "_stackTrace", "")) or error
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and _FROM_JAVA not in str(error):
        return _gone(str(error))
    if not isinstance(error, Py4JJavaError):
        return error
    failed: Any = error
    try:
        said, java = str(failed.java_exception.getMessage() or failed.java_exception.toString()), str(error)
    except (Py4JError, OSError):  # the JVM is gone, and its error with it
        said = java = failed.errmsg
    if (without := _not_loaded(java)) is not None:
        return without
    line = next((line.strip() for line in said.splitlines() if line.strip()), "no word of it")
    return TransientError(f"Spark could not run the epoch's job: {line[:_LONGEST]}", java=java)


def _gone(said: str) -> TransientError:
    return TransientError(
        f"Spark's JVM has ended or cannot be reached: {said}",
        remedy="restart the pipeline (a supervisor does it): the log says the outcome of the epoch, and the start "
        "finishes or repeats it.",
    )


def _not_loaded(java: str) -> TpcError | None:
    """A task that did not come to its first line: it is this library or the sink that could not be loaded there."""
    told = _NO_PYTHON.search(java) or (_NO_MODULE.search(java) if _UNPICKLING.search(java) else None)
    if told is None:
        return None
    where = _LOST_TASK.search(java)
    place = "an executor" if where is None else f"executor {where['executor']} on {where['host']}"
    return ConfigurationError(
        f"executors lack what the sinks need: {place} cannot run the epoch's tasks: {told[0].strip()[:_LONGEST]}",
        remedy=REMEDY,
        java=java,
    )


def _carried(text: str) -> TpcError | None:
    """The error of a source in the text of a query's: Spark has kept its words alone."""
    told = _OURS.search(text)
    kind = None if told is None else getattr(errors, told[1], None)
    if told is None or not (isinstance(kind, type) and issubclass(kind, TpcError)):
        return None
    what, _, remedy = told[2].partition(" To do: ")
    return kind(what.strip().removesuffix("."), remedy=remedy.strip() or None)


def _other_schema(text: str) -> TpcError | None:
    refused = _OTHER_SCHEMA.search(text)
    if refused is None:
        return None
    return ConfigurationError(
        f"the state in the checkpoint has another schema than the program's: {refused[0][:_LONGEST]}",
        remedy="start the program whose schema it has. Columns can be added, left out and widened where the state was "
        f"begun under spark.sql.streaming.stateStore.encodingFormat=avro; otherwise {START_ANEW}.",
    )


def _not_waited_for(text: str) -> TpcError | None:
    if "Python worker failed to connect back" not in text:
        return None
    return TransientError(
        "Spark has given up a Python process, of a source or a task, that had not started within 10 s",
        remedy="restart; if it comes back, the machine is too busy to start a Python process in time.",
    )


def raise_alone(error: BaseException) -> NoReturn:
    """Raise it in the library's words, without the error of Spark that has carried it here; its own cause stays."""
    error = in_words(error)
    raise error from error.__cause__
