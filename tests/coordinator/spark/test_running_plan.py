"""Is a text of `offsets/N` the plan that the query runs?"""

from __future__ import annotations

import pytest

from tpc.coordinator.spark.running_plan import RunningPlan

PLAN = RunningPlan(frozenset({'{"t":{"0":4}}', '{"logOffset":3}'}), 1700000000123)
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000123,"conf":{}}'

THE_SAME = {
    "v1": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n{{"logOffset":3}}',
    "v2": f'v2\n{METADATA}\n1:{{"logOffset":3}}\n0:{{"t":{{"0":4}}}}',
    "a source without an offset": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n-\n{{"logOffset":3}}',
    "a source that is read twice": f'v1\n{METADATA}\n{{"t":{{"0":4}}}}\n{{"logOffset":3}}\n{{"logOffset":3}}',
}
ANOTHER = {
    "another end": f'v1\n{METADATA}\n{{"t":{{"0":5}}}}\n{{"logOffset":3}}',
    "a source less": f'v1\n{METADATA}\n{{"logOffset":3}}',
    "another time": THE_SAME["v1"].replace("00123", "00124"),
    "no time": 'v1\n{}\n{"t":{"0":4}}\n{"logOffset":3}',
    "no metadata": 'v1\n\n{"t":{"0":4}}\n{"logOffset":3}',
    "one line": "v1",
    "empty": "",
}


@pytest.mark.parametrize("text", THE_SAME.values(), ids=THE_SAME.keys())
def test_a_file_with_the_ends_and_the_time_of_the_plan_is_the_plan(text: str) -> None:
    assert PLAN.is_written_in(text)


@pytest.mark.parametrize("text", ANOTHER.values(), ids=ANOTHER.keys())
def test_any_other_file_is_not(text: str) -> None:
    assert not PLAN.is_written_in(text)
