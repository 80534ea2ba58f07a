"""A topic that was recreated under its old name: no position counts in it, and nothing is decided of its events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.program import Die, Numbers, die
from tpc import failpoints
from tpc.coordinator.kernel.feeding import background_call
from tpc.coordinator.kernel.feeding.confirmation import Confirmation
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import undamaged
from tpc.coordinator.service.epoch_input import cuts_of
from tpc.coordinator.service.leader import probe_sources
from tpc.errors import StateLostError, TransientError
from tpc.identities import require_same
from tpc.source import Source, SourceReader
from tpc.sources import IterableSource

Ids = Mapping[str, str]


class Topic(IterableSource):
    """Values under a name, with an id that says which of this name they are; `told` is what it is now."""

    def __init__(self, name: str, values: Callable[[], list[int]], told: Callable[[], Ids], continues: Ids) -> None:
        super().__init__(values, name=name)
        self.told = told
        self.continues = continues

    def reader(self) -> SourceReader:
        made, found = super().reader(), dict[str, str]()
        seek = made.seek

        def sought(position: str | None) -> None:
            found.clear()
            found.update(self.told())
            seek(position)

        def confirm() -> None:
            if not self.told():
                raise TransientError("nobody tells which topic 't' is")
            require_same(self.name, found, self.told(), {})

        made.seek, made.confirm = sought, confirm  # type: ignore[method-assign]
        made.identities = lambda: dict(found)  # type: ignore[method-assign]
        made.reads_ahead = True
        return made


class Made(Numbers):
    """A service that reads from a topic which can be recreated."""

    def __init__(self, directory: Path, numbers: int = 0) -> None:
        super().__init__(directory, numbers)
        self.told: Ids = {"t": "first"}
        self.continues: Ids = {}
        self.name = "numbers"
        self.start_varies = False

    def source(self) -> Source:
        made = Topic(self.name, lambda: self.values, lambda: self.told, self.continues)
        made.start_varies = self.start_varies
        return made

    def tell(self, told: Ids) -> None:
        """From now on."""
        self.told = told

    def recreate(self, identity: str = "second", numbers: int = 1000) -> None:
        """With as many events as the old one had, and more: no position is beyond its end."""
        self.told, self.values = {"t": identity}, [10_000 + n for n in range(numbers)]

    def epochs(self) -> int:
        return len(self.history())

    def recorded(self) -> Ids:
        """What the last epoch has noted."""
        history = undamaged(Journal(self.service().log))
        assert history.last_intent is not None
        (cut,) = cuts_of(history.manifests[history.last_intent])
        return cut.identities


@pytest.fixture
def service(tmp_path: Path) -> Made:
    """One that has taken four events in two epochs."""
    made = Made(tmp_path, 4)
    made.run(every=2)
    assert made.epochs() == 2
    return made


def refuses(service: Made, match: str = "is not the one that it has read") -> None:
    """A start is refused, and nothing of the new events is decided or seen."""
    before = service.epochs(), service.written("even"), service.written("odd")
    with pytest.raises(StateLostError, match=match):
        service.run()
    assert (service.epochs(), service.written("even"), service.written("odd")) == before


def test_a_start_refuses_a_topic_made_anew_that_has_more_events_than_were_read(service: Made) -> None:
    service.recreate()
    refuses(service, r"'t' of source 'numbers' is not the one that it has read: that was first, and this is second")


def test_the_old_topic_brought_back_is_read_on(service: Made) -> None:
    old = service.values
    service.recreate()
    refuses(service)
    service.told, service.values = {"t": "first"}, [*old, 4, 5]
    service.run()
    assert service.is_right()


def test_under_another_name_the_new_topic_is_read_from_its_beginning(service: Made) -> None:
    service.recreate(numbers=10)
    service.name = "numbers-2"
    anew = service.service()
    anew.retire("numbers")
    anew.run(until_end=True)
    assert service.written("even") == [0, 2, *range(10_000, 10_010, 2)]


def test_a_start_that_takes_over_a_death_refuses_it_too(tmp_path: Path) -> None:
    service = Made(tmp_path, 4)
    with pytest.raises(Die):
        service.run_with({"sink.commit": die})
    service.recreate()
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run()
    assert service.written("even") == [0, 2]  # what was decided of the old one is finished all the same


def test_an_epoch_that_lost_its_branches_is_not_run_again_from_a_topic_made_anew(tmp_path: Path) -> None:
    service = Made(tmp_path, 4)

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in service.staged("even"):
            path.unlink()
        die(step, where)

    with pytest.raises(Die):
        service.run_with({"epoch.decided": lose})
    service.recreate()
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run()
    assert service.written("even") == []


def test_made_anew_before_its_events_were_read_nothing_of_them_is_decided(service: Made) -> None:
    service.values += [4, 5]
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run_with({"epoch.planned": lambda *_: service.tell({"t": "second"})})
    assert (service.epochs(), service.written("even"), service.written("odd")) == (2, [0, 2], [1, 3])
    assert service.staged("even") == service.staged("odd") == []


def test_what_was_read_ahead_in_the_new_topic_is_not_decided_either(service: Made) -> None:
    service.values += [4, 5]

    def come(_step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 2:
            service.values += range(10_000, 10_050)

    actions = {"epoch.planned": come, "epoch.decided": lambda *_: service.tell({"t": "second"})}
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run_with(actions, every=20)
    assert (service.epochs(), service.written("even")) == (3, [0, 2, 4])


def test_a_copy_that_is_named_is_not_taken_in_the_middle_of_a_run(service: Made) -> None:
    service.continues = {"t": "linked"}
    service.values += [4, 5]
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run_with({"epoch.planned": lambda *_: service.tell({"t": "linked"})})
    assert (service.epochs(), service.recorded()) == (2, {"t": "first"})


def test_a_source_that_gave_nothing_to_an_epoch_is_not_asked_for_it(service: Made) -> None:
    other = service.service()
    taken = list[str]()

    @other.each(other.read(IterableSource("ab", name="other")))
    def take(letter: str, out: Any) -> None:
        taken.append(letter)

    failpoints.install({"epoch.planned": lambda *_: service.tell({})})
    try:
        other.run(until_end=True)
    finally:
        failpoints.install({})
    assert (taken, service.epochs()) == (["a", "b"], 3)


def test_a_first_epoch_that_only_notes_where_a_source_begins_is_not_noted_of_another_one(tmp_path: Path) -> None:
    service = Made(tmp_path)
    service.start_varies = True
    with pytest.raises(StateLostError, match="not the one that it has read"):
        service.run_with({"epoch.planned": lambda *_: service.tell({"t": "second"})})
    assert service.epochs() == 0


def test_of_two_topics_each_is_compared() -> None:
    known = {"one": "1", "two": "2"}
    require_same("s", known, {"one": "1"}, {})
    with pytest.raises(StateLostError, match="'two' of source 's'"):
        require_same("s", known, {"one": "1", "two": "3"}, {"one": "3"})


def test_where_it_cannot_be_told_of_which_topic_events_are_nothing_of_them_is_decided(service: Made) -> None:
    service.values += [4, 5]
    with pytest.raises(TransientError, match="nobody tells which topic 't' is"):
        service.run_with({"epoch.planned": lambda *_: service.tell({})})
    assert (service.epochs(), service.written("even")) == (2, [0, 2])


def test_a_copy_with_the_same_positions_is_read_on_once_it_is_named_and_not_another_one(service: Made) -> None:
    service.told, service.continues = {"t": "linked"}, {"t": "linked"}
    service.values += [4, 5]
    service.run()
    assert service.is_right()
    assert service.recorded() == {"t": "linked"}
    service.recreate("third")
    refuses(service)


def test_what_is_not_told_for_a_while_is_kept_in_mind(service: Made) -> None:
    service.told = {}
    service.values += [4, 5]
    service.run()
    assert service.recorded() == {"t": "first"}
    service.recreate()
    refuses(service)


def test_where_nothing_was_told_before_the_next_epoch_notes_it(tmp_path: Path) -> None:
    service = Made(tmp_path, 4)
    service.told = {}
    service.run()
    assert service.recorded() == {}
    service.told = {"t": "first"}
    service.values += [4, 5]
    service.run()
    assert service.recorded() == {"t": "first"}


def test_a_source_that_was_retired_and_is_read_again_is_refused_where_it_was_made_anew(
    service: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(service, "source", lambda: IterableSource([7], name="other"))
        without = service.service()
        without.retire("numbers")
        without.run(until_end=True)
    service.recreate()
    again = service.service()
    again.retire("other")
    with pytest.raises(StateLostError, match="not the one that it has read"):
        again.run(until_end=True)


def test_a_check_before_a_start_says_so(service: Made) -> None:
    service.recreate()
    made = service.service()
    with pytest.raises(StateLostError, match="not the one that it has read"):
        probe_sources(made.coordinator(), made._program())


# The question beside an epoch ------------------------------------------------------------------------------------


def test_the_question_has_ended_when_the_work_has() -> None:
    asked, goes_on = list[str](), threading.Event()

    def confirm() -> None:
        goes_on.wait(10.0)
        asked.append(threading.current_thread().name)

    with Confirmation(confirm):
        assert asked == []
        goes_on.set()
    assert asked == ["tpc-confirming"]


def refused() -> None:
    raise StateLostError("another topic")


def test_what_it_finds_is_raised_once_the_work_is_done() -> None:
    done = list[str]()
    with pytest.raises(StateLostError), Confirmation(refused):
        done.append("work")
    assert done == ["work"]


def test_where_the_work_fails_its_own_error_is_raised_and_the_other_one_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ZeroDivisionError), Confirmation(refused):
        raise ZeroDivisionError
    assert "another topic" in caplog.text


def test_work_that_fails_waits_for_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_call, "GRACE_S", 0.01)
    asked, ended = threading.Event(), threading.Event()

    def confirm() -> None:
        asked.wait(10.0)
        ended.set()

    with pytest.raises(ZeroDivisionError), Confirmation(confirm):
        raise ZeroDivisionError
    assert not ended.is_set()
    asked.set()


def test_without_a_thread_to_be_had_it_is_asked_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(StateLostError), Confirmation(refused):
        pass
