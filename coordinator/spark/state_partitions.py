"""Into how many partitions Spark has cut a query's state, which it decides at the first start and keeps for good.

It is in the second line of every `offsets/N`, and whatever a session says later is passed over. Spark 4.3 can cut
the state anew offline, by a batch of its own; no epoch of an intent log is that batch, so that it is not used here.
"""

from __future__ import annotations

import json
import logging

from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import START_ANEW, ConfigurationError

logger = logging.getLogger(__name__)

SETTING = "spark.sql.shuffle.partitions"


def state_partitions(spark: SparkLog) -> int | None:
    """The number in the newest plan; None where there is none or it does not say."""
    for batch in reversed(spark.batches("offsets")):
        lines = (spark.read("offsets", batch) or "").split("\n")
        try:
            return int(json.loads(lines[1])["conf"][SETTING])
        except (IndexError, ValueError, KeyError, TypeError):
            continue
    return None


def tell_passed_over(wanted: str | None, known: int | None) -> None:
    """Say it in the log where somebody has set a number that the state does not have; the query keeps its own."""
    if wanted is None or known is None or not wanted.isdigit() or int(wanted) == known:
        return
    logger.warning(
        "the state is cut into %d partitions, and %s=%s is passed over: Spark keeps the number of the first start. For "
        "another number %s; its state begins empty",
        known,
        SETTING,
        wanted,
        START_ANEW,
    )


def refuse_other_partitions(wanted: int, known: int | None) -> None:
    """Raises `ConfigurationError` where the state would have to be cut again."""
    if wanted == known:
        return
    raise ConfigurationError(
        f"the state is cut into {known or 'an unknown number of'} partitions and cannot be cut into {wanted}: Spark "
        "keeps the number of the first start. Before 4.3 it cannot change it at all, and since then only by a batch of "
        "its own, which the intent log knows nothing of",
        remedy=f"restore without --state-partitions ({SETTING} of the session is passed over); for another number "
        f"{START_ANEW}; its state begins empty.",
    )
