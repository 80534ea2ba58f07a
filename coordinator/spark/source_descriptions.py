"""What the streaming relations of a plan read, as it goes on record: kind, place, and the options that are compared.

Reads Spark's logical plan through py4j, before the query starts. Spark matches a source with its position by the order
of these relations, from the top of the plan down and from left to right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.plan_checks import plan_nodes
from tpc.json import canonical
from tpc.source_options import FILES, KAFKA, TABLE, compared_options
from tpc.source_records import SourceRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RELATIONS = "Streaming"
"""What the names of the nodes begin with that stand for a source."""


def relations(frame: DataFrame) -> list[Any]:
    """The nodes of a streaming DataFrame's plan that stand for a source, in Spark's order."""
    nodes = plan_nodes(frame._jdf.queryExecution().analyzed())
    return [node for node in nodes if node.getClass().getSimpleName().startswith(_RELATIONS)]


def readers(nodes: Sequence[Any]) -> tuple[int, ...]:
    """For each relation the number of its reader: Spark makes one of equal relations (one DataFrame read twice)."""
    distinct: list[Any] = []
    numbers = []
    for node in nodes:
        number = next((number for number, one in enumerate(distinct) if one.equals(node)), len(distinct))
        if number == len(distinct):
            distinct.append(node)
        numbers.append(number)
    return tuple(numbers)


def described(node: Any, session: SparkSession, reader: int) -> SourceRecord:
    """What goes on record of a relation."""
    if node.getClass().getSimpleName() == "StreamingRelation":
        kind, place, options = _of_data_source(node, session)
    else:
        kind, options = str(node.sourceName()), options_of(node)
        place = _place(kind, options, node)
    compared = compared_options(kind, options)
    return SourceRecord(kind, place, compared.identity, compared.parsing, reader=reader)


def options_of(node: Any) -> dict[str, str]:
    """The options of a relation of Spark's newer kind, with their names in lower case."""
    entries = node.extraOptions().asCaseSensitiveMap()
    return {str(name).lower(): str(entries[name]) for name in entries}


def _of_data_source(node: Any, session: SparkSession) -> tuple[str, str, dict[str, str]]:
    """Of files, and of sources that Spark knows by its older interface (Delta's)."""
    source = node.dataSource()
    of_spark = source.options()
    names = of_spark.keysIterator()
    options = dict[str, str]()
    while names.hasNext():
        name = names.next()
        options[str(name).lower()] = str(of_spark.apply(name))
    more = source.paths()
    paths = [options.get("path", ""), *(str(more.apply(n)) for n in range(more.size()))]
    place = ", ".join(sorted({_qualified(path, session) for path in paths if path}))
    if not str(node.sourceName()).startswith("FileSource["):
        return str(source.className()), place, options
    schema = source.userSpecifiedSchema()
    text = str(schema.get().toDDL()) if schema.isDefined() else str(node.schema().toDDL())
    return FILES, place, {**options, "format": str(source.className()).lower(), "schema": text}


def _qualified(path: str, session: SparkSession) -> str:
    """A path or glob with its file system, as Spark finds it: `data/*` and `file:/home/me/data/*` may be one."""
    java: Any = session.sparkContext._jvm
    hadoop = java.org.apache.hadoop.fs.Path(path)
    files = hadoop.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return str(files.makeQualified(hadoop).toString())


def _place(kind: str, options: Mapping[str, str], node: Any) -> str:
    if kind == KAFKA:
        return kafka_place(options)
    if kind == TABLE:
        schema, table, _ = json.loads(options["table"])
        return f"{schema}.{table}"
    identifier = node.identifier()
    if identifier.isDefined():
        catalog = node.catalog()
        named = f"{catalog.get().name()}." if catalog.isDefined() else ""
        return f"{named}{identifier.get()}"
    return options.get("path", "")


def kafka_place(options: Mapping[str, str]) -> str:
    """The topics of a source of Kafka, or the pattern of their names; the same however a program orders them."""
    if "subscribe" in options:
        return f"topics {', '.join(topics_named(options))}"
    if "assign" in options:
        partitions = {topic: sorted(numbers) for topic, numbers in json.loads(options["assign"]).items()}
        return f"partitions {canonical(partitions).decode()}"
    return f"pattern {options.get('subscribepattern', '')}"


def topics_named(options: Mapping[str, str]) -> list[str]:
    """The topics that a source of Kafka names; none where it has a pattern."""
    if "assign" in options:
        return sorted(json.loads(options["assign"]))
    return sorted({topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()})
