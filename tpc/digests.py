"""Of which kind digests of rows are, by what has computed them: only those of one kind can be compared.

The kind is in each manifest; a manifest without one was written before kinds were, and is taken for comparable.
"""

from __future__ import annotations

from tpc.errors import DigestKindError
from tpc.manifest import Manifest


def comparable(manifest: Manifest, kind: str | None) -> bool:
    """Whether the digests of `manifest` and digests of this kind say of rows that they are equal."""
    return None in (manifest.digest_kind, kind) or manifest.digest_kind == kind


def not_comparable(manifest: Manifest, kind: str | None, *, lost: str | None) -> DigestKindError:
    """The error for a replay with digests of `kind`; `lost` is a sink with a branch that it should write again."""
    epoch, once = manifest.epoch, "start once with the version of tpc, and of its runtime, that decided the epoch"
    if lost is None:
        way_out = (
            "or, if what is computed is known to make the same rows again, go on with the state as it is now: "
            f"`tpc resolve CHECKPOINT --epoch {epoch} --accept-state --reason ...`."
        )
    else:
        way_out = (
            "which finds the rows of the lost branch; or write them by hand and record that: "
            f"`tpc resolve CHECKPOINT --epoch {epoch} --sink {lost} --mark-committed --reason ...`."
        )
    return DigestKindError(
        f"digests of another kind cannot be compared: the epoch was decided with {manifest.digest_kind}, its replay "
        f"makes {kind}; that its rows are others is not said by this",
        pipeline=str(manifest.pipeline),
        epoch=epoch,
        sink=lost,
        remedy=f"{once}, {way_out}",
    )
