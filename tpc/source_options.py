"""Which options of a source say what it reads, and which say how: three classes, by an allow-list. Plain data.

*Identity*: with another value the source reads other rows, or its positions mean something else. *Parsing*: the same
bytes become other rows. *Limits and connection*: never compared and never stored. An option that is in no list is
compared by its hash, as identity. Nothing is stored of an option whose name suggests a secret.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

KAFKA = "kafka"
FILES = "files"
TABLE = "tpc-postgres"
"""The format under which the source of `sinks.postgres.source` is registered."""

_FILE_LIMITS = """
    maxfilespertrigger maxbytespertrigger maxfileage maxcachedfiles discardcachedinputratio latestfirst cleansource
    sourcearchivedir ignoremissingfiles spark.sql.streaming.filesource.log.compactinterval
"""
_KAFKA_LIMITS = """
    startingoffsets startingoffsetsbytimestamp startingtimestamp startingoffsetsbytimestampstrategy endingoffsets
    endingoffsetsbytimestamp endingtimestamp failondataloss kafkaconsumer.polltimeoutms fetchoffset.numretries
    fetchoffset.retryintervalms maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay minpartitions
    maxrecordsperpartition groupidprefix
"""
_TABLE_LIMITS = "dsn dsnvariable dsnfile start rowsperepoch partitions timeout tellheldafter upgradedfrom"
_FILE_PARSING = """
    allowbackslashescapinganycharacter allowcomments allownonnumericnumbers allownumericleadingzeros
    allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames attributeprefix charset
    chartoescapequoteescaping columnnameofcorruptrecord comment compression dateformat datetimerebasemode
    delimiter dropfieldifallnull emptyvalue enabledatetimeparsingfallback encoding enforceschema escape
    excludeattribute format header ignorecorruptfiles ignoreleadingwhitespace ignorenamespace
    ignoresurroundingspaces ignoretrailingwhitespace inferschema int96rebasemode lineseparator linesep locale
    maxcharspercolumn maxcolumns mergeschema mode multiline nanvalue negativeinf nullvalue positiveinf
    preferdate prefersdecimal primitivesasstring quote rowtag rowvalidationxsdpath samplingratio schema sep
    singlevariantcolumn timestampformat timestampntzformat timezone unescapedquotehandling validatename valuetag
    wholetext avroschema
"""
_IDENTITY: Mapping[str, frozenset[str]] = {
    FILES: frozenset(
        {"pathglobfilter", "recursivefilelookup", "filenameonly", "basepath", "modifiedafter", "modifiedbefore"}
    ),
}
_PARSING: Mapping[str, frozenset[str]] = {
    KAFKA: frozenset({"includeheaders", "kafka.isolation.level"}),
    FILES: frozenset(_FILE_PARSING.split()),
    TABLE: frozenset({"columns", "xid"}),
    "rate": frozenset({"rowspersecond", "rampuptime"}),
    "rate-micro-batch": frozenset({"rowsperbatch", "starttimestamp", "advancemillisperbatch"}),
}
_NEVER: Mapping[str, frozenset[str]] = {
    KAFKA: frozenset(_KAFKA_LIMITS.split()),
    FILES: frozenset(_FILE_LIMITS.split()),
    TABLE: frozenset(_TABLE_LIMITS.split()),
    "rate": frozenset({"numpartitions"}),
    "rate-micro-batch": frozenset({"numpartitions"}),
    "socket": frozenset({"includetimestamp"}),
}
_PLACE: Mapping[str, frozenset[str]] = {
    KAFKA: frozenset({"subscribe", "subscribepattern", "assign"}),
    TABLE: frozenset({"table"}),
}
"""The options that name the place; of other kinds it is `path`."""
_MAY_BE_SECRET = re.compile(
    r"secret|passw|pwd|token|credential|jaas|key|auth|login|user|account|dsn|uri|url|cert|sign", re.IGNORECASE
)
_LONGEST = 200


@dataclass(frozen=True)
class ComparedOptions:
    """The options of a source that are compared, by their names in lower case."""

    identity: Mapping[str, str]
    parsing: Mapping[str, str]


def compared_options(kind: str, options: Mapping[str, str]) -> ComparedOptions:
    """What is recorded of the `options` of a source of this kind, besides its place."""
    identity, parsing = dict[str, str](), dict[str, str]()
    for given, value in options.items():
        name = given.lower()
        if name in _PLACE.get(kind, frozenset({"path"})) or name in _NEVER.get(kind, ()):
            continue
        if name in _PARSING.get(kind, ()):
            parsing[name] = shortened(value)
        elif name in _IDENTITY.get(kind, ()):
            identity[name] = shortened(value)
        elif kind == KAFKA and name.startswith("kafka."):
            continue  # a client's setting: the connection, a limit, or a secret
        elif not _MAY_BE_SECRET.search(name):
            identity[name] = hashed(value)
    return ComparedOptions(identity, parsing)


def shortened(value: str) -> str:
    """A compared value as it is shown to people; a long one as its hash."""
    return value if len(value) <= _LONGEST else hashed(value)


def hashed(value: str) -> str:
    """What is stored of a value that is long or must not be shown."""
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:32]}"
