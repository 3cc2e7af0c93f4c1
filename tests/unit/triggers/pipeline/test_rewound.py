"""A history that went back to a backup grants a fence twice. The owner then says whose the entry is."""

from datetime import timedelta

import pytest

from history import Entry, Fence, MemoryHistory, Message
from history.bridge import drive
from resolvers import Resolution
from tests.fixtures.waiting import eventually
from tests.unit.helpers.in_memory import NAME, made, message

LEASE = timedelta(seconds=0.6)


class Rewound(MemoryHistory):
    """It can go back to before the claim of a message; another run then claims it under the same fence."""

    def __init__(self) -> None:
        super().__init__()
        self._again: Fence | None = None

    def go_back(self, lease: timedelta | None = None) -> None:
        entry = self.entry()
        assert entry is not None
        drive(self.forget(NAME, "u-1"))
        self._again = entry.fence
        drive(self.claim(NAME, ["u-1"], "another", lease))
        self._again = None

    def entry(self) -> Entry | None:
        (entry,) = drive(self.lookup(NAME, ["u-1"]))
        return entry

    def _next_fence(self) -> Fence:
        return super()._next_fence() if self._again is None else self._again


def test_an_entry_of_another_owner_is_not_taken_over_under_the_fence_of_the_one_that_was_seen() -> None:
    history, runs = Rewound(), list[str]()
    drive(history.claim(NAME, ["u-1"], "dead", None))

    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
        entry = history.entry()
        if entry is not None and entry.owner == "another":
            return Resolution.IN_DOUBT
        history.go_back()
        return Resolution.NEW

    def service(message: Message) -> None:
        runs.append(str(message.uuid))

    made(service, history=history, resolver=resolver, lease=None).handle(message())

    entry = history.entry()
    assert runs == []
    assert entry is not None
    assert entry.owner == "another"


def test_a_run_whose_fence_another_has_is_told_that_its_lease_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history, told = Rewound(), list[bool]()

    def service(message: Message) -> None:
        history.go_back(timedelta(minutes=1))
        told.append(eventually(lambda: "another has the entry now" in caplog.text, seconds=10.0))

    outcome = made(service, history=history, lease=LEASE).handle(message())

    assert told == [True]
    assert not outcome.acknowledge
