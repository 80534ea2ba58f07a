"""What an epoch writes to a state's changelog: what it has changed; where a changelog begins, all that there is.

The rows carry what the state holds with them, as the number of its keys and a sum of hashes: what is made of a
changelog is compared with that, so that nothing that is missing in it goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING

from tpc.changelog import Content, Row, with_position
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.json import JSONObject

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.state.contents import Contents

_AT_ONCE = 10_000
_HASH_BYTES = 16
_MODULUS = 2 ** (8 * _HASH_BYTES)


def changelog_rows(
    contents: Contents, cut: Mapping[bytes, Change], position: JSONObject | None
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of an epoch that has changed `cut` of `contents`; `position` is where the changelog stands before it."""
    if position is None:
        kept = (entry for entry in contents.entries() if entry.key not in cut)
        yield from _everything(
            change for source in (kept, cut.values()) for change in source if change.value is not None
        )
    elif cut:
        content = Content.of_position(position)
        for key, change in cut.items():
            content = changed(content, contents.get(key), change)
        yield to_batch(cut.values(), metadata=with_position(position, content))


def _everything(entries: Iterator[Change]) -> Iterator[pyarrow.RecordBatch]:
    content = Content()
    while batch := list(islice(entries, _AT_ONCE)):
        for entry in batch:
            content = changed(content, None, entry)
        yield to_batch(batch, metadata=with_position(None, content))


def changed(content: Content, before: Change | Row | None, after: Change | Row) -> Content:
    """What is held once a key that was as `before` is as `after`."""
    keys, digest = content
    for entry, sign in ((before, -1), (after, 1)):
        if entry is not None and entry.value is not None:
            keys, digest = keys + sign, digest + sign * _hash(entry)
    return Content(keys, digest % _MODULUS)


def content_of(entries: Iterable[Change | Row]) -> Content:
    """What these entries are together."""
    keys = digest = 0
    for entry in entries:
        keys, digest = keys + 1, digest + _hash(entry)
    return Content(keys, digest % _MODULUS)


def _hash(entry: Change | Row) -> int:
    lengths = f"{len(entry.key)} {len(entry.value or b'')} {entry.expires_ms} ".encode()
    hashed = blake2b(lengths + entry.key + (entry.value or b""), digest_size=_HASH_BYTES)
    return int.from_bytes(hashed.digest(), "big")
