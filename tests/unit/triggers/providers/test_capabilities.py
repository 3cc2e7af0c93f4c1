"""The methods of a receiver or provider show which features it has in addition to its protocol."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from history.memory import MemoryHistory
from history.store import HistoryStore
from triggers.providers.memory import MemoryProvider
from triggers.providers.provider import (
    AT_ONCE,
    NO_LIMITS,
    RECEIVE_WAIT,
    Arrival,
    Capabilities,
    Receiver,
    capabilities_of,
)


class PlainReceiver:
    """A third party's receiver, with only the methods of the protocol."""

    keep_alive_interval = timedelta(seconds=1)

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Arrival]:
        del limit, wait
        return []

    async def acknowledge(self, received: Sequence[Any]) -> None: ...

    async def recover(self, received: Sequence[Any], delay: timedelta = AT_ONCE) -> None: ...

    async def dead_letter(self, received: Sequence[Any], reason: str) -> None: ...

    async def keep_alive(self) -> None: ...

    async def close(self) -> None: ...


class Ordered(PlainReceiver):
    take_over_all = PlainReceiver.keep_alive


class InOrder(PlainReceiver):
    hand_out_in_order = PlainReceiver.keep_alive

    def take_moved(self) -> bool:
        return False


class Retrying(PlainReceiver):
    take_failed = PlainReceiver.acknowledge


class Transacted(PlainReceiver):
    shares = acknowledge_inside = note_acknowledged = PlainReceiver.acknowledge


class HalfTransacted(PlainReceiver):
    """It cannot tell whether it shares a database, so it does not count as transacted."""

    acknowledge_inside = PlainReceiver.acknowledge


class Careful(PlainReceiver):
    def __init__(self) -> None:
        self.limits = NO_LIMITS


class Wrapping(PlainReceiver):
    """Passes all other calls to the inner receiver."""

    def __init__(self, inner: Receiver) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Pinging(MemoryProvider):
    async def ping(self) -> None: ...


class Linked(MemoryProvider):
    @property
    def history(self) -> HistoryStore:
        return MemoryHistory()


class InSql(MemoryProvider):
    def sending(self, connection: Any) -> Any:
        return connection

    async def identity(self) -> int:
        return 1


class Impatient(MemoryProvider):
    async def delivery_limit(self, destination: str, subscription: str) -> None: ...


class Guarded(MemoryProvider):
    async def refusals(self, destination: str, subscription: str | None) -> Sequence[Any]:
        del destination, subscription
        return []


class Dividing(MemoryProvider):
    def check_order(self) -> None: ...


class Narrow(MemoryProvider):
    async def check_room(self, receivers: int) -> None: ...


def offered(capabilities: Capabilities) -> set[str]:
    return {one.name for one in fields(capabilities) if getattr(capabilities, one.name) is not None}


@pytest.mark.parametrize(
    ("receiver", "expected"),
    [
        (PlainReceiver(), set[str]()),
        (Ordered(), {"taking_over"}),
        (InOrder(), {"keeping_order"}),
        (Retrying(), {"taking_failures"}),
        (Transacted(), {"sharing_transactions"}),
        (HalfTransacted(), set[str]()),
        (Careful(), {"limited"}),
        (Wrapping(Ordered()), {"taking_over"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_receiver_can_do_what_it_has_the_methods_for(receiver: Receiver, expected: set[str]) -> None:
    assert offered(capabilities_of(receiver)) == expected


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (Pinging(), {"answering"}),
        (Linked(), {"remembering"}),
        (InSql(), {"in_database"}),
        (Narrow(), {"bounded"}),
        (Dividing(), {"dividing_groups"}),
        (Impatient(), {"giving_up"}),
        (Guarded(), {"telling_permissions"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_provider_can_do_what_it_has_the_methods_for(provider: MemoryProvider, expected: set[str]) -> None:
    of_memory = offered(capabilities_of(MemoryProvider()))

    assert offered(capabilities_of(provider)) == of_memory | expected


def test_a_capability_is_the_receiver_itself() -> None:
    receiver = Ordered()

    assert capabilities_of(receiver).taking_over is receiver
