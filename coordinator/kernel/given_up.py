"""What it means that an operator gives up a state's part of an epoch: more than the rows of a sink."""

from __future__ import annotations

from tpc.manifest import Manifest

_STATE = "state"
"""The kind of the participants that a service goes on from, in manifests."""


def cost_of_giving_up(manifest: Manifest, participant: str) -> str:
    """What later epochs lack when what this participant lost of `manifest` is given up; empty for one that is no state.

    A sentence without its full stop.
    """
    if manifest.sinks[participant].kind != _STATE:
        return ""
    return (
        f"{participant} is a state: it goes on as it was before epoch {manifest.epoch}, and what later epochs compute "
        "from it lacks what that one changed"
    )
