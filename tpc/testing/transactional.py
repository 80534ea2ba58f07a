"""The conformance kit for objects that a service keeps: may this one be decided with an epoch, and come back?

    class TestMyModel(TransactionalConformance):
        def make(self):
            return tpc.make_transactional(Model(), dumps=Model.to_bytes, loads=Model.from_bytes)

        def change(self, value, number):
            value.learn(number)

What the store does with the bytes is not tried here: it is the same for every object. What is tried is what only the
object's author can get wrong: bytes that leave something out, that share something with the object they were made of,
that come out otherwise in another process, or that say where the content lies instead of holding it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tpc.testing.transactional_process import KILL_STEPS, Lived, live
from tpc.transactional import Transactional

EPOCHS = 3
SEEDS = (1, 2)
"""Of the hashes of texts, by which Python orders what is in a set: every process has another."""


class TransactionalConformance:
    """Derive a test class from it, write `make` and `change`, run pytest.

    The class has to be in a module that another process can import, and its hooks use no fixtures: the kit creates it
    again in processes that are killed (SIGKILL).
    """

    def make(self) -> Transactional[Any]:
        """The object as the service makes it, alike in every process: `tpc.make_transactional(...)`."""
        raise NotImplementedError

    def change(self, value: Any, number: int) -> Any:
        """Change it as a function of an epoch would, in place; or return another one that takes its place.

        The numbers 0, 1 and 2 must lead to objects that differ from each other and from what was before.
        """
        raise NotImplementedError

    def same(self, one: Any, other: Any) -> bool:
        """Whether two objects are equal in all that matters. Write it for a class without `__eq__`."""
        return bool(one == other)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        replaced = [n for n in vars(cls) if n.startswith("test_") and hasattr(TransactionalConformance, n)]
        if replaced:
            raise TypeError(f"{cls.__name__} replaces tests of the kit ({', '.join(replaced)}): write hooks instead.")

    # The bytes -------------------------------------------------------------------------------------------------

    def test_the_bytes_give_the_object_back(self) -> None:
        for number in range(EPOCHS):
            value = self._after(number)
            again = self._read_back(value)
            assert type(again) is type(value), "`loads(dumps(x))` is of another class. To do: restore the class."
            assert self.same(again, value), (
                f"after {number} changes `loads(dumps(x))` is not the same as `x`. To do: put all of the object into "
                "the bytes; if the class has no `__eq__`, write the hook `same`."
            )

    def test_a_change_makes_another_object(self) -> None:
        for number in range(EPOCHS):
            assert not self.same(self._after(number), self._after(number + 1)), (
                f"`change(value, {number})` has changed nothing that `same` sees. To do: write `change` so that each "
                "number changes something, and `same` so that it sees it; an object that looks into a file or a "
                "server when it is compared cannot be kept."
            )

    def test_what_a_copy_changes_does_not_show_in_the_original(self) -> None:
        value, expected = self._after(1), self._after(1)
        copy = self._read_back(value)
        self._changed(copy, 1)
        to_do = "To do: let `loads` make everything again from the bytes; share nothing but what never changes."
        assert self.same(value, expected), f"a change of `loads(dumps(x))` shows in `x`. {to_do}"
        assert self.same(self._read_back(value), expected), f"a change of a copy shows in the next copy. {to_do}"

    # Epochs ----------------------------------------------------------------------------------------------------

    def test_an_aborted_epoch_leaves_what_was_decided(self) -> None:
        made = self.make()
        self._epoch(made, 0)
        made.begin()
        made.value = self._changed(made.value, 1)
        made.abandon()
        made.begin()
        assert self.same(made.value, self._after(1)), (
            "after an aborted epoch the object is not what was decided before it. To do: let `loads` create everything "
            "again from the bytes."
        )

    def test_an_epoch_begins_where_the_one_before_it_ended(self) -> None:
        made = self.make()
        for number in range(EPOCHS):
            self._epoch(made, number)
            assert self.same(made.value, self._after(number + 1)), f"epoch {number} has ended with another object"

    # Other processes -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_same_changes_make_the_same_bytes_in_every_process(self, seed: int) -> None:
        made = self.make()
        ours = [self._epoch(made, number) for number in range(EPOCHS)]
        theirs = self._live(Lived(None, range(EPOCHS)), seed)
        assert theirs == ours, (
            "another process came to other bytes by the same changes: when an epoch is run again to write what "
            "another sink has lost, it would be refused. To do: let `dumps` write in a fixed order (sets sorted), and "
            "nothing that depends on the process, the clock or chance."
        )

    def test_another_process_goes_on_with_what_this_one_wrote(self) -> None:
        made = self.make()
        first = self._epoch(made, 0)
        second = self._epoch(made, 1)
        assert self._live(Lived(first, [1]), SEEDS[0]) == [second], (
            "a process that read the bytes of this one has come to another object by the next change. To do: put all "
            "of the object into the bytes, nothing that only this process knows."
        )

    @pytest.mark.parametrize("step", KILL_STEPS)
    def test_a_killed_process_leaves_it_as_it_was_or_as_it_came_to(self, step: str) -> None:
        made = self.make()
        before = self._epoch(made, 0)
        expected = self._after(1)
        after = self._live(Lived(before, [1], kill_at=step), SEEDS[0])
        assert self.same(made.loads(before), expected), (
            f"a process was killed when its epoch was {step}, and what was decided before it is changed. To do: keep "
            "the content in the bytes, not in a file, a server or another place that `dumps` writes and they name."
        )
        for data in after:
            assert self.same(made.loads(data), self._after(2)), "the bytes of a killed process give another object"

    # Helpers ---------------------------------------------------------------------------------------------------

    def _changed(self, value: Any, number: int) -> Any:
        other = self.change(value, number)
        return value if other is None else other

    def _epoch(self, made: Transactional[Any], number: int) -> bytes:
        made.begin()
        made.value = self._changed(made.value, number)
        return made.cut()

    def _after(self, changes: int) -> Any:
        """A live object after so many changes, which no epoch has had in hand."""
        value = self.make().value
        for number in range(changes):
            value = self._changed(value, number)
        return value

    def _read_back(self, value: Any) -> Any:
        made = self.make()
        return made.loads(made.dumps(value))

    def _live(self, lived: Lived, seed: int) -> list[bytes]:
        return live(type(self), lived, {**os.environ, "PYTHONHASHSEED": str(seed)})
