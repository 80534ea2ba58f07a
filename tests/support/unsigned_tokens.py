"""Tokens of OAUTHBEARER that nobody has signed: a test's broker takes them. The sink calls them by name."""

from __future__ import annotations

import base64
import json
import time

LIFE_S = 600.0


def token(principal: str) -> tuple[str, float]:
    """What logs `principal` in, and when it ends."""
    return _signed_by_nobody(principal, LIFE_S)


def ended_token(principal: str) -> tuple[str, float]:
    """One that the broker must refuse; librdkafka takes only such as have not ended."""
    return _signed_by_nobody(principal, -LIFE_S)[0], time.time() + LIFE_S


def no_token(principal: str) -> tuple[str, float]:
    """As when whoever gives tokens is away."""
    raise OSError(f"nobody gives a token to {principal}")


def _signed_by_nobody(principal: str, life_s: float) -> tuple[str, float]:
    now_s = time.time()
    claims = {"sub": principal, "iat": min(now_s, now_s + life_s) - 1, "exp": now_s + life_s}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
    return f"{encoded[0]}.{encoded[1]}.", now_s + life_s
