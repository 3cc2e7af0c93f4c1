"""If the end of a run cannot be recorded or parked, the message does not count as done, and is not lost."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from history import HistoryUnavailableError, MemoryHistory, Parked
from history.beside.parking import Parking
from history.bridge import drive
from history.entry import DEFAULT_TIME_TO_LIVE, Claim, EntryOutcome, State
from history.store import Owner
from tests.unit.helpers.in_memory import NO_FILE
from triggers import FatalError, Message, Status, trigger


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list; the parking lot refuses all messages while it is not empty."""
    missing = ["room"]
    park = Parking.park

    async def refuse(lot: Parking, parked: Sequence[Parked]) -> None:
        if missing:
            raise HistoryUnavailableError("parking")
        await park(lot, parked)

    monkeypatch.setattr(Parking, "park", refuse)
    return missing


def test_a_failure_that_nothing_can_keep_is_not_settled(full: list[str]) -> None:
    history = MemoryHistory()

    @trigger("orders", name="book", history=history, local_parking_file=NO_FILE, lease=None)
    def book(message: Message) -> None:
        raise FatalError("no such account")

    given_back = book.handle(Message(body={}, uuid="a", delivery_count=1))
    (entry,) = drive(history.lookup("book", ["a"]))
    full.clear()
    again = book.handle(Message(body={}, uuid="a", delivery_count=2))

    assert (given_back.acknowledge, given_back.parked) == (False, False)
    assert entry is not None
    assert entry.state is State.STARTED
    assert (again.status, again.acknowledge, again.parked) == (Status.IN_DOUBT, True, True)


class Forgetful(MemoryHistory):
    """A history that forgets a claim; if ``faster``, another run then claims the message first."""

    def __init__(self, *, faster: bool) -> None:
        super().__init__()
        self._faster = faster
        self.forgot = False

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        if self.forgot and self._faster:
            await super().claim(trigger, uuids, "another")
        return await super().claim(trigger, uuids, owner, lease, time_to_live=time_to_live)


@pytest.mark.parametrize("faster", [False, True], ids=["nobody came", "another was faster"])
def test_an_end_that_the_history_forgot_is_acknowledged_if_it_is_recorded_anew(*, faster: bool) -> None:
    history = Forgetful(faster=faster)

    @trigger("orders", name="book", history=history, lease=None)
    def book(message: Message) -> None:
        history.forgot = drive(history.forget("book", str(message.uuid)))

    outcome = book.handle(Message(body={}, uuid="a"))
    (entry,) = drive(history.lookup("book", ["a"]))

    assert outcome.acknowledge is not faster
    assert ("recorded anew" in outcome.reason) is not faster
    assert entry is not None
    assert (entry.outcome, entry.owner == "another") == (None if faster else EntryOutcome.OK, faster)
