"""The JSON of records and committables: one canonical form, so that equal values are equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

JSON: TypeAlias = "None | bool | int | float | str | Sequence[JSON] | Mapping[str, JSON]"
JSONObject: TypeAlias = "Mapping[str, Any]"


def canonical(value: JSON | JSONObject) -> bytes:
    """`value` as UTF-8 JSON with sorted keys and no spaces. Raises `ValueError` for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def parse(data: bytes | str) -> Any:
    """The inverse of `canonical`. Raises `ValueError` for anything that is not JSON."""
    return json.loads(data)
