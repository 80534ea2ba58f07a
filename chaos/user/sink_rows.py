"""What each sink of a pipeline shows, read by what its description says and not through the sink itself.

The rows come as dicts. A sink that the user has written, or one whose target the description does not tell, needs a
reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers import files_content, kafka_content, mongo_content, postgres_content
from tpc.chaos.user.target import Row
from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import Handle
from tpc.settings import resolve
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink

if TYPE_CHECKING:
    from tpc.chaos.checkers.kafka_content import KafkaRecord

GUARD_FIELD = "_tpc"
"""The guard that MongoDB documents may carry."""


def unreadable(sink: Sink) -> str | None:
    """Why the rows of a sink cannot be read from its description alone; None if they can."""
    if isinstance(sink, KafkaSink):
        if sink.topic is None:
            return "its rows name their topics themselves"
        return "its cluster asks for client settings" if sink.connection.client else None
    if isinstance(sink, PostgresSink | MongoSink | FileSink):
        return None
    return f"it is a sink of kind {sink.kind!r}"


def read_rows(sink: Sink, columns: Sequence[str]) -> Iterable[Row]:
    """Every row that readers of the sink's target see now. `columns` are those that will be compared.

    Raises what the system's own client raises.
    """
    if isinstance(sink, KafkaSink):
        assert sink.topic is not None
        return [_message(record) for record in kafka_content.read_topic(resolve(sink.connection.servers), sink.topic)]
    if isinstance(sink, PostgresSink):
        return _table(sink, columns)
    if isinstance(sink, MongoSink):
        documents = mongo_content.documents(resolve(sink.uri), sink.database_name(), sink.collection)
        return [_document(document, sink.key if sink.merge is not None else ()) for document in documents]
    assert isinstance(sink, FileSink)
    return [row for path in _files(sink) for row in _READ_FILE[sink.format](path)]


def _message(record: KafkaRecord) -> dict[str, Any]:
    """The fields of a JSON object, else the text as `value`; the message's key as `key` unless the object has one."""
    key = None if record.key is None else record.key.decode(errors="replace")
    text = None if record.value is None else record.value.decode(errors="replace")
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    return {"key": key, **value} if isinstance(value, dict) else {"key": key, "value": text}


def _table(sink: PostgresSink, columns: Sequence[str]) -> list[dict[str, Any]]:
    table = ".".join(map(_quoted, filter(None, (sink.schema, sink.table))))
    dsn = resolve(sink.dsn)
    if not columns:
        return [row for (row,) in postgres_content.query(dsn, f"SELECT to_jsonb(t) FROM {table} AS t")]
    wanted = ", ".join(map(_quoted, columns))
    rows = postgres_content.query(dsn, f"SELECT {wanted} FROM {table}")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _document(document: Mapping[str, Any], key: Sequence[str]) -> dict[str, Any]:
    """A document's fields; the `_id` of a merged one under the names of its key columns too."""
    fields = {name: value for name, value in document.items() if name != GUARD_FIELD}
    if len(key) == 1:
        fields[key[0]] = document["_id"]
    elif key:
        fields.update(document["_id"])
    return fields


def _files(sink: FileSink) -> list[Path]:
    """The published files that are of this sink: its directory may be another's too."""
    return [path for path in files_content.published(Path(sink.path)) if _sink_of(path) == sink.name]


def _sink_of(path: Path) -> str | None:
    try:
        return Handle.parse(path.name.rpartition(".")[0]).sink
    except CorruptionError:
        return None


def _parquet(path: Path) -> Iterable[Row]:
    from pyarrow import parquet

    rows: list[Row] = parquet.read_table(path, partitioning=None).to_pylist()
    return rows


def _json_lines(path: Path) -> Iterable[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _csv(path: Path) -> Iterable[Row]:
    from pyarrow import csv

    rows: list[Row] = csv.read_csv(path).to_pylist()
    return rows


_READ_FILE: Mapping[str, Callable[[Path], Iterable[Row]]] = {"parquet": _parquet, "json": _json_lines, "csv": _csv}


# Rows of different systems made comparable: one value, one form, whoever stored it.
#
# A timestamp is the same instant as text of ISO 8601 and as an object; a decimal is a number; a missing field is None;
# an array is a list, and a set the sorted list of its members.

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)")


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Every column that one of the rows has, in the order in which they come up; the first is the key of the others."""
    return list(dict.fromkeys(column for row in rows for column in row))


def comparable(rows: Iterable[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Those columns of the rows as tuples that can be counted; without columns whole rows, as one text each.

    Raises `ConfigurationError` for a value that has no form here.
    """
    if not columns:
        return [(_text_of(dict(row)),) for row in rows]
    return [tuple(_value(row.get(column)) for column in columns) for row in rows]


def _value(value: Any) -> Any:
    form = next((form(value) for kinds, form in _FORMS if isinstance(value, kinds)), value)
    try:
        hash(form)
    except TypeError:
        return _text_of(value)
    return form


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, sort_keys=True)
    except (TypeError, ValueError) as error:  # keys that have no order, a value within itself
        raise _no_form(value) from error


def _plain(value: Any) -> Any:
    """What JSON has in the place of a value that it does not know, within another one too."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=_text_of)
    if callable(getattr(value, "tolist", None)):  # of `array`, NumPy and Arrow alike
        return value.tolist()
    try:
        hash(value)
    except TypeError:
        raise _no_form(value) from None  # a text of it might differ where the value does not
    return str(value)


def _no_form(value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"a value of type {type(value).__name__} cannot be compared",
        remedy="give a number, a text, a time, bytes, or lists, sets and dicts (with texts for keys) of those.",
    )


def _text(text: str) -> str:
    if not _INSTANT.fullmatch(text):
        return text
    try:
        return _instant(datetime.fromisoformat(_padded(text)))
    except ValueError:
        return text


def _padded(text: str) -> str:
    """As Python 3.10 reads it: an offset with a colon, six digits after the point."""
    text = re.sub(r"Z$", "+00:00", text)
    text = re.sub(r"([+-]\d\d)(\d\d)?$", lambda match: f"{match[1]}:{match[2] or '00'}", text)
    return re.sub(r"\.(\d+)", lambda match: f".{match[1][:6]:0<6}", text)


def _instant(moment: datetime) -> str:
    """A time without a zone is taken for UTC, as MongoDB's driver and a UTC session give it."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).isoformat()


def _number(value: Decimal) -> Any:
    """As JSON has it: an integer or a float where that is exact."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else value


_FORMS: Sequence[tuple[tuple[type, ...], Callable[[Any], Any]]] = (
    ((datetime,), _instant),  # before `date`, which it is too
    ((date,), date.isoformat),
    ((str,), _text),
    ((Decimal,), _number),
    ((dict, list, tuple, set, frozenset), _text_of),
    ((bytes, bytearray, memoryview), bytes),
)
