"""What Python's collector leaves out of its looks while tests run: all that there is when they are collected.

Each run of a service looks through all objects for garbage, and the tests themselves are a million of them. A service
asks first whether something is set aside, and Python answers by counting all of it: a tenth of a second, in each of
ten thousand runs. So that answer is given from here; a test of that very matter asks `count_set_aside`.
"""

from __future__ import annotations

import gc

LOOK_EVERY = 100
MOST_OBJECTS = 300_000
count_set_aside = gc.get_freeze_count


class _SetAside:
    tests = 0
    """So many have run."""
    objects = 0
    """So many there were when all was looked through."""

    @classmethod
    def all(cls) -> None:
        gc.collect()
        gc.freeze()
        cls.objects = count_set_aside()


def pytest_collection_finish() -> None:
    """From here on tests run."""
    _SetAside.all()
    setattr(gc, "get_freeze_count", lambda: _SetAside.objects)  # noqa: B010  # mypy takes no other function for it


def pytest_runtest_teardown() -> None:
    """What services of the tests have set aside, and is garbage by now, is let go from time to time.

    A service that finds something set aside leaves all set aside at its end. A run of thousands of them would keep
    gigabytes, and each look at all objects would take longer than the one before.
    """
    _SetAside.tests += 1
    if _SetAside.tests % LOOK_EVERY == 0 and count_set_aside() > _SetAside.objects + MOST_OBJECTS:
        gc.unfreeze()
        _SetAside.all()
