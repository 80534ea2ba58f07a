"""What Arrow raises because of the values it was given: the same values are refused again, at any time.

Its errors have one base, and one of them is no matter of values: `ArrowMemoryError`, for memory that the machine does
not have at the moment. Where that was taken for a refusal, a row would be refused, or kept apart, because of other
programs.
"""

from __future__ import annotations

import pyarrow as pa

ARROW_REFUSALS = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowNotImplementedError,
    pa.ArrowSerializationError,
    pa.lib.ArrowCapacityError,
)
