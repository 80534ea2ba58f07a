"""Errors of the JVM in the library's words: one line of ours, with Java's pages in its details.

A job that ends without the word of its tasks (a killed `pyspark.daemon`, an executor that is lost) reaches Python as a
raw `Py4JJavaError`. Nobody can act on its class, and its text is ninety lines of Java.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tpc.errors import TransientError

_LONGEST = 300


@contextmanager
def in_our_words() -> Iterator[None]:
    """An error of the JVM leaves as one of the library, and alone: without Java's as its cause."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise in_words(error) from None


def in_words(error: BaseException) -> BaseException:
    """The library's error for an error of the JVM; any other as it is."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return error
    failed: Any = error
    try:
        said, java = str(failed.java_exception.getMessage() or failed.java_exception.toString()), str(error)
    except (Py4JError, OSError):  # the JVM is gone, and its error with it
        said = java = failed.errmsg
    line = next((line.strip() for line in said.splitlines() if line.strip()), "no word of it")
    return TransientError(f"Spark could not run the epoch's job: {line[:_LONGEST]}", java=java)


def raise_alone(error: BaseException) -> NoReturn:
    """Raise it in the library's words, without the error of Spark that has carried it here; its own cause stays."""
    error = in_words(error)
    raise error from error.__cause__
