"""The table of suspensions, row by row, on each provider: what resumes a trigger, and what runs before."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history import ConfigurationError, MemoryHistory, Verb, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, Running
from tests.integration.helpers.suspending import SOON, WATCHED, Row, Shop, every_row, kind_of, stays
from triggers import FatalError, Message, TransientError
from triggers.detection.suspension import MessageFate, Reach, Suspension, Terms
from triggers.providers.memory import MemoryProvider

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


RABBITMQ = pytest.mark.xdist_group("rabbitmq")

#: RabbitMQ and JMS refuse ordered triggers.
PROVIDERS = [
    param(in_redis, "redis", ordered=False),
    param(in_redis, "redis", ordered=True),
    param(in_sqljms, "sqljms", ordered=False),
    param(in_sqljms, "sqljms", ordered=True),
    param(in_rabbitmq, "rabbitmq", ordered=False, marks=RABBITMQ),
    param(in_jms, "jms", ordered=False, marks=ACTIVEMQ),
]
every_provider = pytest.mark.parametrize(("make", "ordered"), PROVIDERS)
no_order = pytest.mark.parametrize(
    ("make", "ordered"),
    [
        param(in_rabbitmq, "rabbitmq", ordered=True, marks=RABBITMQ),
        param(in_jms, "jms", ordered=True, marks=ACTIVEMQ),
    ],
)


@pytest.fixture
def store(redis_url: str) -> Iterator[KeepsBeside]:
    store = open_history(redis_url)
    yield store
    drive(store.close())


@pytest.fixture
def shop(
    request: pytest.FixtureRequest,
    lane: Lane,
    make: Make,
    redis_url: str,
    store: KeepsBeside,
    *,
    ordered: bool,
) -> Shop:
    return Shop(lane, make(request, lane.folder), redis_url, store, ordered=ordered)


def fails_again(shop: Shop, running: Running, number: int) -> bool:
    """Whether the first message has failed ``number`` times, and the trigger is suspended because of it."""
    return shop.ran == ["a"] * number and kind_of(running) is Suspension.RESOURCE


@pytest.fixture
def row(
    shop: Shop,
    terms: Terms,
    redis_url: str,
    network_before: NetworkBefore,
    monkeypatch: pytest.MonkeyPatch,
    *,
    transacted: bool,
) -> Row:
    # Without the history, the active consumer of an ordered trigger is active for one lease.
    monkeypatch.setattr("triggers.consumer.ordering.active.LEASE", timedelta(minutes=5))
    return Row(shop, terms, network_before(redis_url), redis_url, transacted=transacted)


@every_provider
@pytest.mark.parametrize(("terms", "transacted"), list(every_row()))
def test_each_row_of_the_table_holds(shop: Shop, row: Row, terms: Terms) -> None:
    with ExitStack() as consumers:
        shop.subscribe()
        running = [consumers.enter_context(row.consumer())]
        if terms.reach is not Reach.HERE:
            running.append(consumers.enter_context(row.consumer()))
        shop.send("0")
        eventually(lambda: shop.ran == ["0"] and shop.consumers() == len(running))

        row.suspend(running)
        stays(shop, *row.ran_before)
        later = consumers.enter_context(shop.consumer(**row.settings))
        if terms.reach is Reach.ALL:
            eventually(lambda: kind_of(later) is terms.kind)
        elif not shop.ordered:  # this consumer receives, although the others are suspended
            eventually(row.is_over)
        runs = list(shop.ran)
        assert (row.is_over(), kind_of(later) is terms.kind) == (
            terms.reach is not Reach.ALL and not shop.ordered,
            terms.reach is Reach.ALL,
        )

        for waker in row.wakers:
            stays(shop, *runs)
            assert all(kind_of(one) is terms.kind for one in running)
            row.agree(waker)
        eventually(lambda: not any(kind_of(one) for one in [*running, later]))
        eventually(row.is_over)

    if shop.ordered:
        assert shop.ran == row.ran_after
    count = 1 + terms.deliveries
    counts = {count} if count > 1 else {1, -1}  # -1: the broker's 1 proves nothing
    if terms.fate in {MessageFate.PARKED, MessageFate.REJECTED}:
        [(parked, found)] = shop.parked_counts()
        assert (parked, found in counts) == ("a", True)
    else:
        assert shop.parked() == []
        assert shop.counts[-1] in counts


@no_order
def test_brokers_that_keep_no_order_refuse_an_ordered_trigger(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="ordered"), shop.consumer() as running:
        running.join()


@every_provider
def test_a_restart_does_not_end_the_suspension_after_retries_that_were_used_up(shop: Shop) -> None:
    shop.failures = [TransientError("used up")]
    shop.subscribe()
    shop.send("a", "b", "c")
    settings: dict[str, Any] = {"suspend_on_error": True, "monitor": lambda: True, "monitor_interval": SOON}

    with shop.consumer(**settings) as first:
        eventually(lambda: kind_of(first) is Suspension.FATAL)
        stays(shop, "a")
    with shop.consumer(**settings) as second:  # a restart
        eventually(lambda: kind_of(second) is Suspension.FATAL)
        with shop.consumer(**settings) as third:
            eventually(lambda: kind_of(third) is Suspension.FATAL)
            stays(shop, "a")
            shop.order(Verb.RESUME)
            eventually(lambda: sorted(shop.ran) == ["a", "b", "c"])

    assert shop.ran == ["a", "b", "c"]
    assert shop.parked() == ["a"]


@every_provider
def test_each_suspension_of_an_outage_costs_the_message_one_delivery(shop: Shop) -> None:
    shop.failures = [TransientError("away"), TransientError("still away")]
    shop.subscribe()
    shop.send("a")

    with shop.consumer(on_retry_failure="suspend", monitor_interval=SOON) as running:
        for number in (1, 2):
            eventually(partial(fails_again, shop, running, number))
            stays(shop, *["a"] * number)
            shop.order(Verb.RESUME)
        eventually(lambda: shop.ran == ["a", "a", "a"])

    again = [count for _, count in shop.runs[1:]]
    # A classic queue of RabbitMQ only says that a message was delivered before.
    assert again in ([2, 3], [2, 2]), "one delivery for each time that it failed"
    assert shop.parked() == []


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
        time.sleep(WATCHED / 2)  # in this time nothing may run

    assert ran == ["a"]
