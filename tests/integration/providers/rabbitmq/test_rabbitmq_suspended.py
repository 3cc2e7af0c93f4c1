"""RabbitMQ pushes messages. Messages for suspended consumers are not lost, and do not count as delivered."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from history import open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import Verb
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane
from tests.integration.helpers.suspending import Shop, kind_of, stays
from triggers.detection.suspension import Suspension
from triggers.providers import Arrival, Received, capabilities_of, open_provider

#: Longer than a message takes to arrive.
A_WHILE = timedelta(seconds=10)

pytestmark = pytest.mark.xdist_group("rabbitmq")


@pytest.fixture
def store(redis_url: str) -> Iterator[KeepsBeside]:
    store = open_history(redis_url)
    yield store
    drive(store.close())


@pytest.mark.parametrize("mode", ["client", "dups_ok"])
def test_a_message_that_is_sent_to_suspended_consumers_costs_no_delivery(
    lane: Lane,
    rabbitmq_url: str,
    redis_url: str,
    store: KeepsBeside,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    monkeypatch.setattr("triggers.providers.brokers.push_receiver.IDLE", 3600)  # nobody else gives back
    shop = Shop(lane, rabbitmq_url, redis_url, store, ordered=False)
    shop.subscribe()
    with shop.consumer(acknowledge_mode=mode) as one, shop.consumer(acknowledge_mode=mode) as other:
        eventually(lambda: shop.consumers() == shop.pushed_to() == 2)
        shop.order(Verb.SUSPEND)
        eventually(lambda: kind_of(one) is kind_of(other) is Suspension.COMMAND)
        eventually(lambda: shop.pushed_to() == 0)
        shop.send("a", "b", "c")
        stays(shop)

        shop.order(Verb.RESUME)
        eventually(lambda: len(shop.runs) == 3)

    assert sorted(shop.ran) == ["a", "b", "c"]
    assert {count for _, count in shop.runs} <= {1, -1}  # -1: the broker's 1 proves nothing


def uuids(received: Sequence[Received]) -> list[str | None]:
    return [one.message.uuid for one in received if isinstance(one, Arrival)]


def test_a_paused_receiver_gives_back_what_was_pushed_and_keeps_what_it_handed_over(
    lane: Lane, rabbitmq_url: str, redis_url: str, store: KeepsBeside
) -> None:
    shop = Shop(lane, rabbitmq_url, redis_url, store, ordered=False)
    shop.subscribe()
    provider = open_provider(rabbitmq_url)
    try:
        one, other = (
            drive(provider.open_receiver(shop.destination, subscription=shop.destination, name=name))
            for name in ("one", "other")
        )
        pausing = capabilities_of(one).pausing
        assert pausing is not None
        shop.send("held")
        held = drive(one.receive(1, A_WHILE))
        assert uuids(drive(one.receive(2, timedelta(0)))) == []
        shop.send("a", "b")
        eventually(lambda: shop.waiting() == 0)

        drive(pausing.pause())
        drive(pausing.pause())

        given_back = uuids(drive(other.receive(2, A_WHILE)))
        if len(given_back) == 1:  # the second message came a moment later
            given_back += uuids(drive(other.receive(1, A_WHILE)))
        assert given_back == ["a", "b"]
        drive(one.acknowledge(held))
        shop.send("c")
        assert uuids(drive(one.receive(1, A_WHILE))) == ["c"]
        drive(one.close())
        drive(other.close())
    finally:
        drive(provider.close())
    assert shop.waiting() == 3, "held is settled, and nothing else is lost"
