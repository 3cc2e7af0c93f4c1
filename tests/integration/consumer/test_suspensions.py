"""The table of suspensions, row by row, on the providers: who resumes a trigger, and what runs until then."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from history.bridge import drive
from history.memory import MemoryHistory
from history.opening import open_history
from history.store import HistoryStore
from history.store.control import Verb
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, Running
from triggers import FatalError, Message, TransientError
from triggers.detection.suspension import Suspension
from triggers.providers.memory import MemoryProvider
from triggers.providers.opening import open_provider

#: How long it is watched that nothing runs; many times the interval of the monitors here.
WATCHED = 1.0
SOON = timedelta(seconds=0.05)

#: Returns the URL of a provider.
Make = Callable[[pytest.FixtureRequest, Path], str]


def in_redis(request: pytest.FixtureRequest, _: Path) -> str:
    return str(request.getfixturevalue("redis_url")) + "?claim_idle=60&reclaim_interval=0.1"


def in_sqljms(_: pytest.FixtureRequest, folder: Path) -> str:
    return f"sqlite:///{folder / 'queue.sqlite3'}"


def in_rabbitmq(request: pytest.FixtureRequest, _: Path) -> str:
    return str(request.getfixturevalue("rabbitmq_url"))


def in_jms(request: pytest.FixtureRequest, _: Path) -> str:
    return str(request.getfixturevalue("activemq").url)


def param(make: Make, name: str, *, ordered: bool, marks: Any = ()) -> Any:
    return pytest.param(make, ordered, id=f"{name}{'-ordered' * ordered}", marks=marks)


#: RabbitMQ and JMS take no ordered triggers.
every_provider = pytest.mark.parametrize(
    ("make", "ordered"),
    [
        param(in_redis, "redis", ordered=False),
        param(in_redis, "redis", ordered=True),
        param(in_sqljms, "sqljms", ordered=False),
        param(in_sqljms, "sqljms", ordered=True),
        param(in_rabbitmq, "rabbitmq", ordered=False, marks=pytest.mark.xdist_group("rabbitmq")),
        param(in_jms, "jms", ordered=False, marks=ACTIVEMQ),
    ],
)


@pytest.fixture
def store(redis_url: str) -> Iterator[HistoryStore]:
    store = open_history(redis_url)
    yield store
    drive(store.close())


class Shop:
    """A trigger over one provider, whose service fails as its test says, and what ran in it, in order."""

    def __init__(self, lane: Lane, url: str, history: str, store: HistoryStore, *, ordered: bool) -> None:
        self._lane, self._url, self._history, self._store = lane, url, history, store
        self._ordered = ordered
        self.destination = f"orders-{uuid4().hex[:8]}"
        self.failures: list[Exception] = []
        self.runs: list[tuple[str, int]] = []

    def consumer(self, **settings: Any) -> Running:
        """Return a consumer of the trigger, which is not running yet."""
        trigger = self._lane.trigger(self.destination, self.work, ordered=self._ordered, **settings)
        return self._lane.run([trigger], self._url, history=self._history)

    def work(self, message: Message) -> None:
        """Be the service: note the run, and fail as the test says."""
        self.runs.append((message.uuid or "", message.delivery_count))
        if message.uuid == "a" and self.failures:
            raise self.failures.pop(0)

    def subscribe(self) -> None:
        """Have the provider keep what is sent before a consumer is there."""
        provider = open_provider(self._url)
        name = self.destination
        drive(drive(provider.open_receiver(name, subscription=name, name="first")).close())
        drive(provider.close())

    def send(self, *uuids: str) -> None:
        provider = open_provider(self._url)
        messages = [Message(uuid=uuid, body="", group_id="g") for uuid in uuids]
        drive(provider.send(self.destination, messages))
        drive(provider.close())

    def resume(self) -> None:
        """Do what ``doubtless resume`` does."""
        drive(self._store.control.order(Verb.RESUME, [self.destination]))

    @property
    def ran(self) -> list[str]:
        return [uuid for uuid, _ in self.runs]

    def parked(self) -> list[str | None]:
        return [one.uuid for one in drive(self._store.parking.list(trigger=self.destination))]


@pytest.fixture
def shop(
    request: pytest.FixtureRequest,
    lane: Lane,
    make: Make,
    redis_url: str,
    store: HistoryStore,
    *,
    ordered: bool,
) -> Shop:
    return Shop(lane, make(request, lane.folder), redis_url, store, ordered=ordered)


def stays(shop: Shop, *runs: str) -> None:
    """Watch for a while that nothing runs but what has run."""
    deadline = time.monotonic() + WATCHED
    while time.monotonic() < deadline:
        assert shop.ran == list(runs)
        time.sleep(0.05)


def fails_again(shop: Shop, running: Running, number: int) -> bool:
    """Whether the first message has failed so often, and the trigger is suspended for it."""
    return shop.ran == ["a"] * number and kind_of(running) is Suspension.RESOURCE


def kind_of(running: Running) -> Suspension | None:
    return running.gates[0].suspension


@every_provider
@pytest.mark.parametrize("failure", [FatalError("no such customer"), TransientError("used up")], ids=repr)
def test_after_a_fatal_failure_nothing_behind_it_runs_until_a_person_resumes(
    shop: Shop, failure: Exception
) -> None:
    shop.failures = [failure]
    shop.subscribe()
    shop.send("a", "b", "c")
    settings: dict[str, Any] = {
        "suspend_on_error": True,
        "monitor": lambda: True,
        "monitor_interval": SOON,
    }

    with shop.consumer(**settings) as first:
        eventually(lambda: kind_of(first) is Suspension.FATAL)
        stays(shop, "a")
    with shop.consumer(**settings) as second:  # a restart
        eventually(lambda: kind_of(second) is Suspension.FATAL)
        with shop.consumer(**settings) as third:
            eventually(lambda: kind_of(third) is Suspension.FATAL)
            stays(shop, "a")
            shop.resume()
            eventually(lambda: sorted(shop.ran) == ["a", "b", "c"])

    assert shop.ran == ["a", "b", "c"]
    assert shop.parked() == ["a"]


@every_provider
def test_a_transacted_fatal_failure_is_rejected_once_a_person_has_resumed(shop: Shop) -> None:
    shop.failures = [FatalError("no such customer")]
    shop.subscribe()
    shop.send("a", "b")

    with shop.consumer(suspend_on_error=True, transacted=True) as running:
        eventually(lambda: kind_of(running) is Suspension.FATAL)
        stays(shop, "a")
        assert shop.parked() == []
        shop.resume()
        eventually(lambda: shop.ran == ["a", "b"] and shop.parked() == ["a"])


@every_provider
@pytest.mark.parametrize("transacted", [False, True], ids=["plain", "transacted"])
def test_without_a_monitor_an_outage_uses_up_no_deliveries_and_a_person_resumes(
    shop: Shop, *, transacted: bool
) -> None:
    shop.failures = [TransientError("away"), TransientError("still away")]
    shop.subscribe()
    shop.send("a")
    settings: dict[str, Any] = {"on_retry_failure": "suspend", "monitor_interval": SOON}
    if transacted:
        settings = {"transacted": True, "on_rollback": "suspend_and_recover", "monitor_interval": SOON}

    with shop.consumer(**settings) as running:
        for number in (1, 2):
            eventually(partial(fails_again, shop, running, number))
            stays(shop, *["a"] * number)
            shop.resume()
        eventually(lambda: shop.ran == ["a", "a", "a"])

    again = [count for _, count in shop.runs[1:]]
    # A classic queue of RabbitMQ says no more than that a message was delivered before.
    assert again in ([2, 3], [2, 2]), "one delivery for each time that it failed"
    assert shop.parked() == []


@every_provider
def test_with_a_monitor_an_outage_ends_when_the_monitor_says_so(shop: Shop) -> None:
    shop.failures = [TransientError("away")]
    available: list[bool] = []
    shop.subscribe()
    shop.send("a")

    with shop.consumer(
        on_retry_failure="suspend", monitor=lambda: bool(available), monitor_interval=SOON
    ) as running:
        eventually(lambda: kind_of(running) is Suspension.RESOURCE)
        stays(shop, "a")
        available.append(True)
        eventually(lambda: shop.ran == ["a", "a"])

    assert [count for _, count in shop.runs][1] == 2


def test_without_a_history_to_tell_it_through_only_this_consumer_is_suspended(lane: Lane) -> None:
    ran: list[str | None] = []

    def work(message: Message) -> None:
        ran.append(message.uuid)
        raise FatalError("bad")

    orders = lane.trigger("orders", work, history=MemoryHistory(), suspend_on_error=True)
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid=uuid, body="") for uuid in "ab"]))

    with lane.run([orders], provider) as running:
        eventually(lambda: kind_of(running) is Suspension.FATAL)
        time.sleep(WATCHED / 2)  # for as long as nothing may run

    assert ran == ["a"]
