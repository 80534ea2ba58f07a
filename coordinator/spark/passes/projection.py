"""Projections of any width in a fixed number of calls to the JVM.

PySpark hands a projection over column by column: each column is made by some calls, and each is put into a list by one
more, as each text of `selectExpr` is. A call takes some tenths of a millisecond, so a frame of 2,000 columns took most
of a minute to plan. Here a projection is one text, which the JVM takes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LITERAL = 16
"""`java.util.regex.Pattern.LITERAL`."""
_NAMES_AS_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"


def projected(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """`frame.selectExpr(*expressions)`; names between backticks are names, whatever the session says of them."""
    session = frame.sparkSession
    java: Any = session.sparkContext._jvm
    mark = _mark_between(expressions)
    texts = java.java.util.regex.Pattern.compile(mark, _LITERAL).split(mark.join(expressions))
    with _names_as_they_are(session):
        return type(frame)(frame._jdf.selectExpr(texts), session)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def quoted_path(path: str) -> str:
    """What `select` takes for a column or a field in it (`a.b`), with every part between backticks.

    As Spark reads such a name: points separate, but not between backticks, and there two backticks are one. An
    expression of SQL wants quotes where a name in `select` needs none (`a.b-c`).
    """
    parts, part, is_quoted, at = list[str](), "", False, 0
    while at < len(path):
        if path.startswith("``", at) and is_quoted:
            part, at = part + "`", at + 1
        elif path[at] == "`":
            is_quoted = not is_quoted
        elif path[at] == "." and not is_quoted:
            parts, part = [*parts, part], ""
        else:
            part += path[at]
        at += 1
    return ".".join(quoted(each) for each in [*parts, part])


def _mark_between(expressions: Sequence[str]) -> str:
    """A text that is in none of them."""
    number = 0
    while any(f"\0{number}\0" in each for each in expressions):
        number += 1
    return f"\0{number}\0"


@contextmanager
def _names_as_they_are(session: SparkSession) -> Iterator[None]:
    """A setting of Hive's makes patterns of all names between backticks, while an expression is parsed."""
    if str(session.conf.get(_NAMES_AS_PATTERNS, "false")).lower() != "true":
        yield
        return
    session.conf.set(_NAMES_AS_PATTERNS, "false")
    try:
        yield
    finally:
        session.conf.set(_NAMES_AS_PATTERNS, "true")
