"""The kind of a digest of rows says what computed it: only digests of one kind can be compared.

Each manifest holds the kind of its digests. A manifest without a kind is of an older version; it counts as comparable.
"""

from __future__ import annotations

from tpc.errors import DigestKindError
from tpc.manifest import Manifest


def comparable(manifest: Manifest, kind: str | None) -> bool:
    """Whether the digests of `manifest` and digests of this kind can be compared."""
    return None in (manifest.digest_kind, kind) or manifest.digest_kind == kind


def not_comparable(manifest: Manifest, kind: str | None, *, lost: str | None) -> DigestKindError:
    """The error for a replay with digests of `kind`; `lost` is a sink with a lost branch that it had to write again."""
    epoch, once = manifest.epoch, "start once with the version of tpc, and of its runtime, that decided the epoch"
    if lost is None:
        way_out = (
            "or, if you know that the program makes the same rows again, go on with the state as it is now: "
            f"`tpc resolve CHECKPOINT --epoch {epoch} --accept-state --reason ...`."
        )
    else:
        way_out = (
            "which finds the rows of the lost branch; or write them by hand and record that: "
            f"`tpc resolve CHECKPOINT --epoch {epoch} --sink {lost} --mark-committed --reason ...`."
        )
    return DigestKindError(
        f"digests of another kind cannot be compared: the epoch was decided with {manifest.digest_kind}, its replay "
        f"makes {kind}; whether its rows differ is unknown",
        pipeline=str(manifest.pipeline),
        epoch=epoch,
        sink=lost,
        remedy=f"{once}, {way_out}",
    )
