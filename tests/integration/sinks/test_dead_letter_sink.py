"""Given-up messages arrive whole at the dead-letter destination of a provider, with the failure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from history import MemoryHistory, Message, Uuid
from history.bridge import drive
from tests.fixtures.servers.redis import connected
from tests.integration.helpers.given_up import assert_it_changed_nothing, async_doomed, doomed, hearing
from tests.unit.helpers.given_up import event
from triggers import Cause, Consumer, open_provider, trigger
from triggers.providers import Arrival, Provider
from triggers.providers.contract.common import everything
from triggers.providers.memory import MemoryProvider
from triggers.sinks import DeadLetterSink, open_sink

TIME = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(params=["redis", "memory"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    """An empty provider, of each kind in turn."""
    url = cast("str", request.getfixturevalue("redis_url")) if request.param == "redis" else "memory://"
    opened = open_provider(url)
    yield opened
    drive(opened.close())


def letters(provider: Provider, destination: str = "orders.dead") -> list[Message]:
    receiver = drive(provider.open_receiver(destination, subscription="reader", name="r"))
    received = drive(receiver.receive(100))
    drive(receiver.acknowledge(received))
    drive(receiver.close())
    return [one.message for one in received if isinstance(one, Arrival)]


def tell(sink: Any, **facts: Any) -> None:
    """Send an event with these fields to a sink, and close it."""
    sink(event(**facts))
    sink.close()


def test_a_message_is_sent_whole_with_the_facts_of_its_failure(provider: Provider) -> None:
    with hearing(DeadLetterSink(provider)):
        outcome = doomed().handle(
            Message(body=b"\xff", uuid="given-up", delivery_count=3, properties={"k": 5})
        )

    assert_it_changed_nothing(outcome)
    assert outcome.event is not None
    [letter] = letters(provider)
    assert (letter.body, letter.uuid, letter.delivery_count) == (b"\xff", "given-up", 1)
    assert letter.properties == {
        "k": 5,
        "uuid": "given-up",
        "doubtless_event": outcome.event.id,
        "doubtless_trigger": "doomed",
        "doubtless_destination": "orders",
        "doubtless_delivery_count": 3,
        "doubtless_time": outcome.event.time.isoformat(),
        "doubtless_cause": Cause.SERVICE_FAILED.value,
        "doubtless_exception_class": "triggers.FatalError",
        "doubtless_exception_message": "no such account",
        "dead-letter-reason": "the service failed fatally: no such account",
    }


@pytest.mark.parametrize("body", [b"\xff\x00", "text \N{SNOWMAN}", {"a": [1, None]}, None, 0], ids=repr)
def test_headers_properties_and_body_stay_as_they_are(provider: Provider, body: Any) -> None:
    sent = everything(body)

    tell(DeadLetterSink(provider), message=sent, time=TIME)

    [letter] = letters(provider)
    left_out = {"delivery_count", "redelivered", "expiration", "properties"}
    assert letter.model_dump(exclude=left_out) == sent.model_dump(exclude=left_out)
    assert letter.properties.items() >= sent.properties.items()


def test_a_letter_does_not_expire(provider: Provider) -> None:
    tell(DeadLetterSink(provider), message=Message(body="b", uuid="u", expiration=TIME))

    [letter] = letters(provider)
    assert letter.expiration is None
    assert letter.properties["doubtless_expiration"] == int(TIME.timestamp() * 1000)


def test_a_message_known_by_its_message_id_keeps_that_as_its_uuid(provider: Provider) -> None:
    tell(DeadLetterSink(provider), message=Message(body="b", message_id="ID:7"))

    [letter] = letters(provider)
    assert (letter.uuid, letter.properties["uuid"]) == ("ID:7", "ID:7")


def test_what_does_not_apply_is_left_out(provider: Provider) -> None:
    tell(DeadLetterSink(provider), cause=Cause.MAX_DELIVERY_COUNT)

    [letter] = letters(provider)
    assert letter.properties["dead-letter-reason"] == "max_delivery_count was passed"
    assert not {"doubtless_exception_class", "doubtless_exception_message"} & letter.properties.keys()


@pytest.mark.parametrize(
    ("given", "destination"),
    [("graveyard", "graveyard"), ("dead.{}".format, "dead.orders")],
    ids=["a name", "a function"],
)
def test_another_destination_can_be_named(provider: Provider, given: Any, destination: str) -> None:
    tell(DeadLetterSink(provider, destination=given))

    assert len(letters(provider, destination)) == 1
    assert letters(provider) == []


def test_an_unreadable_delivery_has_no_letter_and_the_log_says_so(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    tell(DeadLetterSink(provider), message=None, delivery_count=-1, cause=Cause.UNREADABLE)

    assert letters(provider) == []
    assert "an unreadable delivery has no message to send" in caplog.text


def test_a_letter_that_is_given_up_in_turn_does_not_come_back_to_where_it_was(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    sink = DeadLetterSink(provider, destination="dead")
    drive(provider.send("dead", [Message(body="b", uuid="u")]))

    with hearing(sink):
        doomed(destination="dead").handle(Message(body="b", uuid="u"))

    assert len(letters(provider, "dead")) == 1
    assert "a letter to dead would come back here" in caplog.text


def test_a_url_is_opened_and_closed_by_the_sink(redis_url: str) -> None:
    with hearing(DeadLetterSink(redis_url)):
        doomed().handle(Message(body="b", uuid="given-up"))

    with connected(redis_url) as client:
        assert client.xlen("orders.dead") == 1


def test_the_destination_of_a_url_is_sent_to() -> None:
    provider = MemoryProvider()
    for url in ("dead-letter:", "dead-letter:graveyard"):
        tell(open_sink(url, provider=provider))

    assert len(letters(provider)) == len(letters(provider, "graveyard")) == 1


async def test_over_a_blocking_provider_it_works_under_asyncio(provider: Provider) -> None:
    with hearing(DeadLetterSink(provider)):
        outcome = await async_doomed().ahandle(Message(body="b", uuid="given-up"))

    assert_it_changed_nothing(outcome)
    assert len(letters(provider)) == 1


async def test_over_an_asyncio_provider_it_is_awaited(provider: Provider) -> None:
    there = provider.for_asyncio()
    with hearing(DeadLetterSink(there)):
        for uuid in ("1", "2"):
            assert_it_changed_nothing(await async_doomed().ahandle(Message(body="b", uuid=uuid)))
    await there.close()

    assert [letter.uuid for letter in letters(provider)] == ["1", "2"]


async def test_blocking_code_on_a_loop_sends_as_well(provider: Provider) -> None:
    with hearing(DeadLetterSink(provider)):
        assert_it_changed_nothing(doomed().handle(Message(body="b", uuid="given-up")))

    assert len(letters(provider)) == 1


def test_in_the_background_it_sends_in_order(provider: Provider) -> None:
    fail = doomed()

    with hearing(DeadLetterSink(provider), synchronous=False):
        for number in range(20):
            fail.handle(Message(body="b", uuid=str(number)))

    assert [letter.uuid for letter in letters(provider)] == [str(number) for number in range(20)]


def test_a_consumer_sends_what_it_gives_up_and_another_looks_after_it(redis_url: str, tmp_path: Path) -> None:
    seen: list[tuple[str | None, object]] = []

    @trigger("orders.dead", name="look-after", history=MemoryHistory())
    def look_after(message: Message) -> None:
        seen.append((message.uuid, message.properties["doubtless_trigger"]))

    provider = open_provider(redis_url)
    drive(provider.send("orders", [Message(body="b", uuid=Uuid(one)) for one in ("1", "2")]))
    consumer = Consumer([doomed(), look_after], provider)

    with hearing(DeadLetterSink(consumer.provider)):
        consumer.run(until_idle=0.3)
    drive(provider.close())

    assert sorted(seen) == [("1", "doomed"), ("2", "doomed")]
    assert consumer.counts["doomed"] == {"failed": 2}
