"""After how many deliveries RabbitMQ gives a message up, as far as each wire tells; nothing is made."""

from contextlib import closing
from typing import cast

import pytest

from history.bridge import drive
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import raw, subscribe
from triggers.providers import DeliveryLimit, GivingUp, open_provider
from triggers.providers.rabbitmq.frames import driver
from triggers.providers.rabbitmq.limits import DEFAULT_LIMIT

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("rabbitmq")]

QUORUM = {"x-queue-type": "quorum"}

#: The arguments of queues, by their names.
QUEUES = {
    "limits-classic": {},
    "limits-plain": QUORUM,
    "limits-set": {
        **QUORUM,
        "x-delivery-limit": 7,
        "x-dead-letter-exchange": "dead.ones",
        "x-dead-letter-routing-key": "here",
        "x-max-length": 1000,
        "x-single-active-consumer": True,
    },
}


def limits(url: str) -> dict[str, DeliveryLimit | None]:
    """Return what a provider says of each queue, and of one that there is not, by the name's end."""
    provider = open_provider(url)
    try:
        names = [*QUEUES, "limits-missing"]
        asked = cast("GivingUp", provider)
        found = {name: drive(asked.delivery_limit(f"queue:{name}", "any")) for name in names}
        return found | {"limits-ours": drive(asked.delivery_limit("limits-ours", "limits-ours"))}
    finally:
        drive(provider.close())


@pytest.mark.parametrize("wire", ["rabbitmq", "rabbitmq4", "amqp"])
def test_a_queue_is_asked_for_its_delivery_limit(request: pytest.FixtureRequest, wire: str) -> None:
    server: RabbitmqServer = request.getfixturevalue(
        "rabbitmq_server" if wire == "rabbitmq" else "rabbitmq4_server"
    )
    with closing(raw(server)) as connection:
        for name, arguments in QUEUES.items():
            connection.channel().queue_declare(name, durable=True, arguments=arguments)
    url = request.getfixturevalue(f"{wire}_url")
    subscribe(url, "limits-ours")

    found = limits(url)

    assert (found["limits-classic"], found["limits-missing"]) == (None, None)
    plain, known, ours = (found[f"limits-{name}"] for name in ("plain", "set", "ours"))
    assert plain is not None
    assert known is not None
    assert ours is not None
    assert (plain.deliveries, plain.is_kept) == (None if wire == "rabbitmq" else DEFAULT_LIMIT + 1, False)
    assert (known.deliveries, known.then) == (8, "it goes to the exchange dead.ones")
    assert (ours.deliveries, ours.is_kept) == (None, True)
    assert "a policy" in plain.unseen
    with closing(raw(server)) as connection, pytest.raises(driver.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("limits-missing", passive=True)
