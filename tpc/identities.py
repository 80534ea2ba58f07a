"""Does a source read what it has read before, or something else of the same name? Plain data, no sources.

A topic that was deleted and recreated has the name of the old topic and none of its events. Once it has grown past a
position, only its identity shows that the position is not valid in it. A source that read on from there would silently
skip the first events of the new topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import START_ANEW, StateLostError

Identities = Mapping[str, str]
"""Name -> identity; of a topic its id."""


def require_same(
    source: str, known: Identities, found: Identities, continues: Identities, remedy: str | None = None
) -> None:
    """Raise `StateLostError` for a name whose identity has changed, unless `continues` names the new identity.

    A name with only one of the two identities is accepted: the system may not report identities, now or before.
    `remedy` replaces what holds for a topic.
    """
    for name, identity in found.items():
        before = known.get(name, identity)
        if identity != before and continues.get(name) != identity:
            raise StateLostError(
                f"{name!r} of source {source!r} is not the one that it has read: that was {before}, and this is "
                f"{identity}. It was deleted and recreated, or it is another cluster's",
                remedy=remedy
                or "nothing of the new one is decided: the positions are those of the old one. Let the source "
                "read that one again, if it is still there. Else read the new one from its beginning: "
                f"{START_ANEW}, or, if no state depends on the old events, read it as a source of another name and "
                "retire this one. Only if it is a copy in which the same positions name the same events, as that of "
                f"a linked cluster, accept it: continues={{{name!r}: {identity!r}}}.",
            )
