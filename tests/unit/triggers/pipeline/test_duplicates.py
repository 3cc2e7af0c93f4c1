"""Duplicates are reported by a line in the log, and by the trigger's own hook."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from history import ConfigurationError, MemoryHistory
from history.bridge import drive
from resolvers import Resolution, Resolved
from tests.unit.helpers.in_memory import made
from triggers import AsyncConsumer, Consumer, Message, Outcome, ProviderUnavailableError, Status, trigger
from triggers.providers import Arrival
from triggers.providers.memory import MemoryProvider

LOGGER = "triggers.verdicts"


def messages(*uuids: str) -> list[Message]:
    return [Message(body="", uuid=uuid) for uuid in uuids]


def test_a_duplicate_leaves_a_line_at_info(caplog: pytest.LogCaptureFixture) -> None:
    service = made(lambda: None)

    with caplog.at_level(logging.INFO, LOGGER):
        for message in messages("u-1", "u-1"):
            service.handle(message)

    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage() == "u-1 DUPLICATE: it already ran; not run again (row 8)"
    assert [vars(record)[name] for name in ("trigger", "uuid", "status")] == ["book", "u-1", "DUPLICATE"]


def test_a_batch_has_one_line_that_counts_them_and_names_the_first(caplog: pytest.LogCaptureFixture) -> None:
    service = made(lambda: None)

    with caplog.at_level(logging.INFO, LOGGER):
        service.handle_batch(messages("a", "b", "a", "b", "c", "c", "a", "a"))

    (record,) = caplog.records
    text = record.getMessage()
    assert text.startswith(
        "5 of 8 messages are duplicates: a DUPLICATE: it already ran; not run again (row 8). b "
    )
    assert text.endswith(". And 2 more")


@pytest.mark.parametrize("resolution", [Resolution.DUPLICATE, Resolution.NEW])
def test_the_line_has_the_reason_that_the_resolver_gave(
    resolution: Resolution, caplog: pytest.LogCaptureFixture
) -> None:
    history = MemoryHistory()

    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolved:
        return Resolved(resolution, "looked into the books")

    service = made(lambda: None, history=history, resolver=resolver, lease=None)

    drive(history.claim("book", ["u-1"], "somebody", None))
    with caplog.at_level(logging.INFO, LOGGER):
        service.handle(Message(body="", uuid="u-1"))

    lines = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert len(lines) == 1
    assert lines[0].startswith("u-1")
    assert f"the resolver says {resolution}" in lines[0]
    assert "looked into the books" in lines[0]


def test_the_hook_is_told_of_each_duplicate_and_of_nothing_else() -> None:
    heard: list[tuple[str | None, Status | None]] = []

    def hook(message: Message, outcome: Outcome) -> None:
        heard.append((message.uuid, outcome.status))

    service = made(lambda: None, on_duplicate=hook)

    service.handle_batch(messages("a", "b", "a"))
    service.handle(messages("b")[0])

    assert heard == [("a", Status.DUPLICATE), ("b", Status.DUPLICATE)]


def test_what_the_hook_does_harms_no_message(caplog: pytest.LogCaptureFixture) -> None:
    def hook(message: Message, outcome: Outcome) -> None:
        assert isinstance(message.body, dict)
        message.body.clear()
        raise ValueError("no disk")

    service = made(lambda: None, on_duplicate=hook)

    sent = Message(body={"id": 1}, uuid="u-1")
    service.handle(sent)
    outcome = service.handle(sent)

    assert (outcome.status, outcome.acknowledge, outcome.error) == (Status.DUPLICATE, True, None)
    assert sent.body == {"id": 1}
    assert "u-1: on_duplicate failed, and the message is a duplicate all the same: no disk" in caplog.text


def test_a_hook_that_ends_the_process_is_not_held_up() -> None:
    def hook(message: Message, outcome: Outcome) -> None:
        raise SystemExit

    service = made(lambda: None, on_duplicate=hook)

    service.handle(messages("a")[0])
    with pytest.raises(SystemExit):
        service.handle(messages("a")[0])


async def test_a_coroutine_function_is_awaited() -> None:
    heard: list[str | None] = []

    async def hook(message: Message, outcome: Outcome) -> None:
        heard.append(message.uuid)

    @trigger("orders", name="t", history=MemoryHistory(), on_duplicate=hook)
    async def service(message: Message) -> None: ...

    for message in messages("a", "a"):
        await service.ahandle(message)

    assert heard == ["a"]


def sending_duplicates(history: MemoryHistory) -> Any:
    return made(lambda: None, history=history, on_duplicate="orders.again", concurrency=1)


async def sent_twice(provider: MemoryProvider) -> None:
    sent = Message(uuid="a", body={"id": 1}, properties={"colour": "red"}, priority=7, correlation_id="c")
    await provider.send("orders", [sent, sent, Message(uuid="b", body="")])


async def letters_in(provider: MemoryProvider) -> list[Message]:
    receiver = await provider.open_receiver("orders.again", subscription="s", name="n")
    received = await receiver.receive(10, timedelta(0))
    return [arrival.message for arrival in received if isinstance(arrival, Arrival)]


def check_letter(letters: list[Message]) -> None:
    (letter,) = letters
    assert (letter.uuid, letter.body, letter.delivery_count) == ("a", {"id": 1}, 1)
    assert (letter.properties["colour"], letter.priority, letter.correlation_id) == ("red", 7, "c")


def test_a_consumer_sends_each_duplicate_whole_to_the_destination_that_is_named() -> None:
    provider = MemoryProvider()
    drive(sent_twice(provider))

    consumer = Consumer([sending_duplicates(MemoryHistory())], provider)
    consumer.run(until_idle=0)

    assert (consumer.counts["book"]["ok"], consumer.counts["book"]["duplicate"]) == (2, 1)
    check_letter(drive(letters_in(provider)))


async def test_so_does_one_under_asyncio() -> None:
    provider = MemoryProvider().for_asyncio()
    await sent_twice(provider)

    consumer = AsyncConsumer([sending_duplicates(MemoryHistory())], provider)
    await consumer.run(until_idle=0)

    check_letter(await letters_in(provider))


def test_a_duplicate_is_given_back_while_it_cannot_be_sent() -> None:
    kept: list[str | None] = []
    away = True

    async def forward(destination: str, message: Message) -> None:
        if away:
            raise ProviderUnavailableError("the provider", "sending")
        kept.append(message.uuid)

    pipeline = sending_duplicates(MemoryHistory()).pipeline().forwarding(forward)
    message = Message(body="", uuid="a")

    drive(pipeline.handle(message))
    back = drive(pipeline.handle(message))
    away = False
    sent = drive(pipeline.handle(message))

    assert (back.status, back.acknowledge, back.recover_after > 0) == (Status.DUPLICATE, False, True)
    assert "could not be sent to orders.again" in back.reason
    assert (sent.status, sent.acknowledge, kept) == (Status.DUPLICATE, True, ["a"])


def test_what_a_destination_refuses_is_said_and_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    async def forward(destination: str, message: Message) -> None:
        raise ConfigurationError("body", "is too large", "send less")

    pipeline = sending_duplicates(MemoryHistory()).pipeline().forwarding(forward)
    outcomes = drive(pipeline.handle_batch(messages("a", "a")))

    assert [outcome.acknowledge for outcome in outcomes] == [True, True]
    assert "a: the duplicate cannot be sent to orders.again, and is acknowledged" in caplog.text


def test_without_a_consumer_nothing_is_sent_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    service = sending_duplicates(MemoryHistory())
    service.handle(messages("a")[0])

    assert service.handle(messages("a")[0]).acknowledge
    assert "a: the duplicate is not sent to orders.again: only a consumer can send it" in caplog.text
