"""Is what a source reads what it has read before, or another thing of the same name? Plain data, no sources.

A topic that was deleted and recreated has the name of the old one and none of its events. Once it has grown past a
position nothing but its identity tells that the position does not count in it: read on from there, the first events
of the new one would be skipped without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import START_ANEW, StateLostError

Identities = Mapping[str, str]
"""By name what only this one is called, of a topic its id."""


def require_same(source: str, known: Identities, found: Identities, continues: Identities) -> None:
    """Raise `StateLostError` for a name that is another one's now, unless `continues` says that it goes on with it.

    Of a name of which nothing is told nothing is known: the system of before, or of now, may not tell.
    """
    for name, identity in found.items():
        before = known.get(name, identity)
        if identity != before and continues.get(name) != identity:
            raise StateLostError(
                f"{name!r} of source {source!r} is not the one that it has read: that was {before}, and this is "
                f"{identity}. It was deleted and recreated, or it is another cluster's",
                remedy="nothing of the new one is decided: positions count what was in the old one. Let the source "
                "read that one again, if it is still there. Else read the new one from its beginning: "
                f"{START_ANEW}, or, where no state rests on the old events, read it as a source of another name and "
                "retire this one. Only if it is a copy in which the same positions name the same events, as that of "
                f"a linked cluster, say so: continues={{{name!r}: {identity!r}}}.",
            )
