"""A sink's guarantee in words, made of what it declares: for its documentation."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.sink import Limit, Sink

KEPT: Mapping[Limit, str] = {
    Limit.APPEARS_GRADUALLY: "Readers see all rows of a branch or none.",
    Limit.LOSS_IS_UNKNOWN: "A decided branch that is gone is recognised as lost, and its epoch is written again.",
    Limit.MARKERS_EXPIRE: "The newest marker does not expire.",
    Limit.OLD_MARKERS_EXPIRE: "Older markers stay until the epochs after them are complete.",
    Limit.OWNER_NOT_FENCED: "A coordinator on a copied checkpoint is refused.",
    Limit.ORPHANS_NOT_LISTED: "`tpc orphans` lists what pipelines have left behind.",
}
DECLARED: Mapping[Limit, str] = {
    Limit.APPEARS_GRADUALLY: "Readers may see a part of a branch while it is being committed",
    Limit.LOSS_IS_UNKNOWN: "A decided branch that is gone is answered *unknown*, and an operator decides",
    Limit.MARKERS_EXPIRE: "Markers expire, the newest too, so that a missing one proves nothing",
    Limit.OLD_MARKERS_EXPIRE: "Older markers expire, so that a missing one proves nothing about older epochs",
    Limit.OWNER_NOT_FENCED: "Of two coordinators at one moment the later one stays as owner",
    Limit.ORPHANS_NOT_LISTED: "`tpc orphans` passes the sink over",
}


def guarantee(sink: Sink) -> str:
    """One paragraph: what every sink promises, what this one keeps, and what it cannot, with its own reasons."""
    sentences = [
        "A prepared branch is durable and invisible, any process can commit or abort it, "
        "and a commit that is sent again changes nothing."
    ]
    sentences += [text for limit, text in KEPT.items() if limit not in sink.limits]
    sentences += [
        f"{text}: {_sentence(sink.limits[limit])}" for limit, text in DECLARED.items() if limit in sink.limits
    ]
    return " ".join(sentences)


def _sentence(reason: str) -> str:
    reason = reason.strip()
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."
